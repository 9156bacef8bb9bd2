//! Manages the control groups of zones, on cgroup v2 and on hosts with both v1 and v2.
//!
//! The v2 tree is used for every function that works on all hosts: killing, freezing, accounting
//! and device rules work there even if every controller is still in v1.
//!
//! ```text
//! <base>/                    "/zones" by default
//!   .zoneadmd/               the zoneadmd of every active zone
//!   <zone>/                  limits, device rules; what halt kills
//!     zone/                  root of the zone's own view, its init may divide it
//!     login/                 processes that zlogin brought in
//! ```
//!
//! In each v1 hierarchy that can limit resources (memory, pids, cpu) each zone has a group
//! `<base>/<zone>`. In cpuset and blkio only a zone that needs it has one.
//!
//! # Controls
//!
//! [`ZoneCgroups::set`] sets the [`Controls`] before any process runs in the zone.
//! [`process::change`] sets them when the zone has a first process, and [`change_zone`] changes
//! them while the zone runs. Each value is read back: [`Applied`] has the effective value. A
//! controller is used in v2 or in v1, wherever the host has it. If the host has it in neither,
//! setting a control fails.
//!
//! CPU shares are relative among the zones. If a zone with 3 shares and a zone with 1 share (the
//! default) both want all CPU time, the first gets three times as much. `shares` computes the
//! weight of one share. For the host all zones are one group, `<base>`, with the weight of its
//! siblings: beside a busy `system.slice`, all zones together have half of the CPU time, unless the
//! global zone has shares, see [`set_global_shares`]. The zoneadmd processes are in `.zoneadmd`,
//! beside the zones, with the default weight and without a limit, so that a busy zone does not slow
//! them down.

mod arrange;
mod balance;
mod change;
mod changed;
mod controllers;
mod cpus;
pub mod devices;
mod groups;
pub mod hierarchy;
mod ipc;
mod knob;
mod place;
mod pools;
mod ports;
pub mod process;
mod shares;
pub mod usage;
mod view;
pub mod watch;
mod writes;
pub mod zone;

use std::io;
use std::path::{Path, PathBuf};

pub use arrange::{Claim, TEMPORARY_POOL, claimed};
pub use balance::{global_shares, set_global_shares};
pub use changed::{Applied, Changed, Warning};
pub use cpus::CpuSet;
pub use groups::{ZoneCgroups, is_gone};
pub use hierarchy::Base;
pub use model::controls::{Control, Controls, Dedicated, IpcLimits, Pool};
pub use process::{First, change_zone};
pub use usage::Usage;
pub use view::{CpuView, MemoryParts, MemoryView};
pub use watch::{Hit, Watch};

/// The reason why an operation on control groups failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder of a control group file system could not be used.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The action that failed.
        action: &'static str,
        /// The path of the failed operation.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The host has no cgroup v2.
    #[error(
        "no cgroup2 file system is mounted: mount one at /sys/fs/cgroup or /sys/fs/cgroup/unified"
    )]
    NoUnified,
    /// The host has no controller for a control.
    #[error(
        "cannot set {control}: {why}; enable the {controller} controller for this host's control groups, or clear {control}"
    )]
    Unsupported {
        /// The name of the control.
        control: Control,
        /// The controller that the control needs.
        controller: &'static str,
        /// The reason why the host does not have the controller.
        why: String,
    },
    /// The kernel refused a value.
    #[error("cannot set {control}: {} does not take {text}", path.display())]
    Refused {
        /// The name of the control.
        control: Control,
        /// The text that was written.
        text: String,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The zone uses more than the new limit.
    #[error(
        "cannot lower {control} to {}: more is in use, and the zone cannot give it back; end some of its processes first",
        control.show(*wanted)
    )]
    InUse {
        /// The name of the control.
        control: Control,
        /// The requested limit.
        wanted: u64,
    },
    /// Too few CPUs are free: zones have claimed the others.
    #[error("{control}: {wanted} CPU{} wanted, and {free} {} free: take fewer, or give up those of other zones", if *wanted == 1 { " is" } else { "s are" }, if *free == 1 { "is" } else { "are" })]
    NoCpus {
        /// The control that asks for CPUs.
        control: Control,
        /// The minimum number of CPUs.
        wanted: u32,
        /// The number of free CPUs.
        free: usize,
    },
    /// Some of the requested CPUs do not exist or are not free.
    #[error(
        "{control}: CPUs {wanted} are wanted, and {free} are free, of which one must stay so: name others, or give up those of other zones"
    )]
    CpusTaken {
        /// The control that asks for CPUs.
        control: Control,
        /// The requested CPUs.
        wanted: String,
        /// The free CPUs.
        free: String,
    },
    /// A control of the zone's first process (locked memory, IPC) could not be set.
    #[error("cannot set {control}: {why}")]
    Process {
        /// The name of the control.
        control: Control,
        /// The reason of the failure.
        why: String,
    },
    /// A change failed, and so did the undo of its first steps.
    #[error("some controls are changed already and stay so ({left})")]
    NotUndone {
        /// The reason why the change failed.
        source: Box<Self>,
        /// The step that could not be undone.
        left: String,
    },
    /// A control group that must be removed still has processes.
    #[error("processes are left in {} after {seconds} s; they may wait for a device or a parent that does not collect them", path.display())]
    StillPopulated {
        /// The path of the group.
        path: PathBuf,
        /// The duration of the wait, in seconds.
        seconds: u64,
    },
}

impl Error {
    fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }
}

/// Returns an error with its causes, in one line.
pub(crate) fn flatten(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
