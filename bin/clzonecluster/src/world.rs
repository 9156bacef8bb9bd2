//! A zone cluster as all of its hosts see it.

use std::time::Duration;

use clzc::{
    Document, HostReport, Order, Outcome, Remote, Reported, Version, ZoneCluster, everywhere,
    newest,
};
use model::ZoneName;

use crate::fault::Fault;
use crate::hosts::Ssh;
use crate::local::Files;

/// Time for an answer about the state of a host.
const REPORT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a change of the configuration of a host.
pub const CONFIG_TIMEOUT: Duration = Duration::from_secs(90);
/// Time for the zone to take its configuration, and to move its files to another file system.
const APPLY_TIMEOUT: Duration = Duration::from_secs(4 * 3600 + 120);
/// Maximum number of configurations that are followed to a newer one: each may name other hosts.
const MAX_STEPS: usize = 4;

/// A zone cluster, and the answers of its hosts.
pub struct World<'a> {
    pub ssh: &'a dyn Remote,
    pub name: ZoneName,
    /// The newest configuration that a host has; `None` if no host has one.
    pub document: Option<Document>,
    /// The answers of the hosts.
    pub reports: Vec<(String, Reported)>,
    /// The hosts whose configuration is older.
    pub older: Vec<String>,
}

impl<'a> World<'a> {
    /// Asks this host, the hosts of its configuration, and `more`.
    ///
    /// # Errors
    /// Fails if hosts have different configurations of the same generation.
    pub fn look(ssh: &'a Ssh, name: &ZoneName, more: &[String]) -> Result<Self, Fault> {
        let mut document = Files::new()?.read(name)?;
        // The hosts of each configuration that was seen: a deleted one names no hosts.
        let mut hosts: Vec<String> = Vec::new();
        for _ in 0..MAX_STEPS {
            let named = document
                .as_ref()
                .and_then(|one| one.cluster.as_ref())
                .map(ZoneCluster::hosts)
                .unwrap_or_default();
            for host in named.iter().chain(more).chain([&ssh.own().to_owned()]) {
                if !hosts.contains(host) {
                    hosts.push(host.clone());
                }
            }
            let reports = ask(ssh, name, hosts.clone());
            let found = newest(name.as_str(), &reports).map_err(Fault::failed)?;
            let Some(found) = found else {
                return Ok(Self {
                    ssh,
                    name: name.clone(),
                    document: None,
                    reports,
                    older: Vec::new(),
                });
            };
            if document.as_ref().map(Document::version) == Some(found.version.clone()) {
                return Ok(Self {
                    ssh,
                    name: name.clone(),
                    document,
                    reports,
                    older: found.older,
                });
            }
            document = Some(fetch(ssh, name, &found.host, Some(&found.version))?);
        }
        Err(Fault::failed(format!(
            "zone cluster {name}: its configuration changes now; try again"
        )))
    }

    /// Returns the configuration.
    ///
    /// # Errors
    /// Fails if no host has one, or if it was deleted.
    pub fn cluster(&self) -> Result<&ZoneCluster, Fault> {
        let cluster = self.document.as_ref().and_then(|one| one.cluster.as_ref());
        cluster.ok_or_else(|| Fault::missing(&self.name))
    }

    /// Returns the answer of a host.
    pub fn report(&self, host: &str) -> Option<&Reported> {
        self.reports
            .iter()
            .find(|(one, _)| one == host)
            .map(|(_, report)| report)
    }

    /// Returns the view of a host that answers.
    pub fn here(&self, host: &str) -> Option<&HostReport> {
        self.report(host).and_then(Reported::here)
    }

    /// Stores the newest configuration on the hosts with an older one. Only a deletion is carried out at once; a zone
    /// takes its configuration by [`give`] or `apply`. Prints the failures, and returns the hosts that do not have it.
    pub fn spread(&self) -> Vec<String> {
        let Some(document) = &self.document else {
            return Vec::new();
        };
        let leaving: Vec<String> = self
            .older
            .iter()
            .filter(|host| !document.has_node(host))
            .cloned()
            .collect();
        give(self.ssh, &self.name, document, &self.older, &leaving).unstored
    }

    /// Returns those of the hosts that answer and whose zone has not taken the newest configuration.
    pub fn lacking(&self, hosts: &[String]) -> Vec<String> {
        let lacks = |host: &&String| {
            self.here(host)
                .is_some_and(|report| report.pending || self.older.contains(host))
        };
        hosts.iter().filter(lacks).cloned().collect()
    }
}

/// The hosts on which a configuration has failed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The hosts that do not have it.
    pub unstored: Vec<String>,
    /// The hosts that have it, and whose zones have not taken it.
    pub refused: Vec<String>,
}

impl Given {
    /// Returns true if nothing has failed.
    pub fn is_whole(&self) -> bool {
        self.unstored.is_empty() && self.refused.is_empty()
    }
}

/// Stores a configuration on `hosts`, and has the zones of `taking` take it, which are some of `hosts`. Prints the
/// failures.
pub fn give(
    ssh: &dyn Remote,
    name: &ZoneName,
    document: &Document,
    hosts: &[String],
    taking: &[String],
) -> Given {
    let unstored = on_each(ssh, hosts, |_| local("store", name, &[]), &document.text());
    let stored: Vec<String> = taking
        .iter()
        .filter(|host| !unstored.contains(host))
        .cloned()
        .collect();
    let refused = apply(ssh, name, &stored);
    Given { unstored, refused }
}

/// Has the zones of hosts take the configuration that is stored there. Prints the failures, and returns the hosts that
/// failed.
pub fn apply(ssh: &dyn Remote, name: &ZoneName, hosts: &[String]) -> Vec<String> {
    on_each(ssh, hosts, |host| local("apply", name, &[host]), "")
}

/// Runs a command on hosts. Prints the failures, and returns the hosts that failed.
pub fn on_each(
    ssh: &dyn Remote,
    hosts: &[String],
    words: impl Fn(&str) -> Vec<String> + Sync,
    input: &str,
) -> Vec<String> {
    let jobs: Vec<(String, ())> = hosts.iter().map(|host| (host.clone(), ())).collect();
    let order = |host: &str, (): &()| {
        let words = words(host);
        let is_apply = words.get(2).is_some_and(|word| word == "apply");
        Order {
            words,
            input: input.to_owned(),
            limit: if is_apply {
                APPLY_TIMEOUT
            } else {
                CONFIG_TIMEOUT
            },
        }
    };
    let outcomes = everywhere(ssh, &jobs, order, &|_, _, _| {});
    let mut failed = Vec::new();
    for ((host, ()), outcome) in jobs.iter().zip(&outcomes) {
        if let Some(why) = failure(outcome) {
            eprintln!("{host}: {why}");
            failed.push(host.clone());
        }
    }
    failed
}

/// Returns the words of an action of `--local`.
pub fn local(action: &str, name: &ZoneName, more: &[&str]) -> Vec<String> {
    let words = ["clzonecluster", "--local", action, name.as_str()];
    words
        .iter()
        .chain(more)
        .map(|word| (*word).to_owned())
        .collect()
}

/// Returns the reason why a command failed, or `None` if it succeeded.
pub fn failure(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Ended { status: 0, .. } => None,
        Outcome::Ended { status, errors, .. } => {
            let text = plain(errors.trim());
            let text = text.strip_prefix("clzonecluster: ").unwrap_or(&text);
            Some(match text {
                "" => format!("failed with status {status}"),
                text => text.to_owned(),
            })
        }
        Outcome::Unreachable(why) => Some(format!("does not answer: {}", plain(why))),
        Outcome::Late(limit) => Some(format!("not done after {} s", limit.as_secs())),
    }
}

/// Returns a text of another host without control characters, which could change the terminal.
pub fn plain(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || *c == '\n' || *c == '\t')
        .collect()
}

/// Asks hosts for their views.
pub fn ask(ssh: &Ssh, name: &ZoneName, hosts: Vec<String>) -> Vec<(String, Reported)> {
    let jobs: Vec<(String, ())> = hosts.into_iter().map(|host| (host, ())).collect();
    let order = |_: &str, (): &()| Order {
        words: local("report", name, &[]),
        input: String::new(),
        limit: REPORT_TIMEOUT,
    };
    let outcomes = everywhere(ssh, &jobs, order, &|_, _, _| {});
    let read = |outcome: &Outcome| match (failure(outcome), outcome) {
        (None, Outcome::Ended { output, .. }) => match HostReport::read(output) {
            Ok(report) => Reported::Here(report),
            Err(error) => Reported::Down(format!("its report cannot be read: {error}")),
        },
        (why, _) => Reported::Down(why.unwrap_or_default()),
    };
    jobs.into_iter()
        .zip(outcomes.iter().map(read))
        .map(|((host, ()), report)| (host, report))
        .collect()
}

/// Returns the configuration of a host.
///
/// # Errors
/// Fails if the host does not answer, or if its version is not `version`.
pub fn fetch(
    ssh: &Ssh,
    name: &ZoneName,
    host: &str,
    version: Option<&Version>,
) -> Result<Document, Fault> {
    let order = Order {
        words: local("show", name, &[]),
        input: String::new(),
        limit: REPORT_TIMEOUT,
    };
    let outcome = ssh.run(host, &order, &|_, _| {});
    let output = match (failure(&outcome), outcome) {
        (None, Outcome::Ended { output, .. }) => output,
        (why, _) => {
            return Err(Fault::unreachable(format!(
                "{host}: {}",
                why.unwrap_or_default()
            )));
        }
    };
    let document =
        Document::read(name, &output).map_err(|error| Fault::failed(format!("{host}: {error}")))?;
    match version {
        Some(version) if document.version() != *version => Err(Fault::failed(format!(
            "{host}: its configuration changes now; try again"
        ))),
        _ => Ok(document),
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Mutex;

    use clzc::Stream;

    use super::*;

    /// Hosts that note what they are to do. One of them cannot store, and one cannot apply.
    #[derive(Default)]
    pub struct Noted(pub Mutex<Vec<String>>);

    impl Remote for Noted {
        fn run(&self, host: &str, order: &Order, _: &(dyn Fn(Stream, &str) + Sync)) -> Outcome {
            let action = order.words[2].clone();
            let fails = format!("cannot-{action}") == host;
            self.0.lock().unwrap().push(format!("{host} {action}"));
            Outcome::Ended {
                status: i32::from(fails),
                output: String::new(),
                errors: String::new(),
            }
        }
    }

    impl Noted {
        /// Returns what was done, sorted.
        pub fn done(&self) -> Vec<String> {
            let mut done = self.0.lock().unwrap().clone();
            done.sort();
            done
        }
    }

    const TWO: &str = "create -b\nset zonepath=/zones/pg\nadd node\nset physical-host=a\nset hostname=pg1\nend\n\
        add node\nset physical-host=b\nset hostname=pg2\nend\n";

    /// Returns generation 2 of the zone cluster pg, with nodes on the hosts a and b.
    pub fn two() -> Document {
        let key = "00".repeat(clzc::KEY_BYTES);
        let text = format!("# format: 1\n# generation: 2\n# ring-key: {key}\n{TWO}");
        Document::read(&"pg".parse().unwrap(), &text).unwrap()
    }

    fn deleted() -> Document {
        Document {
            generation: 2,
            key: vec![0; clzc::KEY_BYTES],
            cluster: None,
        }
    }

    #[test]
    fn every_host_stores_and_only_the_chosen_ones_apply() {
        let hosts = Noted::default();
        let name: ZoneName = "pg".parse().unwrap();
        let all = ["a", "b", "cannot-apply", "cannot-store"].map(str::to_owned);
        let taking = ["a", "cannot-apply", "cannot-store"].map(str::to_owned);
        let given = give(&hosts, &name, &deleted(), &all, &taking);
        assert_eq!(
            hosts.done(),
            [
                "a apply",
                "a store",
                "b store",
                "cannot-apply apply",
                "cannot-apply store",
                "cannot-store store",
            ]
        );
        let expected = Given {
            unstored: vec!["cannot-store".to_owned()],
            refused: vec!["cannot-apply".to_owned()],
        };
        assert_eq!(given, expected);
    }

    #[test]
    fn only_hosts_without_a_node_apply_when_the_newest_configuration_is_stored() {
        let hosts = Noted::default();
        let world = World {
            ssh: &hosts,
            name: "pg".parse().unwrap(),
            document: Some(two()),
            reports: Vec::new(),
            older: vec!["a".to_owned(), "left".to_owned()],
        };
        assert_eq!(world.spread(), [""; 0]);
        assert_eq!(hosts.done(), ["a store", "left apply", "left store"]);
    }
}
