//! The errors of taking over a zone whose zoneadmd died.

use std::io;
use std::path::PathBuf;

use kernelzone::image::ImageError;

use super::MachineError;

/// Why a zone was not taken over, or lacks a part since.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// Another zoneadmd serves the zone.
    #[error("the zone has a zoneadmd")]
    Served,
    /// There is no state of the zone.
    #[error("the zone is not active")]
    NotActive,
    /// The state of the zone names no process.
    #[error("the zone has no first process")]
    NoFirstProcess,
    /// The first process cannot be opened.
    #[error("could not open the zone's first process")]
    Open(#[source] io::Error),
    /// The first process ended, and its number may be another process's.
    #[error("the zone's first process has just ended")]
    JustEnded,
    /// The state of the zone names no control groups.
    #[error("the zone has no control groups")]
    NoGroups,
    /// A zone with an init other than zinit needs a new console.
    #[error("could not make a console")]
    NewConsole(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The new console is not in the zone.
    #[error("its /dev/console could not be replaced")]
    ReplaceConsole,
    /// No process could be started that enters the zone.
    #[error("could not start a process in the zone")]
    Fork(#[source] io::Error),
    /// No socket for the zone's own beadm.
    #[error("could not make a socket")]
    Socket(#[source] io::Error),
    /// The socket for the zone's own beadm is not in the zone.
    #[error("{} could not be made", path.display())]
    Beadm {
        /// The path in the zone.
        path: PathBuf,
    },
    /// The machine has only a part of its memory or disks.
    #[error("it was on its way here, and did not come as a whole")]
    Incomplete,
    /// The machine has only a part of its memory.
    #[error("it was being resumed; boot it again")]
    HalfResumed,
    /// The image of the machine, which is out of date, cannot be removed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The machine did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The machine's serial line cannot be connected to.
    #[error("connect to {}: {source}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<vm::Error> for AdoptError {
    fn from(error: vm::Error) -> Self {
        Self::Machine(error.into())
    }
}
