//! Files of /proc and /sys that show a zone its limits in place of the whole host.
//!
//! A zone with a limit on memory or CPUs has ordinary files of the host mounted read-only over some
//! files of its /proc and /sys. Before a process of the zone reads such a file, the kernel asks a
//! small process, the zone's reader (fanotify). The reader writes the present values and admits the
//! read. Afterwards the kernel does not ask for `serve::FRESH_FOR`. So the reader works a few
//! times a second at most, and not at all while the zone reads none of the files.
//!
//! ```text
//! /run/zones/web.proc/meminfo <- written by the reader (zone-proc)
//!          | mounted read-only
//! /proc/meminfo in the zone   -> a read asks the reader first
//! ```
//!
//! If the reader dies, the kernel admits every read, which returns the last written content, and
//! zoneadmd starts another reader. If both die, the next zoneadmd starts a reader. No read ever
//! fails or hangs.
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
