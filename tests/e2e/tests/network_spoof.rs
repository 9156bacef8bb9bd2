//! Tests that a zone's root cannot use false addresses on a link that it administers. The host's
//! end of the link drops and counts every such frame, and none appears on the wire.

use std::collections::BTreeMap;

use e2e::frames::{
    EVERYBODY, Mac, advertisement, arp, ethernet, hex, ipv4, ipv6, packet4, router, udp,
};
use e2e::{At, World, wait_for};

const STRICT: &str = "mac-nospoof,ip-nospoof,dhcp-nospoof,restricted";
const OTHER: Mac = [2, 0, 0, 0, 0, 0x66];

/// The text in every spoofed frame.
const LIE: &str = "lie-";

/// A zone with a link on `lower` and the addresses 10.0.0.121 and fd00::121.
fn zone_on(lower: &str, protection: &str) -> String {
    format!(
        "set ip-type=exclusive; add anet; set lower-link={lower}; \
         set allowed-address=10.0.0.121/24,fd00::121/64; set link-protection={protection}; end"
    )
}

/// Frames that a zone with this Ethernet address and these IP addresses must not send, each with
/// the name of its counter.
fn lies(mac: Mac, v4: &str, v6: &str) -> Vec<(&'static str, Vec<u8>)> {
    let mut number = 10;
    let mut text = || {
        number += 1;
        format!("{LIE}{number}")
    };
    let mut plain = || udp(9, 9, &text());
    let mut all = vec![
        ("mac", ipv4(OTHER, v4, "10.0.0.1", 17, &plain())),
        ("mac", ipv6(OTHER, v6, "fd00::1", 17, &plain())),
        ("source4", ipv4(mac, "10.0.0.1", "10.0.0.2", 17, &plain())),
        ("source4", ipv4(mac, "8.8.8.8", "10.0.0.2", 17, &plain())),
        ("source4", ipv4(mac, "127.0.0.1", "10.0.0.2", 17, &plain())),
        ("source6", ipv6(mac, "fd00::1", "fd00::2", 17, &plain())),
        ("source6", ipv6(mac, "2001:db8::8", "fd00::2", 17, &plain())),
    ];
    let plain = text();
    all.push((
        "dhcp",
        ipv4(mac, v4, "255.255.255.255", 17, &udp(67, 68, &plain)),
    ));
    let plain = text();
    all.push(("dhcp", ipv6(mac, v6, "ff02::1", 17, &udp(547, 546, &plain))));
    // The frames claim the router's address in several ways, and another Ethernet address for the
    // zone's own address.
    all.push(("arp", arp(mac, 2, mac, "10.0.0.1", "10.0.0.2", &text())));
    all.push(("arp", arp(mac, 1, mac, "10.0.0.1", "10.0.0.1", &text())));
    all.push(("arp", arp(mac, 2, OTHER, v4, "10.0.0.2", &text())));
    all.push(("ndp", advertisement(mac, v6, "fd00::1", &text())));
    all.push(("ndp", router(mac, v6, &text())));
    let odd = text();
    all.push(("protocol", ethernet(mac, EVERYBODY, 0x88b5, odd.as_bytes())));
    let tagged = [
        &[0, 7, 8, 0][..],
        &packet4(v4, "10.0.0.2", 17, &udp(9, 9, &text())),
    ];
    all.push((
        "protocol",
        ethernet(mac, EVERYBODY, 0x8100, &tagged.concat()),
    ));
    all
}

fn sums<'a>(lies: &[(&'a str, Vec<u8>)]) -> BTreeMap<&'a str, u64> {
    let mut sums = BTreeMap::new();
    for (reason, _) in lies {
        *sums.entry(*reason).or_default() += 1;
    }
    sums
}

fn only_frames(lies: &[(&str, Vec<u8>)]) -> Vec<Vec<u8>> {
    lies.iter().map(|(_, frame)| frame.clone()).collect()
}

/// Sends all spoofed frames from `web`'s link, and then a legal one. Returns what the switch
/// received until the legal one arrived.
fn heard_of(world: &World, lies: &[Vec<u8>], mac: Mac) -> Vec<String> {
    let ears = world.listen();
    world.send("web", "net0", lies);
    let truth = "the truth";
    let frame = ipv4(mac, "10.0.0.121", "10.0.0.1", 17, &udp(9, 9, truth));
    world.send("web", "net0", &[frame]);
    let heard = ears.until(&hex(truth));
    let lie = hex(LIE);
    heard
        .into_iter()
        .filter(|line| line.contains(&lie))
        .collect()
}

fn nothing_is_heard(world: &World) {
    let mac = world.mac("web", "net0");
    let lies = lies(mac, "10.0.0.121", "fd00::121");
    let before = world.dropped("web", "net0");
    let heard = heard_of(world, &only_frames(&lies), mac);
    assert!(heard.is_empty(), "{heard:#?}");
    world.wait_for_drops("web", "net0", &before, &sums(&lies));
    // The zone's root sets another Ethernet address on the whole link.
    let before = world.dropped("web", "net0");
    world
        .host
        .sh("web", "ip link set net0 address 02:00:00:00:00:67");
    // The kernel first asks for the neighbour's Ethernet address.
    let said = world.peer(At::Zone("web"), "udp 10.0.0.121 10.0.0.77 lie");
    assert_eq!(said, "sent");
    world.wait_for_drops("web", "net0", &before, &BTreeMap::from([("mac", 1)]));
}

/// The lower link: a bridge `br0` with the link eth1, or eth1 itself.
fn prepare(world: &World, lower: &str) {
    let lines: &[&str] = match lower {
        "br0" => &[
            "ip link add br0 type bridge mcast_snooping 0",
            "ip link set br0 up",
            "ip link set eth1 master br0 up",
        ],
        _ => &["ip link set eth1 up"],
    };
    for line in lines {
        world.run(At::Global, line, "").quiet();
    }
}

#[test]
fn a_zone_on_a_nic_cannot_spoof() {
    let Some(world) = World::new() else { return };
    prepare(&world, "eth1");
    world.boot("web", &zone_on("eth1", STRICT));
    nothing_is_heard(&world);
}

#[test]
fn a_zone_on_a_bridge_cannot_spoof() {
    let Some(world) = World::new() else { return };
    prepare(&world, "br0");
    world.boot("web", &zone_on("br0", STRICT));
    nothing_is_heard(&world);
}

/// Shows that the frames of these tests arrive if nothing drops them.
#[test]
fn spoofed_frames_arrive_without_link_protection() {
    let Some(world) = World::new() else { return };
    prepare(&world, "eth1");
    // With allowed-address the zone could not use other addresses.
    let zone = "set ip-type=exclusive; add anet; set lower-link=eth1; \
         set link-protection=none; end";
    world.boot("web", zone);
    let mac = world.mac("web", "net0");
    let mut lies = lies(mac, "10.0.0.121", "fd00::121");
    // The listener sees frames without their VLAN tags.
    let _ = lies.pop();
    let heard = heard_of(&world, &only_frames(&lies), mac);
    for (reason, frame) in &lies {
        let frame = hex(frame);
        assert!(
            heard.iter().any(|line| line.starts_with(&frame)),
            "{reason}: {frame}: {heard:#?}"
        );
    }
    let counts = world.dropped("web", "net0");
    assert!(counts.values().all(|count| *count == 0), "{counts:?}");
}

#[test]
fn the_default_protection_drops_other_ethernet_addresses() {
    let Some(world) = World::new() else { return };
    prepare(&world, "eth1");
    // This is the protection mac-nospoof, as on Solaris.
    let zone = "set ip-type=exclusive; add anet; set lower-link=eth1; \
         set allowed-address=10.0.0.121/24; end";
    world.boot("web", zone);
    let mac = world.mac("web", "net0");
    let lies = lies(mac, "10.0.0.121", "fd00::121");
    let (of_mac, _): (Vec<_>, Vec<_>) = lies.into_iter().partition(|(why, _)| *why == "mac");
    let before = world.dropped("web", "net0");
    assert!(heard_of(&world, &only_frames(&of_mac), mac).is_empty());
    world.wait_for_drops("web", "net0", &before, &sums(&of_mac));
}

/// A program of a cluster in the zone sets and removes such an address.
#[test]
fn a_floating_address_works_when_the_zone_sets_it_and_a_foreign_one_is_dropped() {
    let Some(world) = World::new() else { return };
    prepare(&world, "eth1");
    let zone = "set ip-type=exclusive; add anet; set lower-link=eth1; \
         set allowed-address=10.0.0.121/24; \
         set floating-address=10.0.0.130/24; end";
    world.boot("web", zone);
    let addresses = world.host.sh("web", "ip -o address show dev net0");
    assert!(addresses.contains("10.0.0.121") && !addresses.contains("10.0.0.130"));
    let ping = |address: &str| world.peer(At::Router, &format!("ping {address}"));
    assert_eq!(ping("10.0.0.121"), "answer of 10.0.0.121");
    let set = |address: &str| {
        let line = format!("ip address add {address}/24 dev net0");
        world.host.sh("web", &line);
    };
    set("10.0.0.130");
    assert_eq!(ping("10.0.0.130"), "answer of 10.0.0.130");
    assert_eq!(world.dropped("web", "net0").get("arp"), Some(&0));
    // The kernel asks for the neighbour's Ethernet address with the foreign address.
    set("10.0.0.131");
    let said = world.peer(At::Zone("web"), "udp 10.0.0.131 10.0.0.77 lie");
    assert_eq!(said, "sent");
    wait_for("a dropped packet", || {
        let counts = world.dropped("web", "net0");
        (counts.get("arp") > Some(&0)).then_some(())
    });
}

#[test]
fn a_zone_routed_by_the_host_cannot_spoof() {
    let Some(world) = World::new() else { return };
    world.boot("web", "set ip-type=exclusive; add anet; end");
    let mac = world.mac("web", "net0");
    let row = world.link("web", "net0");
    let list = row["addresses"].as_array().expect("addresses");
    let own = |v6: bool| -> String {
        let mut texts = list.iter().filter_map(|one| one.as_str());
        let found = texts.find(|one| one.contains(':') == v6 && !one.starts_with("fe80"));
        let text = found.expect("an address");
        text.split('/').next().unwrap_or(text).to_owned()
    };
    let (v4, v6) = (own(false), own(true));
    let lies = lies(mac, &v4, &v6);
    let before = world.dropped("web", "net0");
    let ears = world.listen();
    world.send("web", "net0", &only_frames(&lies));
    // The zone's root does this with ordinary commands, without invented frames.
    for address in ["10.0.0.77/32", "fd00::77/128"] {
        world
            .host
            .sh("web", &format!("ip addr add {address} dev net0"));
    }
    for (source, target) in [
        ("10.0.0.77", "10.0.0.1"),
        ("fd00::77", "fd00::1"),
        // The zone does not even have this address.
        ("fd00::78", "fd00::1"),
    ] {
        let words = format!("udp {source} {target} {LIE}99");
        assert_eq!(world.peer(At::Zone("web"), &words), "sent", "{words}");
    }
    let packet = packet4("10.0.0.79", "10.0.0.1", 17, &udp(9, 9, "lie-98"));
    let words = format!("raw 10.0.0.1 {}", hex(packet));
    assert_eq!(world.peer(At::Zone("web"), &words), "sent", "{words}");
    let words = format!("udp {v4} 10.0.0.1 the-truth");
    assert_eq!(world.peer(At::Zone("web"), &words), "sent", "{words}");
    let lie = hex(LIE);
    let heard = ears.until(&hex("the-truth"));
    assert!(!heard.iter().any(|line| line.contains(&lie)), "{heard:#?}");
    let mut sums = sums(&lies);
    // No host asks for neighbours there, so only spoofed frames are counted, and no ordinary
    // questions.
    *sums.get_mut("source4").expect("lies") += 2;
    *sums.get_mut("source6").expect("lies") += 2;
    world.wait_for_drops("web", "net0", &before, &sums);
}
