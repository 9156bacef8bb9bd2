//! Checks the frames that a zone sends: a program at the host's end of its link.
//!
//! Every link of a zone has a device on the host's side, and what the zone sends
//! arrives there first. A BPF program made for this one link (tc-bpf(8), clsact,
//! ingress) looks at each frame before anything else of the host does. It lives and
//! dies with the device, so that there is nothing to clean up, and no firewall of the
//! host's is part of it or can flush it away.
//!
//! A frame is dropped when it cannot be read as far as a rule needs.

mod counters;
mod dhcp;
mod frame;
mod ipv4;
mod ipv6;
mod program;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

pub use counters::{Reason, counts, counts_of};
pub use dhcp::Clients;
pub use program::{inbound, program};
use sys::bpf;

/// Maximum number of source addresses of a link: the kernel must verify the whole program.
pub const MAX_SOURCES: usize = 256;

/// The frames that a zone may send on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The link's MAC address: frames with another source are dropped (mac-nospoof).
    /// None: any.
    pub mac: Option<[u8; 6]>,
    /// Source addresses that the zone may use, with prefix length (ip-nospoof): as
    /// source of IP packets, and in what ARP and neighbour discovery say of addresses.
    /// With the protocols that a link cannot do without: the link-local address made
    /// of the MAC address, questions for an address by DHCP, and for duplicates of the
    /// zone's own. None: any. Empty: none.
    pub sources: Option<Vec<(IpAddr, u8)>>,
    /// Drops answers of DHCP servers and router advertisements (dhcp-nospoof).
    pub dhcp: bool,
    /// With `dhcp`: who the zone may be for DHCP servers. None: anybody.
    pub clients: Option<Clients>,
    /// Admits only IPv4, IPv6 and ARP (restricted).
    pub restricted: bool,
    /// True if the link has no neighbours: ARP, neighbour discovery and link-local addresses go
    /// nowhere. ARP, neighbour discovery and link-local addresses go nowhere. Only what speaks for
    /// others is counted: ARP that names another address, answers of neighbours and of routers.
    pub routed: bool,
    /// 802.1Q tag to put on what the zone sends, 1 to 4094. The zone cannot send tags
    /// of its own then.
    pub vlan: Option<u16>,
    /// Priority that frames get (TC_PRIO_*), None leaves it.
    pub priority: Option<u32>,
    /// Most bytes a second that pass, None: no limit. What is over is dropped.
    pub rate: Option<u64>,
    /// The destination of an admitted frame.
    pub to: Verdict,
}

/// The destination of an admitted frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// On to the host's own network.
    #[default]
    Host,
    /// Out of the device with this index.
    Device(u32),
}

/// A program that the kernel has taken, ready to be attached.
#[derive(Debug)]
pub struct Loaded {
    /// The program.
    pub program: OwnedFd,
    /// By which [`counts`] finds what it dropped.
    pub map_id: u32,
}

/// Gives the program of a guard to the kernel. It lives until the descriptor is closed
/// and it is not attached anywhere.
///
/// # Errors
/// Fails with the error of bpf(2): `EPERM` without CAP_BPF and CAP_NET_ADMIN.
pub fn load(guard: &Guard) -> io::Result<Loaded> {
    use std::os::fd::AsFd;
    let map = counters::new()?;
    let program = bpf::load_classifier(&program(guard, map.as_fd()))?;
    Ok(Loaded {
        program,
        map_id: map.id(),
    })
}

/// Gives the program of [`inbound`] to the kernel.
///
/// # Errors
/// See [`load`].
pub fn load_inbound(vlan: Option<u16>, to: u32) -> io::Result<OwnedFd> {
    bpf::load_classifier(&inbound(vlan, to))
}
