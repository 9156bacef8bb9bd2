//! The errors of `zoneadm savecore`.

use std::io;
use std::path::PathBuf;

use super::MachineError;

/// Why the memory of a machine was not written to a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// The machine did not carry out the order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The path names no file in a folder.
    #[error("make {}: no name of a file", path.display())]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// Users other than root can change names in the folder.
    #[error("make {}: users other than root can change files in {}", path.display(), folder.display())]
    OpenFolder {
        /// The file.
        path: PathBuf,
        /// Its folder.
        folder: PathBuf,
    },
    /// The file could not be made.
    #[error("make {}: {source}", path.display())]
    Make {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No pipe for the data of QEMU.
    #[error("could not make a pipe")]
    Pipe(#[source] io::Error),
    /// The wait for data of QEMU failed.
    #[error("could not wait for QEMU")]
    Wait(#[source] io::Error),
    /// The file could not be written.
    #[error("cannot write it")]
    Write(#[source] io::Error),
    /// QEMU kept the pipe open after the end of its work.
    #[error("QEMU did not finish writing in time")]
    Late,
    /// QEMU wrote more bytes than a core of the machine can have.
    #[error("QEMU writes more than the machine has")]
    TooLong,
    /// A fault of zoneadmd.
    #[error("the thread that wrote it has panicked")]
    Panicked,
}
