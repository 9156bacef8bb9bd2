//! The request, the result and the errors of an install.

use std::io;
use std::path::{Path, PathBuf};

use model::Config;
use model::plan::Recipe;

use crate::tree::Tree;

/// The inputs of an install.
pub struct InstallRequest<'a> {
    /// The configuration of the zone.
    pub config: &'a Config,
    /// The zone's root: an existing, empty directory that the caller has made.
    pub root: &'a Path,
    /// The root of the host: `/` except in tests.
    pub host_root: &'a Path,
    /// The brand options of the command line, without the common ones.
    pub options: &'a [String],
    /// Writes one line to the terminal and to the install log.
    pub progress: &'a mut dyn FnMut(&str),
}

impl std::fmt::Debug for InstallRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InstallRequest")
            .field("root", &self.root)
            .field("host_root", &self.host_root)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The origin of a new zone's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An empty folder that the brand fills.
    Empty,
    /// An image. If it does not exist yet, the recipe makes it.
    Bootstrap(Recipe),
}

/// The counts of an install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// The number of regular files that were created.
    pub files: u64,
    /// The number of directories that were created.
    pub directories: u64,
    /// The number of symbolic links that were created.
    pub links: u64,
    /// The number of bytes that were written to files.
    pub bytes: u64,
    /// The number of files of the host, or members of an archive, that were left out on purpose.
    /// `progress` got the name of each.
    pub left_out: u64,
}

/// The reason why an install failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line is invalid (exit status 2).
    #[error("{0}")]
    Usage(String),
    /// The zone cannot be installed with its configuration, or from this source.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The path of the failed operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A member of an archive, or an entry of a source directory, is not acceptable.
    #[error("{}: {member}: {problem}", origin.display())]
    Member {
        /// The path of the archive or directory.
        origin: PathBuf,
        /// The name of the member, with unprintable characters escaped.
        member: String,
        /// The description of the problem.
        problem: String,
    },
    /// The source as a whole is not acceptable.
    #[error("{}: {problem}", origin.display())]
    Source {
        /// The path of the archive or directory.
        origin: PathBuf,
        /// The description of the problem.
        problem: String,
    },
    /// The host's package database cannot be used.
    #[error(transparent)]
    Packages(#[from] packages::Error),
}

impl Error {
    /// Returns true if the exit status of this error is 2.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::Io {
            action,
            path: path.into(),
            source: source.into(),
        }
    }
}

/// Refuses a root that is not empty.
pub(crate) fn check_empty(root: &Tree) -> Result<(), Error> {
    if root.names(Path::new(""))?.is_empty() {
        Ok(())
    } else {
        let root = root.show(Path::new(""));
        Err(Error::Refused(format!("{}: not empty", root.display())))
    }
}
