//! Passes the user's keys into a zone whose programs may not read them.

use std::io::IsTerminal;

use rustix::io::{Errno, Result, read, write};

use crate::escape::Escape;
use crate::terminal;

/// Maximum number of input bytes that wait for the zone. Further input from a keyboard is dropped
/// with a bell, as terminals do, so that the user can still type the escape sequence.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Maximum number of bytes that are read at a time.
const READ_BYTES: usize = 4096;

/// The character that makes most terminals ring.
const BELL: &[u8] = b"\x07";

/// Standard input, scanned for the escape character.
#[derive(Debug)]
pub struct Keyboard {
    escape: Escape,
    waiting: Vec<u8>,
    is_terminal: bool,
    open: bool,
    left: bool,
}

impl Keyboard {
    /// Creates the reader with this escape character; `None` disables the escape.
    pub fn new(escape: Option<u8>) -> Self {
        Self {
            escape: Escape::new(escape),
            waiting: Vec::new(),
            is_terminal: std::io::stdin().is_terminal(),
            open: true,
            left: false,
        }
    }

    /// Returns true while standard input should be polled. Input that is not from a terminal can
    /// wait.
    pub fn listens(&self) -> bool {
        self.open && (self.is_terminal || self.waiting.len() < MAX_WAITING_BYTES)
    }

    /// Returns true after the end of the input.
    pub const fn is_closed(&self) -> bool {
        !self.open
    }

    /// True after the user typed the escape character and a dot.
    pub const fn left(&self) -> bool {
        self.left
    }

    /// Reads once from standard input, if input is available.
    pub fn read(&mut self) {
        let mut piece = [0; READ_BYTES];
        match read(terminal::stdin(), &mut piece) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Another job has the terminal, so the caller polls again.
            Err(Errno::IO) if self.is_terminal && terminal::in_background() => {}
            Ok(0) | Err(_) => self.open = false,
            Ok(length) => {
                let typed = self.escape.typed(&piece[..length]);
                self.left |= typed.leave;
                let room = MAX_WAITING_BYTES.saturating_sub(self.waiting.len());
                if typed.send.len() > room {
                    let _ = write(rustix::stdio::stderr(), BELL);
                }
                let kept = typed.send.len().min(room);
                self.waiting.extend_from_slice(&typed.send[..kept]);
            }
        }
    }

    /// Drops the waiting input.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Returns true if input waits to be sent.
    pub fn has_more(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends as much as possible without waiting.
    pub fn send(&mut self, mut write: impl FnMut(&[u8]) -> Result<usize>) -> Result<()> {
        while self.has_more() {
            match write(&self.waiting) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(length) => drop(self.waiting.drain(..length)),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
