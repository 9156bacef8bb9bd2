//! Package inventories: the packages in the database of a root's package manager.
//!
//! Only dpkg is known so far; the rest of the system uses [`Database`], so that others
//! can be added. Nothing here runs a program or changes a file, and every file is taken
//! as hostile: read with bounds on lines, entries and total size, and opened without
//! leaving the root.

pub mod dpkg;
pub mod inventory;
mod lines;
pub mod version;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use inventory::{Inventory, Mismatch, Scope};
pub use lines::ParseError;

/// The state of an installation, in dpkg's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Known by name only.
    NotInstalled,
    /// Removed; configuration files are left.
    ConfigFiles,
    /// An unpack was begun and not finished.
    HalfInstalled,
    /// Unpacked, never configured.
    Unpacked,
    /// Configuration was begun and not finished.
    HalfConfigured,
    /// Waits for another package's trigger.
    TriggersAwaited,
    /// Has triggers of its own to run.
    TriggersPending,
    /// Complete.
    Installed,
}

impl Status {
    /// True when the package's files are in place.
    #[must_use]
    pub fn is_unpacked(self) -> bool {
        self >= Self::Unpacked
    }
}

/// A configuration file that a package owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conffile {
    /// Its absolute path; it has no `..`.
    pub path: PathBuf,
    /// The MD5 sum of the file as packaged; `None` while it was never put in place.
    pub md5: Option<[u8; 16]>,
    /// The present version of the package no longer has it.
    pub obsolete: bool,
    /// The package wants it removed.
    pub remove_on_upgrade: bool,
}

/// A package of an inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its architecture; empty where the record has none.
    pub architecture: String,
    /// Its version; empty where the record has none.
    pub version: String,
    /// The state of its installation.
    pub status: Status,
    /// True when several architectures of it may be installed at once.
    pub multi_arch_same: bool,
    /// Its configuration files.
    pub conffiles: Vec<Conffile>,
}

/// The package database of one root.
pub trait Database: fmt::Debug {
    /// The package manager's name.
    fn manager(&self) -> &'static str;

    /// Every package on record, in the order of the database.
    fn packages(&self) -> &[Package];

    /// Every path a package put into the root, directories included.
    ///
    /// # Errors
    /// Fails when the record is missing, unreadable or malformed.
    fn paths(&self, package: &Package) -> Result<Vec<PathBuf>, Error>;

    /// The files of a package with their MD5 sums as packaged, configuration
    /// files excepted. Empty when the package came without.
    ///
    /// # Errors
    /// Fails when the record is unreadable or malformed.
    fn checksums(&self, package: &Package) -> Result<Vec<(PathBuf, [u8; 16])>, Error>;
}

/// A package database cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file, as the system names it whose root was opened.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has invalid content.
    #[error("cannot read {}", path.display())]
    Malformed {
        /// The file, as the system names it whose root was opened.
        path: PathBuf,
        /// The problem and its position.
        source: ParseError,
    },
}

/// Reads the package database of the system whose root is at `root`; `None` when
/// it has none that is known.
///
/// # Errors
/// Fails when there is one and it cannot be read.
pub fn open(root: &Path) -> Result<Option<Box<dyn Database>>, Error> {
    Ok(dpkg::Dpkg::open(root)?.map(|dpkg| Box::new(dpkg) as Box<dyn Database>))
}
