//! The errors of `zoneadm savecore`.

use std::io;
use std::path::PathBuf;

use super::MachineError;

/// The reason why the memory of a guest was not written to a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CoreError {
    /// QEMU did not carry out the order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The path of the core has no file name.
    #[error("make {}: no name of a file", path.display())]
    NoName {
        /// The path of the core.
        path: PathBuf,
    },
    /// Users other than root can change names in the core's folder.
    #[error("make {}: users other than root can change files in {}", path.display(), folder.display())]
    OpenFolder {
        /// The path of the core.
        path: PathBuf,
        /// The folder of the core.
        folder: PathBuf,
    },
    /// The core file could not be made.
    #[error("make {}: {source}", path.display())]
    Make {
        /// The path of the core.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The pipe for the data of QEMU could not be made.
    #[error("could not make a pipe")]
    Pipe(#[source] io::Error),
    /// The wait for data of QEMU failed.
    #[error("could not wait for QEMU")]
    Wait(#[source] io::Error),
    /// The core file could not be written.
    #[error("cannot write it")]
    Write(#[source] io::Error),
    /// QEMU reported success, but did not close the pipe in time.
    #[error("QEMU did not finish writing in time")]
    Late,
    /// QEMU wrote more bytes than a core of the guest can have.
    #[error("QEMU writes more than the machine has")]
    TooLong,
    /// The thread that wrote the core has panicked, which is a bug in zoneadmd.
    #[error("the thread that wrote it has panicked")]
    Panicked,
}
