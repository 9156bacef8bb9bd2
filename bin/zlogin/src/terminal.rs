//! The user's own terminal.

use std::os::fd::BorrowedFd;

use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal in raw mode, as it was again when dropped.
#[derive(Debug)]
pub struct Raw(Termios);

impl Raw {
    /// Puts standard input into raw mode; `None` when it is no terminal.
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
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.0);
    }
}

/// Rows and columns, when standard input is a terminal.
pub fn size() -> Option<Winsize> {
    tcgetwinsize(stdin()).ok()
}

/// Standard input.
pub fn stdin() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

/// Writes all of it to standard output; false when nobody reads any more.
pub fn show(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(rustix::stdio::stdout(), bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
