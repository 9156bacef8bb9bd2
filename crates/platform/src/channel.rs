//! The socket between zoneadmd and the zone's first process.
//!
//! Each packet is one message: `g` to continue, `r` when ready, `e<text>` for an error, `b` to
//! start the init that is in the passed file. The first process's socket is closed on exec, when
//! init starts.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use model::plan::Init;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use crate::error::Error;

/// Maximum length of a message in bytes: enough for any error.
const MAX_MESSAGE: usize = 16 * 1024;

/// Maximum length of the description of an init in bytes. A guest with many disks has some hundred
/// thousand bytes of arguments.
const MAX_INIT: u64 = 1 << 20;

/// Timeout between two messages of the first process. Its work takes a fraction of a second, but a
/// file system of the zone may hang.
const FIRST_PROCESS_TIMEOUT: Duration = Duration::from_secs(300);

/// A socket of the channel: zoneadmd's, or the first process's.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Returns both sockets: zoneadmd's, and the first process's.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // The first process waits as long as zoneadmd lives, because a zone may stay in state
        // ready.
        set_socket_timeout(&ours, Timeout::Recv, Some(FIRST_PROCESS_TIMEOUT))?;
        Ok((Self(ours), Self(theirs)))
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn send(&self, kind: u8, body: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(1 + body.len());
        message.push(kind);
        message.extend_from_slice(body);
        if message.len() > MAX_MESSAGE {
            return Err(io::Error::other("too long"));
        }
        // Without this flag, a closed peer would cause a signal. The error is enough.
        send(&self.0, &message, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Returns the next message; `None` if the peer has closed its socket.
    fn receive(&self) -> io::Result<Option<(u8, Vec<u8>)>> {
        let mut message = vec![0; MAX_MESSAGE];
        let (length, _) =
            rustix::io::retry_on_intr(|| recv(&self.0, message.as_mut_slice(), RecvFlags::empty()))
                .map_err(|errno| match errno {
                    Errno::AGAIN => io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("it said nothing for {} s", FIRST_PROCESS_TIMEOUT.as_secs()),
                    ),
                    other => other.into(),
                })?;
        message.truncate(length);
        if message.is_empty() {
            return Ok(None);
        }
        let body = message.split_off(1);
        Ok(Some((message[0], body)))
    }

    /// Called by zoneadmd: tells the first process that everything outside the zone is prepared.
    pub(crate) fn send_go(&self) -> io::Result<()> {
        self.send(b'g', &[])
    }

    /// Called by the first process: waits for [`Channel::send_go`].
    pub(crate) fn wait_for_go(&self) -> io::Result<()> {
        match self.receive()? {
            Some((b'g', _)) => Ok(()),
            _ => Err(io::Error::other("zoneadmd gave up")),
        }
    }

    /// Called by the first process: tells zoneadmd that everything inside the zone is prepared.
    pub(crate) fn send_ready(&self) -> io::Result<()> {
        self.send(b'r', &[])
    }

    /// Called by zoneadmd: waits until the first process is ready.
    pub(crate) fn wait_for_ready(&self) -> Result<(), Error> {
        match self.receive().map_err(Error::Channel)? {
            Some((b'r', _)) => Ok(()),
            Some((_, text)) => Err(Error::Inside(String::from_utf8_lossy(&text).into_owned())),
            None => Err(Error::Ended),
        }
    }

    /// Called by the first process: sends the reason why it ends.
    pub(crate) fn send_error(&self, text: &str) {
        // If zoneadmd has ended, no process reads the message.
        let _ = self.send(b'e', text.as_bytes());
    }

    /// Called by zoneadmd: tells the first process to start this init, with these descriptors.
    pub(crate) fn send_boot(&self, init: &Init, pass: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(init)?;
        if text.len() as u64 > MAX_INIT {
            return Err(io::Error::other("boot arguments are too long"));
        }
        let mut file = File::from(memfd_create("init", MemfdFlags::CLOEXEC)?);
        file.write_all(&text)?;
        let all = [&[file.as_fd()], pass].concat();
        sys::passing::send_all(self.0.as_fd(), &all, b"b")
    }

    /// Called by the first process: waits for the description of init, with arguments and
    /// environment. Returns `None` if zoneadmd has ended.
    pub(crate) fn wait_for_boot(&self) -> io::Result<Option<(Init, Vec<OwnedFd>)>> {
        let mut message = [0; 16];
        let (length, mut passed) = sys::passing::receive_all(self.0.as_fd(), &mut message)?;
        if message[..length] != *b"b" || passed.is_empty() {
            return Ok(None);
        }
        let mut file = File::from(passed.remove(0));
        file.rewind()?;
        let mut text = Vec::new();
        file.take(MAX_INIT).read_to_end(&mut text)?;
        Ok(Some((serde_json::from_slice(&text)?, passed)))
    }

    /// Called by zoneadmd: waits until the program of init runs.
    pub(crate) fn wait_for_exec(self) -> Result<(), Error> {
        match self.receive().map_err(Error::Channel)? {
            None => Ok(()),
            Some((_, text)) => Err(Error::Inside(String::from_utf8_lossy(&text).into_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelzone::disks::MAX_PASSED;

    #[test]
    fn an_init_with_very_many_words_arrives() {
        let (ours, theirs) = Channel::pair().unwrap();
        let null = File::open("/dev/null").unwrap();
        let init = Init {
            bound: false,
            path: Some("/usr/bin/qemu".into()),
            arguments: vec![r#"{"driver": "qcow2"}"#.repeat(30); 1000],
            environment: vec!["HOME=/".to_owned()],
            user: 1,
        };
        let pass = [null.as_fd(); MAX_PASSED];
        ours.send_boot(&init, &pass).unwrap();
        let (found, passed) = theirs.wait_for_boot().unwrap().unwrap();
        assert_eq!((found, passed.len()), (init.clone(), MAX_PASSED));
        ours.send_boot(&init, &[]).unwrap();
        let (found, passed) = theirs.wait_for_boot().unwrap().unwrap();
        assert_eq!((found, passed.len()), (init.clone(), 0));
        let long = Init {
            arguments: vec!["x".repeat(1 << 20)],
            ..init
        };
        let error = ours.send_boot(&long, &[]).unwrap_err();
        assert_eq!(error.to_string(), "boot arguments are too long");
        drop(ours);
        assert!(theirs.wait_for_boot().unwrap().is_none());
    }
}
