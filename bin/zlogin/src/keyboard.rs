//! Passes the user's keys into a zone that may not read them.

use std::io::IsTerminal;

use rustix::io::{Errno, Result, read, write};

use crate::escape::Escape;
use crate::terminal;

/// Most bytes that wait for the zone. Of a keyboard more are dropped, with a bell, as terminals do:
/// the user must be able to leave.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// Maximum number of bytes that are read at a time.
const READ_BYTES: usize = 4096;

/// Makes most terminals ring.
const BELL: &[u8] = b"\x07";

/// Standard input, watched for the escape character.
#[derive(Debug)]
pub struct Keyboard {
    escape: Escape,
    waiting: Vec<u8>,
    is_terminal: bool,
    open: bool,
    left: bool,
}

impl Keyboard {
    /// With this escape character, or none.
    pub fn new(escape: Option<u8>) -> Self {
        Self {
            escape: Escape::new(escape),
            waiting: Vec::new(),
            is_terminal: std::io::stdin().is_terminal(),
            open: true,
            left: false,
        }
    }

    /// True as long as it is to be watched. Input that is not from a terminal can wait.
    pub fn listens(&self) -> bool {
        self.open && (self.is_terminal || self.waiting.len() < MAX_WAITING_BYTES)
    }

    /// True behind the end of input.
    pub const fn is_closed(&self) -> bool {
        !self.open
    }

    /// True after the user typed the escape character and a dot.
    pub const fn left(&self) -> bool {
        self.left
    }

    /// Reads once, when there is something to read.
    pub fn read(&mut self) {
        let mut piece = [0; READ_BYTES];
        match read(terminal::stdin(), &mut piece) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Another job has the terminal; the caller looks again.
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

    /// True when something waits to be sent.
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
