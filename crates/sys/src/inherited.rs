//! Uses the descriptors with which a program was started.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The lowest number of a copy. The numbers below may belong to descriptors that the program still
/// has to take.
const FLOOR: RawFd = 10;

/// Takes a descriptor that the starting program passed. Returns a copy that is closed on exec.
///
/// # Errors
/// Fails with `EBADF` if the descriptor is not open.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: asking for the flags of a number that may not be open is harmless.
    if number < 0 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the descriptor is open (checked above) and stays so during the call:
    // nothing else in a program that has just started closes it.
    let there = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = rustix::io::fcntl_dupfd_cloexec(there.as_fd(), FLOOR)?;
    // SAFETY: the number came from outside the program: no value in it owns the descriptor, and
    // without it the other end does not wait.
    unsafe { libc::close(number) };
    Ok(copy)
}

/// True if descriptor 1 was closed when the program started.
static HAD_NO_OUTPUT: AtomicBool = AtomicBool::new(false);

/// The C library calls this function before the start code of Rust, which opens /dev/null in place
/// of closed standard streams. Later code cannot tell that a stream was closed.
// SAFETY: the section holds pointers to functions of this type, for the C library to call.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK_FIRST: extern "C" fn() = look_at_output;

extern "C" fn look_at_output() {
    // SAFETY: asking for the flags of a number that may not be open is harmless.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    HAD_NO_OUTPUT.store(is_closed, Ordering::Relaxed);
}

/// Returns true if standard output was closed when the program started.
#[must_use]
pub fn had_no_output() -> bool {
    HAD_NO_OUTPUT.load(Ordering::Relaxed)
}
