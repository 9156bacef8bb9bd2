//! The errors of the orders to a QEMU, and of looking at its memory.

use std::io;

/// The message about a machine that stands still and may run elsewhere.
pub(crate) const AWAY: &str =
    "stands still, as it may already run on another host: give its zoneadm migrate command again";

/// Why the machine of a zone did not carry out an order, or its memory could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The zone is of another brand than kernel zones.
    #[error("the zone is no machine")]
    NotAMachine,
    /// zoneadmd has no connection to QEMU.
    #[error("QEMU does not answer")]
    Unresponsive,
    /// QEMU refused the order or did not answer it.
    #[error(transparent)]
    Qemu(#[from] vm::Error),
    /// zoneadmd has no descriptor of the memory.
    #[error("its memory cannot be had")]
    NoMemory,
    /// The memory is larger than the addresses of this host.
    #[error("this host cannot map {size} bytes of memory")]
    TooLarge {
        /// The size of the memory in bytes.
        size: u64,
    },
    /// The memory could not be mapped.
    #[error("could not map its memory")]
    Map(#[source] io::Error),
}

/// Why zoneadmd does not let a machine run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwayError {
    /// The machine may run on another host.
    #[error("{AWAY}")]
    Away,
    /// The configuration of the running zone cannot be read.
    #[error(transparent)]
    Configuration(#[from] store::Error),
}

/// Why the power button of a machine was not pressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ButtonError {
    /// The machine stands still.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// zoneadmd has no connection to QEMU.
    #[error("QEMU does not answer; halt the zone")]
    Unresponsive,
    /// QEMU refused the order or did not answer it.
    #[error(transparent)]
    Qemu(#[from] vm::Error),
}

/// Why the clock of a guest was not set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The socket of the agent cannot be connected to.
    #[error("could not connect to the agent of the guest")]
    Connect(#[source] io::Error),
    /// The agent refused the order or did not answer it.
    #[error(transparent)]
    Agent(#[from] vm::Error),
    /// `date` of the guest failed.
    #[error("date -s ended with {status}")]
    Status {
        /// The exit status.
        status: u8,
    },
    /// `date` of the guest did not end in time.
    #[error("date -s does not end")]
    Late,
}
