//! `configure` and `delete`.

use std::cell::Cell;
use std::io::{IsTerminal as _, Read as _};
use std::rc::Rc;

use clzc::{Document, KEY_BYTES, Remote, Reported, Shell, Step, Templates, ZoneCluster};
use model::{Config, ZoneName};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use syntax::{Console, Mode, SyntaxError, help};

use crate::args::Request;
use crate::fault::{EXISTS, Fault, INVALID, UNREACHABLE};
use crate::hosts::Ssh;
use crate::world::{World, give, local, on_each};

/// Maximum size of a command file, in bytes.
const MAX_INPUT: u64 = 4 << 20;

/// The templates of this host.
#[derive(Clone)]
pub struct HostTemplates(pub Vec<&'static str>);

impl Templates for HostTemplates {
    fn template(&self, name: Option<&str>, zone: &ZoneName) -> Option<Config> {
        let root = cli::root(None).ok()?;
        let name = name.unwrap_or(store::template::DEFAULT);
        store::template::load(&root, name, zone, &self.0, 1).ok()
    }

    fn host_dirs(&self) -> &[&str] {
        &self.0
    }
}

/// Returns the directories of software that are real directories on this host: only /usr where /usr is merged.
pub fn software_dirs() -> Vec<&'static str> {
    let all = [
        "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    ];
    let is_real = |dir: &&str| std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir());
    all.into_iter().filter(is_real).collect()
}

/// Standard output and standard error. The number of the line is known if a file is read.
pub struct Terminal(pub Option<Rc<Cell<usize>>>);

impl Console for Terminal {
    fn print(&mut self, text: &str) {
        print!("{text}");
    }

    fn notice(&mut self, text: &str) {
        eprintln!("{text}");
    }

    fn error(&mut self, text: &str) {
        match &self.0 {
            Some(line) => eprintln!("line {}: {text}", line.get()),
            None => eprintln!("{text}"),
        }
    }

    fn syntax_error(&mut self, error: &SyntaxError) {
        self.error(&format!("syntax error at {}", error.at()));
        if let Some(verb) = error.verb() {
            eprint!("{}", help::usage(verb));
        }
    }

    fn ask(&mut self, question: &str) -> Option<bool> {
        (self.0.is_none() && cli::prompt::can_ask()).then(|| cli::prompt::confirm(question))
    }
}

/// Runs the shell, or the commands of a file.
pub fn configure(ssh: &Ssh, name: &ZoneName, request: &Request) -> Result<u8, Fault> {
    let world = World::look(ssh, name, &[])?;
    let mut session = Session::new(ssh, name, world.document.clone());
    let stored = world.document.and_then(|document| document.cluster);
    let templates = HostTemplates(software_dirs());
    let file = request.file.as_deref();
    if file.is_none() && std::io::stdin().is_terminal() {
        let shell = Shell::new(name, stored, Mode::Interactive, templates, Terminal(None));
        return session.run_terminal(shell);
    }
    let file = file.unwrap_or("-");
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().take(MAX_INPUT).read_to_string(&mut text),
        path => std::fs::File::open(path)
            .and_then(|file| file.take(MAX_INPUT).read_to_string(&mut text)),
    };
    read.map_err(|error| Fault {
        status: INVALID,
        text: format!("{file}: {error}"),
    })?;
    let line = Rc::new(Cell::new(0));
    let shell = Shell::new(
        name,
        stored,
        Mode::File,
        templates,
        Terminal(Some(Rc::clone(&line))),
    );
    session.run_text(shell, &text, &line)
}

/// A change of the configuration.
pub struct Session<'a> {
    ssh: &'a Ssh,
    name: &'a ZoneName,
    /// The configuration on which the changes are based.
    known: Option<Document>,
    /// The exit status so far.
    pub status: u8,
    /// The files of installed zones move with the zonepath.
    moves: bool,
    /// The hosts whose zones take the configuration now; `None` for all.
    only: Option<Vec<String>>,
}

impl<'a> Session<'a> {
    /// Returns a change of a configuration that is stored, or of none.
    pub fn new(ssh: &'a Ssh, name: &'a ZoneName, known: Option<Document>) -> Self {
        Self {
            ssh,
            name,
            known,
            status: 0,
            moves: false,
            only: None,
        }
    }

    /// Allows a new zonepath for installed zones.
    pub fn moving(self) -> Self {
        Self {
            moves: true,
            ..self
        }
    }

    /// Has only the zones of these hosts take the configuration now. The others store it.
    pub fn only_now(self, hosts: Vec<String>) -> Self {
        Self {
            only: Some(hosts),
            ..self
        }
    }
}

impl Session<'_> {
    fn run_text(
        &mut self,
        mut shell: Shell<HostTemplates, Terminal>,
        text: &str,
        line: &Cell<usize>,
    ) -> Result<u8, Fault> {
        for (number, command) in text.lines().enumerate() {
            line.set(number + 1);
            let step = shell.line(command);
            if let Some(status) = self.step(&mut shell, step)? {
                return Ok(status);
            }
        }
        let step = shell.finish();
        Ok(self.step(&mut shell, step)?.unwrap_or(self.status))
    }

    fn run_terminal(&mut self, mut shell: Shell<HostTemplates, Terminal>) -> Result<u8, Fault> {
        let config = rustyline::Config::builder().build();
        let editor = rustyline::Editor::<(), MemHistory>::with_history(config, MemHistory::new());
        let mut editor = editor.map_err(Fault::failed)?;
        if self.known.is_none() {
            eprintln!("{}: no such zone cluster; 'create' begins one.", self.name);
        }
        loop {
            let step = match editor.readline(&shell.prompt()) {
                Ok(line) => {
                    // A line that is not remembered can be typed again.
                    let _ = editor.add_history_entry(&line);
                    shell.line(&line)
                }
                Err(ReadlineError::Interrupted) => Step::Go,
                Err(ReadlineError::Eof) => shell.finish(),
                Err(error) => return Err(Fault::failed(error)),
            };
            match self.step(&mut shell, step) {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                // The changes are still in the shell.
                Err(fault) => eprintln!("{}", fault.text),
            }
        }
    }

    /// Does the work of a step. Returns the exit status if the shell ends.
    fn step(
        &mut self,
        shell: &mut Shell<HostTemplates, Terminal>,
        step: Step,
    ) -> Result<Option<u8>, Fault> {
        match step {
            Step::Go => Ok(None),
            Step::Commit(cluster) => {
                self.commit(&cluster)?;
                shell.stored(&cluster);
                Ok(None)
            }
            Step::Exit(None) => Ok(Some(self.status)),
            Step::Exit(Some(cluster)) => {
                self.commit(&cluster)?;
                Ok(Some(self.status))
            }
            Step::Abort => Ok(Some(INVALID)),
        }
    }

    /// Gives every host the configuration as the next generation.
    pub fn commit(&mut self, cluster: &ZoneCluster) -> Result<(), Fault> {
        let name = self.name;
        let world = World::look(self.ssh, name, &cluster.hosts())?;
        if world.document != self.known {
            return Err(Fault {
                status: EXISTS,
                text: format!(
                    "zone cluster {name}: another administrator has changed it: give the command again"
                ),
            });
        }
        let before = self.known.as_ref().and_then(|one| one.cluster.as_ref());
        for (host, report) in &world.reports {
            let was = before.is_some_and(|cluster| cluster.node(host).is_some());
            let is = cluster.node(host).is_some();
            let Reported::Here(report) = report else {
                continue;
            };
            let state = report.state.as_str();
            let is_moved = before.is_some_and(|one| one.base.zonepath() != cluster.base.zonepath());
            if is && is_moved && !self.moves && !matches!(state, "" | "configured") {
                return Err(Fault::failed(format!(
                    "{host}: zone {name} is {state}, and its files are at the former zonepath: clzonecluster move -f {} {name}",
                    cluster.base.zonepath().display()
                )));
            }
            if is && !was && !state.is_empty() {
                let text = format!(
                    "{host}: zone {name} exists already ({state}): delete it, or use another name"
                );
                return Err(Fault {
                    status: EXISTS,
                    text,
                });
            }
            if was && !is && !matches!(state, "" | "configured") {
                let text = format!(
                    "{host}: zone {name} is {state}, so the node cannot be removed: clzonecluster uninstall -n {host} {name}"
                );
                return Err(Fault::failed(text));
            }
        }
        let key = match &self.known {
            Some(document) => document.key.clone(),
            None => random_key()?,
        };
        let document = Document {
            generation: self.known.as_ref().map_or(0, |one| one.generation) + 1,
            key,
            cluster: Some(cluster.clone()),
        };
        self.status = self.status.max(spread(
            self.ssh,
            name,
            &document,
            &world.reports,
            self.only.as_deref(),
        ));
        self.known = Some(document);
        Ok(())
    }
}

/// Stores a configuration on every host that answers, and prints those that do not. Returns the exit status. The zones of
/// `only` take it now, or all zones; a host without a node deletes its zone.
fn spread(
    ssh: &dyn Remote,
    name: &ZoneName,
    document: &Document,
    reports: &[(String, Reported)],
    only: Option<&[String]>,
) -> u8 {
    let takes_now =
        |host: &String| !document.has_node(host) || only.is_none_or(|hosts| hosts.contains(host));
    let (mut status, mut here) = (0, Vec::new());
    for (host, report) in reports {
        match report {
            Reported::Down(why) => {
                eprintln!(
                    "{host}: {why}; the host takes generation {} later",
                    document.generation
                );
                status = UNREACHABLE;
            }
            Reported::Here(_) => here.push(host.clone()),
        }
    }
    let (now, later): (Vec<String>, Vec<String>) = here.iter().cloned().partition(takes_now);
    for host in later {
        println!(
            "{host}: its zone takes generation {} at the next boot, install or apply",
            document.generation
        );
    }
    match give(ssh, name, document, &here, &now).is_whole() {
        true => status,
        false => crate::fault::FAILED,
    }
}

fn random_key() -> Result<Vec<u8>, Fault> {
    let mut key = vec![0; KEY_BYTES];
    let file = std::fs::File::open("/dev/urandom");
    file.and_then(|mut file| file.read_exact(&mut key))
        .map_err(|error| Fault::failed(format!("/dev/urandom: {error}")))?;
    Ok(key)
}

/// Has every host take the configuration of one host, as the next generation.
pub fn take_from(ssh: &Ssh, name: &ZoneName, host: &str) -> Result<u8, Fault> {
    let mut document = crate::world::fetch(ssh, name, host, None)?;
    let hosts = document
        .cluster
        .as_ref()
        .map(ZoneCluster::hosts)
        .unwrap_or_default();
    let reports = crate::world::ask(ssh, name, hosts);
    let versions = reports
        .iter()
        .filter_map(|(_, report)| report.here()?.version.as_ref());
    let highest = versions
        .map(|version| version.generation)
        .max()
        .unwrap_or(0);
    document.generation = highest.max(document.generation) + 1;
    Ok(spread(ssh, name, &document, &reports, None))
}

/// Deletes a zone cluster.
pub fn delete(ssh: &Ssh, name: &ZoneName, force: bool) -> Result<u8, Fault> {
    let world = World::look(ssh, name, &[])?;
    world.cluster()?;
    for (host, report) in &world.reports {
        match report {
            Reported::Here(report) if !matches!(report.state.as_str(), "" | "configured") => {
                return Err(Fault::failed(format!(
                    "{host}: zone {name} is {}: clzonecluster uninstall {name}, after halt",
                    report.state
                )));
            }
            Reported::Down(why) if !force => {
                let text =
                    format!("{host}: {why}; delete -F deletes the zone cluster on the other hosts");
                return Err(Fault::unreachable(text));
            }
            _ => {}
        }
    }
    let Some(mut document) = world.document else {
        return Err(Fault::missing(name));
    };
    document.cluster = None;
    document.generation += 1;
    let status = spread(ssh, name, &document, &world.reports, None);
    if status == 0 {
        // No host is left that could bring it back.
        let hosts: Vec<String> = world.reports.iter().map(|(host, _)| host.clone()).collect();
        on_each(ssh, &hosts, |_| local("forget", name, &[]), "");
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use clzc::HostReport;

    use super::*;
    use crate::world::tests::{Noted, two};

    #[test]
    fn hosts_that_take_the_configuration_later_store_it_now() {
        let name: ZoneName = "pg".parse().unwrap();
        let document = two();
        let here = |host: &str| (host.to_owned(), Reported::Here(HostReport::default()));
        let down = Reported::Down("no route".to_owned());
        let reports = [here("a"), here("b"), here("left"), ("c".to_owned(), down)];
        let hosts = Noted::default();
        let only = ["a".to_owned()];
        let status = spread(&hosts, &name, &document, &reports, Some(&only));
        assert_eq!(status, UNREACHABLE);
        // The host without a node deletes its zone at once.
        assert_eq!(
            hosts.done(),
            ["a apply", "a store", "b store", "left apply", "left store"]
        );
    }
}
