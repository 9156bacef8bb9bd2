//! Makes network frames as a program in a zone could make them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The broadcast address.
pub const EVERYBODY: Mac = [0xff; 6];

/// Returns an Ethernet frame.
#[must_use]
pub fn ethernet(from: Mac, to: Mac, kind: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &kind.to_be_bytes(), payload].concat()
}

/// Returns an IPv4 packet in a frame.
#[must_use]
pub fn ipv4(mac: Mac, from: &str, to: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(
        mac,
        EVERYBODY,
        0x0800,
        &packet4(from, to, protocol, payload),
    )
}

/// Returns an IPv4 packet.
#[must_use]
pub fn packet4(from: &str, to: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).expect("a short packet");
    let mut header = vec![0x45, 0];
    header.extend(length.to_be_bytes());
    header.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    header.extend(v4(from).octets());
    header.extend(v4(to).octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header.as_slice(), payload].concat()
}

/// Returns an IPv6 packet in a frame.
#[must_use]
pub fn ipv6(mac: Mac, from: &str, to: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).expect("a short packet");
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([next, 255]);
    packet.extend(v6(from).octets());
    packet.extend(v6(to).octets());
    packet.extend(payload);
    ethernet(mac, EVERYBODY, 0x86dd, &packet)
}

/// Returns a UDP datagram without a checksum.
#[must_use]
pub fn udp(from: u16, to: u16, text: &str) -> Vec<u8> {
    let length = u16::try_from(8 + text.len()).expect("a short datagram");
    let head = [from, to, length, 0].map(u16::to_be_bytes).concat();
    [head.as_slice(), text.as_bytes()].concat()
}

/// Returns an ARP request (1) or reply (2) in a frame with this Ethernet address. The message says
/// that `speaker` has `ip`.
#[must_use]
pub fn arp(mac: Mac, operation: u8, speaker: Mac, ip: &str, target: &str, text: &str) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
    packet.extend(speaker);
    packet.extend(v4(ip).octets());
    packet.extend([0; 6]);
    packet.extend(v4(target).octets());
    packet.extend(text.as_bytes());
    ethernet(mac, EVERYBODY, 0x0806, &packet)
}

/// Returns a neighbour advertisement: hosts that look for `target` should send to `mac`. A text of
/// six bytes is the option.
#[must_use]
pub fn advertisement(mac: Mac, from: &str, target: &str, text: &str) -> Vec<u8> {
    let mut message = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    message.extend(v6(target).octets());
    message.extend([2, 1]);
    message.extend(mac);
    message.extend([14, 1]);
    message.extend(text.as_bytes());
    icmp6(mac, from, message)
}

/// Returns a router advertisement.
#[must_use]
pub fn router(mac: Mac, from: &str, text: &str) -> Vec<u8> {
    let mut message = vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    message.extend([14, 1]);
    message.extend(text.as_bytes());
    icmp6(mac, from, message)
}

fn icmp6(mac: Mac, from: &str, mut message: Vec<u8>) -> Vec<u8> {
    let to = "ff02::1";
    let mut summed = Vec::new();
    summed.extend(v6(from).octets());
    summed.extend(v6(to).octets());
    let length = u32::try_from(message.len()).expect("a short message");
    summed.extend(length.to_be_bytes());
    summed.extend([0, 0, 0, 58]);
    summed.extend(&message);
    let sum = checksum(&summed);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    ipv6(mac, from, to, 58, &message)
}

fn v4(text: &str) -> Ipv4Addr {
    text.parse().expect("an IPv4 address")
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an IPv6 address")
}

fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u32::from))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("carried over")
}

/// Returns the frame in the format that peer.pl reads.
#[must_use]
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    let digits = bytes.as_ref().iter();
    digits.map(|byte| format!("{byte:02x}")).collect()
}
