//! Lines of JSON over a socket whose other end is not trusted.

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::Timespec;

use crate::Error;

/// What is read at once.
const PIECE: usize = 16 * 1024;

/// A socket that carries lines.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: OwnedFd,
    /// Who is at the other end.
    what: &'static str,
    /// Longest line that is taken.
    longest: usize,
    read: Vec<u8>,
    /// What of it is known to hold no end of a line.
    searched: usize,
}

impl Wire {
    pub(crate) fn new(socket: OwnedFd, what: &'static str, longest: usize) -> Self {
        Self {
            socket,
            what,
            longest,
            read: Vec::new(),
            searched: 0,
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends everything before `end`.
    pub(crate) fn send(&self, mut bytes: &[u8], end: Instant) -> Result<(), Error> {
        while !bytes.is_empty() {
            match send(
                &self.socket,
                bytes,
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            ) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(rustix::io::Errno::AGAIN) => self.wait(PollFlags::OUT, end)?,
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
        let found = self.read[self.searched..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map(|at| at + self.searched);
        match found {
            Some(at) => {
                let rest = self.read.split_off(at + 1);
                let mut line = std::mem::replace(&mut self.read, rest);
                self.searched = 0;
                line.truncate(at);
                while matches!(line.last(), Some(b'\r')) {
                    line.pop();
                }
                Ok(Some(line))
            }
            None if self.read.len() > self.longest => Err(Error::Odd {
                what: self.what,
                why: format!("a line of more than {} bytes", self.longest),
            }),
            None => {
                self.searched = self.read.len();
                Ok(None)
            }
        }
    }

    /// Reads what is there; false when nothing is.
    pub(crate) fn fill(&mut self) -> Result<bool, Error> {
        let mut piece = [0; PIECE];
        match recv(&self.socket, piece.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(Error::Closed(self.what)),
            Ok((length, _)) => {
                self.read.extend_from_slice(&piece[..length]);
                Ok(true)
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
            Err(rustix::io::Errno::CONNRESET) => Err(Error::Closed(self.what)),
            Err(errno) => Err(Error::Io(format!("hear {}", self.what), errno.into())),
        }
    }

    /// The next line, waited for until `end`.
    pub(crate) fn line(&mut self, end: Instant) -> Result<Vec<u8>, Error> {
        loop {
            if let Some(line) = self.take_line()? {
                return Ok(line);
            }
            if !self.fill()? {
                self.wait(PollFlags::IN, end)?;
            }
        }
    }

    /// Throws away what was read and not taken.
    pub(crate) fn forget(&mut self) {
        self.read.clear();
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
