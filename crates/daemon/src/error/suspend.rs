//! The errors of suspending and resuming a guest.

use std::io;
use std::path::PathBuf;

use host::flatten;
use kernelzone::image::ImageError;

use super::{AwayError, ChangedError, InjectedFault, MachineError, PagerError, PagingError};

/// The reason why a file in memory could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// The kernel did not create a file in memory.
    #[error("make a file in memory")]
    Make(#[source] io::Error),
    /// The file in memory could not be written.
    #[error("write a file in memory")]
    Write(#[source] io::Error),
}

/// The reason why a guest was not suspended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuspendError {
    /// The zone is in another state than running.
    #[error("not running")]
    NotRunning,
    /// The guest may run on another host, or the zone's configuration cannot be read.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// The machine was changed while its guest ran.
    #[error(transparent)]
    Changed(#[from] ChangedError),
    /// The memory of the guest is still being restored after a resume.
    #[error("its memory is still being restored; the zone runs on")]
    StillRestored,
    /// The pager of the last resume ended too early.
    #[error("the zone was stopped")]
    Stopped(#[source] PagingError),
    /// A file already exists at the path of the image.
    #[error("{} is there already", path.display())]
    Occupied {
        /// The path of the image.
        path: PathBuf,
    },
    /// QEMU did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The record of the guest's files cannot be read.
    #[error(transparent)]
    Record(#[from] host::Error),
    /// The key, an image or a disk cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image could not be written.
    #[error(transparent)]
    Save(#[from] suspend::Error),
    /// A file in memory could not be made.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The descriptor of the guest's memory cannot be duplicated.
    #[error("could not duplicate the descriptor of its memory")]
    Descriptor(#[source] io::Error),
    /// The file with the state of the devices cannot be sealed, so QEMU could still write to it.
    #[error("QEMU keeps the state of its devices")]
    Unsealed(#[source] io::Error),
    /// The lengths of the files that QEMU wrote cannot be read.
    #[error("could not look at the files of QEMU")]
    Look(#[source] io::Error),
    /// The file of the guest's memory has an unexpected length.
    #[error("its memory has {found} bytes instead of {expected}")]
    MemoryLength {
        /// The length of the file in bytes.
        found: u64,
        /// The size of the guest's memory in bytes.
        expected: u64,
    },
    /// The state of the devices is longer than the maximum.
    #[error("the state of its devices has {found} bytes")]
    DevicesLength {
        /// The length of the state in bytes.
        found: u64,
    },
    /// The suspend failed without an image, and the guest runs on.
    #[error("{}; the zone runs on", flatten(.0.as_ref()))]
    RunsOn(Box<Self>),
    /// The suspend failed without an image, and the guest could not be resumed.
    #[error("{}; and the zone is stopped: {}; halt it", flatten(why.as_ref()), flatten(also.as_ref()))]
    StandsStill {
        /// The reason why no image was made.
        why: Box<Self>,
        /// The reason why the guest does not run.
        also: Box<Self>,
    },
}

/// The reason why the state of a zone was not stored during a resume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The file with the zone's state cannot be written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// A test requested this failure.
    #[error(transparent)]
    Fault(#[from] InjectedFault),
}

/// The reason why a guest was not resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// zoneadmd could not return from the zone's namespaces to those of the host.
    #[error("could not go back to the namespaces of the host")]
    Home(#[source] io::Error),
    /// QEMU did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// QEMU rejected the state of the devices, and printed the reason.
    #[error("{text}")]
    Complaint {
        /// The output of QEMU.
        text: String,
    },
    /// The record of the guest's files cannot be read.
    #[error(transparent)]
    Record(#[from] host::Error),
    /// The image does not match the guest, or the image's key or a disk cannot be used.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The image cannot be read.
    #[error(transparent)]
    Restore(#[from] suspend::Error),
    /// A file in memory could not be made.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The pager ended too early.
    #[error(transparent)]
    Pager(#[from] PagerError),
    /// The state of the zone was not stored.
    #[error(transparent)]
    State(#[from] StateError),
    /// The memory of the guest is restored, but QEMU did not let the guest run.
    #[error("{}; its image is used up, so that it boots cold the next time", flatten(.0))]
    NotRun(vm::Error),
}
