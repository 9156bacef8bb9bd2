//! A reference implementation of a guard, written as plainly as possible.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::guard::{Guard, Reason};

/// The decision of a guard about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passes,
    /// The frame is dropped without being counted.
    Vanishes,
    Dropped(Reason),
}

use Outcome::{Dropped, Passes, Vanishes};

/// Returns the bytes at an offset, if the frame is long enough.
fn bytes<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    frame.get(at..at + N)?.try_into().ok()
}

fn number(frame: &[u8], at: usize) -> Option<u16> {
    bytes(frame, at).map(u16::from_be_bytes)
}

pub fn outcome(guard: &Guard, frame: &[u8]) -> Outcome {
    let tags =
        guard.mac.is_some() || guard.sources.is_some() || guard.restricted || guard.vlan.is_some();
    if !(tags || guard.dhcp || guard.routed) {
        return Passes;
    }
    if frame.len() < 34 {
        return Dropped(Reason::Protocol);
    }
    if guard.mac.is_some() && guard.mac != bytes(frame, 6) {
        return Dropped(Reason::Mac);
    }
    match number(frame, 12) {
        Some(0x0800) => ipv4(guard, frame),
        Some(0x86dd) => ipv6(guard, frame),
        Some(0x0806) => arp(guard, frame),
        Some(0x8100 | 0x88a8) if tags => Dropped(Reason::Protocol),
        _ if guard.restricted => Dropped(Reason::Protocol),
        _ => in_order(guard),
    }
}

/// Returns the decision about a valid frame of neighbour discovery.
fn in_order(guard: &Guard) -> Outcome {
    if guard.routed { Vanishes } else { Passes }
}

/// Returns true if the zone may use an address as source, by its prefix.
pub fn is_ours(guard: &Guard, address: IpAddr) -> bool {
    let same = |a: u128, b: u128, length: u8, bits: u8| {
        let rest = u32::from(bits - length.min(bits));
        a.checked_shr(rest) == b.checked_shr(rest)
    };
    let mut sources = guard.sources.iter().flatten();
    sources.any(|&(source, length)| match (source, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), length, 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), length, 128),
        _ => false,
    })
}

/// A function that decides whether a client id is derived from the zone's MAC address.
type IsOwn<'a> = &'a dyn Fn(&[u8]) -> bool;

/// Returns true if the zone may use a client id; a message without a client id is also permitted.
fn is_client(guard: &Guard, id: Option<&[u8]>, own: &[IsOwn<'_>]) -> bool {
    let clients = guard.clients.as_ref().unwrap();
    id.is_none_or(|id| {
        own.iter().any(|is_own| is_own(id)) || clients.ids.iter().any(|known| known == id)
    })
}

/// Returns true if a message to a DHCP server has only the zone's own ids; `None` for a message
/// that cannot be read.
fn asks_honestly4(guard: &Guard, frame: &[u8]) -> Option<bool> {
    let mac = guard.clients.as_ref().unwrap().mac;
    let message = frame.get(14 + 4 * usize::from(frame[14] & 0x0f) + 8..)?;
    if bytes(message, 0)? != [1, 1, 6]
        || bytes(message, 28)? != mac
        || bytes(message, 236)? != [0x63, 0x82, 0x53, 0x63]
    {
        return None;
    }
    let (mut at, mut found) = (240, None);
    for _ in 0..32 {
        match *message.get(at)? {
            255 => {
                let is_own = |id: &[u8]| id.split_first() == Some((&1, &mac));
                let id = match found {
                    None => None,
                    Some(at) => {
                        let length = usize::from(*message.get(at + 1)?);
                        Some(message.get(at + 2..at + 2 + length)?)
                    }
                };
                return Some(is_client(guard, id, &[&is_own]));
            }
            0 => at += 1,
            52 => return None,
            kind => {
                if kind == 61 && found.replace(at).is_some() {
                    return None;
                }
                at += 2 + usize::from(*message.get(at + 1)?);
            }
        }
    }
    None
}

/// Does the same check for IPv6: for a packet up to its end, with its UDP header at this offset.
fn asks_honestly6(guard: &Guard, packet: &[u8], end: usize, at: usize) -> Option<bool> {
    let mac = guard.clients.as_ref().unwrap().mac;
    let [kind, ..] = bytes::<4>(packet, at + 8)?;
    if kind == 12 || kind == 13 {
        return None;
    }
    let (mut at, mut found) = (at + 12, None);
    for options in 0.. {
        if at == end {
            break;
        }
        if options == 32 {
            return None;
        }
        let (kind, _) = (number(packet, at)?, bytes::<4>(packet, at)?);
        if kind == 1 && found.replace(at).is_some() {
            return None;
        }
        at += 4 + usize::from(number(packet, at + 2)?);
    }
    let id = match found {
        None => None,
        Some(at) => {
            let length = usize::from(number(packet, at + 2)?);
            Some(packet.get(at + 4..at + 4 + length)?)
        }
    };
    let by_address = |id: &[u8]| id == [&[0, 3, 0, 1][..], &mac].concat();
    let by_time = |id: &[u8]| id.len() == 14 && id.starts_with(&[0, 1, 0, 1]) && id.ends_with(&mac);
    Some(is_client(guard, id, &[&by_address, &by_time]))
}

fn ipv4(guard: &Guard, frame: &[u8]) -> Outcome {
    let source = Ipv4Addr::from(bytes::<4>(frame, 26).unwrap());
    let fragment = number(frame, 20).unwrap();
    let is_udp = frame[23] == 17;
    let ports = 14 + 4 * usize::from(frame[14] & 0x0f);
    let ports = number(frame, ports).zip(number(frame, ports + 2));
    if guard.dhcp && guard.clients.is_some() && is_udp && fragment & 0x1fff == 0 {
        match ports {
            None => return Dropped(Reason::Protocol),
            Some((_, 67)) if fragment & 0x2000 != 0 => return Dropped(Reason::Dhcp),
            Some((_, 67)) if asks_honestly4(guard, frame) != Some(true) => {
                return Dropped(Reason::Dhcp);
            }
            Some(_) => {}
        }
    }
    if guard.sources.is_some() && !is_ours(guard, source.into()) {
        let asks = is_udp && fragment & 0x3fff == 0 && ports == Some((68, 67));
        return if source.is_unspecified() && asks && !guard.routed {
            Passes
        } else {
            Dropped(Reason::Source4)
        };
    }
    if guard.routed && frame[30] == 127 {
        return Vanishes;
    }
    if guard.dhcp && is_udp && fragment & 0x1fff == 0 {
        return match ports {
            None => Dropped(Reason::Protocol),
            Some((67, _) | (_, 68)) => Dropped(Reason::Dhcp),
            Some(_) => Passes,
        };
    }
    Passes
}

fn arp(guard: &Guard, frame: &[u8]) -> Outcome {
    if guard.sources.is_none() {
        return in_order(guard);
    }
    let told = || {
        let sender = Ipv4Addr::from(bytes::<4>(frame, 28)?);
        let about = if sender.is_unspecified() {
            Ipv4Addr::from(bytes::<4>(frame, 38)?)
        } else {
            sender
        };
        let honest = bytes(frame, 14)? == [0, 1, 8, 0, 6, 4]
            && (guard.mac.is_none() || guard.mac == bytes(frame, 22))
            && is_ours(guard, about.into());
        honest.then_some(())
    };
    match told() {
        Some(()) => in_order(guard),
        None => Dropped(Reason::Arp),
    }
}

/// The kind of an IPv6 packet's source address.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Zone,
    LinkLocal,
    Nobody,
}

fn is_own_link_local(guard: &Guard, address: Ipv6Addr) -> bool {
    let Some([a, b, c, d, e, f]) = guard.mac else {
        return address.octets()[0] == 0xfe && address.octets()[1] & 0xc0 == 0x80;
    };
    let own = [
        0xfe,
        0x80,
        0,
        0,
        0,
        0,
        0,
        0,
        a ^ 2,
        b,
        c,
        0xff,
        0xfe,
        d,
        e,
        f,
    ];
    address.octets() == own
}

fn ipv6(guard: &Guard, frame: &[u8]) -> Outcome {
    if guard.sources.is_none() && !guard.dhcp {
        return Passes;
    }
    let Some(source) = bytes::<16>(frame, 22).map(Ipv6Addr::from) else {
        return Dropped(Reason::Protocol);
    };
    if frame.len() < 54 {
        return Dropped(Reason::Protocol);
    }
    let by = if guard.sources.is_none() || is_ours(guard, source.into()) {
        By::Zone
    } else if is_own_link_local(guard, source) {
        By::LinkLocal
    } else if source.is_unspecified() {
        By::Nobody
    } else {
        return Dropped(Reason::Source6);
    };
    // Returns the bytes that the receiver reads as the packet.
    let length = usize::from(number(frame, 18).unwrap());
    let end = if length == 0 {
        frame.len()
    } else {
        54 + length
    };
    let packet = &frame[..frame.len().min(end)];
    let (mut next, mut at, mut is_fragment) = (frame[20], 54, false);
    let any = |by: By| match by {
        By::Nobody => Dropped(Reason::Source6),
        By::LinkLocal => in_order(guard),
        By::Zone => Passes,
    };
    for headers in 0.. {
        match next {
            58 => return icmp(guard, packet, end, at, is_fragment, by),
            17 if guard.dhcp => {
                return match (
                    bytes::<8>(packet, at),
                    number(packet, at),
                    number(packet, at + 2),
                ) {
                    (None, ..) => Dropped(Reason::Protocol),
                    (_, Some(547), _) | (_, _, Some(546)) => Dropped(Reason::Dhcp),
                    (_, _, Some(547))
                        if guard.clients.is_some()
                            && (is_fragment
                                || asks_honestly6(guard, packet, end, at) != Some(true)) =>
                    {
                        Dropped(Reason::Dhcp)
                    }
                    _ => any(by),
                };
            }
            0 | 43 | 44 | 60 => {}
            _ => return any(by),
        }
        if headers == 4 {
            return Dropped(Reason::Protocol);
        }
        let Some(header) = bytes::<8>(packet, at) else {
            return Dropped(Reason::Protocol);
        };
        if next == 44 {
            if u16::from_be_bytes([header[2], header[3]]) >> 3 != 0 {
                return any(by);
            }
            if is_fragment {
                return Dropped(Reason::Protocol);
            }
            is_fragment = true;
        }
        at += match next {
            44 => 8,
            _ => 8 * (usize::from(header[1]) + 1),
        };
        next = header[0];
    }
    unreachable!("the loop only returns")
}

fn icmp(guard: &Guard, packet: &[u8], end: usize, at: usize, is_fragment: bool, by: By) -> Outcome {
    if bytes::<8>(packet, at).is_none() {
        return Dropped(Reason::Protocol);
    }
    let kind = packet[at];
    if kind == 134 {
        return Dropped(Reason::Ndp);
    }
    if guard.sources.is_none() {
        return Passes;
    }
    let told = || {
        if kind == 136 && by == By::Nobody {
            return None;
        }
        if kind == 136 || kind == 135 && by == By::Nobody {
            let target = Ipv6Addr::from(bytes::<16>(packet, at + 8)?);
            if !is_ours(guard, target.into()) && !is_own_link_local(guard, target) {
                return None;
            }
        }
        if is_fragment {
            return None;
        }
        let mut at = at + if kind == 133 { 8 } else { 24 };
        for options in 0.. {
            if guard.mac.is_none() || at >= end {
                break;
            }
            let option = bytes::<8>(packet, at)?;
            let [kind, length, mac @ ..] = option;
            let lies = (kind == 1 || kind == 2) && Some(mac) != guard.mac;
            if lies || length == 0 || options == 3 {
                return None;
            }
            at += 8 * usize::from(length);
        }
        Some(())
    };
    match kind {
        137 => Dropped(Reason::Ndp),
        // A routed link has no neighbour discovery: a question is harmless and useless, and an
        // answer is false.
        133 | 135 if guard.routed => Vanishes,
        136 if guard.routed => Dropped(Reason::Ndp),
        130..=132 | 143 => in_order(guard),
        133 | 135 | 136 => told().map_or(Dropped(Reason::Ndp), |()| in_order(guard)),
        _ => match by {
            By::Nobody => Dropped(Reason::Source6),
            By::LinkLocal => in_order(guard),
            By::Zone => Passes,
        },
    }
}
