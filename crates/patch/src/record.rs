//! The journal of a transaction and the history of a zone: files below
//! `/var/lib/zones/patch`, by the zone's uuid, which a rename of the zone does not change.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use host::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use store::format::{self, Stored};
use store::index::Entry as Zone;
use store::{Root, atomic};
use zone::patch_files;

use crate::order::Order;

/// Maximum size of a file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of entries in a history.
const MAX_HISTORY_ENTRIES: usize = 200;

/// A package that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Its name.
    pub package: String,
    /// Its architecture.
    pub architecture: String,
    /// The version before the patch; none for a new package.
    pub from: Option<String>,
    /// The version after the patch; none for a removed package.
    pub to: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{} {from} -> {to}", self.package),
            (Some(from), None) => write!(f, "{} {from} removed", self.package),
            (None, Some(to)) => write!(f, "{} {to} new", self.package),
            (None, None) => f.write_str(&self.package),
        }
    }
}

/// The way a zone got its patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Its own package manager did it.
    Real,
    /// It uses the shared layer that two zones like it produced.
    Shared,
    /// In a boot environment, while the zone ran.
    Environment,
    /// It followed the host, whose programs it shares.
    Host,
    /// Its own package manager did it while the zone ran, in place.
    Live,
}

impl How {
    /// The word for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Shared => "shared",
            Self::Environment => "be",
            Self::Host => "host",
            Self::Live => "live",
        }
    }
}

/// The state of a zone relative to a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is, except for later changes.
    Applied,
    /// It will be when it boots.
    Pending,
    /// The zone was rolled back behind it.
    RolledBack,
    /// Its packages were taken back.
    TakenBack,
}

impl Standing {
    /// The word for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Pending => "next boot",
            Self::RolledBack => "rolled back",
            Self::TakenBack => "taken back",
        }
    }
}

/// A patch of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name, the same for all zones of one command.
    pub patch: String,
    /// When, in seconds since 1970.
    pub at: u64,
    /// The order.
    pub order: Order,
    /// The way it was carried out.
    pub how: How,
    /// The state relative to the patch.
    pub standing: Standing,
    /// The snapshot of the zone before it, which for a boot environment is the former one;
    /// none when that is gone.
    pub snapshot: Option<String>,
    /// The boot environment that was made.
    #[serde(default)]
    pub environment: Option<String>,
    /// The changed packages.
    pub packages: Vec<Change>,
    /// Services that the packages wanted to be restarted, `NAME ACTION`.
    pub services: Vec<String>,
    /// The output of the package manager.
    pub log: PathBuf,
}

/// The patches of a zone, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The patches.
    pub entries: Vec<Entry>,
}

impl History {
    /// Returns whether a snapshot, or a boot environment, was made by one of these patches: a
    /// snapshot of the zone's administrator is not, even if its name begins alike.
    #[must_use]
    pub fn made(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| {
            let snapshot = entry.snapshot.as_deref() == Some(name);
            let environment = entry.environment.as_deref() == Some(name);
            // Of one in a boot environment the snapshot is the one that was active.
            environment || (snapshot && name.strip_prefix("patch-") == Some(&entry.patch))
        })
    }
}

/// The phase of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The copy is worked on: the zone is the old one.
    Working,
    /// The zone takes over the root on the layer with this tree: it is the new one as soon as it
    /// has it.
    Switching {
        /// The tree.
        tree: PathBuf,
        /// The entry for the history.
        entry: Box<Entry>,
    },
    /// The same, where a layer of other zones is put below the zone's own layers: it is the new one
    /// if its packages have this fingerprint, and the old one otherwise.
    Verifying {
        /// The tree.
        tree: PathBuf,
        /// The entry for the history.
        entry: Box<Entry>,
        /// The fingerprint of the expected result.
        fingerprint: String,
    },
    /// The snapshot of the zone becomes a boot environment that stands on the layer with
    /// this tree, and that the next boot takes.
    Environment {
        /// The tree.
        tree: PathBuf,
        /// The entry for the history.
        entry: Box<Entry>,
    },
    /// The zone is patched in place while it runs: it is between old and new, and goes back
    /// to its snapshot when it boots.
    Live,
}

/// A transaction that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The patch.
    pub patch: String,
    /// The zone; none for a layer that zones are to share.
    pub zone: Option<String>,
    /// The zone's snapshot, which goes when nothing came of it; empty when it is to stay.
    pub snapshot: String,
    /// The copy, a zonepath of its own.
    pub copy: PathBuf,
    /// The phase.
    pub phase: Phase,
}

/// The folder of all of this.
#[must_use]
pub fn folder(root: &Root) -> PathBuf {
    root.lib().join("patch")
}

/// The history of a zone.
#[must_use]
pub fn history_of(root: &Root, zone: &Zone) -> PathBuf {
    folder(root).join(format!("{}.history", patch_files::stem(zone)))
}

/// The journal of a zone.
#[must_use]
pub fn journal_of(root: &Root, zone: &Zone) -> PathBuf {
    patch_files::journal_of(root, zone)
}

/// The format of journals and histories that is written. A file that says none has format 1.
const FORMAT: u64 = 1;

/// Reads a file of ours; none when it is not there.
///
/// # Errors
/// When it cannot be read, is not ours, or has a format that only newer programs know.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let fail = || format!("read {}", path.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(fail())(error)),
        Ok(meta) if meta.len() > MAX_FILE_BYTES => {
            return Err(Error::Refused(format!("{}: too large", path.display())));
        }
        Ok(_) => {}
    }
    let text = fs::read(path).map_err(Error::io(fail()))?;
    format::check_json(path, &text, FORMAT)?;
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|error| Error::Refused(format!("{}: damaged: {error}", path.display())))
}

/// Writes a file of ours, durably.
///
/// # Errors
/// When it cannot be written.
pub fn save<T: Serialize>(path: &Path, what: &T) -> Result<(), Error> {
    let stored = Stored {
        format: FORMAT,
        content: what,
    };
    let text = serde_json::to_vec_pretty(&stored)
        .map_err(|error| Error::Refused(format!("{}: {error}", path.display())))?;
    Ok(atomic::write(path, &text, 0o600)?)
}

/// Adds a patch to the history of a zone, unless it is there.
///
/// # Errors
/// When the history cannot be read or written.
pub fn add(root: &Root, zone: &Zone, entry: Entry) -> Result<(), Error> {
    let path = history_of(root, zone);
    let mut history: History = load(&path)?.unwrap_or_default();
    if history.entries.iter().any(|one| one.patch == entry.patch) {
        return Ok(());
    }
    history.entries.push(entry);
    let superfluous = history.entries.len().saturating_sub(MAX_HISTORY_ENTRIES);
    history.entries.drain(..superfluous);
    save(&path, &history)
}

/// Changes the history of a zone.
///
/// # Errors
/// When it cannot be read or written.
pub fn change(root: &Root, zone: &Zone, act: impl FnOnce(&mut History)) -> Result<(), Error> {
    let path = history_of(root, zone);
    let mut history: History = load(&path)?.unwrap_or_default();
    act(&mut history);
    save(&path, &history)
}

/// The time, in seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_read_back_as_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("more/a.journal");
        assert_eq!(load::<Journal>(&path).unwrap(), None);
        let journal = Journal {
            patch: "p".into(),
            zone: Some("web".into()),
            snapshot: "patch-p".into(),
            copy: "/zones/.patch-web".into(),
            phase: Phase::Working,
        };
        save(&path, &journal).unwrap();
        assert_eq!(load::<Journal>(&path).unwrap(), Some(journal));
        fs::write(&path, "{").unwrap();
        let error = load::<Journal>(&path).unwrap_err().to_string();
        assert!(error.contains("damaged"), "{error}");
    }

    #[test]
    fn a_history_says_its_format_and_an_older_one_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.history");
        // As programs without formats wrote it.
        fs::write(&path, include_str!("../fixtures/web.history")).unwrap();
        let old: History = load(&path).unwrap().unwrap();
        assert_eq!(old.entries[0].patch, "p1");
        save(&path, &old).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("{\n  \"format\": 1,"), "{text}");
        assert_eq!(load::<History>(&path).unwrap(), Some(old));
        fs::write(&path, "{\"format\": 2, \"entries\": 7}").unwrap();
        let error = load::<History>(&path).unwrap_err().to_string();
        assert!(
            error.contains("has format 2") && error.contains("use newer programs"),
            "{error}"
        );
    }

    #[test]
    fn a_snapshot_with_a_similar_name_belongs_to_no_patch() {
        let entry = |patch: &str, snapshot: &str, environment: Option<&str>| Entry {
            patch: patch.to_owned(),
            at: 0,
            order: Order::Upgrade,
            how: How::Real,
            standing: Standing::Applied,
            snapshot: Some(snapshot.to_owned()),
            environment: environment.map(str::to_owned),
            packages: Vec::new(),
            services: Vec::new(),
            log: PathBuf::new(),
        };
        let history = History {
            entries: vec![
                entry("a", "patch-a", None),
                entry("b", "patch-by-hand", Some("patched-b")),
            ],
        };
        for (name, made) in [
            ("patch-a", true),
            ("patched-b", true),
            ("patch-by-hand", false),
            ("patch-before-manual", false),
            ("patched-a", false),
            ("initial", false),
        ] {
            assert_eq!(history.made(name), made, "{name}");
        }
    }
}
