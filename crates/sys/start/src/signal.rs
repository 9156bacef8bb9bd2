//! Signals for which a program waits. No signal handler interrupts the program.

use crate::call::{Errno, check, nr, syscall};

/// The pid that means every process to which the caller may send signals, except the caller. If
/// process 1 is the caller, these are all other processes of its pid namespace.
pub const EVERYBODY: i32 = -1;

/// A signal, by its number in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(u8);

impl Signal {
    /// SIGINT: by convention, process 1 receives this signal when a user presses Ctrl-Alt-Del.
    pub const INT: Self = Self(2);
    /// SIGKILL: ends a process at once.
    pub const KILL: Self = Self(9);
    /// SIGTERM: asks a process to end.
    pub const TERM: Self = Self(15);
    /// SIGCHLD: a child has ended.
    pub const CHLD: Self = Self(17);
    /// SIGCONT: lets a stopped process continue.
    pub const CONT: Self = Self(18);
    /// SIGPWR: power failure.
    pub const PWR: Self = Self(30);

    /// Returns `SIGRTMIN+n` as programs with the GNU C library count: signal 34 is the first that
    /// this library leaves to programs. Some other C libraries count from 35.
    #[must_use]
    pub const fn realtime(n: u8) -> Self {
        assert!(n <= 30, "there is no such signal");
        Self(34 + n)
    }
}

impl Signal {
    /// Returns the signal with this number in the kernel; `None` if no signal has this number.
    #[must_use]
    pub const fn numbered(number: u8) -> Option<Self> {
        match number {
            1..=64 => Some(Self(number)),
            _ => None,
        }
    }
}

/// A set of signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalSet(u64);

impl SignalSet {
    /// Returns the set of these signals.
    #[must_use]
    pub const fn of(signals: &[Signal]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < signals.len() {
            bits |= 1 << (signals[at].0 - 1);
            at += 1;
        }
        Self(bits)
    }
}

/// Sets the signal mask of the calling thread to exactly `set`.
pub fn block(set: SignalSet) {
    const SIG_SETMASK: usize = 2;
    let mask = &raw const set.0;
    // SAFETY: `mask` points to 8 bytes, the size that is passed; the null pointer for the old mask
    // is allowed. The call cannot fail with these arguments.
    unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [SIG_SETMASK, mask.expose_provenance(), 0, 8, 0],
        )
    };
}

/// Waits for a signal of `set` and consumes it. All signals of `set` must be blocked. Returns
/// `None` if no signal arrives within `limit_ms` milliseconds. If `limit_ms` is `None`, waits
/// forever.
#[must_use]
pub fn wait(set: SignalSet, limit_ms: Option<u64>) -> Option<Signal> {
    let limit = limit_ms.map(|ms| [ms / 1000, ms % 1000 * 1_000_000]);
    let limit = limit
        .as_ref()
        .map_or(0, |time| (&raw const *time).expose_provenance());
    loop {
        let mask = &raw const set.0;
        // SAFETY: `mask` points to 8 bytes, and `limit` is null or points to a timespec of two
        // 64-bit words; both exist during the call. The null pointer for the siginfo is allowed.
        let result = unsafe {
            syscall(
                nr::RT_SIGTIMEDWAIT,
                [mask.expose_provenance(), 0, limit, 8, 0],
            )
        };
        match check(result) {
            Ok(number) => return u8::try_from(number).ok().map(Signal),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Sends a signal to a process, or to [`EVERYBODY`].
///
/// # Errors
/// Fails with [`Errno::SRCH`] if no such process exists, and otherwise with the error of kill(2).
pub fn send(pid: i32, signal: Signal) -> Result<(), Errno> {
    kill(pid, signal.0)
}

/// Returns true if the caller's pid namespace has a process other than the caller. The caller must
/// be process 1.
#[must_use]
pub fn anybody() -> bool {
    kill(EVERYBODY, 0) != Err(Errno::SRCH)
}

fn kill(pid: i32, number: u8) -> Result<(), Errno> {
    let args = [pid as isize as usize, usize::from(number), 0, 0, 0];
    // SAFETY: kill(2) takes two numbers and touches no memory.
    check(unsafe { syscall(nr::KILL, args) }).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_bits_from_one() {
        assert_eq!(SignalSet::default(), SignalSet::of(&[]));
        assert_eq!(
            SignalSet::of(&[Signal::INT, Signal::realtime(4)]).0,
            (1 << 1) | (1 << 37)
        );
    }

    #[test]
    fn a_blocked_signal_is_waited_for_and_the_limit_holds() {
        // The test runs on a thread of its own, because the signal mask belongs to the thread and
        // ends with it.
        std::thread::spawn(|| {
            let set = SignalSet::of(&[Signal::realtime(20)]);
            block(set);
            let before = crate::clock_ms();
            assert_eq!(wait(set, Some(30)), None);
            assert!(crate::clock_ms() - before >= 30);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_signal_to_a_missing_process_is_an_error() {
        // No process has this pid, because pids are below 2^22.
        assert_eq!(send(0x7fff_ffff, Signal::TERM), Err(Errno::SRCH));
    }
}
