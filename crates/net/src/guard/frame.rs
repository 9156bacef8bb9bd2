//! Offsets in a frame, and protocol numbers.

use std::net::Ipv6Addr;

/// Offsets from the beginning of a frame.
pub(super) mod at {
    pub const SOURCE_MAC: i16 = 6;
    pub const PROTOCOL: i16 = 12;
    /// Offset of the end of the Ethernet header.
    pub const PAYLOAD: i16 = 14;
    pub const FRAGMENT4: i16 = 20;
    pub const PROTOCOL4: i16 = 23;
    pub const SOURCE4: i16 = 26;
    pub const TARGET4: i16 = 30;
    /// Offset of the end of an IPv4 header without options.
    pub const END4: u16 = 34;
    /// Offset of the end of an IPv4 header without options, where TCP or UDP begins.
    pub const PAYLOAD4: i16 = 34;
    pub const LENGTH6: i16 = 18;
    pub const NEXT6: i16 = 20;
    pub const SOURCE6: i16 = 22;
    pub const TARGET6: i16 = 38;
    /// Offset of the end of the IPv6 header, where the next header begins.
    pub const PAYLOAD6: i16 = 54;
    /// Offset of the end of the IPv6 header.
    pub const END6: u16 = 54;
    pub const ARP_TARGET: i16 = 38;
}

/// Offsets in `struct __sk_buff`.
pub(super) mod context {
    pub const LENGTH: i16 = 0;
    pub const MARK: i16 = 8;
    pub const TAGGED: i16 = 20;
    pub const TAG: i16 = 24;
    pub const TAG_PROTOCOL: i16 = 28;
    pub const PRIORITY: i16 = 32;
    /// Offsets of the words of `cb`, which the program may use freely.
    pub const SCRATCH: i16 = 48;
    pub const IN_PARTS: i16 = 52;
    pub const FOUND: i16 = 56;
    pub const DATA: i16 = 76;
    pub const DATA_END: i16 = 80;
}

/// Numbers of the kernel's helper functions, see bpf-helpers(7). None of them is reserved for
/// programs under the GPL.
pub(super) mod helper {
    pub const MAP_LOOKUP: i32 = 1;
    pub const KTIME_GET_NS: i32 = 5;
    pub const SKB_VLAN_PUSH: i32 = 18;
    pub const SKB_VLAN_POP: i32 = 19;
    pub const REDIRECT: i32 = 23;
    pub const SKB_LOAD_BYTES: i32 = 26;
    pub const SKB_PULL_DATA: i32 = 39;
}

/// Protocol numbers of Ethernet.
pub(super) mod ethernet {
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const TAG: u16 = 0x8100;
    pub const SERVICE_TAG: u16 = 0x88a8;
    pub const IPV6: u16 = 0x86dd;
}

/// Protocol numbers of IP.
pub(super) mod next {
    pub const HOP_BY_HOP: u32 = 0;
    pub const TCP: u32 = 6;
    pub const UDP: u32 = 17;
    pub const ROUTING: u32 = 43;
    pub const FRAGMENT: u32 = 44;
    pub const ICMP6: u32 = 58;
    pub const DESTINATION: u32 = 60;
}

/// Types of ICMPv6.
pub(super) mod icmp {
    pub const LISTENER_QUERY: u32 = 130;
    pub const LISTENER_REPORT: u32 = 131;
    pub const LISTENER_DONE: u32 = 132;
    pub const ROUTER_SOLICITATION: u32 = 133;
    pub const ROUTER_ADVERTISEMENT: u32 = 134;
    pub const NEIGHBOUR_SOLICITATION: u32 = 135;
    pub const NEIGHBOUR_ADVERTISEMENT: u32 = 136;
    pub const REDIRECT: u32 = 137;
    pub const LISTENER_REPORT_2: u32 = 143;
}

/// The UDP ports of DHCP.
pub(super) mod port {
    pub const SERVER: u16 = 67;
    pub const CLIENT: u16 = 68;
    pub const CLIENT6: u16 = 546;
    pub const SERVER6: u16 = 547;
}

/// Returns 16 bits in network byte order, as a program loads them.
pub(super) const fn half(number: u16) -> u32 {
    u16::from_ne_bytes(number.to_be_bytes()) as u32
}

/// Returns 2 bytes as a program loads them.
pub(super) const fn half_of(bytes: [u8; 2]) -> u32 {
    u16::from_ne_bytes(bytes) as u32
}

/// Returns 32 bits in network byte order, as a program loads them.
pub(super) const fn word(number: u32) -> u32 {
    u32::from_ne_bytes(number.to_be_bytes())
}

/// Returns the two parts of a MAC address as a program loads them.
pub(super) const fn halves(mac: [u8; 6]) -> [u32; 3] {
    let [a, b, c, d, e, f] = mac;
    [half_of([a, b]), half_of([c, d]), half_of([e, f])]
}

/// Returns the link-local address that is derived from a MAC address (RFC 4291, appendix A).
pub(super) const fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let id = [
        u16::from_be_bytes([a ^ 2, b]),
        u16::from_be_bytes([c, 0xff]),
        u16::from_be_bytes([0xfe, d]),
        u16::from_be_bytes([e, f]),
    ];
    Ipv6Addr::new(0xfe80, 0, 0, 0, id[0], id[1], id[2], id[3])
}
