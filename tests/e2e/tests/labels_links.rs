//! Tests labels on each kind of link: wires, bridges, shared IP, and links that the guard cannot
//! protect.

use std::fs;

use e2e::{At, World};

/// Labels of the example of names: LOW is below HIGH.
const LOW: &str = "0x0002-08-08";
const HIGH: &str = "0x0004-08-68";

const NAMES: &str = include_str!("../../../crates/label/tests/label_encodings");

const PORT: &str = e2e::peer::PORT;

/// The zones with their labels and the last byte of their addresses.
const ZONES: [(&str, &str, u8); 3] = [("low", LOW, 121), ("high", HIGH, 122), ("same", HIGH, 123)];

/// Returns a network with the labels.
fn world() -> Option<World> {
    let world = World::new()?;
    fs::write(world.host.path("/etc/zones/label_encodings"), NAMES).unwrap();
    Some(world)
}

/// Returns true if a server at an IPv4 address answers.
fn asks(world: &World, from: At<'_>, to: &str, expected: bool) -> bool {
    let seconds = if expected { "5" } else { "0.4" };
    let line = format!("timeout {seconds} bash -c \"cat </dev/tcp/{to}/{PORT}\"");
    world.run(from, &line, "").out.contains("sees")
}

fn tncfg(world: &World, words: &[&str]) {
    e2e::run::run(&mut world.host.command("tncfg", words), b"").quiet();
}

/// Boots three zones whose link `link` returns for the last byte of an address, and expects packets
/// between equal labels only. `network` is the network of the addresses.
#[track_caller]
fn only_equal_labels_talk(world: &World, network: &str, link: &dyn Fn(u8) -> String) {
    for (zone, label, last) in ZONES {
        world.boot(zone, &format!("set -F label={label}; {}", link(last)));
    }
    let _servers = ZONES.map(|(zone, ..)| world.serve(At::Zone(zone), zone));
    for (from, own, last) in ZONES {
        for (to, other, to_last) in ZONES {
            if last == to_last {
                continue;
            }
            let equal = own == other;
            let address = format!("{network}.{to_last}");
            let asked = asks(world, At::Zone(from), &address, equal);
            assert_eq!(asked, equal, "from {from} to {to}");
        }
    }
    let counted = |zone: &str| {
        let listed = world.host.on(zone, &["links", "-j"]).ok().out;
        let rows: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let rows = rows.as_array().cloned().unwrap_or_default();
        let drops = rows
            .iter()
            .filter_map(|row| row["dropped"]["label"].as_u64());
        drops.sum::<u64>()
    };
    let all: u64 = ZONES.iter().map(|(zone, ..)| counted(zone)).sum();
    assert!(all > 0, "no packet was dropped because of its label");
}

/// Expects that a template at LOW opens the host outside for zone `low` alone.
#[track_caller]
fn a_template_opens_the_outside_for_its_label(world: &World) {
    let _server = world.serve(At::Source, "source");
    for zone in ["low", "high"] {
        assert!(!asks(world, At::Zone(zone), "10.0.0.2", false), "{zone}");
    }
    let set = format!("set def_label={LOW}; add host=10.0.0.2");
    tncfg(world, &["-t", "one", &set]);
    assert!(asks(world, At::Zone("low"), "10.0.0.2", true));
    assert!(!asks(world, At::Zone("high"), "10.0.0.2", false));
    tncfg(world, &["delete -t one"]);
    assert!(!asks(world, At::Zone("low"), "10.0.0.2", false));
}

#[test]
fn zones_on_wires_talk_to_zones_and_hosts_of_their_label_only() {
    let Some(world) = world() else { return };
    only_equal_labels_talk(&world, "10.0.0", &|last| {
        format!(
            "set ip-type=exclusive; add anet; set lower-link=eth0; \
             set allowed-address=10.0.0.{last}/24; end"
        )
    });
    a_template_opens_the_outside_for_its_label(&world);
}

#[test]
fn zones_on_a_bridge_talk_to_zones_of_their_label_only() {
    let Some(world) = world() else { return };
    for line in [
        "ip link add br0 address 02:00:00:00:00:b0 type bridge",
        "ip addr add 192.168.7.1/24 dev br0",
        "ip link set br0 up",
    ] {
        world.run(At::Global, line, "").quiet();
    }
    only_equal_labels_talk(&world, "192.168.7", &|last| {
        format!(
            "set ip-type=exclusive; add anet; set lower-link=br0; \
             set allowed-address=192.168.7.{last}/24; end"
        )
    });
}

#[test]
fn zones_with_shared_ip_talk_to_zones_and_hosts_of_their_label_only() {
    let Some(world) = world() else { return };
    only_equal_labels_talk(&world, "10.0.0", &|last| {
        format!("add net; set physical=eth0; set address=10.0.0.{last}/24; end")
    });
    a_template_opens_the_outside_for_its_label(&world);
}

#[test]
fn links_without_a_guard_or_an_address_are_refused() {
    let Some(world) = world() else { return };
    let label = format!("set -F label={LOW}; set ip-type=exclusive");
    for (zone, link, why) in [
        (
            "moved",
            "add net; set physical=eth1; set allowed-address=10.0.0.131/24; end",
            "has no guard",
        ),
        (
            "bare",
            "add anet; set lower-link=eth0; end",
            "allowed-address",
        ),
        (
            "port",
            "add anet; set lower-link=eth0; set allowed-address=10.0.0.141/24; end",
            "multilevel ports need a link for which the host routes",
        ),
    ] {
        world.install(zone, &format!("{label}; {link}"));
        if zone == "port" {
            tncfg(&world, &["-z", zone, "add mlp_private=80/tcp"]);
        }
        let ran = world.host.on(zone, &["boot"]);
        assert!(ran.code() == Some(1) && ran.err.contains(why), "{ran:?}");
        assert_eq!(
            ran.err.lines().filter(|line| line.contains(why)).count(),
            1,
            "{ran:?}"
        );
        assert_eq!(world.host.state(zone), "installed");
    }
    // The control: without a label, the links are admitted.
    world.host.on("port", &["uninstall", "-F"]).quiet();
    world.host.zonecfg(&["-z", "port", "delete -F"]).quiet();
    for zone in ["moved", "bare"] {
        world.host.on(zone, &["uninstall", "-F"]).quiet();
        world.host.zonecfg(&["-z", zone, "clear label"]).quiet();
    }
    for zone in ["moved", "bare"] {
        world.host.on(zone, &["clone", "master"]).quiet();
        world.host.boot(zone);
    }
}
