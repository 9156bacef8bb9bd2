//! The errors of taking over a zone whose zoneadmd died.

use std::io;
use std::path::PathBuf;

use kernelzone::image::ImageError;

use super::MachineError;

/// The reason why a zone was not taken over, or lost a part in the takeover.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// Another zoneadmd serves the zone.
    #[error("the zone has a zoneadmd")]
    Served,
    /// The zone has no stored state, so it is not active.
    #[error("the zone is not active")]
    NotActive,
    /// The state of the zone names no process.
    #[error("the zone has no first process")]
    NoFirstProcess,
    /// The zone's first process cannot be opened.
    #[error("could not open the zone's first process")]
    Open(#[source] io::Error),
    /// The zone's first process ended, and its process number may have been reused.
    #[error("the zone's first process has just ended")]
    JustEnded,
    /// The state of the zone names no control groups.
    #[error("the zone has no control groups")]
    NoGroups,
    /// A new console could not be made for a zone whose init is not zinit.
    #[error("could not make a console")]
    NewConsole(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The new console could not be mounted in the zone.
    #[error("its /dev/console could not be replaced")]
    ReplaceConsole,
    /// The process that enters the zone could not be started.
    #[error("could not start a process in the zone")]
    Fork(#[source] io::Error),
    /// The socket for the zone's own beadm could not be created.
    #[error("could not make a socket")]
    Socket(#[source] io::Error),
    /// The socket for the zone's own beadm could not be bound to its path in the zone.
    #[error("{} could not be made", path.display())]
    Beadm {
        /// The path of the socket in the zone.
        path: PathBuf,
    },
    /// The migration to this host was interrupted, so the guest has only a part of its memory or
    /// disks.
    #[error("it was on its way here, and did not come as a whole")]
    Incomplete,
    /// The resume was interrupted, so the guest has only a part of its memory.
    #[error("it was being resumed; boot it again")]
    HalfResumed,
    /// The guest's image, which is out of date, cannot be removed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// QEMU did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The connection to the guest's serial line failed.
    #[error("connect to {}: {source}", path.display())]
    Connect {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl From<vm::Error> for AdoptError {
    fn from(error: vm::Error) -> Self {
        Self::Machine(error.into())
    }
}
