//! Sends and receives lines of JSON over a socket whose peer is not trusted.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::time::Timespec;

use crate::Error;

/// Number of bytes that one call reads from the socket.
const READ_BYTES: usize = 16 * 1024;

/// A socket that carries lines.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: OwnedFd,
    /// The name of the peer in error messages.
    what: &'static str,
    /// Maximum length of a line in bytes.
    longest: usize,
    read: Vec<u8>,
    /// The number of bytes in the buffer that were already returned as lines.
    taken: usize,
    /// The offset in the buffer up to which no further end of a line exists.
    searched: usize,
    /// True if lines that are too long are skipped instead of causing an error.
    forgives: bool,
    /// True while a line that is too long is being skipped, until its end arrives.
    skips: bool,
}

impl Wire {
    pub(crate) fn new(socket: OwnedFd, what: &'static str, longest: usize) -> Self {
        Self {
            socket,
            what,
            longest,
            read: Vec::new(),
            taken: 0,
            searched: 0,
            forgives: false,
            skips: false,
        }
    }

    /// Sets the maximum length of a line. If `forgives` is true, longer lines are skipped without
    /// being stored; otherwise they are an error.
    pub(crate) fn take_up_to(&mut self, longest: usize, forgives: bool) {
        (self.longest, self.forgives) = (longest, forgives);
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends all bytes before the deadline `end`. If only a part was sent by then, the connection
    /// is closed, because the peer would take later bytes for the rest.
    pub(crate) fn send(&self, bytes: &[u8], end: Instant) -> Result<(), Error> {
        self.send_rest(bytes, bytes.len(), end)
    }

    /// Sends all bytes as [`Wire::send`] does, together with a descriptor.
    pub(crate) fn send_with(
        &self,
        bytes: &[u8],
        descriptor: BorrowedFd<'_>,
        end: Instant,
    ) -> Result<(), Error> {
        loop {
            match sys::passing::send_now(self.socket.as_fd(), descriptor, bytes) {
                // The first byte has carried the descriptor, so the rest is sent without it.
                Ok(sent) => return self.send_rest(&bytes[sent..], bytes.len(), end),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait(PollFlags::OUT, end)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    ) =>
                {
                    return Err(Error::Closed(self.what));
                }
                Err(error) => {
                    let what = format!("pass {} a descriptor", self.what);
                    return Err(Error::Io(what, error));
                }
            }
        }
    }

    fn send_rest(&self, mut bytes: &[u8], whole: usize, end: Instant) -> Result<(), Error> {
        while !bytes.is_empty() {
            match send(
                &self.socket,
                bytes,
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            ) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(rustix::io::Errno::AGAIN) => {
                    self.wait(PollFlags::OUT, end).inspect_err(|_| {
                        if bytes.len() < whole {
                            let _ = shutdown(&self.socket, Shutdown::Both);
                        }
                    })?;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                    return Err(Error::Closed(self.what));
                }
                Err(errno) => {
                    return Err(Error::Io(format!("speak to {}", self.what), errno.into()));
                }
            }
        }
        Ok(())
    }

    /// Returns the next line that has already been read, without its line end; `None` if no
    /// complete line has been read.
    pub(crate) fn take_line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            let found = self.read[self.searched..]
                .iter()
                .position(|&byte| byte == b'\n')
                .map(|at| at + self.searched);
            match found {
                Some(at) if self.skips => {
                    self.skips = false;
                    (self.taken, self.searched) = (at + 1, at + 1);
                }
                None if self.skips => {
                    self.forget();
                    return Ok(None);
                }
                Some(at) if at - self.taken <= self.longest => {
                    let mut line = self.take_to(at);
                    while matches!(line.last(), Some(b'\r')) {
                        line.pop();
                    }
                    return Ok(Some(line));
                }
                None if self.read.len() - self.taken <= self.longest => {
                    self.searched = self.read.len();
                    return Ok(None);
                }
                _ if self.forgives => self.skips = true,
                _ => {
                    return Err(Error::Odd {
                        what: self.what,
                        why: format!("a line of more than {} bytes", self.longest),
                    });
                }
            }
        }
    }

    /// Returns the line whose end is at the offset `at`.
    fn take_to(&mut self, at: usize) -> Vec<u8> {
        if self.taken == 0 && at + 1 == self.read.len() {
            // The line fills the whole buffer, so the buffer is returned without a copy, because
            // the line may be long.
            let mut line = std::mem::take(&mut self.read);
            self.forget();
            line.truncate(at);
            return line;
        }
        let line = self.read[self.taken..at].to_vec();
        (self.taken, self.searched) = (at + 1, at + 1);
        line
    }

    /// Reads the available bytes, and returns their number, which may be 0.
    pub(crate) fn fill(&mut self) -> Result<usize, Error> {
        self.read.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        let mut piece = [0; READ_BYTES];
        match recv(&self.socket, piece.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(Error::Closed(self.what)),
            Ok((length, _)) => {
                self.read.extend_from_slice(&piece[..length]);
                Ok(length)
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(0),
            Err(rustix::io::Errno::CONNRESET) => Err(Error::Closed(self.what)),
            Err(errno) => Err(Error::Io(format!("hear {}", self.what), errno.into())),
        }
    }

    /// Waits for the next line until the deadline `end`, and returns it. A peer that sends data
    /// without end gets no more time than a silent peer.
    pub(crate) fn line(&mut self, end: Instant) -> Result<Vec<u8>, Error> {
        loop {
            if let Some(line) = self.take_line()? {
                return Ok(line);
            }
            if Instant::now() >= end {
                return Err(self.late());
            }
            if self.fill()? == 0 {
                self.wait(PollFlags::IN, end)?;
            }
        }
    }

    /// Returns the number of bytes of memory that the buffer occupies.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.read.capacity()
    }

    /// Drops the bytes that were read but not yet returned.
    pub(crate) fn forget(&mut self) {
        self.read.clear();
        self.taken = 0;
        self.searched = 0;
    }

    fn wait(&self, for_what: PollFlags, end: Instant) -> Result<(), Error> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.late());
        }
        let left = Timespec::try_from(left).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        let mut watched = [PollFd::new(&self.socket, for_what)];
        match poll(&mut watched, Some(&left)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::Io(format!("wait for {}", self.what), errno.into())),
        }
    }

    fn late(&self) -> Error {
        Error::Late {
            what: self.what,
            seconds: 0,
        }
    }
}

/// Returns the error that names the timeout in seconds.
pub(crate) fn within<T>(limit: Duration, done: Result<T, Error>) -> Result<T, Error> {
    done.map_err(|error| match error {
        Error::Late { what, .. } => Error::Late {
            what,
            seconds: limit.as_secs(),
        },
        Error::Io(_, source) if source.kind() == ErrorKind::TimedOut => Error::Late {
            what: "the socket",
            seconds: limit.as_secs(),
        },
        other => other,
    })
}
