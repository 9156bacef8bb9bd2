//! The file of a zone cluster, which each host keeps.
//!
//! ```text
//! # format: 1
//! # generation: 3
//! # ring-key: 0123...
//! create -b
//! ...
//! ```
//!
//! A line `# deleted` instead of the commands says that the zone cluster is deleted, so that a host that was down does
//! not bring it back.

use std::fmt::Write as _;

use model::ZoneName;
use sha2::{Digest as _, Sha256};

use crate::config::ZoneCluster;
use crate::memory::NoTemplates;
use crate::shell;

/// Size of the key of the ring, in bytes: corosync takes keys from 128 bytes.
pub const KEY_BYTES: usize = 128;
/// Maximum size of a file, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// Maximum generation: greater numbers are damage.
const MAX_GENERATION: u64 = u64::MAX / 2;

const FORMAT: &str = "# format: ";
const GENERATION: &str = "# generation: ";
const KEY: &str = "# ring-key: ";
const DELETED: &str = "# deleted";

/// A stored configuration, or the note that it is deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Number of the configuration: each commit has a greater one.
    pub generation: u64,
    /// Key of the ring in the zones.
    pub key: Vec<u8>,
    /// The configuration; `None` if the zone cluster is deleted.
    pub cluster: Option<ZoneCluster>,
}

/// The generation of a file, and the digest of its text.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Version {
    /// The generation.
    pub generation: u64,
    /// SHA-256 of the text, in hexadecimal.
    pub digest: String,
}

/// A text that is no file of a zone cluster.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDocument {
    /// The text is too long.
    #[error("{0} bytes: expected at most {MAX_BYTES}")]
    Long(usize),
    /// The format is unknown.
    #[error("format {0}: expected 1; update the package zones-cluster on this host")]
    Format(String),
    /// A line of the head is wrong.
    #[error("expected a line '{0}...'")]
    Head(&'static str),
    /// The commands are wrong.
    #[error("{0}")]
    Commands(String),
}

impl Document {
    /// Returns true if a host has a node of the zone cluster.
    #[must_use]
    pub fn has_node(&self, host: &str) -> bool {
        self.cluster
            .as_ref()
            .is_some_and(|cluster| cluster.node(host).is_some())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Fails with [`BadDocument`] on any text that [`Self::text`] does not return.
    pub fn read(name: &ZoneName, text: &str) -> Result<Self, BadDocument> {
        if text.len() > MAX_BYTES {
            return Err(BadDocument::Long(text.len()));
        }
        let (format, rest) = head(text, FORMAT)?;
        if format != "1" {
            return Err(BadDocument::Format(format.chars().take(20).collect()));
        }
        let (generation, rest) = head(rest, GENERATION)?;
        let generation = generation.parse().ok().filter(|one| *one <= MAX_GENERATION);
        let (key, rest) = head(rest, KEY)?;
        let key = from_hex(key).filter(|key| key.len() == KEY_BYTES);
        let cluster = match rest.strip_prefix(DELETED) {
            Some(_) => None,
            None => Some(shell::read(name, rest, NoTemplates).map_err(BadDocument::Commands)?),
        };
        Ok(Self {
            generation: generation.ok_or(BadDocument::Head(GENERATION))?,
            key: key.ok_or(BadDocument::Head(KEY))?,
            cluster,
        })
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let key = to_hex(&self.key);
        let commands = match &self.cluster {
            Some(cluster) => cluster.export(),
            None => format!("{DELETED}\n"),
        };
        format!(
            "{FORMAT}1\n{GENERATION}{}\n{KEY}{key}\n{commands}",
            self.generation
        )
    }

    /// Returns the generation and the digest.
    #[must_use]
    pub fn version(&self) -> Version {
        Version {
            generation: self.generation,
            digest: to_hex(&Sha256::digest(self.text())),
        }
    }
}

/// Returns the rest of the first line after `word`, and the other lines.
fn head<'a>(text: &'a str, word: &'static str) -> Result<(&'a str, &'a str), BadDocument> {
    let (line, rest) = text.split_once('\n').ok_or(BadDocument::Head(word))?;
    let value = line.strip_prefix(word).ok_or(BadDocument::Head(word))?;
    Ok((value, rest))
}

fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) || text.len() % 2 != 0 {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::tests::{THREE, read};

    fn name() -> ZoneName {
        "pg".parse().unwrap()
    }

    fn document() -> Document {
        Document {
            generation: 7,
            key: (0..128).collect(),
            cluster: Some(read(THREE)),
        }
    }

    #[test]
    fn a_file_reads_as_what_was_written() {
        let live = document();
        let deleted = Document {
            cluster: None,
            ..document()
        };
        for one in [live, deleted] {
            assert_eq!(Document::read(&name(), &one.text()), Ok(one));
        }
    }

    #[test]
    fn the_digest_tells_configurations_of_one_generation_apart() {
        let mut other = document();
        if let Some(cluster) = &mut other.cluster {
            cluster.nodes[0].hostname = "other".to_owned();
        }
        assert_ne!(other.version(), document().version());
        assert_eq!(document().version(), document().version());
    }

    #[test]
    fn refuses_damaged_files() {
        let good = document().text();
        for bad in [
            String::new(),
            good.replace("format: 1", "format: 2"),
            good.replace("generation: 7", "generation: -7"),
            good.replace("generation: 7", &format!("generation: {}", u64::MAX)),
            good.replacen("0001", "00", 1),
            good.replacen("0001", "00g1", 1),
            good.replace("lower-link=br0", "lower-link"),
            good.trim_end_matches("end\n").to_owned(),
            format!("{good}commit\n"),
            format!("{good}exit\n"),
        ] {
            assert!(Document::read(&name(), &bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_line_never_panics(line in 0usize..40, text in ".{0,60}") {
            let good = document().text();
            let mut lines: Vec<&str> = good.lines().collect();
            let place = line % lines.len();
            lines[place] = &text;
            if let Ok(read) = Document::read(&name(), &(lines.join("\n") + "\n")) {
                prop_assert_eq!(Document::read(&name(), &read.text()), Ok(read));
            }
        }
    }
}
