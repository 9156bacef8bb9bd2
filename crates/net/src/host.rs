//! Asks the kernel about the host's links and routes.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::plan::network::{Mac, Subnet};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};

use crate::netlink::Netlink;

/// A link of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLink {
    /// The number (index) of the link.
    pub index: u32,
    /// The name of the link.
    pub name: String,
    /// The link's alias; the alias of a link of a zone names the zone.
    pub alias: Option<String>,
    /// The driver of a link that is not hardware: bridge, veth, macvlan, ...
    pub kind: Option<String>,
    /// The Ethernet address of the link.
    pub mac: Option<Mac>,
    /// Maximum packet size (MTU) in bytes.
    pub mtu: u32,
    /// The number of the bridge or bond that the link belongs to.
    pub controller: Option<u32>,
    /// The number of the peer, for links that have a peer.
    pub peer: Option<u32>,
    /// True if the link is an Ethernet link.
    pub ethernet: bool,
    /// True if the link is up.
    pub up: bool,
    /// True if the link can send and the kernel has already reported this to the devices above it.
    pub running: bool,
    /// The number of bytes that have arrived on the link.
    pub received: Option<u64>,
    /// The number of bytes that the link has sent.
    pub sent: Option<u64>,
}

/// The link and source address by which the host sends packets to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The number of the link.
    pub link: u32,
    /// The router; `None` if the address is on the link itself.
    pub router: Option<IpAddr>,
    /// True if the address is one of the host's own.
    pub local: bool,
    /// The source address of the host for packets to the address.
    pub source: Option<IpAddr>,
}

impl HostLink {
    /// Returns an entry for a link that is not on the host at present, with nothing but its name.
    #[must_use]
    pub fn lent(name: &str) -> Self {
        Self {
            index: 0,
            name: name.to_owned(),
            alias: None,
            kind: None,
            mac: None,
            mtu: 0,
            controller: None,
            peer: None,
            ethernet: true,
            up: false,
            running: false,
            received: None,
            sent: None,
        }
    }
}

impl Netlink {
    /// Looks up a link by its name; returns `None` if there is no such link.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn link(&self, name: &str) -> io::Result<Option<HostLink>> {
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::IfName(name.to_owned()));
        self.one_link(message)
    }

    /// Looks up a link by its number; returns `None` if there is no such link.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn link_at(&self, index: u32) -> io::Result<Option<HostLink>> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.one_link(message)
    }

    fn one_link(&self, message: LinkMessage) -> io::Result<Option<HostLink>> {
        match self.ask(Message::GetLink(message)) {
            Ok(Message::NewLink(found)) => Ok(Some(read(&found))),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            // ERANGE: the name is longer than a link's name can be, so there is no such link.
            Err(error) if matches!(error.raw_os_error(), Some(19 | 34)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all links.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn links(&self) -> io::Result<Vec<HostLink>> {
        let answers = self.dump(Message::GetLink(LinkMessage::default()))?;
        let link = |answer| match answer {
            Message::NewLink(link) => Some(read(&link)),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(link).collect())
    }

    /// Returns the route of the host to an address; `None` if there is no route.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn way_to(&self, ip: IpAddr) -> io::Result<Option<Way>> {
        let mut message = RouteMessage::default();
        (
            message.header.address_family,
            message.header.destination_prefix_length,
        ) = match ip {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        message
            .attributes
            .push(RouteAttribute::Destination(ip.into()));
        match self.ask(Message::GetRoute(message)) {
            Ok(Message::NewRoute(route)) => Ok(way(&route)),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            // The kernel returns ENETUNREACH, EHOSTUNREACH, EACCES or EINVAL for routes that reject
            // packets.
            Err(error) if matches!(error.raw_os_error(), Some(101 | 113 | 13 | 22)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the route to the internet: by IPv4, or by IPv6 if there is no IPv4 route.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn way_out(&self) -> io::Result<Option<Way>> {
        // The destinations are in the address blocks for documentation, which no private network
        // uses.
        let v4 = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let v6 = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        match self.way_to(v4)? {
            Some(way) => Ok(Some(way)),
            None => self.way_to(v6),
        }
    }

    /// Returns the addresses of a link.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn addresses(&self, link: u32) -> io::Result<Vec<Subnet>> {
        let all = self.all_addresses()?;
        let of_link = all.into_iter().filter(|(index, _)| *index == link);
        Ok(of_link.map(|(_, subnet)| subnet).collect())
    }

    /// Returns all addresses, each with the number of its link.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn all_addresses(&self) -> io::Result<Vec<(u32, Subnet)>> {
        let answers = self.dump(Message::GetAddress(AddressMessage::default()))?;
        let read = |answer| {
            let Message::NewAddress(message) = answer else {
                return None;
            };
            let mut ip = None;
            for attribute in &message.attributes {
                match attribute {
                    AddressAttribute::Local(local) => ip = Some(*local),
                    AddressAttribute::Address(address) => ip = ip.or(Some(*address)),
                    _ => {}
                }
            }
            let prefix = message.header.prefix_len;
            Some((message.header.index, Subnet { ip: ip?, prefix }))
        };
        Ok(answers.into_iter().filter_map(read).collect())
    }

    /// Returns the links of the host's default routes, with the routers on each link.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    pub fn default_routes(&self) -> io::Result<HashMap<u32, Vec<IpAddr>>> {
        let mut found: HashMap<u32, Vec<IpAddr>> = HashMap::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            for answer in self.dump(Message::GetRoute(message))? {
                let Message::NewRoute(route) = answer else {
                    continue;
                };
                let usual = route.header.destination_prefix_length == 0
                    && route.header.kind == RouteType::Unicast;
                if let Some(way) = way(&route).filter(|_| usual) {
                    found.entry(way.link).or_default().extend(way.router);
                }
            }
        }
        Ok(found)
    }
}

fn read(message: &LinkMessage) -> HostLink {
    let mut link = HostLink {
        index: message.header.index,
        name: String::new(),
        alias: None,
        kind: None,
        mac: None,
        mtu: 0,
        controller: None,
        peer: None,
        ethernet: message.header.link_layer_type == LinkLayerType::Ether,
        up: message.header.flags.contains(LinkFlags::Up),
        running: message.header.flags.contains(LinkFlags::Running),
        received: None,
        sent: None,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::IfAlias(alias) => link.alias = Some(alias.clone()),
            LinkAttribute::Stats64(stats) => {
                link.received = Some(stats.rx_bytes);
                link.sent = Some(stats.tx_bytes);
            }
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(index) => link.controller = Some(*index),
            LinkAttribute::Link(index) => link.peer = Some(*index),
            LinkAttribute::Address(bytes) => {
                link.mac = <[u8; 6]>::try_from(bytes.as_slice()).ok().map(Mac);
            }
            LinkAttribute::LinkInfo(infos) => {
                let kind = infos.iter().find_map(|info| match info {
                    LinkInfo::Kind(kind) => Some(name_of(kind)),
                    _ => None,
                });
                link.kind = kind;
            }
            _ => {}
        }
    }
    link
}

fn name_of(kind: &InfoKind) -> String {
    kind.to_string()
}

fn way(route: &RouteMessage) -> Option<Way> {
    let ip = |address: &RouteAddress| match address {
        RouteAddress::Inet(ip) => Some(IpAddr::V4(*ip)),
        RouteAddress::Inet6(ip) => Some(IpAddr::V6(*ip)),
        _ => None,
    };
    let mut way = Way {
        link: 0,
        router: None,
        local: route.header.kind == RouteType::Local,
        source: None,
    };
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => way.link = *index,
            RouteAttribute::Gateway(address) => way.router = ip(address),
            RouteAttribute::PrefSource(address) => way.source = ip(address),
            _ => {}
        }
    }
    (way.link != 0).then_some(way)
}
