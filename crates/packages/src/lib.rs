//! Reads the inventory of packages from the database of a root's package manager.
//!
//! Only dpkg is supported. Callers use the trait [`Database`], so that other package managers can
//! be added. This crate runs no program and changes no file. Every file is hostile input: lines,
//! entries and total size are limited, and no path leaves the root.

pub mod dpkg;
pub mod inventory;
mod lines;
pub mod version;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use inventory::{Inventory, Mismatch, Scope};
pub use lines::ParseError;

/// The state of a package's installation, in the words of dpkg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// The database knows only the name of the package.
    NotInstalled,
    /// The package is removed; its configuration files are left.
    ConfigFiles,
    /// dpkg started to unpack the package and did not finish.
    HalfInstalled,
    /// The package is unpacked, and was never configured.
    Unpacked,
    /// dpkg started to configure the package and did not finish.
    HalfConfigured,
    /// The package waits for a trigger of another package.
    TriggersAwaited,
    /// The package has its own triggers to run.
    TriggersPending,
    /// The package is installed completely.
    Installed,
}

impl Status {
    /// Returns true if the files of the package are in place.
    #[must_use]
    pub fn is_unpacked(self) -> bool {
        self >= Self::Unpacked
    }
}

/// A configuration file that a package owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conffile {
    /// The absolute path of the file, without `..`.
    pub path: PathBuf,
    /// The MD5 sum of the packaged file; `None` if the file was never installed.
    pub md5: Option<[u8; 16]>,
    /// True if the installed version of the package no longer has this file.
    pub obsolete: bool,
    /// True if the package wants dpkg to remove this file.
    pub remove_on_upgrade: bool,
}

/// A package in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// The name of the package.
    pub name: String,
    /// The architecture; empty if the record has none.
    pub architecture: String,
    /// The version; empty if the record has none.
    pub version: String,
    /// The state of the package's installation.
    pub status: Status,
    /// True if several architectures of the package can be installed at once.
    pub multi_arch_same: bool,
    /// The configuration files of the package.
    pub conffiles: Vec<Conffile>,
}

/// The package database of one root.
pub trait Database: fmt::Debug {
    /// Returns the name of the package manager.
    fn manager(&self) -> &'static str;

    /// Returns every recorded package, in the order of the database.
    fn packages(&self) -> &[Package];

    /// Returns every path that a package installed in the root, with directories.
    ///
    /// # Errors
    /// Fails if the record is missing, unreadable or malformed.
    fn paths(&self, package: &Package) -> Result<Vec<PathBuf>, Error>;

    /// Returns the files of a package with the MD5 sums of the packaged content, without
    /// configuration files. Empty if the package has no such list.
    ///
    /// # Errors
    /// Fails if the record is unreadable or malformed.
    fn checksums(&self, package: &Package) -> Result<Vec<(PathBuf, [u8; 16])>, Error>;
}

/// The reason why a package database cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a file failed.
    #[error("cannot read {}", path.display())]
    Io {
        /// The path of the file inside the root.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A file of the database has invalid content.
    #[error("cannot read {}", path.display())]
    Malformed {
        /// The path of the file inside the root.
        path: PathBuf,
        /// The problem and its position in the file.
        source: ParseError,
    },
}

/// Reads the package database of the system whose root is at `root`. Returns `None` if the system
/// has no supported database.
///
/// # Errors
/// Fails if the database exists and cannot be read.
pub fn open(root: &Path) -> Result<Option<Box<dyn Database>>, Error> {
    Ok(dpkg::Dpkg::open(root)?.map(|dpkg| Box::new(dpkg) as Box<dyn Database>))
}
