//! Every rule, on crafted frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use net::client_id;
use net::guard::{Clients, Guard, Reason, Verdict};

use crate::frames::*;
use crate::reference::{self, Outcome};
use crate::{MAC, OTHER_MAC, Subject};
use Outcome::{Dropped, Passes, Vanishes};

const OURS: &str = "10.0.0.5";
const OURS6: &str = "fd00::5";

fn six(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn four(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

fn own_link_local() -> Ipv6Addr {
    six("fe80::8:20ff:feaa:bbcc")
}

fn sources(texts: &[(&str, u8)]) -> Option<Vec<(IpAddr, u8)>> {
    let parse = |&(text, length): &(&str, u8)| (text.parse().unwrap(), length);
    Some(texts.iter().map(parse).collect())
}

/// All protections of a link among neighbours.
fn protected() -> Guard {
    Guard {
        mac: Some(MAC),
        sources: sources(&[
            (OURS, 32),
            ("192.0.2.64", 26),
            (OURS6, 128),
            ("2001:db8:7::", 52),
        ]),
        dhcp: true,
        restricted: true,
        ..Guard::default()
    }
}

/// Runs frames; the plain description has to agree with what is expected.
fn check(guard: &Guard, table: &[(&str, Vec<u8>, Outcome)]) {
    for to in [Verdict::Host, Verdict::Device(1)] {
        let guard = Guard {
            to,
            ..guard.clone()
        };
        let Some(subject) = Subject::new(guard) else {
            return;
        };
        for (what, frame, expected) in table {
            assert_eq!(subject.outcome(frame), *expected, "{what}");
            let described = reference::outcome(&subject.guard, frame);
            assert_eq!(described, *expected, "{what}");
        }
    }
}

fn v4(source: &str, protocol: u8, payload: Vec<u8>) -> Vec<u8> {
    ethernet(MAC, 0x0800, &Ipv4::new(source, protocol, payload).bytes())
}

fn v6(source: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    ethernet(MAC, 0x86dd, &ipv6(source, next, payload))
}

#[test]
fn frames_come_from_the_links_mac() {
    let packet = Ipv4::new(OURS, 6, tcp()).bytes();
    let last = [0x02, 0x08, 0x20, 0xaa, 0xbb, 0xcd];
    let other = ethernet(OTHER_MAC, 0x0800, &packet);
    let only_mac = Guard {
        mac: Some(MAC),
        ..Guard::default()
    };
    let table = [
        ("its own", ethernet(MAC, 0x0800, &packet), Passes),
        ("another", other.clone(), Dropped(Reason::Mac)),
        (
            "the last byte",
            ethernet(last, 0x0800, &packet),
            Dropped(Reason::Mac),
        ),
        (
            "too short to read",
            ethernet(MAC, 0x88cc, &[0; 19]),
            Dropped(Reason::Protocol),
        ),
    ];
    check(&only_mac, &table);
    check(&protected(), &table);
    check(
        &Guard::default(),
        &[
            ("no rule", other, Passes),
            ("no rule", ethernet(MAC, 0x88cc, &[0]), Passes),
        ],
    );
}

#[test]
fn ipv4_comes_from_the_zones_addresses() {
    let asks = |from, to| v4("0.0.0.0", 17, udp(from, to));
    let mut in_parts = Ipv4::new("0.0.0.0", 17, udp(68, 67));
    in_parts.fragment = 0x2000;
    let in_parts = ethernet(MAC, 0x0800, &in_parts.bytes());
    let foreign = Dropped(Reason::Source4);
    check(
        &protected(),
        &[
            ("its own", v4(OURS, 6, tcp()), Passes),
            (
                "in the prefix",
                v4("192.0.2.127", 17, udp(1000, 53)),
                Passes,
            ),
            (
                "behind the prefix",
                v4("192.0.2.128", 17, udp(1000, 53)),
                foreign,
            ),
            ("a neighbour's", v4("10.0.0.6", 6, tcp()), foreign),
            ("loopback", v4("127.0.0.1", 6, tcp()), foreign),
            ("a DHCP client", asks(68, 67), Passes),
            ("nobody to port 53", asks(68, 53), foreign),
            ("nobody from port 67", asks(67, 68), foreign),
            ("nobody with TCP", v4("0.0.0.0", 6, tcp()), foreign),
            ("nobody in fragments", in_parts.clone(), foreign),
            ("nobody without ports", v4("0.0.0.0", 17, vec![]), foreign),
        ],
    );
    let routed = Guard {
        routed: true,
        ..protected()
    };
    check(
        &routed,
        &[
            ("its own", v4(OURS, 6, tcp()), Passes),
            ("a DHCP client", asks(68, 67), foreign),
            ("a neighbour's", v4("10.0.0.6", 6, tcp()), foreign),
        ],
    );
    let none = Guard {
        sources: Some(Vec::new()),
        ..protected()
    };
    check(
        &none,
        &[
            ("none", v4(OURS, 6, tcp()), foreign),
            ("a DHCP client", asks(68, 67), Passes),
        ],
    );
    let all = Guard {
        sources: sources(&[("0.0.0.0", 0), ("::", 0)]),
        ..protected()
    };
    check(
        &all,
        &[
            ("any", v4("10.0.0.6", 6, tcp()), Passes),
            ("any", v6(six("fd00::9"), 6, &tcp()), Passes),
        ],
    );
}

#[test]
fn ipv6_comes_from_the_zones_addresses() {
    let foreign = Dropped(Reason::Source6);
    let report = extension(58, &icmp(143, &[0; 24]));
    let no_mac = Guard {
        mac: None,
        ..protected()
    };
    let table = [
        ("its own", v6(six(OURS6), 6, &tcp()), Passes),
        ("its own, UDP", v6(six(OURS6), 17, &udp(1000, 53)), Passes),
        (
            "its own, ping",
            v6(six(OURS6), 58, &icmp(128, &[0; 4])),
            Passes,
        ),
        (
            "in the prefix",
            v6(six("2001:db8:7:fff::1"), 6, &tcp()),
            Passes,
        ),
        (
            "behind the prefix",
            v6(six("2001:db8:7:1000::1"), 6, &tcp()),
            foreign,
        ),
        ("the first half", v6(six("fd00::6"), 6, &tcp()), foreign),
        ("the second half", v6(six("fd01::5"), 6, &tcp()), foreign),
        (
            "its own link-local",
            v6(own_link_local(), 17, &udp(546, 547)),
            Passes,
        ),
        ("nobody with TCP", v6(six("::"), 6, &tcp()), foreign),
        (
            "nobody with ping",
            v6(six("::"), 58, &icmp(128, &[0; 4])),
            foreign,
        ),
        ("nobody reports groups", v6(six("::"), 0, &report), Passes),
        (
            "groups by link-local",
            v6(own_link_local(), 0, &report),
            Passes,
        ),
    ];
    check(&protected(), &table);
    check(&no_mac, &table);
    let another = v6(six("fe80::1"), 17, &udp(546, 547));
    check(
        &protected(),
        &[("another link-local", another.clone(), foreign)],
    );
    check(&no_mac, &[("any link-local", another, Passes)]);
    let routed = Guard {
        routed: true,
        ..protected()
    };
    check(
        &routed,
        &[
            ("its own", v6(six(OURS6), 6, &tcp()), Passes),
            (
                "its own link-local",
                v6(own_link_local(), 17, &udp(546, 547)),
                Vanishes,
            ),
            ("nobody reports groups", v6(six("::"), 0, &report), Vanishes),
            ("nobody with TCP", v6(six("::"), 6, &tcp()), foreign),
            ("a neighbour's", v6(six("fd00::6"), 6, &tcp()), foreign),
        ],
    );
}

#[test]
fn arp_speaks_for_the_zone_only() {
    let frame = |payload: &[u8]| ethernet(MAC, 0x0806, payload);
    let any = four("10.0.0.9");
    let own = frame(&arp(1, MAC, four(OURS), any));
    let probe = frame(&arp(1, MAC, four("0.0.0.0"), four(OURS)));
    let mut other_hardware = own.clone();
    other_hardware[15] = 6;
    let lie = Dropped(Reason::Arp);
    let lies = [
        (
            "a neighbour's address",
            frame(&arp(2, MAC, any, four(OURS))),
            lie,
        ),
        (
            "another MAC",
            frame(&arp(2, OTHER_MAC, four(OURS), any)),
            lie,
        ),
        (
            "a probe for another's",
            frame(&arp(1, MAC, four("0.0.0.0"), any)),
            lie,
        ),
        ("not about Ethernet", other_hardware, lie),
        ("cut off", own[..41].to_vec(), Passes),
        ("a probe cut off", probe[..41].to_vec(), lie),
        (
            "the sender cut off",
            own[..31].to_vec(),
            Dropped(Reason::Protocol),
        ),
    ];
    let table = [
        ("asks", own.clone(), Passes),
        (
            "answers",
            frame(&arp(2, MAC, four("192.0.2.65"), any)),
            Passes,
        ),
        ("probes", probe.clone(), Passes),
    ];
    check(&protected(), &table);
    check(&protected(), &lies);
    let routed = Guard {
        routed: true,
        ..protected()
    };
    check(
        &routed,
        &[
            ("asks", own, Vanishes),
            ("probes", probe, Vanishes),
            (
                "a neighbour's address",
                frame(&arp(2, MAC, any, four(OURS))),
                lie,
            ),
        ],
    );
    let only_mac = Guard {
        sources: None,
        ..protected()
    };
    check(
        &only_mac,
        &[("no addresses", frame(&arp(2, MAC, any, any)), Passes)],
    );
}

#[test]
fn neighbour_discovery_speaks_for_the_zone_only() {
    let ours = six(OURS6);
    let another = six("fd00::6");
    let nobody = six("::");
    let link = own_link_local();
    let (source, target) = (mac_option(1, MAC), mac_option(2, MAC));
    let lie = Dropped(Reason::Ndp);
    let ask = |from, target, options: &[u8]| v6(from, 58, &neighbour(135, target, options));
    let answer = |from, target, options: &[u8]| v6(from, 58, &neighbour(136, target, options));
    let second = [mac_option(14, [9; 6]), mac_option(2, OTHER_MAC)].concat();
    let endless = neighbour(136, ours, &[14, 0, 0, 0, 0, 0, 0, 0]);
    let router = |from, options: &[u8]| v6(from, 58, &icmp(133, &[&[0; 4], options].concat()));
    let advert = icmp(134, &[0; 12]);
    let in_parts = fragment(58, 1, &neighbour(136, ours, &target));
    let many = mac_option(14, [9; 6]).repeat(4);
    let in_order = [
        ("asks", ask(ours, another, &source), Passes),
        ("asks by link-local", ask(link, another, &source), Passes),
        ("looks for a duplicate", ask(nobody, ours, &[]), Passes),
        (
            "and of its link-local",
            ask(nobody, link, &mac_option(14, [9; 6])),
            Passes,
        ),
        ("answers", answer(ours, ours, &target), Passes),
        (
            "answers for its link-local",
            answer(link, link, &target),
            Passes,
        ),
        ("looks for routers", router(link, &source), Passes),
        ("looks for routers, as nobody", router(nobody, &[]), Passes),
    ];
    let lies = [
        ("for a neighbour", answer(ours, another, &target), lie),
        ("as nobody", answer(nobody, ours, &target), lie),
        ("duplicate of a neighbour's", ask(nobody, another, &[]), lie),
        (
            "another MAC",
            answer(ours, ours, &mac_option(2, OTHER_MAC)),
            lie,
        ),
        (
            "another MAC in a second option",
            answer(ours, ours, &second),
            lie,
        ),
        (
            "asks with another MAC",
            ask(ours, another, &mac_option(1, OTHER_MAC)),
            lie,
        ),
        (
            "routers, another MAC",
            router(link, &mac_option(1, OTHER_MAC)),
            lie,
        ),
        ("an option without length", v6(ours, 58, &endless), lie),
        ("too many options", answer(ours, ours, &many), lie),
        ("is a router", v6(link, 58, &advert), lie),
        (
            "is a router, behind a header",
            v6(link, 60, &extension(58, &advert)),
            lie,
        ),
        (
            "is a router, in parts",
            v6(link, 44, &fragment(58, 1, &advert)),
            lie,
        ),
        ("redirects", v6(link, 58, &icmp(137, &[0; 36])), lie),
        ("in parts", v6(ours, 44, &in_parts), lie),
        ("no target", v6(ours, 58, &icmp(136, &[0; 4])), lie),
    ];
    check(&protected(), &in_order);
    check(&protected(), &lies);
    let routed = Guard {
        routed: true,
        ..protected()
    };
    check(
        &routed,
        &[
            ("asks", ask(ours, another, &source), Vanishes),
            ("looks for a duplicate", ask(nobody, ours, &[]), Vanishes),
            ("looks for routers", router(link, &source), Vanishes),
            ("answers", answer(ours, ours, &target), lie),
            ("for a neighbour", answer(ours, another, &target), lie),
            ("is a router", v6(link, 58, &advert), lie),
            ("redirects", v6(link, 58, &icmp(137, &[0; 36])), lie),
        ],
    );
    let only_dhcp = Guard {
        dhcp: true,
        ..Guard::default()
    };
    check(
        &only_dhcp,
        &[
            ("is a router", v6(six("fe80::9"), 58, &advert), lie),
            ("anybody else's", answer(another, another, &[]), Passes),
        ],
    );
}

#[test]
fn no_answers_of_dhcp_servers() {
    let answer = Dropped(Reason::Dhcp);
    let unreadable = Dropped(Reason::Protocol);
    let ours = six(OURS6);
    let mut options = Ipv4::new(OURS, 17, udp(67, 68));
    options.options = 10;
    let mut first = Ipv4::new(OURS, 17, udp(67, 1000));
    first.fragment = 0x2000;
    let mut later = Ipv4::new(OURS, 17, udp(67, 1000));
    later.fragment = 0x2001;
    let from = |packet: &Ipv4| ethernet(MAC, 0x0800, &packet.bytes());
    let answer6 = udp(547, 546);
    // The header that follows says more than the packet has: the rest comes in another
    // fragment, and what is behind the end here is a decoy.
    let mut decoy = v6(ours, 44, &fragment(60, 1, &[17, 0, 0, 0, 0, 0, 0, 0]));
    decoy.extend(udp(1000, 1000));
    let table = [
        ("from a server", v4(OURS, 17, udp(67, 1000)), answer),
        ("to a client", v4(OURS, 17, udp(1000, 68)), answer),
        ("behind options", from(&options), answer),
        ("the first fragment", from(&first), answer),
        ("a later one", from(&later), Passes),
        ("renews", v4(OURS, 17, udp(68, 67)), Passes),
        ("no ports", v4(OURS, 17, vec![0; 3]), unreadable),
        ("from a server", v6(ours, 17, &answer6), answer),
        ("to a client", v6(ours, 17, &udp(1000, 546)), answer),
        (
            "behind a header",
            v6(ours, 60, &extension(17, &answer6)),
            answer,
        ),
        (
            "in a fragment",
            v6(ours, 44, &fragment(17, 1, &answer6)),
            answer,
        ),
        (
            "a later one",
            v6(ours, 44, &fragment(17, 8, &answer6)),
            Passes,
        ),
        ("a decoy", decoy, unreadable),
        ("renews", v6(ours, 17, &udp(546, 547)), Passes),
        ("cut off", v6(ours, 17, &[0; 7]), unreadable),
    ];
    check(&protected(), &table);
    let only_dhcp = Guard {
        dhcp: true,
        ..Guard::default()
    };
    check(&only_dhcp, &table);
}

#[test]
fn headers_are_read_as_far_as_a_rule_needs() {
    let ours = six(OURS6);
    let mut chain = udp(547, 546);
    let mut next = 17;
    let mut table = Vec::new();
    for headers in 1..=5 {
        chain = extension(next, &chain);
        next = 60;
        let expected = match headers {
            5 => Dropped(Reason::Protocol),
            _ => Dropped(Reason::Dhcp),
        };
        table.push(("a chain", v6(ours, 60, &chain), expected));
    }
    let long = [&[17, 2][..], &[0; 22], &udp(547, 546)].concat();
    table.push(("24 bytes", v6(ours, 60, &long), Dropped(Reason::Dhcp)));
    table.push((
        "a header cut off",
        v6(ours, 60, &[17, 0, 0]),
        Dropped(Reason::Protocol),
    ));
    let twice = fragment(44, 1, &fragment(17, 1, &udp(547, 546)));
    table.push((
        "a fragment of a fragment",
        v6(ours, 44, &twice),
        Dropped(Reason::Protocol),
    ));
    // As TCP sends more than 64 KiB in one piece: the length is in an option.
    let mut jumbo = v6(
        ours,
        0,
        &[&[6, 0, 0xc2, 4, 0, 1, 0, 0][..], &tcp()].concat(),
    );
    jumbo[18..20].fill(0);
    table.push(("a jumbogram", jumbo.clone(), Passes));
    jumbo[54] = 17;
    jumbo[62..66].copy_from_slice(&udp(547, 546)[..4]);
    table.push(("a jumbogram", jumbo, Dropped(Reason::Dhcp)));
    table.push(("nothing follows", v6(ours, 59, &[]), Passes));
    table.push(("encrypted", v6(ours, 50, &[0; 16]), Passes));
    check(&protected(), &table);
}

#[test]
fn other_protocols_and_tags() {
    let others = [
        ("a tag", ethernet(MAC, 0x8100, &[0; 40])),
        ("a service tag", ethernet(MAC, 0x88a8, &[0; 40])),
        ("LLDP", ethernet(MAC, 0x88cc, &[0; 40])),
        ("a bridge's", ethernet(MAC, 38, &[0; 40])),
    ];
    let refused = Dropped(Reason::Protocol);
    let restricted = Guard {
        restricted: true,
        ..Guard::default()
    };
    let table = others.clone().map(|(what, frame)| (what, frame, refused));
    check(&restricted, &table);
    let tagged = Guard {
        vlan: Some(7),
        ..Guard::default()
    };
    let mac = Guard {
        mac: Some(MAC),
        ..Guard::default()
    };
    for guard in [tagged, mac] {
        let expected = [refused, refused, Passes, Passes];
        let table: Vec<_> = others
            .iter()
            .zip(expected)
            .map(|((what, frame), expected)| (*what, frame.clone(), expected))
            .collect();
        check(&guard, &table);
    }
    let routed = Guard {
        routed: true,
        ..Guard::default()
    };
    let table = others.map(|(what, frame)| (what, frame, Vanishes));
    check(&routed, &table);
}

#[test]
fn priority_is_set() {
    let guard = Guard {
        priority: Some(6),
        ..protected()
    };
    let Some(subject) = Subject::new(guard) else {
        return;
    };
    let frame = v4(OURS, 6, tcp());
    let ran = sys::bpf::run_classifier(subject.loaded.program.as_fd(), &frame, 1).unwrap();
    assert_eq!((ran.verdict, ran.priority), (0, 6));
}

#[test]
fn more_than_the_rate_is_dropped() {
    // A burst of 128 KiB, and then nothing for hours.
    let guard = Guard {
        rate: Some(1),
        ..protected()
    };
    let Some(subject) = Subject::new(guard) else {
        return;
    };
    let frame = v4(OURS, 6, vec![0; 1000]);
    let fits = 128 * 1024 / frame.len() + 1;
    for number in 0..fits {
        assert_eq!(subject.outcome(&frame), Passes, "{number}");
    }
    for _ in 0..10 {
        assert_eq!(subject.outcome(&frame), Dropped(Reason::Rate));
    }
    // What is refused takes no time on the link.
    let foreign = v4("10.0.0.6", 6, vec![0; 1000]);
    assert_eq!(subject.outcome(&foreign), Dropped(Reason::Source4));
}

#[test]
fn counters_are_found_by_id_and_nothing_else_is() {
    let Some(subject) = Subject::new(protected()) else {
        return;
    };
    let foreign = v4("10.0.0.6", 6, tcp());
    for _ in 0..3 {
        subject.outcome(&foreign);
    }
    let counts = subject.counts();
    let names: Vec<String> = counts
        .iter()
        .map(|(reason, _)| reason.to_string())
        .collect();
    assert_eq!(
        names.join(" "),
        "mac source4 source6 arp ndp dhcp protocol rate"
    );
    assert!(counts.contains(&(Reason::Source4, 3)), "{counts:?}");
    assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 3);
    let other = sys::bpf::Map::new("another", 9).unwrap();
    assert!(net::guard::counts(other.id()).is_err());
}

#[test]
fn the_most_sources_are_taken() {
    let many: Vec<(IpAddr, u8)> = (0..300)
        .map(|number| (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, number).into(), 128))
        .collect();
    // And as many client ids as can be, of the longest kind.
    let id = |number: usize| vec![u8::try_from(number).unwrap(); client_id::LONGEST];
    let guard = Guard {
        sources: Some(many),
        clients: Some(Clients {
            mac: MAC,
            ids: (0..client_id::MOST).map(id).collect(),
        }),
        ..protected()
    };
    let Some(subject) = Subject::new(guard) else {
        return;
    };
    let from = |number: u16| v6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, number), 6, &tcp());
    assert_eq!(subject.outcome(&from(0)), Passes);
    assert_eq!(subject.outcome(&from(255)), Passes);
    assert_eq!(subject.outcome(&from(256)), Dropped(Reason::Source6));
    let asks = |byte: u8| {
        let id = option4(61, &[byte; client_id::LONGEST]);
        v4("0.0.0.0", 17, dhcp4(MAC, &[&id[..], &[255]].concat()))
    };
    let most = u8::try_from(client_id::MOST).unwrap();
    assert_eq!(subject.outcome(&asks(most - 1)), Passes);
    assert_eq!(subject.outcome(&asks(most)), Dropped(Reason::Dhcp));
}

/// A link whose zone may say that it is `web`, or who its Ethernet address says.
fn known() -> Guard {
    Guard {
        clients: Some(Clients {
            mac: MAC,
            ids: vec![b"web".to_vec(), vec![7; 130]],
        }),
        ..protected()
    }
}

#[test]
fn dhcp_clients_say_who_they_are() {
    let asks = |payload: Vec<u8>| v4("0.0.0.0", 17, payload);
    let id = |id: &[u8]| asks(dhcp4(MAC, &[&option4(61, id)[..], &[255]].concat()));
    let own = [&[1][..], &MAC].concat();
    let others = [&[1][..], &OTHER_MAC].concat();
    let twice = [option4(61, &own), option4(61, &others), vec![255]].concat();
    let elsewhere = [option4(52, &[1]), vec![255]].concat();
    let mut parts = Ipv4::new("0.0.0.0", 17, dhcp4(MAC, &[255]));
    parts.fragment = 0x2000;
    let mut answers = dhcp4(MAC, &[255]);
    answers[8] = 2;
    let lie = Dropped(Reason::Dhcp);
    let table = [
        ("nobody in particular", asks(dhcp4(MAC, &[255])), Passes),
        ("by its address", id(&own), Passes),
        ("by name", id(b"web"), Passes),
        ("by a long name", id(&[7; 130]), Passes),
        (
            "behind padding and others",
            asks(dhcp4(
                MAC,
                &[&[0, 53, 1, 1, 0][..], &option4(61, b"web"), &[255, 9]].concat(),
            )),
            Passes,
        ),
        ("another address", id(&others), lie),
        ("another name", id(b"wec"), lie),
        ("a longer name", id(b"web1"), lie),
        ("no name", id(b""), lie),
        ("its address and another", asks(dhcp4(MAC, &twice)), lie),
        ("more elsewhere", asks(dhcp4(MAC, &elsewhere)), lie),
        (
            "the address of another",
            asks(dhcp4(OTHER_MAC, &[255])),
            lie,
        ),
        ("without an end", asks(dhcp4(MAC, &option4(61, &own))), lie),
        (
            "all too long",
            asks(dhcp4(MAC, &[[0; 32].as_slice(), &[255]].concat())),
            lie,
        ),
        ("nothing", asks(udp(68, 67)), lie),
        ("an answer", asks(answers), lie),
        ("in fragments", ethernet(MAC, 0x0800, &parts.bytes()), lie),
        (
            "to a known server",
            v4(OURS, 17, dhcp4(MAC, &[255])),
            Passes,
        ),
        (
            "its lie to one",
            v4(OURS, 17, dhcp4(OTHER_MAC, &[255])),
            lie,
        ),
        ("another port", v4(OURS, 17, udp(68, 53)), Passes),
        (
            "a later fragment",
            {
                let mut later = Ipv4::new(OURS, 17, dhcp4(OTHER_MAC, &[255]));
                later.fragment = 1;
                ethernet(MAC, 0x0800, &later.bytes())
            },
            Passes,
        ),
    ];
    check(&known(), &table);
    // Without a list it may be whoever it says.
    let anybody = [("another name", id(b"wec"), Passes)];
    check(&protected(), &anybody);
}

#[test]
fn dhcp_clients_say_who_they_are_over_ipv6() {
    let asks = |payload: &[u8]| v6(own_link_local(), 17, payload);
    let id = |id: &[u8]| asks(&dhcp6(1, &option6(1, id)));
    let by_address = |mac: [u8; 6]| [&[0, 3, 0, 1][..], &mac].concat();
    let by_time = |mac: [u8; 6]| [&[0, 1, 0, 1, 1, 2, 3, 4][..], &mac].concat();
    let twice = [option6(1, &by_address(MAC)), option6(1, b"wec")].concat();
    let behind = [
        option6(3, &[0; 12]),
        option6(1, b"web"),
        option6(6, &[0; 4]),
    ]
    .concat();
    let many = [option6(6, &[]).repeat(33), option6(1, b"wec")].concat();
    let whole = dhcp6(1, &option6(1, b"web"));
    let lie = Dropped(Reason::Dhcp);
    let table = [
        ("nobody in particular", asks(&dhcp6(11, &[])), Passes),
        ("by its address", id(&by_address(MAC)), Passes),
        ("by its address and a time", id(&by_time(MAC)), Passes),
        ("by name", id(b"web"), Passes),
        ("by a long name", id(&[7; 130]), Passes),
        ("behind others", asks(&dhcp6(3, &behind)), Passes),
        ("another address", id(&by_address(OTHER_MAC)), lie),
        ("another address and a time", id(&by_time(OTHER_MAC)), lie),
        ("another name", id(b"wec"), lie),
        ("its address and another name", asks(&dhcp6(1, &twice)), lie),
        ("too many options", asks(&dhcp6(1, &many)), lie),
        ("cut off", asks(&whole[..whole.len() - 1]), lie),
        ("cut off in an option", asks(&whole[..whole.len() - 5]), lie),
        ("nothing", asks(&udp(546, 547)), lie),
        ("for another", asks(&dhcp6(12, &option6(1, b"web"))), lie),
        (
            "in fragments",
            v6(own_link_local(), 44, &fragment(17, 1, &whole)),
            lie,
        ),
        (
            "behind a header",
            v6(
                own_link_local(),
                60,
                &extension(17, &dhcp6(1, &option6(1, b"wec"))),
            ),
            lie,
        ),
        ("another port", asks(&udp(546, 53)), Passes),
    ];
    check(&known(), &table);
    check(&protected(), &[("another name", id(b"wec"), Passes)]);
}
