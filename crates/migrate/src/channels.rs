//! Carries the connections between the QEMUs of both hosts over the wire of a migration. Each disk
//! has a connection for both directions, and the guest's memory has one connection to the target.
//!
//! Each piece of data is a frame: the number of the channel, and bytes. A frame without bytes ends
//! the channel. Pipes limit the data in transit, so the faster side waits for the slower side.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

use crate::wire::{Frame, MAX_PIECE, send_parts};

/// Number of bytes of a connection that one read returns at most.
const READ_BYTES: usize = 256 << 10;

/// Maximum size in bytes of a frame while channels are carried.
pub(super) const MAX_FRAME_BYTES: usize = MAX_PIECE + 1;

/// The writing half of the wire. Several threads write to it.
pub(super) struct Out<'a, W>(Mutex<&'a mut W>);

impl<'a, W: Write> Out<'a, W> {
    pub(super) const fn new(to: &'a mut W) -> Self {
        Self(Mutex::new(to))
    }

    pub(super) fn say(&self, kind: Frame, parts: &[&[u8]]) -> io::Result<()> {
        let mut to = self.0.lock().map_err(|_| io::Error::other("a panic"))?;
        send_parts(&mut **to, kind, parts)?;
        to.flush()
    }
}

/// Copies the data of a connection to the wire, up to the end of the connection. Then sends the end
/// of the channel, even after a read error.
pub(super) fn carry<W: Write>(
    number: u8,
    mut from: &UnixStream,
    out: &Out<'_, W>,
) -> io::Result<()> {
    let mut piece = vec![0; READ_BYTES];
    loop {
        match from.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => out.say(Frame::Channel, &[&[number], &piece[..length]])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    out.say(Frame::Channel, &[&[number]])
}

/// Writes the data of a frame to the channel that the frame names.
///
/// # Errors
/// Fails if the channel does not exist, or if the reader of the channel has ended.
pub(super) fn deliver(channels: &[&UnixStream], body: &[u8]) -> io::Result<()> {
    let (number, bytes) = body
        .split_first()
        .ok_or_else(|| io::Error::other("a piece of no channel"))?;
    let mut channel = channels
        .get(usize::from(*number))
        .copied()
        .ok_or_else(|| io::Error::other("a piece of no channel"))?;
    match bytes.is_empty() {
        // An error is ignored, because the channel may have ended already.
        true => {
            let _ = channel.shutdown(Shutdown::Write);
            Ok(())
        }
        false => channel.write_all(bytes),
    }
}

/// Shuts connections down, so that their readers see the end of the data.
pub(super) fn end(channels: &[&UnixStream]) {
    for channel in channels {
        let _ = channel.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::receive;

    #[test]
    fn data_of_one_end_arrives_at_the_other() {
        let mut sent = Vec::new();
        let (ours, mut qemus) = UnixStream::pair().unwrap();
        let text: Vec<u8> = (0..=255_u8).cycle().take(600_000).collect();
        let all = text.clone();
        let writer = std::thread::spawn(move || qemus.write_all(&all).unwrap());
        carry(3, &ours, &Out::new(&mut sent)).unwrap();
        writer.join().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        let other = UnixStream::pair().unwrap().0;
        let reader = std::thread::spawn(move || {
            let mut heard = Vec::new();
            far.read_to_end(&mut heard).unwrap();
            heard
        });
        let mut wire = sent.as_slice();
        while let Some((kind, body)) = receive(&mut wire, MAX_FRAME_BYTES).unwrap() {
            assert_eq!(kind, Frame::Channel);
            deliver(&[&other, &other, &other, &near], &body).unwrap();
        }
        assert!(reader.join().unwrap() == text);
    }

    #[test]
    fn data_for_an_unknown_channel_is_refused() {
        let (one, _far) = UnixStream::pair().unwrap();
        for body in [&b""[..], b"\x01", b"\x01x", b"\xffx"] {
            assert!(deliver(&[&one], body).is_err(), "{body:?}");
        }
        assert!(deliver(&[], b"\0x").is_err());
        // A frame that is too long is refused before its body is read.
        let long = u32::try_from(MAX_FRAME_BYTES + 1).unwrap().to_be_bytes();
        let frame = [&b"b"[..], &long].concat();
        assert!(receive(&mut frame.as_slice(), MAX_FRAME_BYTES).is_err());
    }

    #[test]
    fn a_closed_channel_is_not_waited_for() {
        let (one, far) = UnixStream::pair().unwrap();
        drop(far);
        assert!(deliver(&[&one], b"\0x").is_err());
        deliver(&[&one], b"\0").unwrap();
        end(&[&one]);
        let mut sent = Vec::new();
        carry(0, &one, &Out::new(&mut sent)).unwrap();
        assert_eq!(sent, b"b\0\0\0\x01\0");
    }
}
