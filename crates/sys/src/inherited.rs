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
    // SAFETY: fcntl with F_GETFD only reads flags. For a number that is not open, it fails.
    if number < 0 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the descriptor is open (checked above), and a program that has just started has no
    // other code that could close it during the call.
    let there = unsafe { BorrowedFd::borrow_raw(number) };
    let copy = rustix::io::fcntl_dupfd_cloexec(there.as_fd(), FLOOR)?;
    // SAFETY: the number came from outside the program, so no Rust value owns the descriptor. Only
    // the copy stays open, so that the peer sees a hangup when the program closes the copy.
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
    // SAFETY: fcntl with F_GETFD only reads flags. For a number that is not open, it fails.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    HAD_NO_OUTPUT.store(is_closed, Ordering::Relaxed);
}

/// Returns true if standard output was closed when the program started.
#[must_use]
pub fn had_no_output() -> bool {
    HAD_NO_OUTPUT.load(Ordering::Relaxed)
}
