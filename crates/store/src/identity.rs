//! The file `.identity` in the zonepath of an installed zone: the identity of the zone, the host
//! that owns the zonepath, and the configuration with which the zone last booted.
//!
//! ```text
//! format=2
//! uuid=5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10
//! slot=3
//! host=one
//! owner=0b7e7a52-5d1c-4d5d-9f2d-1f6f0d8f3c11
//! generation=4
//! since=1764100000
//! configuration=2
//!
//! <?xml version="1.0" encoding="UTF-8"?>
//! ...
//! ```
//!
//! Ethernet addresses are derived from the uuid, and addresses of the pool from the slot, so a host
//! that takes the zonepath over gives the zone the same ones. A file of format 1 has no slot, no
//! generation, no time and no configuration.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use model::Uuid;
use rustix::fs::{Mode, OFlags};

use crate::xml::MAX_SIZE;
use crate::{Error, index};

/// The name of the file in the zonepath.
pub const FILE: &str = ".identity";

/// The format that is written.
const FORMAT: u64 = 2;

/// Maximum length of the lines before the configuration, in bytes.
const MAX_HEAD_BYTES: u64 = 4096;

/// Maximum length of a host's name, in characters.
const MAX_HOST_NAME: usize = 64;

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The format of the file; 0 if there is no file.
    pub format: u64,
    /// The uuid of the zone.
    pub uuid: Option<Uuid>,
    /// The number of the zone's range of user ids on the host that stored it.
    pub slot: Option<u32>,
    /// The name of the host that owns the zonepath, or owned it last.
    pub host: Option<String>,
    /// The id of the host that owns the zonepath. It is `None` after a detach, and in a file of
    /// programs that stored no owner.
    pub owner: Option<Uuid>,
    /// The number of changes of the owner.
    pub generation: u64,
    /// The time of the last change of the owner, in seconds since 1970.
    pub since: Option<u64>,
    /// The configuration with which the zone last booted.
    pub configuration: Option<Configuration>,
}

/// A configuration that is stored with its zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The number of times that a boot stored another configuration.
    pub generation: u64,
    /// The configuration, in XML.
    pub text: String,
}

impl Identity {
    /// Returns true for a file that this program would write, apart from its values.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        self.format == FORMAT
    }

    /// Returns the text of the file, in the present format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("format={FORMAT}\n");
        let mut line = |name: &str, value: Option<&dyn std::fmt::Display>| {
            if let Some(value) = value {
                // A string accepts every write.
                let _ = writeln!(text, "{name}={value}");
            }
        };
        line("uuid", self.uuid.as_ref().map(|value| value as _));
        line("slot", self.slot.as_ref().map(|value| value as _));
        line("host", self.host.as_ref().map(|value| value as _));
        line("owner", self.owner.as_ref().map(|value| value as _));
        line("generation", Some(&self.generation));
        line("since", self.since.as_ref().map(|value| value as _));
        if let Some(configuration) = &self.configuration {
            line("configuration", Some(&configuration.generation));
            text.push('\n');
            text.push_str(&configuration.text);
        }
        text
    }
}

/// Returns the name of a host without characters that must not be in a message.
#[must_use]
pub fn plain_name(name: &str) -> Option<String> {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = name.chars().filter(plain).take(MAX_HOST_NAME).collect();
    (!name.is_empty()).then_some(name)
}

/// Reads the file of a zonepath. Returns an empty identity if the file does not exist or is
/// damaged.
///
/// # Errors
/// Fails with [`Error::Newer`] if a newer program wrote the file.
pub fn read(zonepath: &Path) -> Result<Identity, Error> {
    let path = zonepath.join(FILE);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(&path, flags, Mode::empty()) else {
        return Ok(Identity::default());
    };
    let mut bytes = Vec::with_capacity(4096);
    let most = MAX_HEAD_BYTES + MAX_SIZE;
    if File::from(file).take(most).read_to_end(&mut bytes).is_err() {
        return Ok(Identity::default());
    }
    let found = parse(&String::from_utf8_lossy(&bytes));
    Error::unless_known(&path, found.format, FORMAT)?;
    Ok(found)
}

/// Returns the content of the file's text. A line that is missing or wrong has no value.
#[must_use]
pub fn parse(text: &str) -> Identity {
    let (head, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let value = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once('='));
        lines
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    };
    let number = |name: &str| value(name).and_then(|value| value.parse::<u64>().ok());
    let slot = number("slot").and_then(|slot| u32::try_from(slot).ok());
    Identity {
        format: number("format").unwrap_or(1),
        uuid: value("uuid").and_then(|value| value.parse().ok()),
        slot: slot.filter(|slot| *slot < index::SLOTS),
        host: value("host").and_then(plain_name),
        owner: value("owner").and_then(|value| value.parse().ok()),
        generation: number("generation").unwrap_or_default(),
        since: number("since"),
        configuration: number("configuration")
            .filter(|_| !rest.is_empty())
            .map(|generation| Configuration {
                generation,
                text: rest.to_owned(),
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Identity {
        Identity {
            format: FORMAT,
            uuid: "5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10".parse().ok(),
            slot: Some(3),
            host: Some("one".to_owned()),
            owner: "0b7e7a52-5d1c-4d5d-9f2d-1f6f0d8f3c11".parse().ok(),
            generation: 4,
            since: Some(1_764_100_000),
            configuration: Some(Configuration {
                generation: 2,
                text: "<zone>\n\n</zone>\n".to_owned(),
            }),
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), Identity::default());
        let free = Identity {
            owner: None,
            configuration: None,
            ..whole()
        };
        for identity in [whole(), free] {
            std::fs::write(folder.path().join(FILE), identity.text()).unwrap();
            assert_eq!(read(folder.path()).unwrap(), identity);
        }
        let newer = whole().text().replace("format=2", "format=3");
        std::fs::write(folder.path().join(FILE), newer).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(".identity has format 3"), "{error}");
    }

    #[test]
    fn a_file_of_older_programs_has_no_generation() {
        let old = parse("format=1\nuuid=5f0c9a40-5a0e-4b8b-8a6e-1b5a4b6b1d10\nhost=b\n");
        assert_eq!(old.uuid, whole().uuid);
        assert_eq!((old.host.as_deref(), old.owner), (Some("b"), None));
        assert!(!old.is_current() && old.generation == 0 && old.since.is_none());
    }

    proptest::proptest! {
        #[test]
        fn a_hostile_file_is_harmless(text in "(?s)((uuid|slot|host|owner|since|configuration)=.{0,20}\n){0,6}.{0,40}") {
            let found = parse(&text);
            let name = found.host.clone().unwrap_or_default();
            proptest::prop_assert!(!name.chars().any(char::is_control));
            proptest::prop_assert!(found.slot.is_none_or(|slot| slot < index::SLOTS));
            proptest::prop_assert_eq!(parse(&found.text()).owner, found.owner);
        }
    }
}
