//! Tests network cards that come to a kernel zone and leave it while it runs.

use e2e::guest::{Kept, messages, said};
use e2e::lan::{Lan, face};
use e2e::machine::{boot, configure, done, guest, install};
use e2e::{At, Host, World, wait_for};

/// A link on a link of the host, with an address of its network.
const WIRE: &str = "add anet; set linkname=net1; set lower-link=eth0; \
     set allowed-address=10.0.0.111/24; set link-protection=mac-nospoof,ip-nospoof; end";

/// Returns true if the guest gets an answer to a ping.
fn pings(host: &Host, words: &str) -> bool {
    let ran = host.zlogin(&["-n", "k1", &format!("ping -c 1 {words}")]);
    ran.code() == Some(0)
}

/// Returns the network cards that the guest sees.
fn seen(host: &Host) -> String {
    said(host, "ls /sys/class/net | grep -c eth; true")
}

#[test]
fn network_cards_come_and_go_while_the_zone_runs() {
    let Some(host) = Host::new() else { return };
    // A guest's kernel may have to be downloaded: the network of the test has no way to a mirror.
    let Some(guest) = guest(&host) else { return };
    let Some(lan) = Lan::new() else { return };
    let world = World { host, lan };
    let host = &world.host;
    configure(host, "k1", "add anet; set linkname=net0; end");
    install(host, "k1", &guest);
    boot(host, "k1");
    let kept = Kept::of(host);
    assert_eq!(seen(host), "1");
    let booted = face();

    is_undone(&world, &booted);

    // The stored configuration gets the link, and the running zone after it.
    host.zonecfg(&["-z", "k1", WIRE]).quiet();
    let planned = host.on("k1", &["apply", "-n"]).ok().out;
    assert_eq!(planned, "zone 'k1': Checking: Adding anet linkname=net1\n");
    assert_eq!((seen(host).as_str(), face()), ("1", booted.clone()));
    done(host.on("k1", &["apply"]));
    works(&world);
    host.on("k1", &["apply"]).mentions(0, "nothing to apply");

    // Another zoneadmd finds the machine as it is.
    host.kill(host.zoneadmd("k1").expect("a zoneadmd"));
    let mac = world.link("k1", "net1")["mac"].to_string().replace('"', "");
    host.on("k1", &["suspend"]).mentions(
        1,
        &format!(
            "its machine has changed since it booted (network card {mac}): reboot the zone first"
        ),
    );
    refused(host);

    // Without the card, the host has the links of the boot, and the zone can be suspended.
    host.zonecfg(&["-z", "k1", "remove anet linkname=net1"])
        .quiet();
    done(host.on("k1", &["apply"]));
    assert_eq!(seen(host), "1");
    world.wait_for_face(&booted);
    kept.goes_on(host);
    host.on("k1", &["suspend"]).quiet();
    done(host.on("k1", &["boot"]));
    kept.goes_on(host);

    // A resumed zone gets the card, too. At a boot the card is part of the machine, in its port.
    host.zonecfg(&["-z", "k1", WIRE]).quiet();
    done(host.on("k1", &["apply"]));
    works(&world);
    host.halt("k1");
    boot(host, "k1");
    let kept = Kept::of(host);
    works(&world);
    host.on("k1", &["suspend"]).quiet();
    done(host.on("k1", &["boot"]));
    kept.goes_on(host);
    done(host.zonecfg(&["-z", "k1", "-r", "remove anet linkname=net1"]));
    assert_eq!(seen(host), "1");
    wait_for("end of the link", || {
        (!face().iter().any(|line| line.contains("zone k1 net1"))).then_some(())
    });
    host.halt("k1");
}

/// Tests a change whose second card is impossible: the first card and its link go again.
fn is_undone(world: &World, booted: &[String]) {
    let host = &world.host;
    let second = "add anet; set linkname=net2; set lower-link=nosuch; end";
    host.zonecfg(&["-z", "k1", "-r", &format!("{WIRE}; {second}")])
        .mentions(1, "lower-link nosuch: the host has no such link");
    let log = messages(host);
    assert!(log.contains("is added on net1"), "{log}");
    assert_eq!(seen(host), "1");
    world.wait_for_face(booted);
}

/// Tests the card net1: neighbours on the wire, and the guard of the link.
fn works(world: &World) {
    let host = &world.host;
    let mac = wait_for("second card", || {
        let ran = host.zlogin(&["-n", "k1", "cat /sys/class/net/eth1/address"]);
        (ran.code() == Some(0)).then(|| ran.text().to_owned())
    });
    assert_eq!(world.link("k1", "net1")["mac"].as_str(), Some(mac.as_str()));
    let _ = said(
        host,
        "ip addr add 10.0.0.111/24 dev eth1 && ip link set eth1 up",
    );
    wait_for("answer of a neighbour", || {
        pings(host, "10.0.0.2").then_some(())
    });
    let asked = world.peer(At::Source, "ping 10.0.0.111");
    assert_eq!(asked, "answer of 10.0.0.111");
    let before = world.dropped("k1", "net1");
    let _ = said(host, "ip addr add 10.0.0.99/24 dev eth1");
    assert!(!pings(host, "-W 2 -I 10.0.0.99 10.0.0.2"));
    let dropped = world.dropped("k1", "net1");
    assert!(
        dropped.values().sum::<u64>() > before.values().sum::<u64>(),
        "{dropped:?}"
    );
    assert!(pings(host, "-I 10.0.0.111 10.0.0.2"));
}

/// Tests changes that a running machine cannot have.
fn refused(host: &Host) {
    let now = |commands: &str| host.zonecfg(&["-z", "k1", "-r", commands]);
    now("select anet linkname=net1; set maxbw=10m; end").mentions(
        1,
        "Modifying anet linkname=net1: a network card keeps its properties: \
         remove the anet, apply, and add it again, or reboot",
    );
    now("remove anet linkname=net0").mentions(
        1,
        "Removing anet linkname=net0: this network card stays until the machine ends",
    );
    now("add anet; set linkname=net2; set lower-link=nosuch; end")
        .mentions(1, "lower-link nosuch: the host has no such link");
    assert_eq!(seen(host), "2");
}
