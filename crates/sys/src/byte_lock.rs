//! Holds and finds locks of single bytes of a file. The byte may be behind the end of the file.
//!
//! The locks belong to the open file and not to the process (`F_OFD_SETLK` of fcntl(2)). File
//! systems for several hosts, such as NFS, show these locks on each host.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Exclusive upper bound of the offsets that can be locked.
pub const OFFSETS: u64 = 1 << 62;

fn request(kind: libc::c_int, at: u64) -> io::Result<libc::flock> {
    let wrong = |_| io::Error::from(io::ErrorKind::InvalidInput);
    if at >= OFFSETS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all fields of flock are integers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).map_err(wrong)?;
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).map_err(wrong)?;
    lock.l_start = libc::off_t::try_from(at).map_err(wrong)?;
    lock.l_len = 1;
    Ok(lock)
}

/// Holds a shared lock of the byte at this offset until the file is closed.
///
/// # Errors
/// Fails with the error of fcntl(2), for example if the file system has no locks.
pub fn hold(file: &File, at: u64) -> io::Result<()> {
    let lock = request(libc::F_RDLCK, at)?;
    // SAFETY: fcntl reads the lock, which lives until the call ends.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns true if the byte at this offset is locked through another open file.
///
/// # Errors
/// Fails with the error of fcntl(2).
pub fn is_held(file: &File, at: u64) -> io::Result<bool> {
    let mut lock = request(libc::F_WRLCK, at)?;
    // SAFETY: fcntl reads and writes the lock, which lives until the call ends.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(libc::c_int::from(lock.l_type) != libc::F_UNLCK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_open_file_sees_the_lock_of_this_byte() {
        let path = std::env::temp_dir().join(format!("byte-lock-{}", std::process::id()));
        std::fs::write(&path, "text").unwrap();
        let [holder, other] = [(); 2].map(|()| File::open(&path).unwrap());
        let at = OFFSETS - 1;
        assert!(!is_held(&other, at).unwrap());
        hold(&holder, at).unwrap();
        assert!(is_held(&other, at).unwrap());
        assert!(!is_held(&holder, at).unwrap());
        assert!(!is_held(&other, at - 1).unwrap());
        drop(holder);
        assert!(!is_held(&other, at).unwrap());
        assert!(hold(&other, OFFSETS).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
