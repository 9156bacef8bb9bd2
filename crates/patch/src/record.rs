//! The journal of a transaction, and the history of a zone: files below `/var/lib/zones/patch`.
//! Their names are the zone's uuid, which stays the same when the zone is renamed.

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

/// A package that the patch changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The name of the package.
    pub package: String,
    /// The architecture of the package.
    pub architecture: String,
    /// The version before the patch; `None` for a new package.
    pub from: Option<String>,
    /// The version after the patch; `None` for a removed package.
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
    /// The zone's own package manager carried out the order.
    Real,
    /// The zone uses the shared layer that two zones with the same packages produced.
    Shared,
    /// The zone got the patch in a new boot environment while it ran.
    Environment,
    /// The sparse zone followed the packages of the host, whose programs it inherits.
    Host,
    /// The zone's own package manager carried out the order in place while the zone ran.
    Live,
}

impl How {
    /// Returns the word for messages.
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

/// The state of a patch in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The zone has the patch, perhaps with later changes.
    Applied,
    /// The zone will have the patch after its next boot.
    Pending,
    /// The zone was rolled back to a snapshot from before the patch.
    RolledBack,
    /// The packages of the patch were returned to their former versions.
    TakenBack,
}

impl Standing {
    /// Returns the word for messages.
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

/// An entry of the history: one patch of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name of the patch, the same for all zones of one command.
    pub patch: String,
    /// The time of the patch, in seconds since 1970.
    pub at: u64,
    /// The order that was carried out.
    pub order: Order,
    /// The way in which the order was carried out.
    pub how: How,
    /// The state of the patch in the zone.
    pub standing: Standing,
    /// The snapshot of the zone from before the patch. For a patch in a boot environment, this is
    /// the former boot environment. `None` if the snapshot no longer exists.
    pub snapshot: Option<String>,
    /// The boot environment that the patch created.
    #[serde(default)]
    pub environment: Option<String>,
    /// The packages that the patch changed.
    pub packages: Vec<Change>,
    /// Services that the packages wanted to restart, as `NAME ACTION`.
    pub services: Vec<String>,
    /// The output of the package manager.
    pub log: PathBuf,
}

/// The patches of a zone, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The patches of the zone, the oldest first.
    pub entries: Vec<Entry>,
}

impl History {
    /// Returns true if one of these patches made the snapshot or boot environment with this name. A
    /// snapshot of the zone's administrator does not count, even if its name begins with the same
    /// text.
    #[must_use]
    pub fn made(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| {
            let snapshot = entry.snapshot.as_deref() == Some(name);
            let environment = entry.environment.as_deref() == Some(name);
            // For a patch in a boot environment, the snapshot is the boot environment that was
            // active before.
            environment || (snapshot && name.strip_prefix("patch-") == Some(&entry.patch))
        })
    }
}

/// The phase of a transaction of zonepatch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The package manager works in the copy, and the zone is unchanged.
    Working,
    /// The zone gets the root on the layer with this tree. The zone is patched as soon as it has
    /// that root.
    Switching {
        /// The tree of the layer.
        tree: PathBuf,
        /// The entry for the history of the zone.
        entry: Box<Entry>,
    },
    /// A shared layer is put below the zone's own layers. The zone is patched if its packages have
    /// this fingerprint, and unchanged otherwise.
    Verifying {
        /// The tree of the shared layer.
        tree: PathBuf,
        /// The entry for the history of the zone.
        entry: Box<Entry>,
        /// The fingerprint that the patched packages must have.
        fingerprint: String,
    },
    /// The snapshot of the zone becomes a boot environment on the layer with this tree. The next
    /// boot uses this boot environment.
    Environment {
        /// The tree of the layer.
        tree: PathBuf,
        /// The entry for the history of the zone.
        entry: Box<Entry>,
    },
    /// The zone is patched in place while it runs. If the zone boots during this phase, it returns
    /// to its snapshot.
    Live,
}

/// The journal of a transaction in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The name of the patch.
    pub patch: String,
    /// The zone; `None` for a layer that zones will share.
    pub zone: Option<String>,
    /// The snapshot of the zone, which is removed if the patch fails; empty if the snapshot must
    /// stay.
    pub snapshot: String,
    /// The copy, in a zonepath of its own.
    pub copy: PathBuf,
    /// The phase of the transaction.
    pub phase: Phase,
}

/// Returns the folder of journals and histories.
#[must_use]
pub fn folder(root: &Root) -> PathBuf {
    root.lib().join("patch")
}

/// Returns the path of a zone's history.
#[must_use]
pub fn history_of(root: &Root, zone: &Zone) -> PathBuf {
    folder(root).join(format!("{}.history", patch_files::stem(zone)))
}

/// Returns the path of a zone's journal.
#[must_use]
pub fn journal_of(root: &Root, zone: &Zone) -> PathBuf {
    patch_files::journal_of(root, zone)
}

/// The format of journals and histories that this program writes. A file that names no format has
/// format 1.
const FORMAT: u64 = 1;

/// Reads a journal or history. Returns `None` if the file does not exist.
///
/// # Errors
/// Fails if the file cannot be read, is damaged, or has a newer format than this program knows.
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

/// Writes a journal or history, and syncs it to disk.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn save<T: Serialize>(path: &Path, what: &T) -> Result<(), Error> {
    let stored = Stored {
        format: FORMAT,
        content: what,
    };
    let text = serde_json::to_vec_pretty(&stored)
        .map_err(|error| Error::Refused(format!("{}: {error}", path.display())))?;
    Ok(atomic::write(path, &text, 0o600)?)
}

/// Adds a patch to the history of a zone, unless the history has it already.
///
/// # Errors
/// Fails if the history cannot be read or written.
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
/// Fails if the history cannot be read or written.
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
