//! The errors of orders to a QEMU, and of access to the guest's memory.

use std::io;

/// The message about a guest that is paused because it may run on another host.
pub(crate) const AWAY: &str =
    "stands still, as it may already run on another host: give its zoneadm migrate command again";

/// The reason why the guest of a zone did not carry out an order, or its memory could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The zone is not a kernel zone.
    #[error("the zone is no machine")]
    NotAMachine,
    /// zoneadmd has no connection to QEMU.
    #[error("QEMU does not answer")]
    Unresponsive,
    /// QEMU refused the order or did not answer it.
    #[error(transparent)]
    Qemu(#[from] vm::Error),
    /// zoneadmd has no descriptor of the guest's memory.
    #[error("its memory cannot be had")]
    NoMemory,
    /// The guest's memory is larger than the address space of this host.
    #[error("this host cannot map {size} bytes of memory")]
    TooLarge {
        /// The size of the memory in bytes.
        size: u64,
    },
    /// zoneadmd could not map the guest's memory.
    #[error("could not map its memory")]
    Map(#[source] io::Error),
}

/// The reason why a part of a running machine was not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// The guest is paused, because it may run on another host.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// The zone is in another state than running, or is being migrated.
    #[error("not running")]
    NotRunning,
    /// The zone is not a kernel zone.
    #[error("the zone is no machine")]
    NotAMachine,
    /// zoneadmd has no connection to QEMU.
    #[error("QEMU does not answer")]
    Unresponsive,
    /// A file of the disk cannot be opened.
    #[error("{0}")]
    Open(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The tap device of a network card cannot be made.
    #[error("{0}")]
    Tap(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// QEMU refused the order or did not answer it.
    #[error(transparent)]
    Qemu(#[from] vm::Error),
}

/// The reason why the state of a machine fits no other QEMU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangedError {
    /// These parts came or went while the guest ran.
    #[error("its machine has changed since it booted ({0}): reboot the zone first")]
    Parts(String),
    /// The arguments of QEMU cannot be read.
    #[error(transparent)]
    Arguments(#[from] kernelzone::image::ImageError),
    /// QEMU did not carry out an order.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// The reason why zoneadmd does not let a guest run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwayError {
    /// The guest may run on another host.
    #[error("{AWAY}")]
    Away,
    /// The configuration of the running zone cannot be read.
    #[error(transparent)]
    Configuration(#[from] store::Error),
}

/// The reason why the power button of a guest was not pressed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ButtonError {
    /// The guest is paused, because it may run on another host.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// zoneadmd has no connection to QEMU.
    #[error("QEMU does not answer; halt the zone")]
    Unresponsive,
    /// QEMU refused the order or did not answer it.
    #[error(transparent)]
    Qemu(#[from] vm::Error),
}

/// The reason why the clock of a guest was not set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The connection to the agent's socket failed.
    #[error("could not connect to the agent of the guest")]
    Connect(#[source] io::Error),
    /// The agent refused the order or did not answer it.
    #[error(transparent)]
    Agent(#[from] vm::Error),
    /// The program `date` in the guest failed.
    #[error("date -s ended with {status}")]
    Status {
        /// The exit status of `date`.
        status: u8,
    },
    /// The program `date` in the guest did not end in time.
    #[error("date -s does not end")]
    Late,
}
