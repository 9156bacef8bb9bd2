//! Lines of JSON over a socket whose other end is not trusted.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use rustix::time::Timespec;

use crate::Error;

/// Number of bytes that are read at once.
const READ_BYTES: usize = 16 * 1024;

/// A socket that carries lines.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: OwnedFd,
    /// The program at the other end.
    what: &'static str,
    /// Longest line that is taken.
    longest: usize,
    read: Vec<u8>,
    /// The number of bytes that were taken.
    taken: usize,
    /// Up to where it is known to hold no end of a line.
    searched: usize,
    /// True if lines that are too long are left out, and are no error.
    forgives: bool,
    /// True if such a line is being left out, and its end has not come yet.
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

    /// From now on takes lines of up to so many bytes, and leaves longer ones out if it
    /// `forgives` them: nothing of them is kept.
    pub(crate) fn take_up_to(&mut self, longest: usize, forgives: bool) {
        (self.longest, self.forgives) = (longest, forgives);
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends everything before `end`. After half of it nothing more can be said: the
    /// connection is closed then.
    pub(crate) fn send(&self, bytes: &[u8], end: Instant) -> Result<(), Error> {
        self.send_rest(bytes, bytes.len(), end)
    }

    /// [`Wire::send`], with a descriptor that goes along.
    pub(crate) fn send_with(
        &self,
        bytes: &[u8],
        descriptor: BorrowedFd<'_>,
        end: Instant,
    ) -> Result<(), Error> {
        loop {
            match sys::passing::send_now(self.socket.as_fd(), descriptor, bytes) {
                // Its first byte carries the descriptor.
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

    /// The next line that is there already, without its end.
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

    /// Returns the line that ends at `at`.
    fn take_to(&mut self, at: usize) -> Vec<u8> {
        if self.taken == 0 && at + 1 == self.read.len() {
            // The line is the whole buffer: returned without a copy, because it may be
            // long.
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

    /// The next line, waited for until `end`. Who says much without end is not heard for
    /// longer than who says nothing: nothing is read after that.
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

    /// Bytes of memory that it holds.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.read.capacity()
    }

    /// Drops the bytes that were read and not taken.
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

/// Says how long it was waited for.
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
