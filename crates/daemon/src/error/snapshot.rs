//! The errors of a snapshot of the disks of a running kernel zone.

use std::io;

use host::flatten;

use super::{AwayError, InjectedFault, MachineError};

/// The reason why no snapshot of the disks of a running kernel zone was taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The zone is in another state than running, or is being migrated.
    #[error("not running")]
    NotRunning,
    /// The guest is paused, because it may run on another host.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// The name of the snapshot is invalid.
    #[error(transparent)]
    Name(kernelzone::kept::BadName),
    /// The configuration of the running zone cannot be read.
    #[error(transparent)]
    Configuration(#[from] store::Error),
    /// The files of the snapshot cannot be made.
    #[error(transparent)]
    Files(#[from] host::Error),
    /// A new file of a disk cannot be opened.
    #[error("{0}")]
    Open(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// QEMU did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A test requested this failure.
    #[error(transparent)]
    Fault(#[from] InjectedFault),
}

/// The reason why the file systems of a guest were not frozen during a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FreezeError {
    /// The guest has not opened the channel to the agent.
    #[error("no agent runs in the guest")]
    NoAgent,
    /// The mark that the guest may be frozen cannot be stored.
    #[error(transparent)]
    Mark(#[from] store::Error),
    /// The connection to the agent's socket failed.
    #[error("could not connect to the agent of the guest")]
    Connect(#[source] io::Error),
    /// The agent refused the order or did not answer it.
    #[error(transparent)]
    Agent(#[from] vm::Error),
    /// The agent found no file system that can be frozen.
    #[error("the agent found no file system to freeze")]
    Nothing,
    /// The agent thawed the file systems before zoneadmd asked for it.
    #[error("the guest thawed them too early")]
    Thawed,
    /// The agent did not confirm the thaw, so it may have thawed the file systems at any time.
    #[error("the agent did not confirm the thaw: {}", flatten(.0))]
    Late(Box<Self>),
}
