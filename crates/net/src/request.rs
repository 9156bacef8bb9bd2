//! Makes the netlink messages for links, addresses, routes and filters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use model::plan::network::{Mac, Subnet};
use netlink_packet_core::{DefaultNla, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoMacVlan, InfoVeth,
    LinkAttribute, LinkFlags, LinkInfo, LinkMessage, MacVlanMode,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};

use crate::netlink::Request;

/// Maximum number of bytes in a packet that links of this host pass to each other: the kernel's
/// GSO_MAX_SIZE.
const MAX_GSO_BYTES: u32 = 8 * 65_535;

/// The protocol number (origin) of zones' routes and rules: 'z', which has no name in rt_protos.
const PROTOCOL: RouteProtocol = RouteProtocol::Other(122);

/// IFLA_INET_CONF of linux/if_link.h, and numbers of its settings in linux/ip.h.
const INET_CONF: u16 = 1;
const FORWARDING: u16 = 1;
const ROUTE_LOCALNET: u16 = 26;

/// Number of the kernel's routing table for the host's own addresses (local).
const LOCAL_TABLE: u8 = 255;

/// Metric of the added local route to ::1: the kernel's own route over the loopback is preferred.
const OWN_LOOPBACK_METRIC: u32 = 2048;

/// A pair of virtual Ethernet links (veth).
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The name of the link in the namespace of the netlink socket.
    pub name: &'a str,
    /// The name of the peer.
    pub peer: &'a str,
    /// The network namespace of the peer.
    pub peer_namespace: BorrowedFd<'a>,
    /// The alias of the peer.
    pub peer_alias: &'a str,
    /// The Ethernet address of the link.
    pub mac: Mac,
    /// The Ethernet address of the peer.
    pub peer_mac: Mac,
    /// Maximum packet size (MTU) in bytes.
    pub mtu: u32,
    /// True if the links may pass packets longer than 64 KiB.
    pub big: bool,
}

fn sizes(big: bool) -> Vec<LinkAttribute> {
    if !big {
        return Vec::new();
    }
    vec![
        LinkAttribute::GsoMaxSize(MAX_GSO_BYTES),
        LinkAttribute::GroMaxSize(MAX_GSO_BYTES),
        // The attributes for IPv4 exist from Linux 6.3 on; older kernels ignore them.
        LinkAttribute::GsoIpv4MaxSize(MAX_GSO_BYTES),
        LinkAttribute::GroIpv4MaxSize(MAX_GSO_BYTES),
    ]
}

/// Makes a pair of virtual Ethernet links.
#[must_use]
pub fn pair(pair: &Pair<'_>) -> Request {
    let mut peer = LinkMessage::default();
    peer.attributes = vec![
        LinkAttribute::IfName(pair.peer.to_owned()),
        LinkAttribute::Address(pair.peer_mac.0.to_vec()),
        LinkAttribute::Mtu(pair.mtu),
        LinkAttribute::NetNsFd(pair.peer_namespace.as_raw_fd()),
    ];
    peer.attributes.extend(sizes(pair.big));
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(pair.name.to_owned()),
        LinkAttribute::Address(pair.mac.0.to_vec()),
        LinkAttribute::Mtu(pair.mtu),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]),
    ];
    message.attributes.extend(sizes(pair.big));
    Request {
        what: format!("make the link {} with {} on the host", pair.name, pair.peer),
        message: Message::NewLink(message),
        flags: NLM_F_CREATE | NLM_F_EXCL,
    }
}

/// Makes a link with its own Ethernet address on another link.
#[must_use]
pub fn ethernet_on(lower: u32, name: &str, mac: Mac, alias: &str) -> Vec<Request> {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::Address(mac.0.to_vec()),
        LinkAttribute::Link(lower),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::MacVlan),
            LinkInfo::Data(InfoData::MacVlan(vec![InfoMacVlan::Mode(
                MacVlanMode::Bridge,
            )])),
        ]),
    ];
    let mut prepared = named(
        name,
        vec![
            LinkAttribute::IfAlias(alias.to_owned()),
            without_own_addresses(),
        ],
    );
    // The link receives all multicast frames, because it does not learn which groups the zone joins
    // on its own link. Without these groups no neighbour finds the zone's IPv6 addresses.
    prepared.header.flags = LinkFlags::Allmulti;
    prepared.header.change_mask = LinkFlags::Allmulti;
    vec![
        Request {
            what: format!("make the link {name}"),
            message: Message::NewLink(message),
            flags: NLM_F_CREATE | NLM_F_EXCL,
        },
        Request {
            what: format!("prepare {name}"),
            message: Message::SetLink(prepared),
            flags: 0,
        },
        up(name),
    ]
}

fn named(name: &str, attributes: Vec<LinkAttribute>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(name.to_owned())];
    message.attributes.extend(attributes);
    message
}

/// Stops the kernel from generating IPv6 addresses for a link.
fn without_own_addresses() -> LinkAttribute {
    LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(
        In6AddrGenMode::None,
    )])])
}

/// The settings of a link of the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ready<'a> {
    /// The alias of the link.
    pub alias: Option<&'a str>,
    /// True if the link has no neighbour discovery, because all packets are for the peer.
    pub direct: bool,
    /// True if the host forwards packets that arrive on the link.
    pub forwarding: bool,
    /// The number of the bridge to which the link belongs as a port.
    pub bridge: Option<u32>,
    /// True if the kernel generates an IPv6 address for the link.
    pub own_addresses: bool,
}

/// Returns an attribute for a setting of `/proc/sys/net/ipv4/conf/LINK`.
fn ipv4_setting(number: u16, value: u32) -> AfSpecUnspec {
    let mut conf = Vec::new();
    // A nested attribute consists of length, number and value.
    conf.extend(8_u16.to_ne_bytes());
    conf.extend(number.to_ne_bytes());
    conf.extend(value.to_ne_bytes());
    let mut family = Vec::new();
    family.extend(12_u16.to_ne_bytes());
    family.extend(INET_CONF.to_ne_bytes());
    family.extend(conf);
    AfSpecUnspec::Other(DefaultNla::new(2, family))
}

/// Allows or forbids packets for 127.0.0.0/8 on a link (`route_localnet`).
#[must_use]
pub fn route_localnet(name: &str, passes: bool) -> Request {
    let setting = ipv4_setting(ROUTE_LOCALNET, u32::from(passes));
    Request {
        what: format!("set route_localnet of {name}"),
        message: Message::SetLink(named(
            name,
            vec![LinkAttribute::AfSpecUnspec(vec![setting])],
        )),
        flags: 0,
    }
}

/// Adds or removes a local route, with which the host accepts packets for ::1 from a link.
#[must_use]
pub fn own_loopback(link: u32, present: bool) -> Request {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = AddressFamily::Inet6;
    header.destination_prefix_length = 128;
    header.protocol = PROTOCOL;
    header.kind = RouteType::Local;
    header.scope = RouteScope::Universe;
    header.table = LOCAL_TABLE;
    message.attributes = vec![
        RouteAttribute::Destination(IpAddr::V6(Ipv6Addr::LOCALHOST).into()),
        RouteAttribute::Oif(link),
        RouteAttribute::Priority(OWN_LOOPBACK_METRIC),
    ];
    Request {
        what: "set the route to ::1".to_owned(),
        message: match present {
            true => Message::NewRoute(message),
            false => Message::DelRoute(message),
        },
        flags: match present {
            true => NLM_F_CREATE | NLM_F_REPLACE,
            false => 0,
        },
    }
}

/// Configures a link of the host and brings it up.
#[must_use]
pub fn ready(name: &str, ready: Ready<'_>) -> Vec<Request> {
    let mut attributes = Vec::new();
    if let Some(alias) = ready.alias {
        attributes.push(LinkAttribute::IfAlias(alias.to_owned()));
    }
    if let Some(bridge) = ready.bridge {
        attributes.push(LinkAttribute::Controller(bridge));
    }
    let mut families = Vec::new();
    if ready.forwarding {
        families.push(ipv4_setting(FORWARDING, 1));
    }
    if !ready.own_addresses {
        families.push(AfSpecUnspec::Inet6(vec![AfSpecInet6::AddrGenMode(
            In6AddrGenMode::None,
        )]));
    }
    if !families.is_empty() {
        attributes.push(LinkAttribute::AfSpecUnspec(families));
    }
    let mut message = named(name, attributes);
    if ready.direct {
        message.header.flags = LinkFlags::Noarp;
        message.header.change_mask = LinkFlags::Noarp;
    }
    vec![
        Request {
            what: format!("prepare {name}"),
            message: Message::SetLink(message),
            flags: 0,
        },
        up(name),
    ]
}

/// Brings a link up.
#[must_use]
pub fn up(name: &str) -> Request {
    let mut message = named(name, Vec::new());
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    Request {
        what: format!("bring {name} up"),
        message: Message::SetLink(message),
        flags: 0,
    }
}

/// Moves a link into another network namespace, with a new name.
#[must_use]
pub fn into_namespace(index: u32, name: &str, namespace: BorrowedFd<'_>) -> Request {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes = vec![
        LinkAttribute::NetNsFd(namespace.as_raw_fd()),
        LinkAttribute::IfName(name.to_owned()),
    ];
    Request {
        what: format!("move the link {name}"),
        message: Message::SetLink(message),
        flags: 0,
    }
}

/// Deletes a link.
#[must_use]
pub fn delete(name: &str) -> Request {
    Request {
        what: format!("delete the link {name}"),
        message: Message::DelLink(named(name, Vec::new())),
        flags: 0,
    }
}

const fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// Gives a link an address.
#[must_use]
pub fn address(index: u32, subnet: &Subnet, own_route: bool) -> Request {
    let mut message = AddressMessage::default();
    message.header.family = family(subnet.ip);
    message.header.prefix_len = subnet.prefix;
    message.header.index = index;
    message.header.scope = AddressScope::Universe;
    let mut flags = AddressFlags::Nodad;
    if !own_route {
        flags |= AddressFlags::Noprefixroute;
    }
    message.attributes = vec![
        AddressAttribute::Local(subnet.ip),
        AddressAttribute::Address(subnet.ip),
        AddressAttribute::Flags(flags),
    ];
    Request {
        what: format!("set the address {subnet}"),
        message: Message::NewAddress(message),
        flags: NLM_F_CREATE | NLM_F_REPLACE,
    }
}

/// Removes an address from a link.
#[must_use]
pub fn no_address(index: u32, subnet: &Subnet) -> Request {
    let mut request = address(index, subnet, false);
    if let Message::NewAddress(message) = request.message {
        request.message = Message::DelAddress(message);
    }
    request.what = format!("remove the address {subnet}");
    request.flags = 0;
    request
}

/// A route to be added.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The destination of the route.
    pub to: Subnet,
    /// The number of the link that the route uses.
    pub link: u32,
    /// The router of the route, if any.
    pub router: Option<IpAddr>,
    /// Maximum packet size of the route in bytes, if it differs from that of the link.
    pub mtu: Option<u32>,
    /// The preferred source address.
    pub source: Option<IpAddr>,
    /// The number of the routing table; `None` for the main table.
    pub table: Option<u32>,
    /// True if a route that exists already is an error.
    pub new: bool,
}

impl Route {
    /// Returns the default route over a router, for the family of the router's address.
    #[must_use]
    pub const fn to_everywhere(link: u32, router: IpAddr, table: Option<u32>) -> Self {
        let ip = match router {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self {
            to: Subnet { ip, prefix: 0 },
            link,
            router: Some(router),
            mtu: None,
            source: None,
            table,
            new: false,
        }
    }
}

/// Adds a route.
#[must_use]
pub fn route(route: &Route) -> Request {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = family(route.to.ip);
    header.destination_prefix_length = route.to.prefix;
    header.protocol = PROTOCOL;
    header.kind = RouteType::Unicast;
    header.scope = match route.router {
        Some(_) => RouteScope::Universe,
        None if route.to.ip.is_ipv4() => RouteScope::Link,
        None => RouteScope::Universe,
    };
    match route.table {
        None => header.table = 254,
        Some(table) => message.attributes.push(RouteAttribute::Table(table)),
    }
    let attributes = &mut message.attributes;
    if route.to.prefix > 0 {
        attributes.push(RouteAttribute::Destination(route.to.ip.into()));
    }
    attributes.push(RouteAttribute::Oif(route.link));
    if let Some(router) = route.router {
        attributes.push(RouteAttribute::Gateway(router.into()));
        message.header.flags = RouteFlags::Onlink;
    }
    if let Some(source) = route.source {
        attributes.push(RouteAttribute::PrefSource(source.into()));
    }
    if let Some(mtu) = route.mtu {
        attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)]));
    }
    let via = route
        .router
        .map_or_else(String::new, |router| format!(" by {router}"));
    Request {
        what: format!("set the route to {}{via}", route.to),
        message: Message::NewRoute(message),
        flags: NLM_F_CREATE | if route.new { NLM_F_EXCL } else { NLM_F_REPLACE },
    }
}

/// Adds or removes an unreachable route to an address. The route has the lowest priority: any other
/// route to the address is preferred. Without another route, it prevents that packets for the
/// address follow the default route.
#[must_use]
pub fn nobody_at(ip: IpAddr, present: bool) -> Request {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = family(ip);
    header.destination_prefix_length = if ip.is_ipv4() { 32 } else { 128 };
    header.protocol = PROTOCOL;
    header.kind = RouteType::Unreachable;
    header.table = 254;
    message.attributes = vec![
        RouteAttribute::Destination(ip.into()),
        RouteAttribute::Priority(u32::MAX),
    ];
    match present {
        true => Request {
            what: format!("hold the address {ip}"),
            message: Message::NewRoute(message),
            flags: NLM_F_CREATE | NLM_F_REPLACE,
        },
        false => Request {
            what: format!("let go of the address {ip}"),
            message: Message::DelRoute(message),
            flags: 0,
        },
    }
}

/// Removes the default routes through these routers from a routing table.
#[must_use]
pub fn no_routes(table: u32, routers: &[IpAddr]) -> Vec<Request> {
    let gone = |router: &IpAddr| {
        let mut message = RouteMessage::default();
        message.header.address_family = family(*router);
        message.header.scope = RouteScope::NoWhere;
        message.attributes = vec![
            RouteAttribute::Table(table),
            RouteAttribute::Gateway((*router).into()),
        ];
        Request {
            what: format!("remove the route by {router}"),
            message: Message::DelRoute(message),
            flags: 0,
        }
    };
    routers.iter().map(gone).collect()
}

/// Returns the network of an address.
#[must_use]
pub fn network(subnet: &Subnet) -> Subnet {
    let ip = match subnet.ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX
                .checked_shl(32 - u32::from(subnet.prefix))
                .unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX
                .checked_shl(128 - u32::from(subnet.prefix))
                .unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    };
    Subnet {
        ip,
        prefix: subnet.prefix,
    }
}

/// Makes the host answer, or stop answering, for an address on one of the host's links.
#[must_use]
pub fn answer_for(link: u32, ip: IpAddr, answers: bool) -> Request {
    let mut message = NeighbourMessage::default();
    message.header.family = family(ip);
    message.header.ifindex = link;
    message.header.flags = NeighbourFlags::Proxy;
    message
        .attributes
        .push(NeighbourAttribute::Destination(ip.into()));
    match answers {
        true => Request {
            what: format!("answer for {ip}"),
            message: Message::NewNeighbour(message),
            flags: NLM_F_CREATE | NLM_F_REPLACE,
        },
        false => Request {
            what: format!("no longer answer for {ip}"),
            message: Message::DelNeighbour(message),
            flags: 0,
        },
    }
}

/// Adds or removes two rules: packets from a link use a separate routing table if the host has no
/// route to their destination except its default route.
#[must_use]
pub fn routed_by(link: &str, table: u32, v6: bool, present: bool) -> [Request; 2] {
    let rule = |priority: u32, table: u32, rest: Option<RuleAttribute>| {
        let mut message = RuleMessage::default();
        message.header.family = if v6 {
            AddressFamily::Inet6
        } else {
            AddressFamily::Inet
        };
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Iifname(link.to_owned()),
            RuleAttribute::Priority(priority),
            RuleAttribute::Table(table),
            RuleAttribute::Protocol(PROTOCOL),
        ];
        message.attributes.extend(rest);
        Request {
            what: format!("choose the router of {link}"),
            message: match present {
                true => Message::NewRule(message),
                false => Message::DelRule(message),
            },
            flags: if present {
                NLM_F_CREATE | NLM_F_EXCL
            } else {
                0
            },
        }
    };
    [
        rule(
            FIRST_RULE_PRIORITY,
            254,
            Some(RuleAttribute::SuppressPrefixLen(0)),
        ),
        rule(FIRST_RULE_PRIORITY + 1, table, None),
    ]
}

/// Priority of the first of the two rules. It comes before the rule of the main table, whose
/// priority is 32766.
const FIRST_RULE_PRIORITY: u32 = 17_000;

/// Parents of filters: the clsact queueing discipline, and its hooks for packets that arrive on a
/// link and that leave it.
const CLSACT: u32 = 0xffff_fff1;
const ARRIVING: u32 = 0xffff_fff2;
const LEAVING: u32 = 0xffff_fff3;

/// Runs a program on every packet that arrives on a link of the host. The link must not have such a
/// program yet.
#[must_use]
pub fn filter(link: u32, program: BorrowedFd<'_>) -> [Request; 2] {
    let mut place = TcMessage::default();
    place.header.index = signed(link);
    place.header.handle = handle(0xffff_0000);
    place.header.parent = handle(CLSACT);
    place.attributes = vec![TcAttribute::Kind("clsact".to_owned())];
    [
        Request {
            what: "make a place for the link's guard".to_owned(),
            message: Message::NewQueueDiscipline(place),
            flags: NLM_F_CREATE | NLM_F_EXCL,
        },
        Request {
            what: "set the link's guard".to_owned(),
            message: Message::NewTrafficFilter(program_at(link, ARRIVING, program)),
            flags: NLM_F_CREATE | NLM_F_EXCL,
        },
    ]
}

/// Runs a program on every packet that the host sends on a link. The link must have a program of
/// [`filter`].
#[must_use]
pub fn filter_leaving(link: u32, program: BorrowedFd<'_>) -> Request {
    Request {
        what: "set the program of the link's label".to_owned(),
        message: Message::NewTrafficFilter(program_at(link, LEAVING, program)),
        flags: NLM_F_CREATE | NLM_F_EXCL,
    }
}

fn program_at(link: u32, parent: u32, program: BorrowedFd<'_>) -> TcMessage {
    let mut filter = TcMessage::default();
    filter.header.index = signed(link);
    filter.header.parent = handle(parent);
    // The upper half is the priority 1; the lower half is ETH_P_ALL in network byte order.
    filter.header.info = 1 << 16 | u32::from(3_u16.to_be());
    // The options are TCA_BPF_FD, TCA_BPF_NAME, and TCA_BPF_FLAGS with direct action.
    let fd = program.as_raw_fd().to_ne_bytes().to_vec();
    filter.attributes = vec![
        TcAttribute::Kind("bpf".to_owned()),
        TcAttribute::Options(vec![
            TcOption::Other(DefaultNla::new(6, fd)),
            TcOption::Other(DefaultNla::new(7, b"zone\0".to_vec())),
            TcOption::Other(DefaultNla::new(8, 1_u32.to_ne_bytes().to_vec())),
        ]),
    ];
    filter
}

#[expect(clippy::cast_possible_wrap, reason = "the kernel counts links as int")]
const fn signed(link: u32) -> i32 {
    link as i32
}

/// Limits the traffic that a link sends to `rate` bytes per second.
#[must_use]
pub fn shape(link: u32, rate: u64, longest: u32) -> Request {
    #[expect(clippy::cast_possible_wrap, reason = "the kernel counts links as int")]
    let index = link as i32;
    let mut message = TcMessage::default();
    message.header.index = index;
    message.header.parent = handle(0xffff_ffff);
    message.header.handle = handle(0x0001_0000);
    // The size of a burst in bytes: the traffic of 10 ms, and at least some packets of maximum
    // size.
    let burst = (rate / 100).max(u64::from(longest) * 4).max(128 * 1024);
    let burst = u32::try_from(burst).unwrap_or(u32::MAX);
    // The bytes of struct tc_ratespec and struct tc_tbf_qopt of linux/pkt_sched.h.
    let rate32 = u32::try_from(rate).unwrap_or(u32::MAX);
    let ratespec = |rate: u32| {
        let mut bytes = [0_u8; 12];
        bytes[1] = 1; // TC_LINKLAYER_ETHERNET
        bytes[8..].copy_from_slice(&rate.to_ne_bytes());
        bytes
    };
    let mut options = Vec::new();
    options.extend(ratespec(rate32));
    options.extend(ratespec(0));
    // A packet waits at most 50 ms in the queue.
    let limit = u32::try_from(u64::from(burst) + rate / 20).unwrap_or(u32::MAX);
    options.extend(limit.to_ne_bytes());
    options.extend(0_u32.to_ne_bytes()); // buffer: given as TCA_TBF_BURST
    options.extend(0_u32.to_ne_bytes());
    let mut attributes = vec![
        TcOption::Other(DefaultNla::new(1, options)),
        TcOption::Other(DefaultNla::new(6, burst.to_ne_bytes().to_vec())),
    ];
    if u64::from(rate32) < rate {
        attributes.push(TcOption::Other(DefaultNla::new(
            4,
            rate.to_ne_bytes().to_vec(),
        )));
    }
    message.attributes = vec![
        TcAttribute::Kind("tbf".to_owned()),
        TcAttribute::Options(attributes),
    ];
    Request {
        what: "limit the link's bandwidth".to_owned(),
        message: Message::NewQueueDiscipline(message),
        flags: NLM_F_CREATE | NLM_F_REPLACE,
    }
}

fn handle(number: u32) -> TcHandle {
    TcHandle::from(number)
}
