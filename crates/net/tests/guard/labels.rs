//! Tests the programs of a link with a label on crafted frames.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use model::plan::network::{MultilevelPort, Transport};
use net::guard::label::Addresses;
use net::guard::{Guard, Labeled, Loaded, Reason, counts, load_labeled};

use crate::frames::*;
use crate::{MAC, TC_ACT_OK, TC_ACT_SHOT};

/// The number of the zone's label, and of another label.
const OWN: u8 = 5;
const OTHER: u8 = 77;
/// The bit of the mark for an answer from a multilevel port.
const ANSWER: u32 = 1 << 31;
/// A bit of the mark that belongs to other programs.
const FOREIGN: u32 = 0x0001_0000;

const OURS: &str = "10.0.0.5";
const OURS6: &str = "fd00::5";
/// The address of another zone.
const ZONE: &str = "10.0.0.6";
const ZONE6: &str = "fd00::6";
/// The address of a host of the own label, in a network of the other label.
const FRIEND: &str = "192.0.2.7";
const STRANGER: &str = "192.0.2.8";
const FRIEND6: &str = "2001:db8::7";
const UNKNOWN: &str = "198.51.100.1";

const fn mark(number: u8) -> u32 {
    (number as u32) << 24
}

struct Link {
    guard: Loaded,
    arrivals: OwnedFd,
    _addresses: Addresses,
}

impl Link {
    /// Returns `None` if no program can be loaded, and prints "skipped", which ./check counts.
    fn new(ports: &[MultilevelPort], routed: bool) -> Option<Self> {
        let addresses = match Addresses::open_or_make(0) {
            Ok(addresses) => addresses,
            Err(error) => {
                println!("skipped: bpf(2): {error}");
                return None;
            }
        };
        let at = |text: &str, length| (text.parse::<IpAddr>().unwrap(), length);
        let map = BTreeMap::from([
            (at(OURS, 32), 1),
            (at(OURS6, 128), 1),
            (at(ZONE, 32), 1),
            (at(ZONE6, 128), 1),
            (at("192.0.2.0", 24), 1 << OTHER),
            (at(FRIEND, 32), 1 << OWN | 1 << OTHER),
            (at(FRIEND6, 128), 1 << OWN),
        ]);
        addresses.replace(&map).unwrap();
        let own = [(OURS, 32), (OURS6, 128)];
        let guard = Guard {
            mac: Some(MAC),
            sources: Some(own.map(|(text, length)| at(text, length)).to_vec()),
            dhcp: true,
            restricted: true,
            routed,
            ..Guard::default()
        };
        let labeled = Labeled {
            number: OWN,
            ports,
            addresses: &addresses,
        };
        let (guard, arrivals) = load_labeled(&guard, &labeled).unwrap();
        Some(Self {
            guard,
            arrivals,
            _addresses: addresses,
        })
    }

    fn dropped(&self) -> u64 {
        let counts = counts(self.guard.map_id).unwrap();
        let found = counts.iter().find(|(reason, _)| *reason == Reason::Label);
        found.unwrap().1
    }

    /// Returns the mark of a frame that the zone sends; `None` if its label refuses the frame.
    fn sends(&self, frame: &[u8]) -> Option<u32> {
        let before = self.dropped();
        let program = self.guard.program.as_fd();
        let ran = sys::bpf::run_with_mark(program, frame, 1, FOREIGN).unwrap();
        let refused = self.dropped() - before;
        match (ran.verdict, refused) {
            (TC_ACT_OK, 0) => {
                assert_eq!(ran.mark & 0x00ff_ffff, FOREIGN);
                Some(ran.mark & !FOREIGN)
            }
            (TC_ACT_SHOT, 1) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Returns true if a frame with this mark reaches the zone.
    fn gets(&self, mark: u32, frame: &[u8]) -> bool {
        let before = self.dropped();
        let program = self.arrivals.as_fd();
        let ran = sys::bpf::run_with_mark(program, frame, 1, mark | FOREIGN).unwrap();
        match (ran.verdict, self.dropped() - before) {
            (TC_ACT_OK, 0) => true,
            (TC_ACT_SHOT, 1) => false,
            other => panic!("{other:?}"),
        }
    }
}

fn to4(source: &str, target: &str, protocol: u8, payload: Vec<u8>) -> Vec<u8> {
    let mut bytes = Ipv4::new(source, protocol, payload).bytes();
    let target: std::net::Ipv4Addr = target.parse().unwrap();
    bytes[16..20].copy_from_slice(&target.octets());
    ethernet(MAC, 0x0800, &bytes)
}

fn to6(source: &str, target: &str, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ipv6(source.parse().unwrap(), next, payload);
    let target: Ipv6Addr = target.parse().unwrap();
    bytes[24..40].copy_from_slice(&target.octets());
    ethernet(MAC, 0x86dd, &bytes)
}

fn segment(from: u16, to: u16, flags: u8) -> Vec<u8> {
    let mut header = tcp();
    header[..2].copy_from_slice(&from.to_be_bytes());
    header[2..4].copy_from_slice(&to.to_be_bytes());
    header[13] = flags;
    header
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

const PORTS: [MultilevelPort; 2] = [
    MultilevelPort {
        protocol: Transport::Tcp,
        first: 8080,
        last: 8081,
    },
    MultilevelPort {
        protocol: Transport::Udp,
        first: 53,
        last: 53,
    },
];

#[test]
fn a_zone_sends_its_label_to_zones_and_to_hosts_of_its_label_only() {
    let Some(link) = Link::new(&[], true) else {
        return;
    };
    for (target, passes) in [
        (ZONE, true),
        (FRIEND, true),
        (STRANGER, false),
        (UNKNOWN, false),
    ] {
        let sent = link.sends(&to4(OURS, target, 17, udp(1000, 2000)));
        assert_eq!(sent, passes.then_some(mark(OWN)), "{target}");
    }
    for (target, passes) in [(ZONE6, true), (FRIEND6, true), ("2001:db8::8", false)] {
        let sent = link.sends(&to6(OURS6, target, 6, &segment(1000, 2000, SYN)));
        assert_eq!(sent, passes.then_some(mark(OWN)), "{target}");
    }
}

#[test]
fn a_zone_gets_packets_of_its_label_only() {
    let Some(link) = Link::new(&[], true) else {
        return;
    };
    let from = |source: &str| to4(source, OURS, 17, udp(1000, 2000));
    assert!(link.gets(mark(OWN), &from(ZONE)));
    assert!(!link.gets(mark(OTHER), &from(ZONE)));
    // Packets without a mark come from the host or from outside, and never from a zone.
    assert!(!link.gets(0, &from(ZONE)));
    assert!(link.gets(0, &from(FRIEND)));
    assert!(!link.gets(0, &from(STRANGER)));
    assert!(!link.gets(0, &from(UNKNOWN)));
    assert!(!link.gets(ANSWER, &from(UNKNOWN)));
    let from6 = |source: &str| to6(source, OURS6, 17, &udp(1000, 2000));
    assert!(link.gets(mark(OWN), &from6(ZONE6)));
    assert!(!link.gets(mark(OTHER), &from6(ZONE6)));
    assert!(link.gets(0, &from6(FRIEND6)));
    assert!(!link.gets(0, &from6(ZONE6)));
    // The mark counts, not the address.
    assert!(link.gets(mark(OWN), &from(UNKNOWN)));
    // The zone is no member of the label whose number has more bits.
    assert!(!link.gets(mark(OWN | 0x40), &from(ZONE)));
}

#[test]
fn options_that_can_carry_a_label_are_dropped() {
    let Some(link) = Link::new(&[], true) else {
        return;
    };
    let mut cipso = Ipv4::new(OURS, 17, udp(1, 2));
    cipso.options = 3;
    let mut bytes = cipso.bytes();
    bytes[16..20].copy_from_slice(&[10, 0, 0, 6]);
    bytes[20..22].copy_from_slice(&[134, 10]);
    assert_eq!(link.sends(&ethernet(MAC, 0x0800, &bytes)), None);
    // An option of CALIPSO (RFC 5570) has the type 7.
    let calipso = [&[17, 1, 7, 8][..], &[0; 12], &udp(1, 2)].concat();
    assert_eq!(link.sends(&to6(OURS6, ZONE6, 0, &calipso)), None);
    let short = [&[17, 0, 7, 4][..], &[0; 4], &udp(1, 2)].concat();
    assert_eq!(link.sends(&to6(OURS6, ZONE6, 0, &short)), None);
    // The kernel itself writes the length of large packets into this option.
    let jumbo = [&[17, 0, 0xc2, 4][..], &[0, 1, 0, 0], &udp(1, 2)].concat();
    assert_eq!(link.sends(&to6(OURS6, ZONE6, 0, &jumbo)), Some(mark(OWN)));
}

#[test]
fn a_multilevel_port_talks_to_every_known_label() {
    let (Some(open), Some(plain)) = (Link::new(&PORTS, true), Link::new(&[], true)) else {
        return;
    };
    // Another label reaches the port, and no other port.
    for (protocol, payload, passes) in [
        (6, segment(4000, 8080, SYN), true),
        (6, segment(4000, 8081, ACK), true),
        (6, segment(4000, 8082, SYN), false),
        (6, segment(8080, 4000, ACK), false),
        (17, udp(4000, 53), true),
        (17, udp(4000, 8080), false),
    ] {
        for source in [ZONE, STRANGER] {
            let mark = if source == ZONE { mark(OTHER) } else { 0 };
            let frame = to4(source, OURS, protocol, payload.clone());
            assert_eq!(open.gets(mark, &frame), passes, "{source} {payload:?}");
            assert!(!plain.gets(mark, &frame));
        }
        let frame = to6(ZONE6, OURS6, protocol, &payload);
        assert_eq!(open.gets(mark(OTHER), &frame), passes, "{payload:?}");
        // A host that no network names reaches no zone.
        assert!(!open.gets(0, &to4(UNKNOWN, OURS, protocol, payload)));
    }
    // The answers have a mark that every label admits; new connections have not.
    let answer = Some(mark(OWN) | ANSWER);
    let out = |payload: Vec<u8>| open.sends(&to4(OURS, STRANGER, 6, payload));
    assert_eq!(out(segment(8080, 4000, SYN | ACK)), answer);
    assert_eq!(out(segment(8080, 4000, ACK)), answer);
    assert_eq!(out(segment(8080, 4000, SYN)), None);
    assert_eq!(out(segment(8079, 4000, ACK)), None);
    let unknown = to4(OURS, UNKNOWN, 6, segment(8080, 4000, ACK));
    assert_eq!(open.sends(&unknown), None);
    let in_zone = to4(OURS, ZONE, 6, segment(8080, 4000, SYN));
    assert_eq!(open.sends(&in_zone), Some(mark(OWN)));
    let six = to6(OURS6, ZONE6, 6, &segment(8081, 4000, ACK));
    assert_eq!(open.sends(&six), answer);
    let from = to4(ZONE, OURS, 6, segment(8080, 4000, ACK));
    assert!(plain.gets(mark(OTHER) | ANSWER, &from));
    // A later fragment has no ports.
    let mut late = Ipv4::new(OURS, 6, segment(8080, 4000, ACK));
    late.fragment = 1;
    let mut bytes = late.bytes();
    bytes[16..20].copy_from_slice(&[192, 0, 2, 8]);
    assert_eq!(open.sends(&ethernet(MAC, 0x0800, &bytes)), None);
}

#[test]
fn neighbours_are_asked_only_for_known_addresses() {
    let Some(link) = Link::new(&[], false) else {
        return;
    };
    let ask = |target: &str| {
        let target = target.parse().unwrap();
        ethernet(MAC, 0x0806, &arp(1, MAC, OURS.parse().unwrap(), target))
    };
    assert_eq!(link.sends(&ask(ZONE)), Some(mark(OWN)));
    assert_eq!(link.sends(&ask(FRIEND)), Some(mark(OWN)));
    assert_eq!(link.sends(&ask(STRANGER)), None);
    let answer = |source: &str| {
        let source = source.parse().unwrap();
        ethernet(MAC, 0x0806, &arp(2, MAC, source, OURS.parse().unwrap()))
    };
    assert!(link.gets(mark(OWN), &answer(ZONE)));
    assert!(!link.gets(mark(OTHER), &answer(ZONE)));
    assert!(link.gets(0, &answer(FRIEND)));
    assert!(!link.gets(0, &answer(ZONE)));
    // A protocol without addresses has no label.
    assert!(!link.gets(0, &ethernet(MAC, 0x88cc, &[0; 40])));
}
