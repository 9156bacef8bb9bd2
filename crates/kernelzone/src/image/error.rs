//! The errors of using the image of a suspended guest.

use std::io;
use std::path::PathBuf;

use host::flatten;

/// The reason why the image of a suspended guest, or the key of the image, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The raw key in the configuration is not a valid key.
    #[error("raw: {0}")]
    RawKey(#[source] suspend::KeyError),
    /// The key file cannot be used.
    #[error(transparent)]
    KeyFile(#[from] suspend::KeyFileError),
    /// The image cannot be used.
    #[error(transparent)]
    Engine(#[from] suspend::Error),
    /// The guest was started again after the image was made, so the image no longer fits the disks.
    #[error("{}: the zone was started again since this was made: its disks have moved on", path.display())]
    StartedSince {
        /// The path of the image.
        path: PathBuf,
    },
    /// The metadata of a disk cannot be read.
    #[error("{}: {source}", path.display())]
    Disk {
        /// The path of the file or device.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The arguments of a running QEMU cannot be read.
    #[error("could not read {}: {source}", path.display())]
    Arguments {
        /// The path of the file in /proc.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The image cannot be removed.
    #[error("cannot remove {}: {source}", path.display())]
    Remove {
        /// The path of the image.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The folder of the image cannot be written to stable storage after the image was removed.
    #[error("cannot write {}: {source}", path.display())]
    Sync {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
}

impl From<ImageError> for host::Error {
    fn from(error: ImageError) -> Self {
        Self::Refused(flatten(&error))
    }
}
