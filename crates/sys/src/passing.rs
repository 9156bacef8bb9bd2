//! Passing a descriptor to another process.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Longest text that goes along, in bytes.
const MAX_TEXT: usize = 256;

/// Sends a descriptor with a short text.
///
/// # Errors
/// What sendmsg(2) says.
pub fn send(socket: BorrowedFd<'_>, descriptor: BorrowedFd<'_>, text: &str) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let list = [descriptor];
    control.push(SendAncillaryMessage::ScmRights(&list));
    sendmsg(
        socket,
        &[IoSlice::new(text.as_bytes())],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives what [`send`] sent; `None` when the other end is closed or sent
/// something else.
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
    fn no_descriptor_is_none() {
        let (here, there) = UnixDatagram::pair().unwrap();
        here.send(b"text alone").unwrap();
        assert!(receive(there.as_fd()).is_none());
    }
}
