//! The messages between the two sides of a migration, over a pipe.
//!
//! A frame is a letter, the length of its body in four bytes (big-endian), and the body. A stream
//! is a sequence of `d` frames that ends with an `e` frame.
//!
//! | from | frame | says |
//! |---|---|---|
//! | source | `h` | [`Hello`]: the zone, its layers, its manifest |
//! | target | `w` | [`Welcome`]: how many of the layers it has |
//! | source | `l` | a layer follows, as a stream |
//! | source | `t` | the top follows, or its changes since the last time |
//! | source | `r` | names that are gone from the top, a zero byte behind each |
//! | source | `v` | the digest of the top |
//! | source | `f` | a file of a machine: its blocks follow as a stream |
//! | source | `s` | the digest of that file, unless it is a draft |
//! | source | `p` | the description of the running machine: can it continue there? |
//! | source | `m` | [`Arrange`]: a machine comes while it runs |
//! | target | `n` | that cannot be, and why: the zone may come in another way |
//! | both | `b` | a piece of a channel between the two QEMUs, see `channels` |
//! | source | `q` | the machine stands still, and all blocks of its disks were sent |
//! | source | `g` | all of its memory was sent |
//! | source | `u` | the live migration is cancelled: forget its data |
//! | target | `o` | done, and the last after `g` or `u` that is said of channels |
//! | source | `c` | [`Commit`]: the zone is the target's now |
//! | target | `k` | done, up to here; after `c`, with the reason if the machine cannot continue |
//! | target | `x` | an error, and the end |

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use brand::Content;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use storage::Digest;

use crate::channels::Out;
use crate::guest::Cargo;

/// The kind of a frame. The value is the letter on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Frame {
    Hello = b'h',
    Welcome = b'w',
    Layer = b'l',
    Top = b't',
    Removed = b'r',
    TopDigest = b'v',
    File = b'f',
    FileDigest = b's',
    Probe = b'p',
    Arrange = b'm',
    Refused = b'n',
    Channel = b'b',
    DisksSent = b'q',
    MemorySent = b'g',
    Undo = b'u',
    Over = b'o',
    Commit = b'c',
    Done = b'k',
    Failed = b'x',
    Data = b'd',
    EndOfStream = b'e',
}

impl Frame {
    /// All kinds of frames.
    const ALL: [Self; 21] = [
        Self::Hello,
        Self::Welcome,
        Self::Layer,
        Self::Top,
        Self::Removed,
        Self::TopDigest,
        Self::File,
        Self::FileDigest,
        Self::Probe,
        Self::Arrange,
        Self::Refused,
        Self::Channel,
        Self::DisksSent,
        Self::MemorySent,
        Self::Undo,
        Self::Over,
        Self::Commit,
        Self::Done,
        Self::Failed,
        Self::Data,
        Self::EndOfStream,
    ];

    /// Returns the kind with this letter. Fails if no kind has the letter.
    fn of(letter: u8) -> io::Result<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|kind| *kind as u8 == letter).ok_or_else(|| {
            io::Error::other(format!(
                "expected a kind of frame that version {VERSION} knows, found byte {letter}"
            ))
        })
    }
}

/// Maximum number of bytes in the body of a frame outside streams.
const MAX_FRAME: usize = 16 << 20;

/// Maximum number of bytes in the body of a frame within a stream.
pub(super) const MAX_PIECE: usize = 1 << 20;

/// The protocol version, which must be the same on both sides.
pub(super) const VERSION: u32 = 4;

/// The source's first message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    /// The id of this migration.
    pub(super) id: String,
    /// The manifest, in the format that `zoneadm detach` writes.
    pub(super) manifest: String,
    /// The digest of the image that is the lowest layer; `None` if the lowest layer is not an
    /// image.
    pub(super) image: Option<String>,
    /// The digests of the zone's layers, the lowest layer first.
    pub(super) layers: Vec<String>,
    /// True if the source only asks, and will not send the zone.
    pub(super) dry_run: bool,
    /// True if a zone that shares the host's programs may be updated to the programs of the target.
    pub(super) update: bool,
    /// The description of the guest; `None` for a zone that is not a kernel zone.
    pub(super) machine: Option<Cargo>,
    /// True if the zone has assembled itself, so that an immutable zone boots read-only. Sources
    /// before this field say nothing, and their zones assemble themselves again.
    #[serde(default)]
    pub(super) assembled: bool,
}

/// The target's answer to [`Hello`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Welcome {
    /// Number of layers that the target has already, counted from the lowest.
    pub(super) have: usize,
    /// The names of the disk files that the target has already.
    #[serde(default)]
    pub(super) files: Vec<String>,
}

/// The source's request for a live migration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Arrange {
    /// The description of the guest, from which the target finds out whether the guest can run
    /// there.
    pub(super) machine: serde_json::Value,
    /// The disks of the guest, in the order of their channels. The channel of the memory follows
    /// the channels of the disks.
    pub(super) disks: Vec<ArrangeDisk>,
}

/// A disk of a guest that migrates live.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ArrangeDisk {
    /// Number of the disk.
    pub(super) id: u32,
    /// The size that the guest sees, in bytes.
    pub(super) size: u64,
}

/// The source's last message, which hands the zone over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Commit {
    /// True if the target boots the zone.
    pub(super) boot: bool,
}

/// The result of a migration, as the target sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fate {
    /// The target has the zone.
    Arrived,
    /// The target does not have the zone, and ignores what it received.
    Unknown,
}

/// The connection to the other side of a migration.
pub(super) struct Wire<R, W> {
    from: R,
    to: W,
}

impl<R: Read, W: Write> Wire<R, W> {
    pub(super) const fn new(from: R, to: W) -> Self {
        Self { from, to }
    }

    pub(super) fn say(&mut self, kind: Frame, body: &[u8]) -> io::Result<()> {
        send(&mut self.to, kind, body)?;
        self.to.flush()
    }

    pub(super) fn say_json(&mut self, kind: Frame, body: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_vec(body)?;
        self.say(kind, &text)
    }

    /// Returns the next frame; `None` at the end of the connection.
    pub(super) fn hear(&mut self) -> io::Result<Option<(Frame, Vec<u8>)>> {
        receive(&mut self.from, MAX_FRAME)
    }

    /// Reads the next frame, which must be of this kind, and returns its body.
    ///
    /// # Errors
    /// Fails with the error message of the other side, or if another frame or the end of the
    /// connection follows.
    pub(super) fn expect(&mut self, kind: Frame) -> io::Result<Vec<u8>> {
        match self.hear()? {
            Some((found, body)) if found == kind => Ok(body),
            Some((Frame::Failed, text)) => Err(io::Error::other(plain(&text))),
            Some(_) => Err(io::Error::other("an answer that was not asked for")),
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection ended",
            )),
        }
    }

    /// Waits until a frame or the end of the connection can be read.
    ///
    /// # Errors
    /// Fails with [`io::ErrorKind::TimedOut`] after the time `limit`.
    pub(super) fn wait(&self, limit: Duration) -> io::Result<()>
    where
        R: AsFd,
    {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(&self.from, PollFlags::IN)], Some(&left)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Returns the reading and the writing half of the connection, for use by several threads.
    pub(super) fn halves(&mut self) -> (&mut R, Out<'_, W>) {
        (&mut self.from, Out::new(&mut self.to))
    }

    /// Starts a stream to the other side. [`Stream::end`] ends the stream.
    pub(super) fn stream(&mut self) -> Stream<'_, W> {
        Stream(&mut self.to)
    }

    /// Returns a reader for the stream that the other side sends now.
    pub(super) fn incoming(&mut self) -> Incoming<'_, R> {
        Incoming {
            from: &mut self.from,
            piece: Vec::new(),
            at: 0,
            ended: false,
        }
    }
}

/// Returns true if an extended attribute of a layer is sent.
pub(super) fn keeps(name: &[u8], value: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| Content::Layer.keeps(name, value))
}

/// Returns text from the other side in a form that is safe for a terminal: without control
/// characters, and at most 16 KiB.
pub(super) fn plain(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(16 << 10)]);
    let plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().filter(plain).collect()
}

fn send(to: &mut impl Write, kind: Frame, body: &[u8]) -> io::Result<()> {
    send_parts(to, kind, &[body])
}

/// Sends a frame whose body consists of these parts.
pub(super) fn send_parts(to: &mut impl Write, kind: Frame, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).map_err(io::Error::other)?;
    let mut head = [kind as u8, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_be_bytes());
    to.write_all(&head)?;
    parts.iter().try_for_each(|part| to.write_all(part))
}

pub(super) fn receive(from: &mut impl Read, most: usize) -> io::Result<Option<(Frame, Vec<u8>)>> {
    let mut head = [0; 5];
    let mut have = 0;
    while have < head.len() {
        match from.read(&mut head[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => have += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [letter, a, b, c, d] = head;
    let kind = Frame::of(letter)?;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > most {
        return Err(io::Error::other("a frame that is too long"));
    }
    let mut body = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut body)?;
    match read == length {
        true => Ok(Some((kind, body))),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A writer that sends the written bytes as frames of a stream.
pub(super) struct Stream<'a, W: Write>(&'a mut W);

impl<W: Write> Stream<'_, W> {
    pub(super) fn end(self) -> io::Result<()> {
        send(self.0, Frame::EndOfStream, b"")?;
        self.0.flush()
    }
}

impl<W: Write> Write for Stream<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(MAX_PIECE)];
        if !piece.is_empty() {
            send(self.0, Frame::Data, piece)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A reader that returns the bytes of a stream from its frames.
pub(super) struct Incoming<'a, R: Read> {
    from: &'a mut R,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl<R: Read> Incoming<'_, R> {
    /// Reads and discards the rest of the stream.
    pub(super) fn finish(mut self) -> io::Result<()> {
        io::copy(&mut self, &mut io::sink()).map(|_| ())
    }
}

impl<R: Read> Read for Incoming<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            if self.ended {
                return Ok(0);
            }
            match receive(self.from, MAX_PIECE)? {
                Some((Frame::Data, piece)) => (self.piece, self.at) = (piece, 0),
                Some((Frame::EndOfStream, _)) => self.ended = true,
                Some(_) => {
                    return Err(io::Error::other(
                        "expected data, found another message within a stream",
                    ));
                }
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let rest = &self.piece[self.at..];
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

/// Parses a digest from the other side.
pub(super) fn digest(text: &str) -> io::Result<Digest> {
    text.parse().map_err(io::Error::other)
}

/// Parses all frames in `bytes` like each side of a migration, and returns the accepted frames in
/// the form in which they are sent. This function is for fuzzers.
///
/// # Errors
/// Fails at the first frame that is cut off, too long or of an unknown kind, and at a message with
/// missing or invalid fields.
pub fn frames_again(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut from = bytes;
    let mut again = Vec::new();
    while let Some((kind, body)) = receive(&mut from, MAX_FRAME)? {
        match kind {
            Frame::Hello => drop(serde_json::from_slice::<Hello>(&body)?),
            Frame::Welcome => drop(serde_json::from_slice::<Welcome>(&body)?),
            Frame::Arrange => drop(serde_json::from_slice::<Arrange>(&body)?),
            Frame::Commit => {
                serde_json::from_slice::<Commit>(&body)?;
            }
            Frame::TopDigest | Frame::FileDigest => {
                digest(&String::from_utf8_lossy(&body))?;
            }
            Frame::Failed | Frame::Refused => drop(plain(&body)),
            _ => {}
        }
        send(&mut again, kind, &body)?;
    }
    Ok(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_frames_come_as_they_were_sent() {
        let mut sent = Vec::new();
        let mut out = Wire::new(io::empty(), &mut sent);
        out.say(Frame::Top, b"").unwrap();
        let text = vec![7; 3 << 20];
        let mut stream = out.stream();
        stream.write_all(&text).unwrap();
        stream.end().unwrap();
        out.say(Frame::Done, b"more").unwrap();
        let mut wire = Wire::new(sent.as_slice(), io::sink());
        assert_eq!(wire.hear().unwrap(), Some((Frame::Top, Vec::new())));
        let mut incoming = wire.incoming();
        let mut read = Vec::new();
        incoming.read_to_end(&mut read).unwrap();
        incoming.finish().unwrap();
        assert!(read == text);
        assert_eq!(wire.expect(Frame::Done).unwrap(), b"more");
        assert_eq!(wire.hear().unwrap(), None);
    }

    #[test]
    fn a_silent_peer_times_out() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let wire = Wire::new(ours, io::sink());
        let moment = Duration::from_millis(1);
        let error = wire.wait(moment).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        theirs.write_all(b"c").unwrap();
        wire.wait(moment).unwrap();
        // The end of the connection also ends the wait.
        drop(theirs);
        wire.wait(moment).unwrap();
    }

    #[test]
    fn truncated_and_malformed_frames_are_refused() {
        for bytes in [
            &b"k\0\0"[..],
            b"k\0\0\0\x05abc",
            b"k\xff\xff\xff\xff",
            b"x\0\0\0\x03a\x1bb",
            b"w\0\0\0\0",
            b"",
        ] {
            assert!(Wire::new(bytes, io::sink()).expect(Frame::Done).is_err());
        }
        let error = Wire::new(&b"x\0\0\0\x03a\x1bb"[..], io::sink()).expect(Frame::Done);
        assert_eq!(error.unwrap_err().to_string(), "ab");
        let error = Wire::new(&b"Z\0\0\0\0"[..], io::sink()).hear();
        assert_eq!(
            error.unwrap_err().to_string(),
            "expected a kind of frame that version 4 knows, found byte 90"
        );
        let mut wire = Wire::new(&b"d\0\0\0\x01xk\0\0\0\0"[..], io::sink());
        assert!(wire.incoming().finish().is_err());
    }
}
