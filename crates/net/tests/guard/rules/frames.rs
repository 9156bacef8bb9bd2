//! Tests of how frames are parsed, marked, measured and counted.

use super::*;

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
    // TCP can pass a packet of more than 64 KiB to the link; the packet's length is then in an
    // option.
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
    // At this rate the link admits a burst of 128 KiB, and then no frame for hours.
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
    // A frame that another rule refuses is counted for that rule and uses no time on the link.
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
        "mac source4 source6 arp ndp dhcp protocol rate label"
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
    // The guard also has the maximum number of client ids, of the longest kind.
    let id = |number: usize| vec![u8::try_from(number).unwrap(); client_id::MAX_ID_BYTES];
    let guard = Guard {
        sources: Some(many),
        clients: Some(Clients {
            mac: MAC,
            ids: (0..client_id::MAX_IDS).map(id).collect(),
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
        let id = option4(61, &[byte; client_id::MAX_ID_BYTES]);
        v4("0.0.0.0", 17, dhcp4(MAC, &[&id[..], &[255]].concat()))
    };
    let most = u8::try_from(client_id::MAX_IDS).unwrap();
    assert_eq!(subject.outcome(&asks(most - 1)), Passes);
    assert_eq!(subject.outcome(&asks(most)), Dropped(Reason::Dhcp));
}
