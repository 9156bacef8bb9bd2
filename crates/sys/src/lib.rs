//! Wraps kernel calls in safe functions. Only this crate has `unsafe` code.
//!
//! The crate has the system calls that rustix lacks, and small helpers that several crates share.
//! For all other calls the crates use rustix directly.

pub mod bpf;
pub mod btrfs;
pub mod byte_lock;
pub mod crash;
pub mod extents;
pub mod fanotify;
pub mod file;
pub mod freezing;
pub mod idmap;
pub mod inherited;
pub mod keyring;
#[cfg(target_arch = "x86_64")]
pub mod kvm;
pub mod link;
pub mod mapping;
pub mod memory;
pub mod mount;
pub mod mountinfo;
pub mod namespace;
pub mod passing;
pub mod peer;
pub mod process;
#[cfg(target_arch = "x86_64")]
pub mod processor;
pub mod project;
#[cfg(target_arch = "x86_64")]
pub mod remote;
pub mod root;
pub mod seccomp;
pub mod signals;
pub mod surroundings;
pub mod tap;
pub mod uring;
pub mod userfault;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;

/// Starts to write the file's dirty pages to the disk. With `wait`, returns after they are written.
/// Neither the inode nor the disk's own cache is synced: see sync_file_range(2).
///
/// # Errors
/// Fails with the error of sync_file_range(2), which can be the error of an earlier write.
pub fn write_out(file: impl AsFd, wait: bool) -> io::Result<()> {
    let flags = match wait {
        false => libc::SYNC_FILE_RANGE_WRITE,
        true => {
            libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER
        }
    };
    // SAFETY: sync_file_range takes numbers, and a descriptor that is borrowed and therefore open.
    match unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), 0, 0, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the number of threads of the calling process.
///
/// # Errors
/// Fails if /proc is not mounted.
pub fn thread_count() -> io::Result<u64> {
    // The link count of a folder is 2 more than the number of folders in it, and /proc/self/task
    // has one folder for each thread.
    Ok(std::fs::metadata("/proc/self/task")?
        .nlink()
        .saturating_sub(2))
}
