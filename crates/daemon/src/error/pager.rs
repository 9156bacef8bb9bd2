//! The errors of restoring the memory of a guest while the guest runs.

use std::io;

use super::MachineError;

/// The reason why the pager ended before all memory was restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagerError {
    /// The pager was killed and left no report.
    #[error("the process that restored it has died")]
    Died,
    /// QEMU ended before the pager did; no memory is missing.
    #[error("QEMU has ended")]
    MachineEnded,
    /// The pager reported an error.
    #[error("{text}")]
    Reported {
        /// The text of the pager's report.
        text: String,
    },
}

/// The reason why the memory of a guest cannot be restored while the guest runs, or was not
/// restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagingError {
    /// QEMU was started without a descriptor for page faults.
    #[error("no /dev/userfaultfd here")]
    NoDevice,
    /// The memory of the guest cannot be used.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The memory image cannot be used.
    #[error(transparent)]
    Image(#[from] suspend::Error),
    /// The memory for the list of restored chunks could not be allocated.
    #[error("could not make the list of restored pieces")]
    Ledger(#[source] io::Error),
    /// QEMU could not be stopped to make a descriptor for its page faults.
    #[error("stop QEMU for a moment")]
    Stop(#[source] io::Error),
    /// The kernel made no descriptor for the page faults of QEMU.
    #[error("make a userfaultfd")]
    Descriptor(#[source] io::Error),
    /// The kernel does not report page faults of shared memory.
    #[error("page faults of shared memory")]
    SharedMemory(#[source] io::Error),
    /// zoneadmd can make system calls in a stopped process on x86-64 only.
    #[error("not on this processor")]
    Processor,
    /// The list of QEMU's mappings cannot be read.
    #[error("could not read the mappings of QEMU")]
    ReadMappings(#[source] io::Error),
    /// QEMU has not mapped all memory of the guest.
    #[error("QEMU does not have its memory mapped as expected")]
    Mappings,
    /// The pager could not be started.
    #[error("could not start the process that restores memory")]
    Start(#[source] io::Error),
    /// The pager ended directly after its start.
    #[error(transparent)]
    Ended(PagerError),
    /// Memory of the guest is missing, and no process restores it.
    #[error("not all of its memory is there")]
    Missing(#[source] PagerError),
    /// The pager ended too early, and zoneadmd killed the guest.
    #[error("not all of its memory could be restored")]
    Lost(#[source] PagerError),
}
