//! The socket inside a zone through which `beadm` and `fence_zone` send packets to zoneadmd: its
//! protocol, for both sides.
//!
//! A request is one packet: the words of a command line, separated by spaces. A request that begins
//! with the word [`FENCE`] is about other nodes of the zone's cluster; all others are about boot
//! environments. The answer is several packets. Each begins with a letter: `o` for a part of standard output, `e` for a part of
//! standard error, `x` for the exit status in the last packet. A request does not name its zone,
//! because every zone has a socket of its own.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    listen as listen_on, recv, send, socket_with,
};
use rustix::process::umask;

/// The path of the socket in a zone. zoneadmd mounts /dev in every zone, and no init mounts another
/// file system over it.
pub const SOCKET: &str = "/dev/zone-beadm";

pub use host::spawn::INSIDE;

/// The first word of a fence request.
pub const FENCE: &str = "fence";

/// Maximum length of a request, in bytes.
pub const MAX_REQUEST: usize = 1024;

/// Maximum number of words in a request.
const MAX_WORDS: usize = 8;

/// Maximum length of a packet of an answer, in bytes.
pub const MAX_ANSWER: usize = 16 << 10;

/// Maximum number of requests that wait to be accepted.
const LISTEN_BACKLOG: i32 = 4;

/// Creates the socket, which has no path yet.
pub fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    Ok(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// Binds the socket to its path. The caller must be in the zone, as root of the zone.
pub fn listen(socket: BorrowedFd<'_>, place: &Path) -> io::Result<()> {
    let address = SocketAddrUnix::new(place)?;
    let before = umask(Mode::from_raw_mode(0o177));
    let bound = bind(socket, &address);
    umask(before);
    bound?;
    Ok(listen_on(socket, LISTEN_BACKLOG)?)
}

/// Parses a request into its words.
///
/// # Errors
/// Fails with a text for the client if the request is malformed.
pub fn read_request(packet: &[u8]) -> Result<Vec<String>, &'static str> {
    if packet.is_empty() || packet.len() > MAX_REQUEST {
        return Err("a request has 1 to 1024 bytes");
    }
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-.:".contains(byte);
    if !packet.iter().all(legal) {
        return Err("a request has letters, digits, '_', '-', '.', ':' and spaces");
    }
    // The request is ASCII, so that every byte is one character.
    let words: Vec<String> = packet
        .split(|byte| *byte == b' ')
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    if words.len() > MAX_WORDS || words.iter().any(String::is_empty) {
        return Err("a request has up to 8 words");
    }
    Ok(words)
}

/// A packet of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A part of standard output.
    Output(Vec<u8>),
    /// A part of standard error.
    Errors(Vec<u8>),
    /// The exit status; this packet is the last one.
    Exit(u8),
}

impl Answer {
    /// Sends the packet; ignores errors, because the client may have ended or may not read.
    pub fn send(&self, client: impl AsFd) {
        let (kind, body) = match self {
            Self::Output(body) => (b'o', body.as_slice()),
            Self::Errors(body) => (b'e', body.as_slice()),
            Self::Exit(status) => (b'x', std::slice::from_ref(status)),
        };
        let packet = [&[kind], body].concat();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = send(client, &packet, flags);
    }

    fn read(packet: &[u8]) -> Option<Self> {
        match packet {
            [b'o', body @ ..] => Some(Self::Output(body.to_vec())),
            [b'e', body @ ..] => Some(Self::Errors(body.to_vec())),
            [b'x', status] => Some(Self::Exit(*status)),
            _ => None,
        }
    }
}

/// Sends a request to the zone's zoneadmd and calls `take` with each part of the output. Returns
/// the exit status.
///
/// # Errors
/// Fails if the zone has no zoneadmd, or if zoneadmd ends before it sends the exit status.
pub fn ask(words: &[String], mut take: impl FnMut(Answer)) -> io::Result<u8> {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(SOCKET)?)?;
    send(&socket, words.join(" ").as_bytes(), SendFlags::NOSIGNAL)?;
    let mut packet = vec![0; MAX_ANSWER];
    loop {
        let got =
            rustix::io::retry_on_intr(|| recv(&socket, packet.as_mut_slice(), RecvFlags::empty()));
        let (length, _) = got?;
        match Answer::read(&packet[..length]) {
            Some(Answer::Exit(status)) => return Ok(status),
            Some(answer) => take(answer),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_few_plain_words() {
        let words = read_request(b"create -a -e old 2026-11-20_21:30").unwrap();
        assert_eq!(words, ["create", "-a", "-e", "old", "2026-11-20_21:30"]);
        assert!(read_request(&[b'a'; MAX_REQUEST]).is_ok());
        for wrong in [
            &b""[..],
            b" ",
            b"list ",
            b"list  a",
            b"list\0",
            b"\0",
            b"list\na",
            b"create ../x",
            b"create \xff",
            b"mount a /mnt",
            b"a b c d e f g h i",
            &[b'a'; MAX_REQUEST + 1],
        ] {
            assert!(read_request(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn answers_arrive_as_they_were_sent() {
        let kind = SocketType::SEQPACKET;
        let flags = SocketFlags::CLOEXEC;
        let (here, there) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        for answer in [
            Answer::Output(b"a\n".to_vec()),
            Answer::Errors(Vec::new()),
            Answer::Exit(2),
        ] {
            answer.send(&here);
            let mut packet = [0; 16];
            let (length, _) = recv(&there, packet.as_mut_slice(), RecvFlags::empty()).unwrap();
            assert_eq!(Answer::read(&packet[..length]), Some(answer));
        }
        for wrong in [&b""[..], b"x", b"x12", b"y"] {
            assert_eq!(Answer::read(wrong), None);
        }
    }
}
