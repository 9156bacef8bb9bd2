//! Loads system call filters (seccomp(2)), and answers the system calls that a filter reports.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Before Linux 5.16, a filter without this flag turns on mitigations of speculation for every
/// process under it. These mitigations cost far more time than the filter itself.
const SPEC_ALLOW: libc::c_ulong = 1 << 2;
const NEW_LISTENER: libc::c_ulong = 1 << 3;
/// With this flag (Linux 5.19), no signal except a fatal one interrupts a call whose answer is in
/// progress.
const WAIT_KILLABLE: libc::c_ulong = 1 << 5;

/// Puts the calling thread, and every program that it will execute, under a filter. Each word is
/// one classic BPF instruction, a `struct sock_filter` in memory.
///
/// # Errors
/// Fails with `EINVAL` if the kernel refuses the program, and with `EACCES` without CAP_SYS_ADMIN
/// in the thread's user namespace (the filter must not need no_new_privs, because setuid programs
/// work inside zones).
pub fn install(program: &[u64]) -> io::Result<()> {
    load(program, SPEC_ALLOW).map(drop)
}

/// Does the same as [`install`] for a filter that reports calls (`SECCOMP_RET_USER_NOTIF`). The
/// process with the returned descriptor answers them, see [`receive`]. When no process has the
/// descriptor, such calls fail with ENOSYS.
///
/// # Errors
/// Fails like [`install`], and with `EBUSY` if the thread already has a filter that reports calls.
pub fn install_asking(program: &[u64]) -> io::Result<OwnedFd> {
    let flags = SPEC_ALLOW | NEW_LISTENER;
    let listener = match load(program, flags | WAIT_KILLABLE) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => load(program, flags)?,
        other => other?,
    };
    // SAFETY: with NEW_LISTENER the result is a new descriptor that no other value owns.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

fn load(program: &[u64], flags: libc::c_ulong) -> io::Result<RawFd> {
    let length = libc::c_ushort::try_from(program.len())
        .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: `program` points to `length` instructions of 8 bytes each, which exist during the
    // call. The kernel copies and checks the instructions and writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    RawFd::try_from(result)
        .ok()
        .filter(|result| *result >= 0)
        .ok_or_else(io::Error::last_os_error)
}

/// A system call that waits for its answer: `struct seccomp_notif`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Call {
    /// The number that identifies the call among all calls of the same filter.
    pub id: u64,
    /// The caller's pid in the pid namespace of the receiver.
    pub pid: u32,
    flags: u32,
    /// The number of the call, in the table of `architecture`.
    pub number: i32,
    /// The architecture, as a value of AUDIT_ARCH_*.
    pub architecture: u32,
    instruction_pointer: u64,
    /// The arguments of the call.
    pub arguments: [u64; 6],
}

/// An answer to a call: `struct seccomp_notif_resp`.
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

// The numbers _IOWR('!', 0, struct seccomp_notif) and the next ones, the same on every architecture
// that we build for.
const RECEIVE: u64 = 0xc000_2100 | (size_of::<Call>() as u64) << 16;
const SEND: u64 = 0xc000_2101 | (size_of::<Answer>() as u64) << 16;
const IS_VALID: u64 = 0x4000_2102 | (size_of::<u64>() as u64) << 16;

/// Returns the next call; `None` if the caller of that call has ended, or if a signal interrupted
/// the wait.
///
/// # Errors
/// Fails with the error of the ioctl.
pub fn receive(listener: BorrowedFd<'_>) -> io::Result<Option<Call>> {
    let mut call = Call::default();
    // SAFETY: the size of `struct seccomp_notif` is part of the request. The kernel writes one such
    // structure into `call`, which has the same layout and is zeroed, as the kernel requires.
    let result = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut call) };
    match result {
        0 => Ok(Some(call)),
        _ => match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
            error => Err(error),
        },
    }
}

/// Returns true if a call still waits. If so, the pid of its caller has not been reused.
#[must_use]
pub fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads the eight bytes of `id`.
    unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID as _, &raw const id) == 0 }
}

/// Makes a call return 0, or fail with an error number.
///
/// # Errors
/// Fails with `ENOENT` if the caller has ended.
pub fn answer(listener: BorrowedFd<'_>, id: u64, result: Result<(), i32>) -> io::Result<()> {
    let answer = Answer {
        id,
        value: 0,
        error: result.err().map_or(0, |number| -number),
        flags: 0,
    };
    // SAFETY: the kernel reads one `struct seccomp_notif_resp`, whose size is part of
    // the request.
    match unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const answer) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_numbered_as_the_kernel_does() {
        // These numbers were printed by a C program with <linux/seccomp.h>.
        assert_eq!(
            (RECEIVE, SEND, IS_VALID),
            (0xc050_2100, 0xc018_2101, 0x4008_2102)
        );
    }
}
