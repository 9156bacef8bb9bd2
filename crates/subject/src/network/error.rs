//! The errors of the records of zones' networks.

use std::io;
use std::path::PathBuf;

use host::flatten;

/// The error of one of several libraries.
pub(super) type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why the network of a zone could not be looked up, released or held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A file about the host's network cannot be read.
    #[error("could not read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file about the host's network holds no valid record.
    #[error("could not read {}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A file about the host's network is larger than any valid record.
    #[error("could not read {}: too large", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file that newer programs wrote.
    #[error(transparent)]
    Format(#[from] store::Error),
    /// A file about the host's network cannot be removed.
    #[error("could not remove {}: {source}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The zone's network namespace cannot be released.
    #[error(transparent)]
    Unmount(#[from] sys::mount::Error),
    /// The network namespace of this thread cannot be read.
    #[error("{0}")]
    Namespace(#[source] io::Error),
    /// This thread could not return from the zone's network namespace.
    #[error("could not go back to the host's network: {0}")]
    Return(#[source] io::Error),
    /// An error in the files that all zones of the host share.
    #[error("{}", flatten(.0.as_ref()))]
    Common(Box<dyn std::error::Error + Send + Sync>),
    /// The addresses of a suspended zone could not be recorded.
    #[error("could not note its addresses: {0}")]
    Note(#[source] io::Error),
    /// The changes that the kernel refused, one text each.
    #[error("{}", .0.join("; "))]
    Kernel(Vec<String>),
}

impl From<NetworkError> for host::Error {
    fn from(error: NetworkError) -> Self {
        Self::Daemon(flatten(&error))
    }
}
