//! The errors of the records of zones' networks.

use std::io;
use std::path::PathBuf;

use host::flatten;

/// The error of one of several libraries.
pub(super) type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Why the network of a zone could not be looked up, released or held.
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
    /// A file about the host's network has no record.
    #[error("could not read {}: {source}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A file about the host's network is longer than any record.
    #[error("could not read {}: too large", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file of newer programs.
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
    /// The zone's network namespace cannot be let go.
    #[error(transparent)]
    Unmount(#[from] sys::mount::Error),
    /// The namespace of this thread is not known.
    #[error("{0}")]
    Namespace(#[source] io::Error),
    /// This thread is in the namespace of a zone now.
    #[error("could not go back to the host's network: {0}")]
    Return(#[source] io::Error),
    /// The files about all zones of the host.
    #[error("{}", flatten(.0.as_ref()))]
    Common(Box<dyn std::error::Error + Send + Sync>),
    /// The addresses of a suspended zone.
    #[error("could not note its addresses: {0}")]
    Note(#[source] io::Error),
    /// The kernel refused changes; all of them are listed.
    #[error("{}", .0.join("; "))]
    Kernel(Vec<String>),
}

impl From<NetworkError> for host::Error {
    fn from(error: NetworkError) -> Self {
        Self::Daemon(flatten(&error))
    }
}
