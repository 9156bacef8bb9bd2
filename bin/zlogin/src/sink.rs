//! Writing to the caller's streams without ever waiting for who reads them.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, Result, write};
use rustix::net::{SendFlags, send};
use rustix::time::Timespec;

/// Number of bytes that fit into a pipe (PIPE_BUF), and a little into a terminal, when poll(2) says
/// that it can be written to.
const ATOMIC_BYTES: usize = 4096;

/// A stream of the caller's. It is shared with other processes, so its own flags are left alone.
#[derive(Debug)]
pub struct Sink {
    stream: BorrowedFd<'static>,
    way: Option<Way>,
}

/// The ways to write without waiting.
#[derive(Debug)]
enum Way {
    /// It never waits: a file.
    Plainly,
    /// A socket can be told with each call.
    Send,
    /// A pipe or terminal, opened once more with a flag of our own.
    Again(OwnedFd),
    /// Little by little.
    Carefully,
}

impl Sink {
    /// For one of the standard streams.
    pub const fn new(stream: BorrowedFd<'static>) -> Self {
        Self { stream, way: None }
    }

    /// Returns the descriptor whose readiness to wait for.
    pub const fn stream(&self) -> BorrowedFd<'static> {
        self.stream
    }

    /// Writes some of the bytes; [`Errno::AGAIN`] when it would have to wait.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.way.is_none() {
            self.way = Some(way(self.stream)?);
        }
        match &self.way {
            Some(Way::Send) => send(
                self.stream,
                bytes,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ),
            Some(Way::Again(stream)) => write(stream, bytes),
            Some(Way::Plainly) => write(self.stream, bytes),
            Some(Way::Carefully) | None => {
                let mut ready = [PollFd::from_borrowed_fd(self.stream, PollFlags::OUT)];
                match poll(&mut ready, Some(&Timespec::default()))? {
                    0 => Err(Errno::AGAIN),
                    _ => write(self.stream, &bytes[..bytes.len().min(ATOMIC_BYTES)]),
                }
            }
        }
    }
}

fn way(stream: BorrowedFd<'static>) -> Result<Way> {
    let stat = fstat(stream)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => return Ok(Way::Send),
        FileType::Fifo => {}
        FileType::CharacterDevice if rustix::termios::isatty(stream) => {
            // Opening this device makes a new terminal.
            if (
                rustix::fs::major(stat.st_rdev),
                rustix::fs::minor(stat.st_rdev),
            ) == (5, 2)
            {
                return Ok(Way::Carefully);
            }
        }
        _ => return Ok(Way::Plainly),
    }
    let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(again) => Ok(Way::Again(again)),
        // A pipe without a reader.
        Err(Errno::NXIO) => Err(Errno::PIPE),
        Err(_) => Ok(Way::Carefully),
    }
}
