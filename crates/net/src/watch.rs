//! Notices when somebody changes the rules of the host's firewall, and so may have removed ours.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, netlink};

/// NFNLGRP_NFTABLES of linux/netfilter/nfnetlink.h, as a bit of the groups of an address.
const NFTABLES_GROUP: u32 = 1 << (7 - 1);

/// Time from the first message to the look at the rules: a program that loads a ruleset sends
/// many messages.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// Interval between the looks of two zones, and the number of intervals: one of the zones
/// restores the rules for all, and the others find them.
const SPREAD_INTERVAL: Duration = Duration::from_millis(50);
const SPREAD_INTERVALS: u32 = 16;

/// A socket that receives a message for each change of the rules.
#[derive(Debug)]
pub struct Watch {
    socket: OwnedFd,
    /// Time to look at the rules after a change.
    delay: Duration,
    due: Option<Instant>,
}

impl Watch {
    /// Watches the rules of the calling thread's network namespace for a zone with this id.
    ///
    /// # Errors
    /// Fails with the error of socket(2) or bind(2); a kernel without nftables has no such
    /// socket.
    pub fn open(id: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::NETFILTER);
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, NFTABLES_GROUP))?;
        Ok(Self {
            socket,
            delay: SETTLE_TIME + SPREAD_INTERVAL * (id % SPREAD_INTERVALS),
            due: None,
        })
    }

    /// Reads the messages that are there, and plans a look at the rules.
    pub fn take_messages(&mut self, now: Instant) {
        let mut message = [0; 64];
        // Messages are cut off: that there was one is all that counts. A socket whose buffer
        // was full returns ENOBUFS once, and has lost messages, not all of them.
        while rustix::net::recv(&self.socket, &mut message, RecvFlags::DONTWAIT)
            .map_or_else(|error| error == rustix::io::Errno::NOBUFS, |_| true)
        {}
        self.due.get_or_insert(now + self.delay);
    }

    /// Returns the time until the next look at the rules; `None` if there was no change.
    #[must_use]
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }

    /// Returns whether it is time to look at the rules, and forgets the change if so.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_some_and(|due| due <= now);
        if is_due {
            self.due = None;
        }
        is_due
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
