//! Kernel calls behind safe functions: the only crate with `unsafe` code.
//!
//! What rustix offers is used directly by the other crates; here is what it
//! lacks, and thin helpers that several of them share.

pub mod bpf;
pub mod btrfs;
pub mod idmap;
pub mod inherited;
pub mod keyring;
pub mod link;
pub mod memory;
pub mod mount;
pub mod namespace;
pub mod passing;
pub mod peer;
pub mod process;
pub mod seccomp;
pub mod signals;
pub mod surroundings;

use std::io;
use std::os::unix::fs::MetadataExt;

/// How many threads the calling process has.
///
/// # Errors
/// When /proc is not there.
pub fn thread_count() -> io::Result<u64> {
    // A folder has a link for itself, one for its name, and one per folder in it.
    Ok(std::fs::metadata("/proc/self/task")?
        .nlink()
        .saturating_sub(2))
}
