//! The errors of zoneadmd: one type for each of its parts, and [`Error`] for a zone as a whole.

mod adopt;
mod beadm;
mod core;
mod job;
mod machine;
mod migrate;
mod pager;
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
pub use machine::{AwayError, ButtonError, ClockError, MachineError};
pub use migrate::{ArriveError, LeaveError};
pub use pager::{PagerError, PagingError};
pub use suspend::{ResumeError, ScratchError, StateError, SuspendError};

/// A fault that a test asked for, at a moment of a verb.
#[derive(Debug, thiserror::Error)]
#[error("a fault was asked for")]
pub struct InjectedFault;

/// Why a zone was not booted, adopted, served, changed or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The boot plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The program of the zone's first process is missing.
    #[error("could not find the program zinit")]
    NoZinit,
    /// A lock, or the state of the zone.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The platform of the zone.
    #[error(transparent)]
    Platform(#[from] platform::Error),
    /// The network of the zone.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The resource controls of the zone.
    #[error(transparent)]
    Limits(#[from] limits::Error),
    /// zoneadmd is still in the namespaces of the zone.
    #[error("could not go back to the namespaces of the host")]
    Home(#[source] io::Error),
    /// The socket for orders cannot be made.
    #[error("could not listen on {}: {source}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The history of the console cannot be written.
    #[error("could not write {}: {source}", path.display())]
    Console {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The first process ended while the zone was built.
    #[error("the zone's first process ended")]
    FirstProcessEnded,
    /// The process file system is none, or another namespace's.
    #[error("/proc does not show zoneadmd")]
    NotInProc,
    /// A test asked for it.
    #[error(transparent)]
    Fault(#[from] InjectedFault),
    /// The machine was not resumed from its image.
    #[error("could not resume")]
    Resume(#[from] ResumeError),
    /// The machine of another host does not run here.
    #[error("could not take its machine")]
    Arrive(#[source] ArriveError),
    /// A part of [`adopt`](crate::adopt).
    #[error(transparent)]
    Adopt(#[from] AdoptError),
    /// The pager of an adopted zone.
    #[error(transparent)]
    Paging(#[from] PagingError),
    /// The machine was not suspended.
    #[error(transparent)]
    Suspend(#[from] SuspendError),
    /// The events of the zone cannot be waited for.
    #[error("could not wait")]
    Wait(#[source] io::Error),
    /// The zone is in another state than ready.
    #[error("zone is already booted")]
    AlreadyBooted,
    /// A command that waited for a shutdown is told to wait no more.
    #[error("another command halts the zone")]
    HaltedByOther,
    /// No command waits for a shutdown.
    #[error("nothing is waited for")]
    NothingAwaited,
    /// init was not told to shut down.
    #[error("could not signal init")]
    Signal(#[source] io::Error),
    /// The first of these failed, and the others when zoneadmd cleaned up after it.
    #[error("{}", .0.iter().map(|one| flatten(one)).collect::<Vec<_>>().join("; "))]
    Several(Vec<Self>),
}

impl Error {
    /// Returns an error together with those of the work after it.
    pub(crate) fn with(self, more: impl IntoIterator<Item = Self>) -> Self {
        let mut all = vec![self];
        all.extend(more);
        match all.len() {
            1 => all.remove(0),
            _ => Self::Several(all),
        }
    }
}
