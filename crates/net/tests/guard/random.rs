//! Tests that the kernel's verdict on random frames is always that of the plain description.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::guard::{Clients, Guard, Verdict};
use proptest::prelude::*;

use crate::frames::*;
use crate::reference::{self, Outcome, is_ours};
use crate::{MAC, OTHER_MAC, Subject, can_be_tried};

fn mac() -> impl Strategy<Value = [u8; 6]> {
    prop_oneof![4 => Just(MAC), 1 => Just(OTHER_MAC), 1 => any::<[u8; 6]>()]
}

fn address4() -> impl Strategy<Value = Ipv4Addr> {
    prop_oneof![
        Just(Ipv4Addr::new(10, 0, 0, 5)),
        Just(Ipv4Addr::new(10, 0, 0, 6)),
        Just(Ipv4Addr::UNSPECIFIED),
        any::<u8>().prop_map(|last| Ipv4Addr::new(192, 0, 2, last)),
        any::<u32>().prop_map(Ipv4Addr::from_bits),
    ]
}

fn address6() -> impl Strategy<Value = Ipv6Addr> {
    let last = |text: &str| {
        let base: Ipv6Addr = text.parse().unwrap();
        any::<u16>().prop_map(move |last| Ipv6Addr::from_bits(base.to_bits() | u128::from(last)))
    };
    prop_oneof![
        Just("fd00::5".parse().unwrap()),
        Just("fe80::8:20ff:feaa:bbcc".parse().unwrap()),
        Just(Ipv6Addr::UNSPECIFIED),
        last("fd00::"),
        last("fe80::8:20ff:feaa:0"),
        any::<u128>().prop_map(Ipv6Addr::from_bits),
    ]
}

fn source() -> impl Strategy<Value = (IpAddr, u8)> {
    prop_oneof![
        (address4(), 0..=32_u8).prop_map(|(address, length)| (address.into(), length)),
        (address4(), Just(32)).prop_map(|(address, length)| (address.into(), length)),
        (address6(), 0..=128_u8).prop_map(|(address, length)| (address.into(), length)),
        (address6(), Just(128)).prop_map(|(address, length)| (address.into(), length)),
    ]
}

fn guard() -> impl Strategy<Value = Guard> {
    let some_sources = proptest::option::weighted(0.8, proptest::collection::vec(source(), 0..4));
    let has_mac = proptest::option::weighted(0.7, Just(MAC));
    let vlan = proptest::option::weighted(0.2, Just(7_u16));
    let ids = proptest::collection::vec(client_id(), 0..4);
    let clients = proptest::option::of(ids.prop_map(|ids| Clients { mac: MAC, ids }));
    (has_mac, some_sources, any::<[bool; 4]>(), vlan, clients).prop_map(
        |(mac, sources, [dhcp, restricted, routed, out], vlan, clients)| Guard {
            mac,
            sources,
            dhcp,
            clients,
            restricted,
            routed,
            vlan,
            to: if out {
                Verdict::Device(1)
            } else {
                Verdict::Host
            },
            ..Guard::default()
        },
    )
}

/// Client ids that some guards admit, and client ids that no guard admits.
fn client_id() -> impl Strategy<Value = Vec<u8>> {
    let by_time = |mac: [u8; 6]| [&[0, 1, 0, 1, 9, 9, 9, 9][..], &mac].concat();
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 1..20),
        mac().prop_map(|mac| [&[1][..], &mac].concat()),
        mac().prop_map(|mac| [&[0, 3, 0, 1][..], &mac].concat()),
        mac().prop_map(by_time),
        Just(b"web".to_vec()),
        Just(vec![7; 130]),
    ]
}

fn asks4() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        3 => client_id().prop_map(|id| option4(61, &id)),
        2 => Just(option4(53, &[1])),
        1 => Just(vec![0]),
        1 => Just(option4(52, &[1])),
        1 => Just(option4(55, &[9; 200])),
    ];
    let few = proptest::collection::vec(option, 0..4).boxed();
    let many = (28..36_usize)
        .prop_map(|count| vec![vec![0]; count])
        .boxed();
    let end = proptest::option::weighted(0.9, Just(255_u8));
    (mac(), prop_oneof![5 => few, 1 => many], end).prop_map(|(mac, options, end)| {
        let mut options = options.concat();
        options.extend(end);
        dhcp4(mac, &options)
    })
}

fn asks6() -> impl Strategy<Value = Vec<u8>> {
    let option = prop_oneof![
        3 => client_id().prop_map(|id| option6(1, &id)),
        2 => Just(option6(3, &[0; 12])),
        1 => Just(vec![0, 6, 0, 200]),
    ];
    let few = proptest::collection::vec(option, 0..4).boxed();
    let many = (30..34_usize)
        .prop_map(|count| vec![option6(6, &[]); count])
        .boxed();
    let kind = proptest::sample::select(vec![1_u8, 3, 3, 11, 12, 13]);
    (kind, prop_oneof![5 => few, 1 => many])
        .prop_map(|(kind, options)| dhcp6(kind, &options.concat()))
}

fn ports() -> impl Strategy<Value = Vec<u8>> {
    let port = || proptest::sample::select(vec![53_u16, 67, 68, 546, 547, 1000]);
    prop_oneof![
        3 => (port(), port()).prop_map(|(from, to)| udp(from, to)),
        2 => asks4(),
        2 => asks6(),
    ]
}

fn packet4() -> impl Strategy<Value = Vec<u8>> {
    let fragment = proptest::sample::select(vec![0_u16, 0x4000, 0x2000, 1, 0x3fff, 0x8000]);
    let protocol = proptest::sample::select(vec![17_u8, 17, 6, 1]);
    (address4(), protocol, fragment, 0..=10_u8, ports()).prop_map(
        |(source, protocol, fragment, options, payload)| {
            let packet = Ipv4 {
                source,
                protocol,
                fragment,
                options,
                payload,
            };
            packet.bytes()
        },
    )
}

fn packet_arp() -> impl Strategy<Value = Vec<u8>> {
    (1..3_u16, mac(), address4(), address4())
        .prop_map(|(operation, mac, sender, target)| arp(operation, mac, sender, target))
}

/// A message of ICMPv6 with options, or another packet, and its name.
fn upper() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let option = (proptest::sample::select(vec![1_u8, 2, 14]), mac())
        .prop_map(|(kind, mac)| mac_option(kind, mac));
    let options = proptest::collection::vec(option, 0..4)
        .prop_map(|options| options.concat())
        .boxed();
    let others = proptest::sample::select(vec![128_u8, 130, 131, 133, 134, 137, 143]);
    prop_oneof![
        3 => (135..137_u8, address6(), options.clone())
            .prop_map(|(kind, target, options)| (58, neighbour(kind, target, &options))),
        2 => (others, options)
            .prop_map(|(kind, options)| (58, icmp(kind, &[&[0; 4][..], &options].concat()))),
        2 => ports().prop_map(|ports| (17, ports)),
        1 => Just((6, tcp())),
        1 => Just((59, Vec::new())),
    ]
}

fn packet6() -> impl Strategy<Value = Vec<u8>> {
    let header = (
        proptest::sample::select(vec![0_u8, 43, 44, 44, 60, 60, 51]),
        0..3_u8,
        proptest::sample::select(vec![0_u16, 1, 1, 8, 0xfff8]),
    );
    let headers = prop_oneof![
        2 => proptest::collection::vec(header.clone(), 0..1),
        2 => proptest::collection::vec(header.clone(), 1..3),
        1 => proptest::collection::vec(header, 4..8),
    ];
    let length = proptest::option::weighted(0.2, 0..200_u16);
    (address6(), headers, upper(), length).prop_map(|(source, headers, upper, length)| {
        let (mut next, mut payload) = upper;
        for (kind, words, field) in headers {
            payload = match kind {
                44 => fragment(next, field, &payload),
                51 => [
                    &[next, words * 2][..],
                    &vec![0; 6 + 8 * usize::from(words)],
                    &payload,
                ]
                .concat(),
                _ => [
                    &[next, words][..],
                    &vec![0; 6 + 8 * usize::from(words)],
                    &payload,
                ]
                .concat(),
            };
            next = kind;
        }
        let mut packet = ipv6(source, next, &payload);
        if let Some(length) = length {
            packet[4..6].copy_from_slice(&length.to_be_bytes());
        }
        packet
    })
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let kind = proptest::sample::select(vec![0x0800_u16, 0x86dd, 0x0806, 0x8100, 0x88cc]);
    let crafted = prop_oneof![
        2 => (mac(), packet4()).prop_map(|(mac, packet)| ethernet(mac, 0x0800, &packet)),
        4 => (mac(), packet6()).prop_map(|(mac, packet)| ethernet(mac, 0x86dd, &packet)),
        1 => (mac(), packet_arp()).prop_map(|(mac, packet)| ethernet(mac, 0x0806, &packet)),
    ];
    // Changes some bytes of a frame, and cuts the frame off at a random length.
    let changes = proptest::collection::vec((0..120_usize, any::<u8>()), 0..3);
    let cut = proptest::option::weighted(0.2, 14..120_usize);
    prop_oneof![
        8 => (crafted, changes, cut).prop_map(|(mut frame, changes, cut)| {
            for (at, byte) in changes {
                if let Some(place) = frame.get_mut(at) {
                    *place = byte;
                }
            }
            frame.truncate(cut.unwrap_or(frame.len()));
            frame
        }),
        1 => (mac(), kind, proptest::collection::vec(any::<u8>(), 0..200))
            .prop_map(|(mac, kind, bytes)| ethernet(mac, kind, &bytes)),
        1 => proptest::collection::vec(any::<u8>(), 14..300),
    ]
}

/// Returns the number of random guards: the short run has some thousand frames.
fn cases() -> u32 {
    match std::env::var_os("ZONES_TEST_LONG") {
        Some(_) => 1_000,
        None => 64,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn verdicts_are_as_described(
        guard in guard(),
        frames in proptest::collection::vec(frame(), 60),
    ) {
        let Some(subject) = Subject::new(guard) else {
            return Ok(());
        };
        for frame in frames.into_iter().filter(|frame| can_be_tried(frame)) {
            let outcome = subject.outcome(&frame);
            prop_assert_eq!(outcome, reference::outcome(&subject.guard, &frame), "{:02x?}", frame);
            if outcome == Outcome::Passes {
                prop_assert!(!is_foreign(&subject.guard, &frame), "{:02x?}", frame);
            }
        }
    }
}

/// Returns true if the guard restricts sources and an IP packet has a foreign source: not an
/// address of the zone, not a link-local IPv6 address, and not the unspecified address.
fn is_foreign(guard: &Guard, frame: &[u8]) -> bool {
    let source: IpAddr = match frame[12..14] {
        [0x08, 0x00] => Ipv4Addr::from(<[u8; 4]>::try_from(&frame[26..30]).unwrap()).into(),
        [0x86, 0xdd] => Ipv6Addr::from(<[u8; 16]>::try_from(&frame[22..38]).unwrap()).into(),
        _ => return false,
    };
    let stays = match source {
        IpAddr::V4(source) => source.is_unspecified(),
        IpAddr::V6(source) => source.is_unspecified() || source.is_unicast_link_local(),
    };
    guard.sources.is_some() && !stays && !is_ours(guard, source)
}
