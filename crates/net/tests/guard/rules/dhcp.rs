//! Tests of the messages that a zone can send to DHCP servers, and cannot send as a server.

use super::*;

#[test]
fn answers_of_dhcp_servers_are_dropped() {
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
    // The next header claims more bytes than the packet has. The rest arrives in another fragment,
    // and the bytes after the end are a decoy.
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

/// A link whose zone may use the client id `web`, or the ids that are derived from its Ethernet
/// address.
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
    // Without a list of client ids the zone may send any client id.
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
