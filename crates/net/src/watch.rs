//! Notices changes of the rules of the host's firewall, which may have removed the rules of zones.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, netlink};

/// The bit of NFNLGRP_NFTABLES (linux/netfilter/nfnetlink.h) in the groups of a netlink address.
const NFTABLES_GROUP: u32 = 1 << (7 - 1);

/// Pause from the first message to the check of the rules: a program that loads a ruleset sends
/// many messages.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// Interval between the checks of two zones, and the number of intervals. The first zone that
/// checks restores the rules for all zones, and the other zones find the rules restored.
const SPREAD_INTERVAL: Duration = Duration::from_millis(50);
const SPREAD_INTERVALS: u32 = 16;

/// A socket that receives a message for each change of the rules.
#[derive(Debug)]
pub struct Watch {
    socket: OwnedFd,
    /// The pause from the first message of a change to the check of the rules.
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

    /// Reads the messages that have arrived, and plans a check of the rules.
    pub fn take_messages(&mut self, now: Instant) {
        let mut message = [0; 64];
        // Messages are truncated, because only their arrival matters. A socket whose buffer was
        // full returns ENOBUFS once; it has lost some messages, but not all.
        while rustix::net::recv(&self.socket, &mut message, RecvFlags::DONTWAIT)
            .map_or_else(|error| error == rustix::io::Errno::NOBUFS, |_| true)
        {}
        self.plan_check(now);
    }

    /// Plans a check of the host's network, unless a check is planned.
    pub fn plan_check(&mut self, now: Instant) {
        self.due.get_or_insert(now + self.delay);
    }

    /// Returns the time until the next check of the rules; `None` if no change was noticed.
    #[must_use]
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(now))
    }

    /// Returns true if a check of the rules is due, and then forgets the change.
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
