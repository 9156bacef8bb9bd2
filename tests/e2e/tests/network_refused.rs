//! Tests that impossible networks are refused with the reason, and that nothing half-made is left.

use e2e::lan::{face, rules, settings};
use e2e::{At, World};

/// The state of the host's network before a refusal.
fn refused(world: &World, zone: &str, links: &str, why: &str) {
    let before = (face(), rules(), settings());
    world.install(zone, links);
    world.host.on(zone, &["boot"]).mentions(1, why);
    assert_eq!(world.host.state(zone), "installed");
    world.wait_for_face(&before.0);
    assert_eq!(rules(), before.1);
    world.wait_for_settings(&before.2);
    assert!(
        !world
            .host
            .path("/run/zones/network")
            .join(format!("{zone}.json"))
            .exists()
    );
    world.host.on(zone, &["uninstall", "-F"]).quiet();
    world.host.zonecfg(&["-z", zone, "delete -F"]).quiet();
}

fn shared(address: &str) -> String {
    format!("add net; set physical=eth0; set address={address}; end")
}

#[test]
fn boot_refuses_addresses_in_use() {
    let Some(world) = World::new() else { return };
    // The host settings that the running zone needs stay until it halts.
    let both = [shared("10.0.0.101/24"), shared("fd00::101/64")].join("; ");
    world.boot("web", &both);
    let other = shared("10.0.0.101/24");
    world.host.configure("db", &other);
    let verified = world.host.on("db", &["verify"]);
    verified.mentions(1, "the address 10.0.0.101 is zone 'web''s");
    world.host.zonecfg(&["-z", "db", "delete -F"]).quiet();
    for (address, owner) in [("10.0.0.9/24", "host"), ("fd00::9/64", "host")] {
        refused(&world, "db", &shared(address), owner);
    }
    // The second link is impossible, so the first one is not made either.
    let two = format!("{}; {}", shared("10.0.0.102/24"), shared("10.0.0.9/24"));
    refused(&world, "db", &two, "10.0.0.9");
    // The other zone has not changed.
    let said = world.peer(At::Zone("web"), "ping 10.0.0.1");
    assert_eq!(said, "answer of 10.0.0.1");
}

#[test]
fn boot_refuses_an_address_of_another_running_zone() {
    let Some(world) = World::new() else { return };
    // The conflict is visible only when both zones run, because the second zone requests the link
    // by a name.
    world.boot("web", &shared("10.0.0.101/24"));
    world.host.configure("db", &shared("10.0.0.102/24"));
    world.host.on("db", &["clone", "master"]).quiet();
    let zonecfg = "select net physical=eth0; set address=10.0.0.101/24; end";
    let _ = world.host.zonecfg(&["-z", "db", zonecfg]);
    let before = face();
    world.host.on("db", &["boot"]).mentions(1, "zone 'web'");
    assert_eq!(world.host.state("db"), "installed");
    world.wait_for_face(&before);
    // Hosts on the wire get the same answer.
    let said = world.peer(At::Router, "ping 10.0.0.101");
    assert_eq!(said, "answer of 10.0.0.101");
}

#[test]
fn boot_refuses_missing_links_and_links_in_use() {
    let Some(world) = World::new() else { return };
    for line in [
        "ip link add br0 type bridge",
        "ip link set eth1 master br0 up",
    ] {
        world.run(At::Global, line, "").quiet();
    }
    let moved = |nic: &str| format!("set ip-type=exclusive; add net; set physical={nic}; end");
    let made = |lower: &str, more: &str| {
        format!("set ip-type=exclusive; add anet; set lower-link={lower}; {more} end")
    };
    for (links, why) in [
        (
            "add net; set physical=eth9; set address=10.0.0.101/24; end".to_owned(),
            "net eth9: the host has no such link",
        ),
        (moved("eth9"), "net eth9: the host has no such link"),
        (moved("eth0"), "net eth0: the host's default route is on it"),
        (moved("eth1"), "net eth1: it belongs to br0: use that"),
        (moved("lo"), "net lo: every network has its own loopback"),
        (
            made("eth9", ""),
            "anet net0: lower-link eth9: the host has no such link",
        ),
        (made("eth1", ""), "it belongs to br0: use that"),
        (made("lo", ""), "anet net0: lower-link lo: is not Ethernet"),
        (
            made("eth0", "set mtu=9000;"),
            "anet net0: mtu 9000 is more than the 1500 of its lower link",
        ),
        (
            made("eth0", "set mtu=1000; set allowed-address=fd00::121/64;"),
            "anet net0: mtu 1000 is less than the 1280 of IPv6",
        ),
        (
            made("eth0", "set link-protection=ip-nospoof;"),
            "anet net0: link-protection ip-nospoof needs allowed-address",
        ),
        (
            made("auto", "set vlan-id=7;"),
            "anet net0: vlan-id needs a lower-link",
        ),
        (
            made("br0", "set vlan-id=7;"),
            "vlan-id is for links, not for bridges",
        ),
    ] {
        refused(&world, "db", &links, why);
    }
}

#[test]
fn boot_refuses_invalid_ethernet_addresses() {
    let Some(world) = World::new() else { return };
    for mac in ["2:3:4:5:6", "02:00:00:00:00:0g", "nobody", "2:3:4:5:6:7:8"] {
        let line = format!(
            "create; set ip-type=exclusive; add anet; set lower-link=eth0; set mac-address={mac}; end"
        );
        let ran = world.host.zonecfg(&["-z", "db", &line]);
        assert_ne!(ran.code(), Some(0), "{mac}: {ran:?}");
        assert!(ran.err.contains("mac-address"), "{ran:?}");
        let _ = world.host.zonecfg(&["-z", "db", "delete -F"]);
    }
    // These addresses are broadcast, multicast and unspecified.
    for mac in [
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01",
        "00:00:00:00:00:00",
    ] {
        let zone = format!(
            "set ip-type=exclusive; add anet; set lower-link=eth0; set mac-address={mac}; end"
        );
        let ran = world
            .host
            .zonecfg(&["-z", "db", &format!("create; {zone}")]);
        if ran.code() == Some(0) {
            world.host.zonecfg(&["-z", "db", "delete -F"]).quiet();
            refused(&world, "db", &zone, "mac-address");
        }
    }
}

#[test]
fn boot_refuses_a_seventeenth_link() {
    let Some(world) = World::new() else { return };
    let many = "add anet; end; ".repeat(17);
    let zone = format!("set ip-type=exclusive; {many}");
    refused(
        &world,
        "db",
        &zone,
        "only 16 links can be on lower-link=auto",
    );
    world.boot("web", &zone.replacen("add anet; end; ", "", 1));
    let links = world.host.on("web", &["links", "-p"]).ok();
    assert_eq!(links.out.lines().count(), 16, "{links:?}");
    let ping = world.peer(At::Zone("web"), "ping 10.0.0.1");
    assert_eq!(ping, "answer of 10.0.0.1");
}

#[test]
fn boot_refuses_a_link_of_another_zone() {
    let Some(world) = World::new() else { return };
    let moved = "set ip-type=exclusive; add net; set physical=eth1; end";
    world.boot("web", moved);
    refused(&world, "db", moved, "net eth1: zone 'web' has it");
    world.host.halt("web");
    world.boot("db", moved);
    world.host.halt("db");
    // The link of the default route is used if the configuration asks for it.
    let forced = "set ip-type=exclusive; add net; set physical=eth0; \
         set allowed-address=10.0.0.131/24; end; \
         add attr; set name=net-force; set type=boolean; set value=true; end";
    world.boot("mail", forced);
    let ping = world.peer(At::Zone("mail"), "ping 10.0.0.2");
    assert_eq!(ping, "answer of 10.0.0.2");
    world.host.halt("mail");
    let back = world.run(At::Global, "ip link show eth0", "");
    assert_eq!(back.code(), Some(0), "{back:?}");
}
