//! The errors of zoneadmd: one type for each of its parts, and [`Error`] for a zone as a whole.

mod adopt;
mod beadm;
mod core;
mod job;
mod machine;
mod migrate;
mod pager;
mod snapshot;
mod suspend;

use std::io;
use std::path::PathBuf;

use host::flatten;
use subject::network::NetworkError;

pub use self::core::CoreError;
pub use adopt::AdoptError;
pub use beadm::BeadmError;
pub use job::{JobError, PlanError};
pub(crate) use machine::AWAY;
pub use machine::{AwayError, ButtonError, ChangedError, ClockError, MachineError, PartError};
pub use migrate::{ArriveError, LeaveError};
pub use pager::{PagerError, PagingError};
pub use snapshot::{FreezeError, SnapshotError};
pub use suspend::{ResumeError, ScratchError, StateError, SuspendError};

/// A failure that a test requested at a certain step of an operation.
#[derive(Debug, thiserror::Error)]
#[error("a fault was asked for")]
pub struct InjectedFault;

/// The reason why a zone was not booted, adopted, served, changed or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The boot plan cannot be used.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The program of the zone's first process is missing.
    #[error("could not find the program zinit")]
    NoZinit,
    /// A lock was not taken, or the zone's state was not read or written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The zone's platform was not built or taken down.
    #[error(transparent)]
    Platform(#[from] platform::Error),
    /// An operation on the zone's network failed.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// An operation on the zone's resource controls failed.
    #[error(transparent)]
    Limits(#[from] limits::Error),
    /// zoneadmd could not return from the zone's namespaces to those of the host.
    #[error("could not go back to the namespaces of the host")]
    Home(#[source] io::Error),
    /// The socket on which zoneadmd receives orders cannot be made.
    #[error("could not listen on {}: {source}", path.display())]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The history file of the console cannot be opened or written.
    #[error("could not write {}: {source}", path.display())]
    Console {
        /// The path of the history file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The first process ended while the zone was built.
    #[error("the zone's first process ended")]
    FirstProcessEnded,
    /// /proc is no process file system, or shows the processes of another namespace.
    #[error("/proc does not show zoneadmd")]
    NotInProc,
    /// A test requested this failure.
    #[error(transparent)]
    Fault(#[from] InjectedFault),
    /// The guest was not resumed from its image.
    #[error("could not resume")]
    Resume(#[from] ResumeError),
    /// A guest that migrates from another host does not run on this host.
    #[error("could not take its machine")]
    Arrive(#[source] ArriveError),
    /// A step of [`adopt`](crate::adopt()) failed.
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// The pager of an adopted zone has died, and memory is missing.
    #[error(transparent)]
    Paging(#[from] PagingError),
    /// The guest was not suspended.
    #[error(transparent)]
    Suspend(#[from] SuspendError),
    /// The wait for events of the zone failed.
    #[error("could not wait")]
    Wait(#[source] io::Error),
    /// The zone is in another state than ready.
    #[error("zone is already booted")]
    AlreadyBooted,
    /// Refuses a trusted login: the zone is writable, or another zoneadmd booted it.
    #[error(
        "this zoneadmd has no writable root for trusted logins, because it did not boot the zone: reboot the zone"
    )]
    NoTrustedPath,
    /// A command waited for the zone's shutdown, and another command halts the zone.
    #[error("another command halts the zone")]
    HaltedByOther,
    /// A command cancels the wait for a shutdown, but no command waits for one.
    #[error("nothing is waited for")]
    NothingAwaited,
    /// The signal to shut down could not be sent to init.
    #[error("could not signal init")]
    Signal(#[source] io::Error),
    /// The first error stopped the operation; the other errors occurred during the cleanup after
    /// it.
    #[error("{}", .0.iter().map(|one| flatten(one)).collect::<Vec<_>>().join("; "))]
    Several(Vec<Self>),
}

impl Error {
    /// Returns this error together with the errors of the cleanup after it.
    pub(crate) fn with(self, more: impl IntoIterator<Item = Self>) -> Self {
        let mut all = vec![self];
        all.extend(more);
        match all.len() {
            1 => all.remove(0),
            _ => Self::Several(all),
        }
    }
}
