//! The errors of suspending a machine, and of resuming it.

use std::io;
use std::path::PathBuf;

use host::flatten;
use kernelzone::image::ImageError;

use super::{AwayError, InjectedFault, MachineError, PagerError, PagingError};

/// Why a file in memory could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// The kernel gave no file.
    #[error("make a file in memory")]
    Make(#[source] io::Error),
    /// The file could not be written.
    #[error("write a file in memory")]
    Write(#[source] io::Error),
}

/// Why a machine was not suspended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuspendError {
    /// The zone is in another state than running.
    #[error("not running")]
    NotRunning,
    /// The machine stands still, or may.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// The machine was resumed a short time ago.
    #[error("its memory is still being restored; the zone runs on")]
    StillRestored,
    /// The pager of the last resume ended too early.
    #[error("the zone was stopped")]
    Stopped(#[source] PagingError),
    /// Another file has the path of the image.
    #[error("{} is there already", path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
    },
    /// The machine did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The record of the machine's files cannot be read.
    #[error(transparent)]
    Record(#[from] host::Error),
    /// The key, an image or a disk cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image was not written.
    #[error(transparent)]
    Save(#[from] suspend::Error),
    /// No file in memory.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The descriptor of the memory cannot be used.
    #[error("could not duplicate the descriptor of its memory")]
    Descriptor(#[source] io::Error),
    /// QEMU can still write to the state of its devices.
    #[error("QEMU keeps the state of its devices")]
    Unsealed(#[source] io::Error),
    /// The files that QEMU wrote cannot be looked at.
    #[error("could not look at the files of QEMU")]
    Look(#[source] io::Error),
    /// The file of the memory has another length.
    #[error("its memory has {found} bytes instead of {expected}")]
    MemoryLength {
        /// The length in bytes.
        found: u64,
        /// The size of the machine's memory in bytes.
        expected: u64,
    },
    /// The state of the devices is too long.
    #[error("the state of its devices has {found} bytes")]
    DevicesLength {
        /// The length in bytes.
        found: u64,
    },
    /// There is no image, and the machine runs as before.
    #[error("{}; the zone runs on", flatten(.0.as_ref()))]
    RunsOn(Box<Self>),
    /// There is no image, and the machine does not run either.
    #[error("{}; and the zone is stopped: {}; halt it", flatten(why.as_ref()), flatten(also.as_ref()))]
    StandsStill {
        /// Why there is no image.
        why: Box<Self>,
        /// Why the machine does not run.
        also: Box<Self>,
    },
}

/// Why the state of a zone was not stored during a resume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file cannot be written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A test asked for it.
    #[error(transparent)]
    Fault(#[from] InjectedFault),
}

/// Why a machine was not resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// zoneadmd is still in the namespaces of the zone.
    #[error("could not go back to the namespaces of the host")]
    Home(#[source] io::Error),
    /// The machine did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// QEMU did not take the state of its devices, and printed the reason.
    #[error("{text}")]
    Complaint {
        /// The output of QEMU.
        text: String,
    },
    /// The record of the machine's files cannot be read.
    #[error(transparent)]
    Record(#[from] host::Error),
    /// The image does not fit, or its key or a disk cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image cannot be read.
    #[error(transparent)]
    Restore(#[from] suspend::Error),
    /// No file in memory.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The pager ended too early.
    #[error(transparent)]
    Pager(#[from] PagerError),
    /// The state of the zone was not stored.
    #[error(transparent)]
    State(#[from] StateError),
    /// The machine has its memory and does not run.
    #[error("{}; its image is used up, so that it boots cold the next time", flatten(.0))]
    NotRun(vm::Error),
}
