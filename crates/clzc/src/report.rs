//! The view of one host, and the choice of the newest configuration.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::Version;

/// Maximum size of a report, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// A host's view of a zone cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostReport {
    /// The version of the file on this host; `None` if the host has none.
    pub version: Option<Version>,
    /// The state of the zone, as `zoneadm list -p` prints it; empty if the host does not have the zone.
    #[serde(default)]
    pub state: String,
    /// The brand of the zone; empty if the host does not have the zone.
    #[serde(default)]
    pub brand: String,
    /// Status of the zone in its ring; `None` if the zone does not run or has no ring.
    #[serde(default)]
    pub quorate: Option<bool>,
    /// The host has the configuration of its file, and its zone has not taken it yet.
    #[serde(default)]
    pub pending: bool,
}

impl HostReport {
    /// Reads a report.
    ///
    /// # Errors
    /// Fails if the text is too long or is no report.
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        // A text that is cut off is no JSON.
        let end = (0..=text.len().min(MAX_BYTES))
            .rev()
            .find(|end| text.is_char_boundary(*end));
        serde_json::from_str(&text[..end.unwrap_or(0)])
    }

    /// Returns the text of a report.
    #[must_use]
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The answer of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The view of the host.
    Here(HostReport),
    /// The host does not answer; the text says why.
    Down(String),
}

impl Reported {
    /// Returns the report of a host that answers.
    #[must_use]
    pub const fn here(&self) -> Option<&HostReport> {
        match self {
            Self::Here(report) => Some(report),
            Self::Down(_) => None,
        }
    }
}

/// The newest configuration among the hosts that answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The version.
    pub version: Version,
    /// A host that has it.
    pub host: String,
    /// The hosts with an older one, or none.
    pub older: Vec<String>,
}

/// Hosts have different configurations of the same generation.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name}: hosts have different configurations of generation {generation}: {hosts}; \
     'clzonecluster apply --from HOST {name}' has all of them take that of HOST"
)]
pub struct Conflict {
    /// Name of the zone cluster.
    pub name: String,
    /// The generation.
    pub generation: u64,
    /// The hosts of each configuration.
    pub hosts: String,
}

/// Finds the newest configuration. Returns `None` if no host that answers has one.
///
/// # Errors
/// Fails with [`Conflict`] if two hosts have different configurations of the highest generation.
pub fn newest(name: &str, reports: &[(String, Reported)]) -> Result<Option<Newest>, Conflict> {
    let answers = || {
        reports
            .iter()
            .filter_map(|(host, one)| Some((host, one.here()?)))
    };
    let versions = || answers().filter_map(|(host, one)| Some((host, one.version.as_ref()?)));
    let Some(generation) = versions().map(|(_, version)| version.generation).max() else {
        return Ok(None);
    };
    let mut owners: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, version) in versions().filter(|(_, version)| version.generation == generation) {
        owners.entry(&version.digest).or_default().push(host);
    }
    if owners.len() > 1 {
        let hosts: Vec<String> = owners.values().map(|hosts| hosts.join(" ")).collect();
        return Err(Conflict {
            name: name.to_owned(),
            generation,
            hosts: hosts.join(" against "),
        });
    }
    let found = owners
        .iter()
        .next()
        .and_then(|(digest, hosts)| Some((digest, hosts.first()?)));
    Ok(found.map(|(digest, host)| {
        let version = Version {
            generation,
            digest: (*digest).to_owned(),
        };
        let older = answers().filter(|(_, one)| one.version.as_ref() != Some(&version));
        Newest {
            host: (*host).to_owned(),
            older: older.map(|(host, _)| host.clone()).collect(),
            version,
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, version: Option<(u64, &str)>) -> (String, Reported) {
        let version = version.map(|(generation, digest)| Version {
            generation,
            digest: digest.to_owned(),
        });
        let report = HostReport {
            version,
            ..HostReport::default()
        };
        (name.to_owned(), Reported::Here(report))
    }

    #[test]
    fn the_highest_generation_wins() {
        let down = ("c".to_owned(), Reported::Down("no route".to_owned()));
        let reports = [
            host("a", Some((1, "x"))),
            host("b", Some((2, "y"))),
            down,
            host("d", None),
        ];
        let found = newest("pg", &reports).unwrap().unwrap();
        assert_eq!((found.host.as_str(), found.version.generation), ("b", 2));
        assert_eq!(found.older, ["a", "d"]);
    }

    #[test]
    fn different_configurations_of_one_generation_are_refused() {
        let reports = [
            host("a", Some((2, "x"))),
            host("b", Some((2, "y"))),
            host("c", Some((2, "x"))),
        ];
        insta::assert_snapshot!(newest("pg", &reports).unwrap_err());
        // An older difference does not matter.
        let reports = [
            host("a", Some((2, "x"))),
            host("b", Some((2, "y"))),
            host("c", Some((3, "z"))),
        ];
        assert_eq!(newest("pg", &reports).unwrap().unwrap().older, ["a", "b"]);
    }

    #[test]
    fn hosts_without_a_file_have_no_newest() {
        assert_eq!(newest("pg", &[host("a", None)]), Ok(None));
        assert_eq!(newest("pg", &[]), Ok(None));
    }

    #[test]
    fn a_report_reads_as_what_was_written() {
        let report = HostReport {
            state: "running".to_owned(),
            brand: "native".to_owned(),
            quorate: Some(true),
            pending: true,
            version: Some(Version {
                generation: 3,
                digest: "ab".to_owned(),
            }),
        };
        assert_eq!(HostReport::read(&report.text()).unwrap(), report);
        // The report of a host whose release has no such field.
        let older = report.text().replace(",\"pending\":true", "");
        assert!(!HostReport::read(&older).unwrap().pending && older != report.text());
        assert!(HostReport::read("{").is_err() && HostReport::read("").is_err());
    }
}
