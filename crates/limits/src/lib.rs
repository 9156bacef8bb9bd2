//! Control groups of zones, on cgroup v2 and on hosts that mix v1 and v2.
//!
//! The v2 tree is used for every function that works on all hosts: killing, freezing, accounting
//! and device rules work there even when every controller is still with v1.
//!
//! ```text
//! <base>/                    "/zones" by default
//!   .zoneadmd/               the zoneadmd of every active zone
//!   <zone>/                  limits, device rules; what halt kills
//!     zone/                  root of the zone's own view, its init may divide it
//!     login/                 processes that zlogin brought in
//! ```
//!
//! Per v1 hierarchy that can limit something (memory, pids, cpu) there is one
//! `<base>/<zone>`, and one in cpuset and blkio for a zone that needs it.
//!
//! # Controls
//!
//! [`Controls`] are set by [`ZoneCgroups::set`] before anything runs in the zone and by
//! [`process::change`] once it has a first process; [`change_zone`] changes them while it runs.
//! Each is read back: [`Applied`] has the effective value. A controller is used where the host has
//! it, v2 or v1; without either a control is refused and not forgotten.
//!
//! CPU shares are relative among the zones: a zone with 3 gets three times the time of a zone with
//! 1 (or none set) when both want all; `shares` computes the weight of one share. To the host the
//! zones are one group, `<base>`, with the weight of its siblings: beside a busy `system.slice` all
//! zones together have half, unless the global zone has shares: see [`set_global_shares`]. The
//! zoneadmd processes are in `.zoneadmd`, beside the zones, with the default weight and without a
//! cap: a busy zone does not slow them down.

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

/// A control group operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder of a control group file system.
    #[error("cannot {action} {}", path.display())]
    File {
        /// The action that failed.
        action: &'static str,
        /// The path of the failed operation.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The host has no cgroup v2.
    #[error(
        "no cgroup2 file system is mounted: mount one at /sys/fs/cgroup or /sys/fs/cgroup/unified"
    )]
    NoUnified,
    /// The host has no place for a control.
    #[error(
        "cannot set {control}: {why}; enable the {controller} controller for this host's control groups, or clear {control}"
    )]
    Unsupported {
        /// The control.
        control: Control,
        /// The controller that it needs.
        controller: &'static str,
        /// Why it is not there.
        why: String,
    },
    /// The kernel did not take a value.
    #[error("cannot set {control}: {} does not take {text}", path.display())]
    Refused {
        /// The control.
        control: Control,
        /// The text that was written.
        text: String,
        /// The path of the file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// More is in use than the new limit admits.
    #[error(
        "cannot lower {control} to {}: more is in use, and the zone cannot give it back; end some of its processes first",
        control.show(*wanted)
    )]
    InUse {
        /// The control.
        control: Control,
        /// The limit that was wanted.
        wanted: u64,
    },
    /// Not enough CPUs that nobody has for himself.
    #[error("{control}: {wanted} CPU{} wanted, and {free} {} free: take fewer, or give up those of other zones", if *wanted == 1 { " is" } else { "s are" }, if *free == 1 { "is" } else { "are" })]
    NoCpus {
        /// For what.
        control: Control,
        /// The minimum number of CPUs.
        wanted: u32,
        /// The number of free CPUs.
        free: usize,
    },
    /// CPUs that are named are not there or not free.
    #[error(
        "{control}: CPUs {wanted} are wanted, and {free} are free, of which one must stay so: name others, or give up those of other zones"
    )]
    CpusTaken {
        /// For what.
        control: Control,
        /// Those that were named.
        wanted: String,
        /// Those that are free.
        free: String,
    },
    /// Controls that only the first process of a zone has: locked memory, IPC.
    #[error("cannot set {control}: {why}")]
    Process {
        /// The control.
        control: Control,
        /// Why not.
        why: String,
    },
    /// A change failed, and so did its undo.
    #[error("some controls are changed already and stay so ({left})")]
    NotUndone {
        /// Why the change failed.
        source: Box<Self>,
        /// The step that could not be undone.
        left: String,
    },
    /// Processes are left in a control group that must go.
    #[error("processes are left in {} after {seconds} s; they may wait for a device or a parent that does not collect them", path.display())]
    StillPopulated {
        /// The group.
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

/// An error with its causes, in one line.
pub(crate) fn flatten(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
