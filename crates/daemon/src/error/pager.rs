//! The errors of restoring the memory of a machine while it runs.

use std::io;

use super::MachineError;

/// Why the pager ended without all memory in its place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagerError {
    /// The pager was killed and left no report.
    #[error("the process that restored it has died")]
    Died,
    /// The machine had ended before; no memory is missing.
    #[error("QEMU has ended")]
    MachineEnded,
    /// The pager reported an error.
    #[error("{text}")]
    Reported {
        /// The text of its report.
        text: String,
    },
}

/// Why the memory of a machine cannot be restored while it runs, or was not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagingError {
    /// QEMU was started without a descriptor for page faults.
    #[error("no /dev/userfaultfd here")]
    NoDevice,
    /// The memory of the machine cannot be used.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The image cannot be used.
    #[error(transparent)]
    Image(#[from] suspend::Error),
    /// No memory for the list of the restored pieces.
    #[error("could not make the list of restored pieces")]
    Ledger(#[source] io::Error),
    /// QEMU could not be made to hand out a descriptor for its page faults.
    #[error("stop QEMU for a moment")]
    Stop(#[source] io::Error),
    /// The kernel gave no descriptor for page faults.
    #[error("make a userfaultfd")]
    Descriptor(#[source] io::Error),
    /// The kernel does not report page faults of shared memory.
    #[error("page faults of shared memory")]
    SharedMemory(#[source] io::Error),
    /// The system calls of a stopped process are known for x86-64 only.
    #[error("not on this processor")]
    Processor,
    /// The mappings of QEMU cannot be read.
    #[error("could not read the mappings of QEMU")]
    ReadMappings(#[source] io::Error),
    /// The memory is not mapped as a whole.
    #[error("QEMU does not have its memory mapped as expected")]
    Mappings,
    /// The pager could not be started.
    #[error("could not start the process that restores memory")]
    Start(#[source] io::Error),
    /// The pager ended at once.
    #[error(transparent)]
    Ended(PagerError),
    /// Memory is missing, and no process brings it in.
    #[error("not all of its memory is there")]
    Missing(#[source] PagerError),
    /// The pager ended too early; the machine was ended.
    #[error("not all of its memory could be restored")]
    Lost(#[source] PagerError),
}
