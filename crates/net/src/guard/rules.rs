//! The rules of a link: the frames that a zone may send, and the handling of admitted frames.

use std::net::IpAddr;

/// Maximum number of source addresses of a link, limited because the kernel must verify the whole
/// program.
pub const MAX_SOURCES: usize = 256;

/// The frames that a zone may send on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The link's MAC address: frames with another source are dropped (mac-nospoof). `None` permits
    /// any source.
    pub mac: Option<[u8; 6]>,
    /// Source addresses that the zone may use, with prefix length (ip-nospoof): as the source of IP
    /// packets, and in ARP and neighbour discovery. The zone may also use the protocols that every
    /// link needs: the link-local address that is derived from the MAC address, DHCP requests for
    /// an address, and checks for duplicates of its own addresses. `None` permits any address. An
    /// empty list permits none.
    pub sources: Option<Vec<(IpAddr, u8)>>,
    /// Drops answers of DHCP servers and router advertisements (dhcp-nospoof).
    pub dhcp: bool,
    /// The client ids that the zone may use in DHCP, if `dhcp` is set. `None` permits any client
    /// id.
    pub clients: Option<Clients>,
    /// Admits only IPv4, IPv6 and ARP (restricted).
    pub restricted: bool,
    /// True if the link has no neighbours: ARP, neighbour discovery and link-local addresses are
    /// dropped without being counted. Only false claims are counted: ARP that names another
    /// address, and answers of neighbours and of routers.
    pub routed: bool,
    /// 802.1Q tag for the frames of the zone, 1 to 4094. With this tag set, the zone cannot send
    /// tagged frames itself.
    pub vlan: Option<u16>,
    /// Priority that frames get (TC_PRIO_*). `None` leaves the priority unchanged.
    pub priority: Option<u32>,
    /// Maximum rate in bytes per second; frames above the rate are dropped. `None` means no limit.
    pub rate: Option<u64>,
    /// The destination of an admitted frame.
    pub to: Verdict,
}

/// The destination of an admitted frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The frame continues to the host's own network.
    #[default]
    Host,
    /// The frame is sent out of the device with this index.
    Device(u32),
}

/// The ids that a zone may use in messages to DHCP servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// The link's Ethernet address: client ids that are derived from this address belong to the
    /// zone.
    pub mac: [u8; 6],
    /// Other client ids that the zone may use.
    pub ids: Vec<Vec<u8>>,
}
