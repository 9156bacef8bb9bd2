//! Control groups of zones, on cgroup v2 and on hosts that mix v1 and v2.
//!
//! The v2 tree does what it can everywhere: killing, freezing, accounting and
//! device rules work there even when every controller is still with v1.
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
//! `<base>/<zone>`.

pub mod devices;
pub mod hierarchy;
pub mod zone;

use std::io;
use std::path::{Path, PathBuf};

pub use hierarchy::Base;
pub use zone::ZoneCgroups;

/// A control group operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder of a control group file system.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The host has no cgroup v2.
    #[error(
        "no cgroup2 file system is mounted: mount one at /sys/fs/cgroup or /sys/fs/cgroup/unified"
    )]
    NoUnified,
    /// Processes are left in a control group that must go.
    #[error("processes are left in {} after {seconds} s; they may wait for a device or a parent that does not collect them", path.display())]
    StillPopulated {
        /// The group.
        path: PathBuf,
        /// How long was waited.
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
