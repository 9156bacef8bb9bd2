//! The errors of using the image of a suspended machine.

use std::io;
use std::path::PathBuf;

use host::flatten;

/// Why the image of a suspended machine, or its key, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The key in the configuration is none.
    #[error("raw: {0}")]
    RawKey(#[source] suspend::KeyError),
    /// The file of the key cannot be used.
    #[error(transparent)]
    KeyFile(#[from] suspend::KeyFileError),
    /// The image cannot be used.
    #[error(transparent)]
    Engine(#[from] suspend::Error),
    /// The disks of the machine have changed since the image was made.
    #[error("{}: the zone was started again since this was made: its disks have moved on", path.display())]
    StartedSince {
        /// The image.
        path: PathBuf,
    },
    /// A disk of the machine cannot be looked at.
    #[error("{}: {source}", path.display())]
    Disk {
        /// The file or device.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The arguments of a running QEMU cannot be read.
    #[error("could not read {}: {source}", path.display())]
    Arguments {
        /// The file in /proc.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The image cannot be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Remove {
        /// The image.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder of the image cannot be written to stable storage after the image was removed.
    #[error("cannot write {}: {source}", path.display())]
    Sync {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<ImageError> for host::Error {
    fn from(error: ImageError) -> Self {
        Self::Refused(flatten(&error))
    }
}
