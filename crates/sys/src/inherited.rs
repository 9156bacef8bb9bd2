//! Descriptors that a program was started with.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Copies get numbers from here up, clear of those that are still to be taken.
const FLOOR: RawFd = 10;

/// Takes over a descriptor that the starter passed, under a number of its own that
/// does not go on into further programs.
///
/// # Errors
/// `EBADF` when it is not open.
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

/// True if descriptor 1 was closed when the program began.
static HAD_NO_OUTPUT: AtomicBool = AtomicBool::new(false);

/// The C library calls this before Rust's own start, which opens /dev/null in place of
/// standard streams that are closed: later on nothing tells that there was none.
// SAFETY: the section holds pointers to functions of this type, for the C library to call.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK_FIRST: extern "C" fn() = look_at_output;

extern "C" fn look_at_output() {
    // SAFETY: asking for the flags of a number that may not be open is harmless.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } < 0;
    HAD_NO_OUTPUT.store(is_closed, Ordering::Relaxed);
}

/// Returns whether the program was started with standard output closed.
#[must_use]
pub fn had_no_output() -> bool {
    HAD_NO_OUTPUT.load(Ordering::Relaxed)
}
