//! The errors of moving a machine to another host while it runs.

use std::io;

use super::{AwayError, MachineError};

/// Why a machine did not leave for another host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The machine stands still, or may.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// The zone is in another state than running, or leaves already.
    #[error("not running")]
    NotRunning,
    /// The machine was resumed a short time ago.
    #[error("its memory is still being restored")]
    StillRestored,
    /// One message cannot carry a connection for each disk.
    #[error("has too many disks")]
    TooManyDisks,
    /// No connection for a disk or the memory.
    #[error("make a socket")]
    Socket(#[source] io::Error),
    /// The machine did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The connection for the memory was used before.
    #[error("no stream for its memory")]
    NoStream,
    /// The guest writes faster than the connection carries.
    #[error("its disks are written to faster than they can go")]
    DisksTooFast,
    /// QEMU has sent all before its disks were complete on the other host.
    #[error("QEMU did not wait for its disks")]
    DisksNotAwaited,
    /// The other host did not answer while the machine stood still.
    #[error("the other host does not answer within {seconds} s")]
    NoAnswer {
        /// The time limit in seconds.
        seconds: u64,
    },
    /// The machine has ended.
    #[error("it has ended")]
    Ended,
    /// The command that migrated the zone gave it up.
    #[error("it was told so")]
    GivenUp,
    /// The command that migrated the zone has ended, or sent a message that is none.
    #[error("the command that migrated the zone has ended")]
    CommandEnded,
}

impl From<vm::Error> for LeaveError {
    fn from(error: vm::Error) -> Self {
        Self::Machine(error.into())
    }
}

/// Why a machine of another host does not run here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArriveError {
    /// The machine did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The index of zones cannot be read.
    #[error(transparent)]
    Index(#[from] store::Error),
    /// The connection ended too early.
    #[error("the source ended before the zone was complete; its parts are removed here")]
    SourceEnded,
    /// The receiving command sent a message that is none.
    #[error("unexpected message of zoneadm receive")]
    Unexpected(#[source] serde_json::Error),
    /// The receiving command cannot be heard.
    #[error("cannot read from zoneadm receive")]
    Read(#[source] io::Error),
}

impl From<vm::Error> for ArriveError {
    fn from(error: vm::Error) -> Self {
        Self::Machine(error.into())
    }
}
