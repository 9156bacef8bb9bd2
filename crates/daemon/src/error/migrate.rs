//! The errors of migrating a running guest to another host.

use std::io;

use super::{AwayError, ChangedError, MachineError};

/// The reason why a guest was not migrated to another host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// The guest may run on another host, or the zone's configuration cannot be read.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// The zone is in another state than running, or is already being migrated.
    #[error("not running")]
    NotRunning,
    /// The machine was changed while its guest ran.
    #[error(transparent)]
    Changed(#[from] ChangedError),
    /// The memory of the guest is still being restored after a resume.
    #[error("its memory is still being restored")]
    StillRestored,
    /// The guest has more disks than one message can carry connections.
    #[error("has too many disks")]
    TooManyDisks,
    /// The connection for a disk or for the memory could not be made.
    #[error("make a socket")]
    Socket(#[source] io::Error),
    /// QEMU did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The connection for the memory has already been used.
    #[error("no stream for its memory")]
    NoStream,
    /// The guest writes to its disks faster than the connection can send.
    #[error("its disks are written to faster than they can go")]
    DisksTooFast,
    /// QEMU has sent all memory before the disks were complete on the other host.
    #[error("QEMU did not wait for its disks")]
    DisksNotAwaited,
    /// The other host did not answer while the guest was paused.
    #[error("the other host does not answer within {seconds} s")]
    NoAnswer {
        /// The time limit in seconds.
        seconds: u64,
    },
    /// The guest has ended.
    #[error("it has ended")]
    Ended,
    /// The command that migrated the zone cancelled the migration.
    #[error("it was told so")]
    GivenUp,
    /// The command that migrated the zone has ended, or sent an invalid message.
    #[error("the command that migrated the zone has ended")]
    CommandEnded,
}

impl From<vm::Error> for LeaveError {
    fn from(error: vm::Error) -> Self {
        Self::Machine(error.into())
    }
}

/// The reason why a guest that migrates from another host does not run here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArriveError {
    /// QEMU did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The index of zones cannot be read.
    #[error(transparent)]
    Index(#[from] store::Error),
    /// The connection ended before the guest was complete on this host.
    #[error("the source ended before the zone was complete; its parts are removed here")]
    SourceEnded,
    /// The receiving command sent an invalid message.
    #[error("unexpected message of zoneadm receive")]
    Unexpected(#[source] serde_json::Error),
    /// A message of the receiving command cannot be read.
    #[error("cannot read from zoneadm receive")]
    Read(#[source] io::Error),
}

impl From<vm::Error> for ArriveError {
    fn from(error: vm::Error) -> Self {
        Self::Machine(error.into())
    }
}
