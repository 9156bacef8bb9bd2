//! Makes frames for the tests of the guard.

use std::net::{Ipv4Addr, Ipv6Addr};

/// The value of all checksums, because a guard does not check them.
const NO_CHECKSUM: [u8; 2] = [0, 0];

/// An Ethernet frame.
pub fn ethernet(from: [u8; 6], protocol: u16, payload: &[u8]) -> Vec<u8> {
    let to = [0xff; 6];
    [&to[..], &from, &protocol.to_be_bytes(), payload].concat()
}

/// A UDP packet.
pub fn udp(from: u16, to: u16) -> Vec<u8> {
    let length = 8_u16;
    let ports = [from.to_be_bytes(), to.to_be_bytes()];
    [&ports.concat()[..], &length.to_be_bytes(), &NO_CHECKSUM].concat()
}

/// Makes a DHCP request over IPv4 (RFC 2131) with these options, in a UDP packet.
pub fn dhcp4(mac: [u8; 6], options: &[u8]) -> Vec<u8> {
    let mut message = vec![0; 240];
    message[..4].copy_from_slice(&[1, 1, 6, 0]);
    message[28..34].copy_from_slice(&mac);
    message[236..].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
    [&udp(68, 67)[..], &message, options].concat()
}

/// Makes a DHCP request over IPv6 with these options, in a UDP packet (RFC 8415).
pub fn dhcp6(kind: u8, options: &[u8]) -> Vec<u8> {
    [&udp(546, 547)[..], &[kind, 1, 2, 3], options].concat()
}

/// An option of DHCP over IPv4.
pub fn option4(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap();
    [&[kind, length][..], value].concat()
}

/// An option of DHCP over IPv6.
pub fn option6(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap();
    [&kind.to_be_bytes()[..], &length.to_be_bytes(), value].concat()
}

/// The beginning of a TCP segment.
pub fn tcp() -> Vec<u8> {
    let mut header = vec![0; 20];
    header[12] = 5 << 4;
    header
}

/// An IPv4 packet.
#[derive(Clone, Debug)]
pub struct Ipv4 {
    pub source: Ipv4Addr,
    pub protocol: u8,
    /// The field with the fragment's flags and offset.
    pub fragment: u16,
    /// The header's length in words of 4 bytes.
    pub options: u8,
    pub payload: Vec<u8>,
}

impl Ipv4 {
    pub fn new(source: &str, protocol: u8, payload: Vec<u8>) -> Self {
        Self {
            source: source.parse().unwrap(),
            protocol,
            fragment: 0,
            options: 0,
            payload,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let header = 20 + 4 * usize::from(self.options);
        let length = u16::try_from(header + self.payload.len()).unwrap();
        let mut bytes = vec![0; header];
        bytes[0] = 0x45 + self.options;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.fragment.to_be_bytes());
        bytes[8] = 64;
        bytes[9] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..20].copy_from_slice(&[10, 0, 0, 254]);
        bytes.extend(&self.payload);
        bytes
    }
}

/// An ARP packet about IPv4.
pub fn arp(operation: u16, mac: [u8; 6], sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4];
    let unknown = [0; 6];
    [
        &head[..],
        &operation.to_be_bytes(),
        &mac,
        &sender.octets(),
        &unknown,
        &target.octets(),
    ]
    .concat()
}

/// An IPv6 packet. `payload` begins with the header that `next` names.
pub fn ipv6(source: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    let to: Ipv6Addr = "ff02::1".parse().unwrap();
    [
        &[0x60, 0, 0, 0][..],
        &length.to_be_bytes(),
        &[next, 255],
        &source.octets(),
        &to.octets(),
        payload,
    ]
    .concat()
}

/// An extension header of 8 bytes before `payload`.
pub fn extension(next: u8, payload: &[u8]) -> Vec<u8> {
    [&[next, 0, 1, 4, 0, 0, 0, 0][..], payload].concat()
}

/// A fragment header. `field` contains the offset and flags.
pub fn fragment(next: u8, field: u16, payload: &[u8]) -> Vec<u8> {
    let [a, b] = field.to_be_bytes();
    [&[next, 0, a, b, 0, 0, 0, 7][..], payload].concat()
}

/// A message of ICMPv6.
pub fn icmp(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0][..], body].concat()
}

/// A neighbour solicitation (135) or advertisement (136) with options.
pub fn neighbour(kind: u8, target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    icmp(kind, &[&[0; 4][..], &target.octets(), options].concat())
}

/// The option that names the sender's MAC address (1) or the target's (2).
pub fn mac_option(kind: u8, mac: [u8; 6]) -> Vec<u8> {
    [&[kind, 1][..], &mac].concat()
}
