//! The rules of a link: the frames that a zone may send, and the handling of others.

use std::net::IpAddr;

/// Maximum number of source addresses of a link: the kernel must verify the whole program.
pub const MAX_SOURCES: usize = 256;

/// The frames that a zone may send on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The link's MAC address: frames with another source are dropped (mac-nospoof).
    /// None: any.
    pub mac: Option<[u8; 6]>,
    /// Source addresses that the zone may use, with prefix length (ip-nospoof): as source of IP
    /// packets, and as addresses in ARP and neighbour discovery. With the protocols that a link
    /// cannot do without: the link-local address made of the MAC address, questions for an address
    /// by DHCP, and for duplicates of the zone's own. None: any. Empty: none.
    pub sources: Option<Vec<(IpAddr, u8)>>,
    /// Drops answers of DHCP servers and router advertisements (dhcp-nospoof).
    pub dhcp: bool,
    /// With `dhcp`: who the zone may be for DHCP servers. None: anybody.
    pub clients: Option<Clients>,
    /// Admits only IPv4, IPv6 and ARP (restricted).
    pub restricted: bool,
    /// True if the link has no neighbours: ARP, neighbour discovery and link-local addresses go
    /// nowhere. ARP, neighbour discovery and link-local addresses go nowhere. Only frames that
    /// pretend to come from others are counted: ARP that names another address, answers of
    /// neighbours and of routers.
    pub routed: bool,
    /// 802.1Q tag for the frames of the zone, 1 to 4094. The zone cannot send tags of its own then.
    pub vlan: Option<u16>,
    /// Priority that frames get (TC_PRIO_*), None leaves it.
    pub priority: Option<u32>,
    /// Most bytes a second that pass, None: no limit. Frames above the rate are dropped.
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

/// The ids that a zone may use in messages to DHCP servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// The link's Ethernet address: addresses that are derived from it belong to the zone.
    pub mac: [u8; 6],
    /// Other client ids that it may use.
    pub ids: Vec<Vec<u8>>,
}
