//! The labels of the network: templates of hosts outside, and multilevel ports of zones.
//!
//! `/etc/zones/tncfg` has a line for each template and for each zone with multilevel ports:
//!
//! ```text
//! # format: 1
//! template lan host_type=unlabeled def_label=0x0001-08-00 host=192.0.2.0/24 host=2001:db8::/32
//! zone web mlp_private=80/tcp mlp_private=8000-8010/tcp
//! ```
//!
//! The host with the longest prefix decides about an address. An address in no template has no
//! label, and its packets are dropped.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::net::IpAddr;
use std::path::Path;

use label::Label;
use model::ZoneName;
use model::plan::network::Subnet;

use crate::{Damage, Error, Root, atomic, format, lock};

mod changes;
pub mod parts;

pub use changes::Change;
pub use parts::{BadPart, HostType, MAX_HOSTS, MAX_PORTS, Ports, Template, host, port, port_text};

/// The newest format of the file.
const FORMAT: u64 = 1;
/// The largest size of the file, in bytes.
const MAX_SIZE: u64 = 1 << 20;
/// The largest number of templates.
pub const MAX_TEMPLATES: usize = 256;

/// All templates and multilevel ports of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    templates: Vec<Template>,
    zones: Vec<Ports>,
}

impl Network {
    /// Returns the templates, in the order of their names.
    #[must_use]
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// Returns the zones with multilevel ports, in the order of their names.
    #[must_use]
    pub fn zones(&self) -> &[Ports] {
        &self.zones
    }

    /// Returns the template of this name.
    #[must_use]
    pub fn template(&self, name: &str) -> Option<&Template> {
        self.templates.iter().find(|one| one.name == name)
    }

    /// Returns the multilevel ports of a zone; a zone that the file does not have has none.
    #[must_use]
    pub fn zone(&self, zone: &ZoneName) -> Ports {
        let found = self.zones.iter().find(|one| one.zone == *zone);
        found.cloned().unwrap_or_else(|| Ports::new(zone.clone()))
    }

    /// Adds a template, or replaces the template of the same name.
    ///
    /// # Errors
    /// Fails if a host is in another template, or there are too many of them.
    pub fn put_template(&mut self, template: Template) -> Result<(), BadPart> {
        template.check()?;
        let others = || {
            self.templates
                .iter()
                .filter(|one| one.name != template.name)
        };
        if others().count() >= MAX_TEMPLATES {
            return Err(BadPart::TooMany("templates", MAX_TEMPLATES));
        }
        let hosts = others().map(|one| one.hosts.len()).sum::<usize>();
        if hosts + template.hosts.len() > MAX_HOSTS {
            return Err(BadPart::TooMany("hosts", MAX_HOSTS));
        }
        for host in &template.hosts {
            if let Some(other) = others().find(|one| one.hosts.contains(host)) {
                return Err(BadPart::HostOfOther(*host, other.name.clone()));
            }
        }
        self.remove_template(&template.name);
        let at = self
            .templates
            .partition_point(|one| one.name < template.name);
        self.templates.insert(at, template);
        Ok(())
    }

    /// Removes a template. Returns false if there is none of this name.
    pub fn remove_template(&mut self, name: &str) -> bool {
        let before = self.templates.len();
        self.templates.retain(|one| one.name != name);
        self.templates.len() != before
    }

    /// Sets the multilevel ports of a zone.
    ///
    /// # Errors
    /// Fails if two of its ranges overlap, or another zone has one of its shared ports.
    pub fn put_zone(&mut self, ports: Ports) -> Result<(), BadPart> {
        ports.check()?;
        for other in self.zones.iter().filter(|one| one.zone != ports.zone) {
            for own in &ports.shared {
                if other.shared.iter().any(|port| parts::overlap(port, own)) {
                    return Err(BadPart::PortOfOther(*own, other.zone.clone()));
                }
            }
        }
        self.remove_zone(&ports.zone);
        if !ports.is_empty() {
            let key = ports.zone.as_str();
            let at = self.zones.partition_point(|one| one.zone.as_str() < key);
            self.zones.insert(at, ports);
        }
        Ok(())
    }

    /// Removes the multilevel ports of a zone. Returns false if it has none.
    pub fn remove_zone(&mut self, zone: &ZoneName) -> bool {
        let before = self.zones.len();
        self.zones.retain(|one| one.zone != *zone);
        self.zones.len() != before
    }

    /// Returns the template that decides about an address, and the host in it: the one with the
    /// longest prefix.
    #[must_use]
    pub fn decides(&self, ip: IpAddr) -> Option<(&Template, Subnet)> {
        let hosts = self
            .templates
            .iter()
            .flat_map(|one| one.hosts.iter().map(move |host| (one, *host)));
        hosts
            .filter(|(_, host)| parts::contains(*host, ip))
            .max_by_key(|(_, host)| host.prefix)
    }

    /// Returns each network of the templates, and true if zones with this label may talk to it.
    #[must_use]
    pub fn remotes(&self, label: Label) -> Vec<(Subnet, bool)> {
        let mut remotes = Vec::new();
        for template in &self.templates {
            let admitted = template.admits(label);
            remotes.extend(template.hosts.iter().map(|host| (*host, admitted)));
        }
        // The kernel's map has IPv4 addresses below ::ffff:0:0/96: a short prefix of IPv6, such as
        // ::/0, must not decide about IPv4.
        let all = parts::ALL_IPV4;
        let has = remotes.iter().any(|(host, _)| *host == all);
        if !has && remotes.iter().any(|(host, _)| parts::covers_ipv4(*host)) {
            remotes.push((all, false));
        }
        remotes
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// Fails with [`Error::Damaged`], which names the first wrong line, or with [`Error::Newer`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        format::check_lines(path, text, FORMAT)?;
        let mut network = Self::default();
        for (number, line) in text.lines().enumerate() {
            network.read_line(line).map_err(|bad| Error::Damaged {
                path: path.to_owned(),
                line: number + 1,
                reason: Box::new(Damage::Network(bad)),
            })?;
        }
        Ok(network)
    }

    fn read_line(&mut self, line: &str) -> Result<(), BadPart> {
        let mut words = line.split_ascii_whitespace();
        let (kind, name) = match (words.next(), words.next()) {
            (None, _) => return Ok(()),
            (Some(word), _) if word.starts_with('#') => return Ok(()),
            (Some(kind), Some(name)) => (kind, name),
            (Some(_), None) => return Err(BadPart::NoName),
        };
        match kind {
            "template" if self.template(name).is_some() => Err(BadPart::Second(name.to_owned())),
            "template" => self.put_template(Template::read(name, words)?),
            "zone" => {
                let ports = Ports::read(name, words)?;
                if self.zones.iter().any(|one| one.zone == ports.zone) {
                    return Err(BadPart::Second(name.to_owned()));
                }
                self.put_zone(ports)
            }
            other => Err(BadPart::Word(parts::shown(other))),
        }
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = format!("{}{FORMAT}\n", format::LINE);
        for one in &self.templates {
            let _ = writeln!(text, "{one}");
        }
        for one in &self.zones {
            let _ = writeln!(text, "{one}");
        }
        text
    }
}

/// Reads the templates and ports of the host. A host without the file has none.
///
/// # Errors
/// Fails if the file cannot be read, or has an error.
pub fn load(root: &Root) -> Result<Network, Error> {
    match text(root)? {
        Some(text) => Network::parse(&text, &root.label_network()),
        None => Ok(Network::default()),
    }
}

/// Returns the text of the file; `None` if there is none.
fn text(root: &Root) -> Result<Option<String>, Error> {
    let path = root.label_network();
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", &path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_SIZE + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::file("read", &path))?;
    let damaged = |reason| Error::Damaged {
        path: path.clone(),
        line: 1,
        reason: Box::new(reason),
    };
    if bytes.len() as u64 > MAX_SIZE {
        return Err(damaged(Damage::TooLarge { max: MAX_SIZE }));
    }
    let text = String::from_utf8(bytes).map_err(|_| damaged(Damage::NotUtf8))?;
    Ok(Some(text))
}

/// Stores the templates and ports of the host, durably.
///
/// # Errors
/// Fails with [`Error::File`]; the old file then stays.
pub fn save(root: &Root, network: &Network) -> Result<(), Error> {
    atomic::write(&root.label_network(), network.render().as_bytes(), 0o644)
}

/// Removes the multilevel ports of a zone that was deleted: the next zone of this name must not
/// inherit them. Returns the change, or `None` if the zone had no such ports. A wrong line of
/// another zone or of a template stays, so that it does not prevent the deletion.
///
/// # Errors
/// Fails if the file cannot be read or written, or has a newer format.
pub fn forget(root: &Root, zone: &ZoneName) -> Result<Option<Change>, Error> {
    let old = replace_zone(root, zone, |_| None)?;
    Ok(old.map(|old| Change::of_zone(zone, old, Vec::new())))
}

/// Gives the multilevel ports of a zone to its new name. Returns the changes: none if the zone has no
/// such ports, or if they have the new name already.
///
/// # Errors
/// As [`forget`].
pub fn rename(root: &Root, from: &ZoneName, to: &ZoneName) -> Result<Vec<Change>, Error> {
    let renamed = |values: &[String]| Some(format!("zone {to} {}", values.join(" ")));
    let ports = replace_zone(root, from, renamed)?;
    Ok(ports.map_or_else(Vec::new, |ports| {
        vec![
            Change::of_zone(from, ports.clone(), Vec::new()),
            Change::of_zone(to, Vec::new(), ports),
        ]
    }))
}

/// Replaces the lines of a zone, durably: `line` gets the values of each, and returns its new text or
/// `None` to remove it. Returns the values, or `None` if the file has no line of the zone.
fn replace_zone(
    root: &Root,
    zone: &ZoneName,
    line: impl Fn(&[String]) -> Option<String>,
) -> Result<Option<Vec<String>>, Error> {
    let path = root.label_network();
    let values = |line: &str| -> Option<Vec<String>> {
        let mut words = line.split_ascii_whitespace();
        let is_of_zone = words.next() == Some("zone") && words.next() == Some(zone.as_str());
        is_of_zone.then(|| words.map(str::to_owned).collect())
    };
    let has = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        text.lines().any(|line| values(line).is_some())
    };
    if !has(&text(root)?) {
        return Ok(None);
    }
    let _lock = lock(root)?;
    let text = text(root)?.unwrap_or_default();
    format::check_lines(&path, &text, FORMAT)?;
    let mut old = None;
    let mut left = String::new();
    for one in text.lines() {
        let kept = match values(one) {
            None => Some(one.to_owned()),
            Some(values) => {
                let new = line(&values);
                old.get_or_insert_with(Vec::new).extend(values);
                new
            }
        };
        left.extend(kept.map(|one| one + "\n"));
    }
    atomic::write(&path, left.as_bytes(), 0o644)?;
    Ok(old)
}

/// Takes the lock under which zones with labels boot and their network changes.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn lock(root: &Root) -> Result<File, Error> {
    lock::exclusive(&root.labels_lock())
}

#[cfg(test)]
mod tests;
