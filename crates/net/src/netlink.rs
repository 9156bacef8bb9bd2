//! A route netlink socket (rtnetlink(7)): requests, their answers, and batches of
//! requests in one system call.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST};
use netlink_packet_core::{NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage as Message;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Size of the buffer for a reply of the kernel, in bytes: a reply fills one page, or up to 32 KiB
/// if the buffer of the request is larger.
const REPLY_BUFFER_BYTES: usize = 32 * 1024;

/// A socket for the links, addresses and routes of one network namespace: the namespace of the
/// thread that opened the socket, even if another thread uses it.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: Cell<u32>,
}

/// A change that the kernel is asked to make.
#[derive(Debug)]
pub struct Request {
    /// The action, for the error message: "set the address 10.0.0.2/24".
    pub what: String,
    /// The netlink message.
    pub message: Message,
    /// Message flags besides NLM_F_REQUEST and NLM_F_ACK.
    pub flags: u16,
}

/// A change that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("could not {what}")]
pub struct Refused {
    /// The action that failed.
    pub what: String,
    /// Number of the request in its batch.
    pub number: usize,
    /// The error of the kernel.
    pub source: io::Error,
}

impl Refused {
    /// Returns the error number of the kernel.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        Errno::from_io_error(&self.source)
    }
}

impl Netlink {
    /// Opens a socket in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Fails with the error of socket(2).
    pub fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            // Protocol 0 of this family is NETLINK_ROUTE.
            None,
        )?;
        Ok(Self {
            socket,
            sequence: Cell::new(1),
        })
    }

    fn next(&self) -> u32 {
        let number = self.sequence.get();
        self.sequence.set(number.wrapping_add(1));
        number
    }

    fn append(&self, buffer: &mut Vec<u8>, message: Message, flags: u16) -> u32 {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.next();
        let number = header.sequence_number;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        let start = buffer.len().next_multiple_of(4);
        buffer.resize(start + packet.buffer_len(), 0);
        packet.serialize(&mut buffer[start..]);
        number
    }

    /// Sends the requests in this order, in one system call. The kernel continues after a request
    /// that it refuses.
    ///
    /// # Errors
    /// Fails with the first request that the kernel refused.
    pub fn change(&self, requests: Vec<Request>) -> Result<(), Refused> {
        if requests.is_empty() {
            return Ok(());
        }
        let mut buffer = Vec::with_capacity(512);
        let mut waiting: Vec<(u32, String)> = Vec::with_capacity(requests.len());
        for request in requests {
            let number = self.append(&mut buffer, request.message, request.flags | NLM_F_ACK);
            waiting.push((number, request.what));
        }
        let count = waiting.len();
        let failed = |number: usize, source: io::Error| Refused {
            what: waiting
                .get(number)
                .map_or_else(String::new, |(_, what)| what.clone()),
            number,
            source,
        };
        rustix::net::send(&self.socket, &buffer, SendFlags::empty())
            .map_err(|errno| failed(0, errno.into()))?;
        let first = waiting.first().map_or(0, |(number, _)| *number);
        let mut answered = 0;
        let mut refused = None;
        while answered < count {
            for (number, payload) in self.receive().map_err(|error| failed(answered, error))? {
                let index = number.wrapping_sub(first) as usize;
                if index >= count {
                    continue;
                }
                if let NetlinkPayload::Error(error) = payload {
                    answered += 1;
                    if error.code.is_some() && refused.is_none() {
                        refused = Some(failed(index, error.to_io()));
                    }
                }
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Sends a request that has one answer, and returns the answer.
    ///
    /// # Errors
    /// Fails with the error of the kernel: `ENODEV` if the link does not exist.
    pub fn ask(&self, message: Message) -> io::Result<Message> {
        let mut answers = self.exchange(message, 0)?;
        match answers.len() {
            0 => Err(io::ErrorKind::InvalidData.into()),
            _ => Ok(answers.swap_remove(0)),
        }
    }

    /// Returns all objects of a kind, such as all links.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn dump(&self, message: Message) -> io::Result<Vec<Message>> {
        self.exchange(message, NLM_F_DUMP)
    }

    fn exchange(&self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        let mut buffer = Vec::with_capacity(128);
        let asked = self.append(&mut buffer, message, flags);
        rustix::net::send(&self.socket, &buffer, SendFlags::empty())?;
        let mut answers = Vec::new();
        loop {
            for (number, payload) in self.receive()? {
                if number != asked {
                    continue;
                }
                match payload {
                    NetlinkPayload::InnerMessage(message) => answers.push(message),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io());
                    }
                    NetlinkPayload::Done(_) | NetlinkPayload::Error(_) => return Ok(answers),
                    _ => {}
                }
            }
            if flags == 0 && !answers.is_empty() {
                return Ok(answers);
            }
        }
    }

    /// Returns the messages of one datagram.
    fn receive(&self) -> io::Result<Vec<(u32, NetlinkPayload<Message>)>> {
        // Not filled with zeros: only the pages that the kernel fills take memory.
        let mut buffer = Vec::with_capacity(REPLY_BUFFER_BYTES);
        let (length, _) = rustix::net::recv(
            &self.socket,
            spare_capacity(&mut buffer),
            RecvFlags::empty(),
        )?;
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut rest = &buffer[..length];
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let message = NetlinkMessage::<Message>::deserialize(rest).map_err(invalid)?;
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
            messages.push((message.header.sequence_number, message.payload));
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(messages)
    }
}
