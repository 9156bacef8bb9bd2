//! Tests that the host's network is the same after the end of a zone, whatever ended the zone: no
//! link, no namespace (whose links would still exist), no rule and no address is left, and a moved
//! link is back.

use e2e::lan::{face, rules, settings};
use e2e::{At, World, rounds};

/// An exclusive-IP configuration with a link of each kind.
const EXCLUSIVE: &str = "set ip-type=exclusive; \
     add anet; end; \
     add anet; set lower-link=eth0; set allowed-address=10.0.0.121/24,fd00::121/64; end; \
     add anet; set lower-link=br0; set allowed-address=192.168.7.2/24; set maxbw=100M; end; \
     add net; set physical=eth1; set allowed-address=10.0.0.131/24; set defrouter=10.0.0.1; end";

/// A shared-IP configuration with its own router for each address family.
const SHARED: &str = "add net; set physical=eth0; set address=10.0.0.101/24; \
     set defrouter=10.0.0.1; end; \
     add net; set physical=eth0; set address=fd00::101/64; set defrouter=fd00::1; end";

/// The state of the host's network.
#[derive(PartialEq, Eq)]
struct Before {
    face: Vec<String>,
    rules: String,
    settings: Vec<String>,
}

impl Before {
    fn now() -> Self {
        Self {
            face: face(),
            rules: rules(),
            settings: settings(),
        }
    }

    #[track_caller]
    fn is_again(&self, world: &World) {
        world.wait_for_face(&self.face);
        assert_eq!(rules(), self.rules);
        world.wait_for_settings(&self.settings);
        world.assert_no_records();
    }
}

fn prepared() -> Option<(World, Before)> {
    let world = World::new()?;
    // The bridge has a port that stays, so that it always has a carrier.
    for line in [
        "ip link add br0 address 02:00:00:00:00:b0 type bridge",
        "ip link add port0 type veth peer name port1",
        "ip link set port1 up",
        "ip link set port0 master br0 up",
        "ip link set br0 up",
    ] {
        world.run(At::Global, line, "").quiet();
    }
    let before = Before::now();
    world.install("web", EXCLUSIVE);
    world.install("db", SHARED);
    Some((world, before))
}

#[test]
fn no_link_is_left_after_many_reboots() {
    let Some((world, before)) = prepared() else {
        return;
    };
    for _ in rounds(5) {
        for zone in ["web", "db"] {
            world.host.boot(zone);
            world.host.on(zone, &["reboot"]).quiet();
        }
        assert!(!face().iter().any(|line| line.contains(" eth1@")));
        assert_eq!(
            world.peer(At::Zone("web"), "ping 10.0.0.1"),
            "answer of 10.0.0.1"
        );
        for zone in ["db", "web"] {
            world.host.halt(zone);
        }
        before.is_again(&world);
    }
}

#[test]
fn no_link_is_left_when_zoneadmd_is_killed() {
    let Some((world, before)) = prepared() else {
        return;
    };
    for _ in rounds(5) {
        for zone in ["web", "db"] {
            world.host.boot(zone);
            world
                .host
                .kill(world.host.zoneadmd(zone).expect("a zoneadmd"));
        }
        assert_eq!(
            world.peer(At::Zone("web"), "ping 10.0.0.1"),
            "answer of 10.0.0.1"
        );
        world.host.halt("web");
        world.host.halt("db");
        before.is_again(&world);
    }
}

#[test]
fn no_link_is_left_when_zoneadmd_and_the_zone_are_killed() {
    let Some((world, before)) = prepared() else {
        return;
    };
    for _ in rounds(5) {
        for zone in ["web", "db"] {
            world.host.boot(zone);
            world
                .host
                .kill(world.host.zoneadmd(zone).expect("a zoneadmd"));
            world.host.kill(world.host.init_of(zone));
            world.host.wait_for_state(zone, "installed");
        }
        // The next command removes what the killed zones had.
        for zone in ["web", "db"] {
            world.host.boot(zone);
        }
        assert_eq!(
            world.peer(At::Zone("web"), "ping 10.0.0.1"),
            "answer of 10.0.0.1"
        );
        for zone in ["web", "db"] {
            world.host.halt(zone);
        }
        before.is_again(&world);
    }
    for zone in ["web", "db"] {
        world.host.boot(zone);
        world
            .host
            .kill(world.host.zoneadmd(zone).expect("a zoneadmd"));
        world.host.kill(world.host.init_of(zone));
        world.host.wait_for_state(zone, "installed");
        world.host.on(zone, &["uninstall", "-F"]).quiet();
    }
    before.is_again(&world);
}

#[test]
fn no_link_is_left_when_boot_is_killed_or_fails() {
    let Some((world, before)) = prepared() else {
        return;
    };
    let host = &world.host;
    for kind in ["kill", "fail"] {
        let mut struck = 0;
        for step in 1..64 {
            let fault = format!("boot:{step}:{kind}");
            let ran = host.with_fault(&fault, "web", &["boot"]);
            if ran.code() == Some(0) {
                host.halt("web");
                break;
            }
            struck = step;
            if kind == "fail" {
                assert_eq!(host.state("web"), "installed", "{fault}");
                before.is_again(&world);
                continue;
            }
            // Objects of the killed boot are used again or removed.
            assert_eq!(host.on("web", &["boot"]).code(), Some(0), "{fault}");
            host.halt("web");
            before.is_again(&world);
        }
        assert!(struck >= 8, "only {struck} steps");
    }
}

#[test]
fn a_link_comes_back_from_wherever_its_zone_hid_it() {
    let Some((world, before)) = prepared() else {
        return;
    };
    let host = &world.host;
    host.boot("web");
    host.sh("web", "ip link set eth1 down; ip link set eth1 name mine0");
    host.halt("web");
    before.is_again(&world);
    // Another link has the same name in that namespace.
    host.boot("web");
    host.sh(
        "web",
        "ip link set eth1 down; ip link set eth1 name mine0; ip link add eth1 type bridge",
    );
    host.kill(host.zoneadmd("web").expect("a zoneadmd"));
    host.kill(host.init_of("web"));
    host.wait_for_state("web", "installed");
    host.boot("web");
    assert_eq!(
        world.peer(At::Zone("web"), "ping 10.0.0.1"),
        "answer of 10.0.0.1"
    );
    host.halt("web");
    before.is_again(&world);
}

#[test]
fn every_command_removes_links_of_dead_zones() {
    let Some((world, before)) = prepared() else {
        return;
    };
    let host = &world.host;
    let die = || {
        host.boot("web");
        host.kill(host.zoneadmd("web").expect("a zoneadmd"));
        host.kill(host.init_of("web"));
        assert!(host.path("/run/zones/network/web.json").exists());
    };
    for words in [
        &["list"][..],
        &["list", "-cp"],
        &["-z", "web", "list"],
        &["-z", "web", "links"],
        &["-z", "web", "verify"],
    ] {
        die();
        let _ = host.zoneadm(words).ok();
        before.is_again(&world);
    }
    // This zone should get the same link.
    die();
    host.configure(
        "other",
        "set ip-type=exclusive; add net; set physical=eth1; set allowed-address=10.0.0.141/24; end",
    );
    host.on("other", &["clone", "master"]).quiet();
    host.boot("other");
    assert_eq!(
        world.peer(At::Zone("other"), "ping 10.0.0.1"),
        "answer of 10.0.0.1"
    );
    host.halt("other");
    before.is_again(&world);
    // A running zone keeps the link.
    host.boot("other");
    let ran = host.on("web", &["boot"]);
    assert_ne!(ran.code(), Some(0));
    assert!(ran.err.contains("zone 'other' has it"), "{ran:?}");
    host.halt("other");
    before.is_again(&world);
}
