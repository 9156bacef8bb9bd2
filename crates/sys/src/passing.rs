//! Passes descriptors to another process.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Maximum length of the text of a message, in bytes.
const MAX_TEXT: usize = 256;

/// Sends a descriptor with a short text.
///
/// # Errors
/// Fails with the error of sendmsg(2).
pub fn send(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>, text: &str) -> io::Result<()> {
    send_one(socket, descriptor, text.as_bytes(), SendFlags::NOSIGNAL).map(drop)
}

/// Does the same as [`send`], but never waits for free space in the socket. Returns the number of
/// bytes that were sent. The descriptor is sent with the first byte.
///
/// # Errors
/// Fails with the error of sendmsg(2); with [`io::ErrorKind::WouldBlock`] if nothing was sent.
pub fn send_now(
    socket: BorrowedFd<'_>,
    descriptor: BorrowedFd<'_>,
    bytes: &[u8],
) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    send_one(socket, descriptor, bytes, flags)
}

fn send_one(
    socket: BorrowedFd<'_>,
    descriptor: BorrowedFd<'_>,
    bytes: &[u8],
    flags: SendFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let list = [descriptor];
    control.push(SendAncillaryMessage::ScmRights(&list));
    Ok(sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}

/// Receives a message of [`send`]. Returns `None` if the peer closed the socket or sent another
/// message.
#[must_use]
pub fn receive(socket: BorrowedFd<'_>) -> Option<(OwnedFd, String)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut text = [0; MAX_TEXT];
    let mut parts = [IoSliceMut::new(&mut text)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut list) => list.next(),
        _ => None,
    })?;
    Some((
        descriptor,
        String::from_utf8_lossy(&text[..received.bytes]).into_owned(),
    ))
}

/// Maximum number of descriptors in a message; the kernel's own limit is 253 (SCM_MAX_FD).
pub const MAX_DESCRIPTORS: usize = 250;

/// Sends several descriptors together with bytes, in one message.
///
/// # Errors
/// Fails with the error of sendmsg(2), and if there are more than [`MAX_DESCRIPTORS`] descriptors.
pub fn send_all(
    socket: BorrowedFd<'_>,
    descriptors: &[BorrowedFd<'_>],
    bytes: &[u8],
) -> io::Result<()> {
    if descriptors.len() > MAX_DESCRIPTORS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives a message of [`send_all`]. Returns the number of bytes, and the descriptors.
///
/// # Errors
/// Fails with the error of recvmsg(2).
pub fn receive_all(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(list) = message {
            descriptors.extend(list);
        }
    }
    Ok((received.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_descriptor_arrives_with_its_text() {
        let (here, there) = UnixDatagram::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        send(here.as_fd(), null.as_fd(), "pts/7").unwrap();
        let (descriptor, text) = receive(there.as_fd()).unwrap();
        assert_eq!(text, "pts/7");
        assert_eq!(std::fs::File::from(descriptor).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn a_receiver_that_does_not_read_is_not_waited_for() {
        let (here, _there) = UnixDatagram::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let full = loop {
            match send_now(here.as_fd(), null.as_fd(), &[7; 4096]) {
                Ok(4096) => {}
                other => break other.unwrap_err(),
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn several_descriptors_arrive_in_their_order() {
        let (here, there) = UnixDatagram::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let zero = std::fs::File::open("/dev/zero").unwrap();
        send_all(here.as_fd(), &[null.as_fd(), zero.as_fd()], b"two").unwrap();
        send_all(here.as_fd(), &[], b"none").unwrap();
        let mut bytes = [0; 16];
        let (length, mut list) = receive_all(there.as_fd(), &mut bytes).unwrap();
        assert_eq!((&bytes[..length], list.len()), (&b"two"[..], 2));
        let second = std::fs::File::from(list.remove(1)).read(&mut [0]);
        assert_eq!(second.unwrap(), 1);
        let (length, list) = receive_all(there.as_fd(), &mut bytes).unwrap();
        assert_eq!((&bytes[..length], list.len()), (&b"none"[..], 0));
    }

    #[test]
    fn a_message_without_a_descriptor_is_none() {
        let (here, there) = UnixDatagram::pair().unwrap();
        here.send(b"text alone").unwrap();
        assert!(receive(there.as_fd()).is_none());
    }
}
