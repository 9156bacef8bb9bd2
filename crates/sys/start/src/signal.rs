//! Signals as something to wait for, never as something that interrupts.

use crate::call::{Errno, check, nr, syscall};

/// Process number of "everybody I may signal but me" (and, sent by process 1,
/// that is all of its pid namespace).
pub const EVERYBODY: i32 = -1;

/// A signal by its kernel number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(u8);

impl Signal {
    /// Ctrl-Alt-Del, by custom.
    pub const INT: Self = Self(2);
    /// Ends a process at once.
    pub const KILL: Self = Self(9);
    /// Asks a process to end.
    pub const TERM: Self = Self(15);
    /// A child has ended.
    pub const CHLD: Self = Self(17);
    /// Lets a stopped process go on.
    pub const CONT: Self = Self(18);
    /// Power failure.
    pub const PWR: Self = Self(30);

    /// `SIGRTMIN+n` as programs with the GNU C library mean it: 34 is the
    /// first that library leaves to programs. (Others count from 35.)
    #[must_use]
    pub const fn realtime(n: u8) -> Self {
        assert!(n <= 30, "there is no such signal");
        Self(34 + n)
    }
}

impl Signal {
    /// The signal of a kernel number, if there is one.
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
    /// The set of these.
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

/// Sets the signal mask to exactly `set`.
pub fn block(set: SignalSet) {
    const SIG_SETMASK: usize = 2;
    let mask = &raw const set.0;
    // SAFETY: `mask` points at the 8 bytes whose size is given; the old mask
    // is not asked for. It cannot fail with these arguments.
    unsafe {
        syscall(
            nr::RT_SIGPROCMASK,
            [SIG_SETMASK, mask.expose_provenance(), 0, 8, 0],
        )
    };
}

/// Waits for one of `set` (all of them blocked) and takes it; None when
/// `limit_ms` milliseconds passed first. No limit: for ever.
#[must_use]
pub fn wait(set: SignalSet, limit_ms: Option<u64>) -> Option<Signal> {
    let limit = limit_ms.map(|ms| [ms / 1000, ms % 1000 * 1_000_000]);
    let limit = limit
        .as_ref()
        .map_or(0, |time| (&raw const *time).expose_provenance());
    loop {
        let mask = &raw const set.0;
        // SAFETY: `mask` points at 8 bytes, `limit` is null or points at a
        // timespec of two 64-bit words; both outlive the call. No siginfo is asked for.
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
/// [`Errno::SRCH`] when there is no such process; otherwise the kernel's error.
pub fn send(pid: i32, signal: Signal) -> Result<(), Errno> {
    kill(pid, signal.0)
}

/// True while a process other than the caller lives in its pid namespace (for
/// process 1, that is).
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
        // On a thread of its own: the mask belongs to it and dies with it.
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
        // The greatest process number is 2^22.
        assert_eq!(send(0x7fff_ffff, Signal::TERM), Err(Errno::SRCH));
    }
}
