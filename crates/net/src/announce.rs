//! Tells neighbours at which MAC address an IP address is now. A neighbour may remember the address
//! of another host or link, and would send packets there until its entry expires.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use model::plan::network::{Mac, Subnet};

/// Returns the Ethernet frame that says that `address` is at `mac`: an ARP announcement
/// (RFC 5227), or an unsolicited neighbour advertisement (RFC 4861, 7.2.6).
#[must_use]
pub fn frame(mac: Mac, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(ip) => arp(mac, ip),
        IpAddr::V6(ip) => advertisement(mac, ip),
    }
}

/// Announces these addresses to the neighbours on a link of the calling thread's network namespace.
/// Returns the socket that did, for its slow close.
pub(crate) fn send(link: u32, mac: Mac, addresses: &[Subnet]) -> Option<OwnedFd> {
    let socket = sys::link::frame_socket().ok()?;
    for one in addresses {
        let _ = sys::link::send_frame(socket.as_fd(), link, &frame(mac, one.ip));
    }
    Some(socket)
}

fn arp(mac: Mac, ip: Ipv4Addr) -> Vec<u8> {
    let mut frame = Vec::with_capacity(42);
    frame.extend([0xff; 6]);
    frame.extend(mac.0);
    frame.extend([0x08, 0x06]);
    // Fields of the ARP header: Ethernet, IPv4, the lengths of their addresses, and the operation
    // "request".
    frame.extend([0, 1, 0x08, 0x00, 6, 4, 0, 1]);
    frame.extend(mac.0);
    frame.extend(ip.octets());
    frame.extend([0; 6]);
    frame.extend(ip.octets());
    frame
}

fn advertisement(mac: Mac, ip: Ipv6Addr) -> Vec<u8> {
    // Destination: all nodes of the link (ff02::1).
    let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    // Type 136, code 0, a checksum of zero for now, and the flag "override", which replaces a known
    // address.
    let mut message = vec![136, 0, 0, 0, 0x20, 0, 0, 0];
    message.extend(ip.octets());
    // The option with the target's MAC address.
    message.extend([2, 1]);
    message.extend(mac.0);
    let sum = checksum(ip, to, &message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let mut frame = Vec::with_capacity(86);
    frame.extend([0x33, 0x33, 0, 0, 0, 1]);
    frame.extend(mac.0);
    frame.extend([0x86, 0xdd]);
    // Version 6, the length of the message, ICMPv6, and the hop limit 255, which no router leaves
    // unchanged.
    frame.extend([0x60, 0, 0, 0, 0, 32, 58, 255]);
    frame.extend(ip.octets());
    frame.extend(to.octets());
    frame.extend(message);
    frame
}

/// Returns the checksum of ICMPv6, which includes the IPv6 addresses (RFC 8200, 8.1).
fn checksum(from: Ipv6Addr, to: Ipv6Addr, message: &[u8]) -> u16 {
    let length = u32::try_from(message.len()).unwrap_or(0);
    let mut bytes = Vec::with_capacity(40 + message.len());
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, 58]);
    bytes.extend(message);
    let words = bytes.chunks(2).map(|pair| match pair {
        [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
        [high] => u32::from(*high) << 8,
        _ => 0,
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 0x65]);

    #[test]
    fn an_announcement_of_ipv4() {
        let frame = frame(MAC, "10.0.0.101".parse().unwrap());
        assert_eq!(frame.len(), 42);
        // The frame is a broadcast, and both IP addresses in it are the zone's.
        assert_eq!(frame[..6], [0xff; 6]);
        assert_eq!(frame[28..32], [10, 0, 0, 101]);
        assert_eq!(frame[38..42], [10, 0, 0, 101]);
    }

    #[test]
    fn an_advertisement_of_ipv6_with_its_checksum() {
        let ip: Ipv6Addr = "fd00::65".parse().unwrap();
        let frame = frame(MAC, ip.into());
        assert_eq!(frame.len(), 14 + 40 + 32);
        // The checksum over data that includes a correct checksum is zero.
        let to = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        assert_eq!(checksum(ip, to, &frame[54..]), 0);
        assert_eq!(frame[62..78], ip.octets());
    }
}
