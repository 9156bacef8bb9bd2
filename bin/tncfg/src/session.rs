//! A session: the stored templates and ports, their changes, and the commands.

use std::fs::File;

use anyhow::{Context as _, bail};
use control::audit;
use label::{Encodings, Label};
use model::ZoneName;
use store::index::Index;
use store::labels::network::{self, HostType, Network, Ports, Template, host, port};
use store::{Root, labels, xml};

use crate::command::{Assignment, Command, Target};
use crate::show;

/// A template or zone under change. It joins the others before another one is selected.
#[derive(Debug)]
enum Selected {
    Template(Template),
    Zone(Ports),
}

/// The result of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Flow {
    /// The session goes on. The text is for standard output.
    On(String),
    /// The user ends the session.
    Exit,
}

/// The templates and ports of a host, under change.
#[derive(Debug)]
pub struct Session {
    root: Root,
    stored: Network,
    network: Network,
    selected: Option<Selected>,
    is_changed: bool,
}

impl Session {
    /// Reads the templates and ports of the host.
    ///
    /// # Errors
    /// Fails if the file cannot be read or has an error.
    pub fn open(root: Root) -> anyhow::Result<Self> {
        let stored = network::load(&root)?;
        Ok(Self {
            root,
            network: stored.clone(),
            stored,
            selected: None,
            is_changed: false,
        })
    }

    /// Returns the name of the selected template or zone.
    #[must_use]
    pub fn selected(&self) -> Option<&str> {
        match self.selected.as_ref()? {
            Selected::Template(template) => Some(&template.name),
            Selected::Zone(ports) => Some(ports.zone.as_str()),
        }
    }

    /// Carries out a command.
    ///
    /// # Errors
    /// Fails with a text for the user.
    pub fn run(&mut self, command: &Command) -> anyhow::Result<Flow> {
        let said = match command {
            Command::Create(name) => self.create(name)?,
            Command::Select(target) => self.select(target)?,
            Command::Delete(target) => self.delete(target.as_ref())?,
            Command::Set(to) => self.set(to)?,
            Command::Clear(property) => self.clear(property)?,
            Command::Add(what) => self.change(what, true)?,
            Command::Remove(what) => self.change(what, false)?,
            Command::Get(what) => self.get(what)?,
            Command::Info => self.info(),
            Command::List => {
                self.settled()?;
                show::list(&self.network, &self.root)
            }
            Command::Export => show::export(self.settled()?),
            Command::Verify => match self.problems()?.as_slice() {
                [] => String::new(),
                problems => bail!("{}", problems.join("\n")),
            },
            Command::Commit => self.commit(true)?,
            Command::Revert => {
                self.selected = None;
                self.is_changed = false;
                self.network = self.stored.clone();
                String::new()
            }
            Command::Help => Command::help(),
            Command::Exit => return Ok(Flow::Exit),
        };
        Ok(Flow::On(said))
    }

    fn create(&mut self, name: &str) -> anyhow::Result<String> {
        if self.settled()?.template(name).is_some() {
            bail!("template {name} exists: use select -t {name}");
        }
        self.selected = Some(Selected::Template(Template::new(name)?));
        Ok(String::new())
    }

    /// Selects a template, which is begun if it does not exist, or a zone.
    fn select(&mut self, target: &Target) -> anyhow::Result<String> {
        let network = self.settled()?;
        let selected = match target {
            Target::Template(name) => Selected::Template(match network.template(name) {
                Some(template) => template.clone(),
                None => Template::new(name)?,
            }),
            Target::Zone(name) => {
                let zone: ZoneName = name.parse()?;
                let ports = network.zone(&zone);
                if ports.is_empty() {
                    Index::load(&self.root)?.get(&zone)?;
                }
                Selected::Zone(ports)
            }
        };
        self.selected = Some(selected);
        Ok(String::new())
    }

    fn delete(&mut self, target: Option<&Target>) -> anyhow::Result<String> {
        let own = match self.selected.take() {
            Some(Selected::Template(template)) => Some(Target::Template(template.name)),
            Some(Selected::Zone(ports)) => Some(Target::Zone(ports.zone.to_string())),
            None => None,
        };
        self.is_changed = false;
        let target = target.cloned().or(own);
        match target.context("nothing is selected: use delete -t NAME or delete -z ZONE")? {
            Target::Template(name) if !self.network.remove_template(&name) => {
                bail!("template {name}: no such template: see tncfg list")
            }
            Target::Zone(name) if !self.network.remove_zone(&name.parse()?) => {
                bail!("zone {name} has no multilevel port")
            }
            _ => Ok(String::new()),
        }
    }

    fn label(&self, text: &str) -> anyhow::Result<Label> {
        let names = labels::encodings(&self.root)?;
        Ok(names.parse(text)?)
    }

    fn set(&mut self, to: &Assignment) -> anyhow::Result<String> {
        let label = match to.property.as_str() {
            "def_label" | "min_label" | "max_label" => Some(self.label(&to.value)?),
            _ => None,
        };
        match (&mut self.selected, to.property.as_str()) {
            (Some(Selected::Template(template)), property) => match property {
                "host_type" => template.host_type = HostType::read(&to.value)?,
                "def_label" => template.def_label = label,
                "min_label" => template.min_label = label,
                "max_label" => template.max_label = label,
                "host" => bail!("host is a list: use add or remove"),
                _ => return unknown(property, TEMPLATE),
            },
            (Some(Selected::Zone(_)), "label") => {
                bail!("the label of a zone is set by zonecfg: zonecfg -z ZONE set label=LABEL")
            }
            (Some(Selected::Zone(_)), "mlp_private" | "mlp_shared") => {
                bail!("{} is a list: use add or remove", to.property)
            }
            (Some(Selected::Zone(_)), property) => return unknown(property, ZONE),
            (None, _) => bail!("{NOTHING}"),
        }
        self.is_changed = true;
        Ok(String::new())
    }

    fn clear(&mut self, property: &str) -> anyhow::Result<String> {
        match &mut self.selected {
            Some(Selected::Template(template)) => match property {
                "host_type" => template.host_type = HostType::default(),
                "def_label" => template.def_label = None,
                "min_label" => template.min_label = None,
                "max_label" => template.max_label = None,
                "host" => template.hosts.clear(),
                _ => return unknown(property, TEMPLATE),
            },
            Some(Selected::Zone(ports)) => match property {
                "mlp_private" => ports.private.clear(),
                "mlp_shared" => ports.shared.clear(),
                _ => return unknown(property, ZONE),
            },
            None => bail!("{NOTHING}"),
        }
        self.is_changed = true;
        Ok(String::new())
    }

    /// Adds a value to a list, or removes it.
    fn change(&mut self, what: &Assignment, adds: bool) -> anyhow::Result<String> {
        let value = what.value.as_str();
        match (&mut self.selected, what.property.as_str()) {
            (Some(Selected::Template(template)), "host") => {
                put(&mut template.hosts, host(value)?, adds, what)?;
            }
            (Some(Selected::Zone(ports)), "mlp_private") => {
                put(&mut ports.private, port(value)?, adds, what)?;
            }
            (Some(Selected::Zone(ports)), "mlp_shared") => {
                put(&mut ports.shared, port(value)?, adds, what)?;
            }
            (Some(Selected::Template(_)), property) => return unknown(property, "host"),
            (Some(Selected::Zone(_)), property) => return unknown(property, ZONE),
            (None, _) => bail!("{NOTHING}"),
        }
        self.is_changed = true;
        Ok(String::new())
    }

    fn get(&mut self, what: &Assignment) -> anyhow::Result<String> {
        if what.property != "host" {
            return unknown(&what.property, "host");
        }
        let ip = what
            .value
            .parse()
            .with_context(|| format!("host {}", what.value))?;
        let found = self.settled()?.decides(ip);
        Ok(found.map_or_else(
            || format!("{ip}: no template, so all labels are refused\n"),
            |(template, host)| format!("{ip}: template {} by host {host}\n", template.name),
        ))
    }

    fn info(&self) -> String {
        match &self.selected {
            Some(Selected::Template(template)) => show::template(template, &self.root),
            Some(Selected::Zone(ports)) => show::zone(ports, &self.root),
            None => show::all(&self.network, &self.root),
        }
    }

    /// Puts the selected template or zone to the others, and returns all.
    fn settled(&mut self) -> anyhow::Result<&Network> {
        if self.is_changed {
            match &self.selected {
                Some(Selected::Template(one)) => self.network.put_template(one.clone())?,
                Some(Selected::Zone(ports)) => self.network.put_zone(ports.clone())?,
                None => {}
            }
            self.is_changed = false;
        }
        Ok(&self.network)
    }

    /// Returns the problems of all templates and ports on this host.
    fn problems(&mut self) -> anyhow::Result<Vec<String>> {
        let root = self.root.clone();
        let network = self.settled()?;
        let mut problems = Vec::new();
        if !network.templates().is_empty() {
            match labels::encodings(&root) {
                Ok(names) => problems.extend(bad_labels(network, &names)),
                Err(error) => problems.push(error.to_string()),
            }
        }
        let zones = labels::of_zones(&root)?;
        for ports in network.zones() {
            let zone = &ports.zone;
            match zones.iter().find(|(name, _)| name == zone) {
                None => problems.push(format!(
                    "zone {zone}: No such zone configured: use delete -z {zone}"
                )),
                Some((_, None)) => problems.push(format!(
                    "zone {zone} has no label, and only zones with a label have multilevel ports: set it with zonecfg"
                )),
                Some(_) => {}
            }
        }
        Ok(problems)
    }

    /// Stores the changes, and gives them to running zones. `again` repeats the second part also
    /// if there are no changes. Returns remarks.
    ///
    /// # Errors
    /// Fails with all problems of the changes; nothing is stored then.
    pub fn commit(&mut self, again: bool) -> anyhow::Result<String> {
        self.settled()?;
        if self.network == self.stored && !again {
            return Ok(String::new());
        }
        let changes = self.network.changes_since(&self.stored);
        let before = self.stored.clone();
        let stored = self.store();
        let why = stored.as_ref().err().map(|error| format!("{error:#}"));
        audit::record_network(&self.root, &changes, why.as_deref());
        let _lock = stored?;
        subject::network::labels::refresh(&self.stored).map_err(|error| {
            anyhow::anyhow!(
                "the changes are stored, and running zones do not have them: {error}: repeat with tncfg commit"
            )
        })?;
        Ok(self.remarks(&before))
    }

    /// Stores the changes. Returns the lock under which they reach running zones.
    fn store(&mut self) -> anyhow::Result<File> {
        if !cli::is_root() {
            bail!("only a privileged user may change the labels of the network");
        }
        let problems = self.problems()?;
        if !problems.is_empty() {
            bail!("{}", problems.join("\n"));
        }
        let lock = network::lock(&self.root)?;
        if network::load(&self.root)? != self.stored {
            bail!("another command has changed the templates meanwhile: use revert, and repeat");
        }
        if self.network != self.stored {
            network::save(&self.root, &self.network)?;
            self.stored = self.network.clone();
        }
        Ok(lock)
    }

    /// Returns a line for each running zone whose ports were changed.
    fn remarks(&self, before: &Network) -> String {
        let zones = before.zones().iter().chain(self.stored.zones());
        let mut names: Vec<&ZoneName> = zones.map(|ports| &ports.zone).collect();
        names.sort_by_key(|zone| zone.as_str());
        names.dedup();
        names.retain(|zone| {
            before.zone(zone) != self.stored.zone(zone)
                && xml::load_running(&self.root, zone).is_ok()
        });
        let line = |zone: &&ZoneName| {
            format!("zone {zone} is running: its multilevel ports change at its next boot\n")
        };
        names.iter().map(line).collect()
    }
}

const NOTHING: &str = "nothing is selected: use select -t NAME or select -z ZONE";
const TEMPLATE: &str = "host_type, def_label, min_label, max_label, host";
const ZONE: &str = "mlp_private, mlp_shared";

fn unknown(property: &str, known: &str) -> anyhow::Result<String> {
    bail!(
        "unknown property '{}': expected {known}",
        property.escape_debug()
    )
}

fn put<T: PartialEq>(
    list: &mut Vec<T>,
    value: T,
    adds: bool,
    what: &Assignment,
) -> anyhow::Result<()> {
    let found = list.iter().position(|one| *one == value);
    match (found, adds) {
        (None, true) => list.push(value),
        (Some(at), false) => drop(list.remove(at)),
        (Some(_), true) => bail!("{}={} is there already", what.property, what.value),
        (None, false) => bail!("there is no {}={}", what.property, what.value),
    }
    Ok(())
}

/// Returns the labels of templates that the host's names do not allow.
fn bad_labels(network: &Network, names: &Encodings) -> Vec<String> {
    let mut problems = Vec::new();
    for template in network.templates() {
        let name = &template.name;
        let labels = [template.def_label, template.min_label, template.max_label];
        for label in labels.into_iter().flatten() {
            if label.is_administrative() {
                continue;
            }
            if let Err(bad) = names.check(label) {
                problems.push(format!("template {name}: {bad}"));
            }
        }
        if template.host_type == HostType::Unlabeled
            && template.def_label.is_some_and(Label::is_administrative)
        {
            problems.push(format!(
                "template {name}: def_label is a label of the host, which no zone has"
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests;
