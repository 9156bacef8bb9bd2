//! Tests of the source addresses that a zone can use.

use super::*;

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
    let mut to_loopback = v4(OURS, 6, tcp());
    // The first byte of the packet's destination address.
    to_loopback[30] = 127;
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
            ("to the host's loopback", to_loopback, Vanishes),
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
