//! Leaves and joins namespaces.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Moves the calling thread into new namespaces (`process::ns`).
///
/// # Errors
/// Fails with the error of unshare(2).
pub fn unshare(flags: u64) -> io::Result<()> {
    let flags = libc::c_int::try_from(flags & crate::process::ns::ALL)
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the mask allows only flags of namespaces, so the thread continues to share its memory
    // and descriptors with the other threads.
    check(unsafe { libc::unshare(flags) })
}

/// Moves the calling thread into these namespaces of the process of `pidfd`.
///
/// # Errors
/// Fails with the error of setns(2).
pub fn join(pidfd: BorrowedFd<'_>, flags: u64) -> io::Result<()> {
    let flags = libc::c_int::try_from(flags & crate::process::ns::ALL)
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: setns changes the calling thread's namespaces and nothing in memory.
    check(unsafe { libc::setns(pidfd.as_raw_fd(), flags) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
