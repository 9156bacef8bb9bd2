//! The request, the result and the errors of an install.

use std::io;
use std::path::{Path, PathBuf};

use model::Config;
use model::plan::Recipe;

use crate::tree::Tree;

/// An install, as the verb asks for it.
pub struct InstallRequest<'a> {
    /// The zone's configuration.
    pub config: &'a Config,
    /// The zone's root: an existing, empty directory of ours.
    pub root: &'a Path,
    /// The host's root, `/` except in tests.
    pub host_root: &'a Path,
    /// The brand options of the command line, without the common ones.
    pub options: &'a [String],
    /// Takes one line at a time for the terminal and the install log.
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
    /// An empty folder, which the brand populates.
    Empty,
    /// An image, which is made by the recipe unless there is one already.
    Bootstrap(Recipe),
}

/// The result of an install.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Regular files made.
    pub files: u64,
    /// Directories made.
    pub directories: u64,
    /// Symbolic links made.
    pub links: u64,
    /// Bytes written into files.
    pub bytes: u64,
    /// Files of the host, or members of an archive, that were deliberately left
    /// out; each was named to `progress`.
    pub left_out: u64,
}

/// An install failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line is wrong (exit status 2).
    #[error("{0}")]
    Usage(String),
    /// The zone cannot be installed as it is configured, or from this source.
    #[error("{0}")]
    Refused(String),
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The action that failed, as a verb.
        action: &'static str,
        /// The path of the failed operation.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A member of an archive, or an entry of a source directory, is not acceptable.
    #[error("{}: {member}: {problem}", origin.display())]
    Member {
        /// The archive or directory.
        origin: PathBuf,
        /// The member's name, with anything unprintable escaped.
        member: String,
        /// The description of the problem.
        problem: String,
    },
    /// The source as a whole is not acceptable.
    #[error("{}: {problem}", origin.display())]
    Source {
        /// The archive or directory.
        origin: PathBuf,
        /// The description of the problem.
        problem: String,
    },
    /// The host's package database cannot be used.
    #[error(transparent)]
    Packages(#[from] packages::Error),
}

impl Error {
    /// True when the exit status is 2.
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

/// Refuses a root that already holds something.
pub(crate) fn check_empty(root: &Tree) -> Result<(), Error> {
    if root.names(Path::new(""))?.is_empty() {
        Ok(())
    } else {
        let root = root.show(Path::new(""));
        Err(Error::Refused(format!("{}: not empty", root.display())))
    }
}
