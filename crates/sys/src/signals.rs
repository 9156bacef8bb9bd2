//! Receives signals as events of a poll loop, without signal handlers.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Signals that no longer have their action: the process reads them, see [`Taken::next`].
#[derive(Debug)]
pub struct Taken(OwnedFd);

impl Taken {
    /// Receives the signals of `numbers` that are not ignored. Signals that the caller made ignored
    /// (nohup, a shell's `&`) stay ignored. The process must have one thread.
    ///
    /// # Errors
    /// Fails with the error of signalfd(2).
    pub fn take(numbers: &[i32]) -> io::Result<Self> {
        let mut set = empty_set();
        for &number in numbers.iter().filter(|&&number| !is_ignored(number)) {
            // SAFETY: `set` is initialised, and sigaddset only adds a signal to it.
            unsafe { libc::sigaddset(&raw mut set, number) };
        }
        // SAFETY: both calls only read the set; the descriptor is new, so no other value owns it.
        unsafe {
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            match libc::signalfd(-1, &raw const set, flags) {
                fd if fd >= 0 => Ok(Self(OwnedFd::from_raw_fd(fd))),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Returns the next signal that has arrived, if there is one. Does not wait.
    #[must_use]
    pub fn next(&self) -> Option<i32> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut record) {
            // The record begins with the number of the signal.
            Ok(length) if length == record.len() => {
                let number = record.first_chunk().copied().map(u32::from_ne_bytes);
                number.and_then(|number| i32::try_from(number).ok())
            }
            _ => None,
        }
    }
}

impl AsFd for Taken {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The signal for a process that writes to a pipe without a reader.
pub const PIPE: i32 = libc::SIGPIPE;

/// Ignores signals until the process executes another program.
pub fn ignore(numbers: &[i32]) {
    for &number in numbers {
        // SAFETY: the call sets SIG_IGN, and no signal handler.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// Resets every signal to its default action in a child that will execute a program. Without this,
/// ignored signals stay ignored in that program.
pub fn reset_all() {
    // The kernel's own structure has at most 32 bytes. All zeros mean the default action, no flags,
    // and an empty mask.
    let default = [0_u64; 4];
    for number in 1..=LAST {
        // SAFETY: the call sets the default action, and no signal handler. The raw system call is
        // used because the C library refuses to change some signals that it needs itself. The
        // kernel refuses signals that cannot be set.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                default.as_ptr(),
                ptr::null::<u64>(),
                size_of::<u64>(),
            )
        };
    }
}

/// The highest signal number; the lowest is 1.
const LAST: libc::c_int = 64;

/// Ends the process as the signal itself would have ended it.
pub fn die_by(number: i32) -> ! {
    let mut set = empty_set();
    // SAFETY: the calls only use the initialised `set`. The default action ends the process without
    // running a handler.
    unsafe {
        libc::sigaddset(&raw mut set, number);
        libc::signal(number, libc::SIG_DFL);
        libc::raise(number);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
    // A signal whose default action ends the process never reaches this line.
    let status = u8::try_from(number.saturating_add(128)).unwrap_or(u8::MAX);
    crate::process::exit_now(status)
}

fn is_ignored(number: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call only asks for the present action. The kernel fills the structure, for which
    // zeros are valid, too.
    let action = unsafe {
        libc::sigaction(number, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset initialises the set; all zeros are valid for it anyway.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}
