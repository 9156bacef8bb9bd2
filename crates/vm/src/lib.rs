//! Virtual machines: runs the guest of a kernel zone in QEMU.
//!
//! This crate knows QEMU and no zones. [`Machine`] describes a guest as plain data, and a pure
//! function makes QEMU's command line from it. The process that starts QEMU opens all host
//! resources of the guest (memory, disks, network, sockets) and passes the descriptors, so that
//! QEMU itself needs no right to open files. [`Descriptors`] lists the use of each descriptor
//! number.
//!
//! | module | holds |
//! |---|---|
//! | [`machine`] | the description of a machine, and its command line |
//! | [`qmp`] | the monitor: commands, answers, events |
//! | [`agent`] | the agent in the guest: commands there |
//! | [`firmware`] | the UEFI firmware of this host |
//! | [`nvram`] | the variables of such a firmware, and the keys of secure boot among them |
//! | [`image`] | whether a file is a disk image that may be used |
//! | [`overlay`] | an empty qcow2 on a base: a clone without a copy |
//! | [`dump`] | its memory, into a file that debuggers read |
//! | [`live`] | migration to another QEMU while the machine runs |
//! | [`merge`] | fewer files below the disks of a running machine |
//! | [`migrate`] | the state of its devices, out and in |
//! | [`parts`] | changes of the parts of a running machine |
//! | [`cards`] | network cards that come and go while the machine runs |
//! | [`snapshot`] | the state of the disks of a running machine at one moment |
//! | [`full`] | a machine that is paused because a file system is full |
//! | [`more`] | more processors and memory for a running machine |
//! | [`model`] | the versioned machine that a zone keeps for its life |
//! | [`program`] | the QEMU of this host |
//!
//! Guests are hostile, and so is a QEMU that a guest has taken over: data from a guest or from QEMU
//! is limited in length, in depth and in time.

pub mod agent;
pub mod base64;
pub mod cards;
pub mod dump;
pub mod fat;
pub mod firmware;
pub mod full;
pub mod image;
pub mod live;
pub mod machine;
pub mod merge;
pub mod migrate;
pub mod model;
pub mod more;
pub mod nvram;
pub mod overlay;
pub mod parts;
pub mod program;
pub mod qmp;
pub mod snapshot;
mod wire;

pub use machine::{Accelerator, Boot, Descriptors, Disk, Format, Kind, Machine, Nic, Uefi};
pub use model::Model;

/// The reason why a guest cannot be started, or QEMU or the agent does not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {0}")]
    Io(String, #[source] std::io::Error),
    /// The program did not answer in time.
    #[error("{what}: no answer within {seconds} s")]
    Late {
        /// The program that does not answer.
        what: &'static str,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// The program closed the connection.
    #[error("{0} has closed the connection")]
    Closed(&'static str),
    /// The answer of the program is too long or not understood.
    #[error("{what} sent an unexpected answer: {why}")]
    Odd {
        /// The program that sent the answer.
        what: &'static str,
        /// The problem with the answer.
        why: String,
    },
    /// The program refused a command.
    #[error("{command}: {why}")]
    Refused {
        /// The name of the command.
        command: String,
        /// The program's error message.
        why: String,
    },
    /// The guest did not release a disk.
    #[error(
        "the guest did not release disk {id} within {seconds} s: unmount its file systems in the guest, then try again"
    )]
    Kept {
        /// The number of the disk.
        id: u32,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// The guest did not release a part other than a disk.
    #[error("the guest did not release {what} within {seconds} s: try again, or reboot the zone")]
    KeptPart {
        /// The part.
        what: String,
        /// The time limit in seconds.
        seconds: u64,
    },
    /// A disk image cannot be used.
    #[error("{0}")]
    Image(String),
    /// This host has no usable QEMU.
    #[error("{0}")]
    Program(String),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |error| Self::Io(what, error)
    }
}
