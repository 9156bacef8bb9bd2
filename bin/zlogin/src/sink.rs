//! Writes to the caller's streams without ever waiting for their readers.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, Result, write};
use rustix::net::{SendFlags, send};
use rustix::time::Timespec;

/// Maximum number of bytes per write to a stream that cannot be made non-blocking: PIPE_BUF, which
/// fits into a pipe when poll(2) reports that the pipe is writable.
const ATOMIC_BYTES: usize = 4096;

/// An output stream of the caller. Other processes share the stream, so its file status flags
/// are not changed.
#[derive(Debug)]
pub struct Sink {
    stream: BorrowedFd<'static>,
    way: Option<Way>,
}

/// The ways to write without waiting.
#[derive(Debug)]
enum Way {
    /// A plain write: the stream is a file, which never blocks.
    Plainly,
    /// send(2) with MSG_DONTWAIT: the stream is a socket.
    Send,
    /// A second, non-blocking descriptor of the same pipe or terminal.
    Again(OwnedFd),
    /// A poll(2) before each small write.
    Carefully,
}

impl Sink {
    /// Creates a sink for one of the standard streams.
    pub const fn new(stream: BorrowedFd<'static>) -> Self {
        Self { stream, way: None }
    }

    /// Returns the descriptor to poll for writability.
    pub const fn stream(&self) -> BorrowedFd<'static> {
        self.stream
    }

    /// Writes some of the bytes. Fails with [`Errno::AGAIN`] if the write would block.
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
            // Opening this device, /dev/ptmx, would create a new terminal.
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
        // The pipe has no reader.
        Err(Errno::NXIO) => Err(Errno::PIPE),
        Err(_) => Ok(Way::Carefully),
    }
}
