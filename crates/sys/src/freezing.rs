//! Freezes and thaws a file system (`linux/fs.h`, `FIFREEZE` and `FITHAW`).
//!
//! A frozen file system is complete on its disk, journal included, and processes that write to it
//! wait until it is thawed.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The request `_IOWR('X', 119, int)`.
const FREEZE: libc::c_ulong = 0xc004_5877;

/// The request `_IOWR('X', 120, int)`.
const THAW: libc::c_ulong = 0xc004_5878;

/// Freezes the file system that contains an open file.
///
/// # Errors
/// Fails with `EBUSY` if the file system is frozen already, with `EOPNOTSUPP` if it cannot be
/// frozen, and with `EPERM` without the capability `CAP_SYS_ADMIN`.
pub fn freeze(file: impl AsFd) -> io::Result<()> {
    call(file, FREEZE)
}

/// Thaws the file system that contains an open file.
///
/// # Errors
/// Fails with `EINVAL` if the file system is not frozen.
pub fn thaw(file: impl AsFd) -> io::Result<()> {
    call(file, THAW)
}

fn call(file: impl AsFd, request: libc::c_ulong) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open for the call. The kernel ignores the argument of both
        // requests.
        let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), request as _, 0) };
        if result != -1 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_freezing_or_permission_is_refused() {
        let file = std::fs::File::open("/proc/self/status").unwrap();
        for result in [freeze(&file), thaw(&file)] {
            let code = result.unwrap_err().raw_os_error();
            let expected = [libc::EOPNOTSUPP, libc::EPERM, libc::EINVAL];
            assert!(expected.contains(&code.unwrap()), "{code:?}");
        }
    }
}
