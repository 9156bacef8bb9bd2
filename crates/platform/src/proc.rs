//! Files of /proc and /sys that show a zone its limits in place of the whole host.
//!
//! A zone with a limit on memory or CPUs has ordinary files of the host mounted read-only over some
//! of the kernel's. A small process, the zone's reader, is asked by the kernel before a process
//! reads one (fanotify), writes the present values, and admits the read. After that the kernel does
//! not ask for [`serve::FRESH_FOR`]: however often the zone reads, the reader works a few times a
//! second at most, and not at all while the zone reads nothing.
//!
//! ```text
//! /run/zones/web.proc/meminfo <- written by the reader (zone-proc)
//!          | mounted read-only
//! /proc/meminfo in the zone   -> a read asks the reader first
//! ```
//!
//! When the reader dies, the kernel lets every reader get the last written content; zoneadmd starts
//! another. When both die, the next zoneadmd does. No read ever fails or hangs.
//!
//! A zone without such limits has the kernel's own files and no reader.

mod files;
mod follower;
mod serve;
mod show;
mod sizes;
mod text;

pub(crate) use files::{File, make, names_for};
pub use follower::{Follower, review};
pub(crate) use show::{Shown, follow_limits, source};
pub(crate) use sizes::{SHARED_MEMORY, Size};
