//! The user's own terminal, and the signals that come from it.

use std::os::fd::BorrowedFd;

use rustix::process::{Signal, getpgrp};
use rustix::termios::{
    OptionalActions, Termios, Winsize, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr,
};
use sys::signals::{self, Taken};

/// Standard input in raw mode. Dropping this value restores the former mode.
#[derive(Debug)]
pub struct Raw(Termios);

impl Raw {
    /// Puts standard input into raw mode. Returns `None` if standard input is not a terminal.
    pub fn enter() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // The mode is restored without draining the output, because draining would block on a
        // stopped terminal.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// Takes over the signals that end programs, so that no signal leaves a raw terminal or a process
/// in the zone behind. The terminal can then no longer stop zlogin, which must be able to reap its
/// child when the zone halts.
pub fn take_signals() -> Result<Taken, String> {
    let numbers = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM].map(Signal::as_raw);
    let taken =
        Taken::take(&numbers).map_err(|error| format!("could not take signals: {error}"))?;
    signals::ignore(&[Signal::TSTP, Signal::TTIN, Signal::TTOU].map(Signal::as_raw));
    Ok(taken)
}

/// Returns true if standard input is a terminal and another job is in its foreground.
pub fn in_background() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group != getpgrp())
}

/// Returns the rows and columns of standard input, if it is a terminal.
pub fn size() -> Option<Winsize> {
    tcgetwinsize(stdin()).ok()
}

/// Returns the size of the caller's terminal: the size of standard input, output or error, or a
/// common default if none of the three is a terminal with a known size. Some programs fail with a
/// size of 0 by 0.
pub fn size_or_common() -> Winsize {
    const COMMON: Winsize = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let streams = [stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let sizes = streams.into_iter().filter_map(|one| tcgetwinsize(one).ok());
    let mut known = sizes.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    known.next().unwrap_or(COMMON)
}

/// Returns true if the two sizes have the same rows and columns.
pub fn same_size(one: &Winsize, other: &Winsize) -> bool {
    (one.ws_row, one.ws_col) == (other.ws_row, other.ws_col)
}

/// Returns the descriptor of standard input.
pub fn stdin() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}
