//! Tests a kernel zone with a label beside other zones with labels: its packets, its disks, and its
//! place outside read-down.

use std::fs;

use e2e::guest::said;
use e2e::lan::Lan;
use e2e::machine::{boot, configure, guest, has_qemu, install};
use e2e::{Host, World, wait_for};

/// Labels of the example of names: LOW is below HIGH.
const LOW: &str = "0x0002-08-08";
const HIGH: &str = "0x0004-08-68";

const NAMES: &str = include_str!("../../../crates/label/tests/label_encodings");

fn put_names(host: &Host) {
    fs::create_dir_all(host.path("/etc/zones")).unwrap();
    fs::write(host.path("/etc/zones/label_encodings"), NAMES).unwrap();
}

/// Returns the first IPv4 address of a zone's link net0.
fn address(world: &World, zone: &str) -> String {
    let row = world.link(zone, "net0");
    let list = row["addresses"].as_array().expect("a list").iter();
    let mut texts = list.filter_map(|one| one.as_str());
    let found = texts.find(|text| !text.contains(':')).expect("an address");
    found.split('/').next().unwrap_or_default().to_owned()
}

#[test]
fn a_kernel_zone_talks_to_its_label_only_and_has_no_views() {
    let Some(host) = Host::with_master() else {
        return;
    };
    // A guest's kernel may have to be downloaded: the network of the test has no way to a mirror.
    let Some(guest) = guest(&host) else { return };
    put_names(&host);
    let Some(lan) = Lan::new() else { return };
    let world = World { host, lan };
    let host = &world.host;
    let auto = "set ip-type=exclusive; add anet; set linkname=net0; end";
    for (zone, label) in [("low", LOW), ("high", HIGH)] {
        world.boot(zone, &format!("set -F label={label}; {auto}"));
    }
    host.sh("low", "echo words >/export/f");
    configure(
        host,
        "k1",
        &format!("set label={HIGH}; add anet; set linkname=net0; end"),
    );
    install(host, "k1", &guest);
    boot(host, "k1");
    let listed = host.on("k1", &["list", "-j"]).ok().out;
    assert!(
        listed.contains("\"label\": \"CONFIDENTIAL : NEED TO KNOW\""),
        "{listed}"
    );
    let own = address(&world, "k1");
    let _ = said(
        host,
        &format!(
            "ip link set eth0 arp off up && ip addr add {own}/32 dev eth0 && \
             ip route add default dev eth0"
        ),
    );
    let pings = |zone: &str, to: &str| {
        let words = ["-n", zone, &format!("ping -c 1 -W 1 {to}")];
        host.zlogin(&words).code() == Some(0)
    };
    let (low, high) = (address(&world, "low"), address(&world, "high"));
    wait_for("answer from the zone of the same label", || {
        pings("k1", &high).then_some(())
    });
    assert!(pings("high", &own));
    assert!(!pings("k1", &low) && !pings("low", &own));
    let dropped = world.dropped("k1", "net0")["label"] + world.dropped("low", "net0")["label"];
    assert!(dropped > 0, "no packet was dropped because of its label");
    // It exports no files, and other zones have no view of it.
    assert!(!host.path("/zones/k1/export").exists());
    assert_eq!(host.sh("high", "ls /zone"), "low");
    let seen = said(host, "ls -d /export /zone/low 2>/dev/null; true");
    assert_eq!(seen.trim(), "");
    host.halt("k1");
}

#[test]
fn the_disk_of_a_kernel_zone_belongs_to_one_label() {
    if !has_qemu() {
        return;
    }
    let Some(host) = Host::with_master() else {
        return;
    };
    put_names(&host);
    let disk = host.path("/disk.raw");
    fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    let device = format!(
        "add device; set storage=file://{}; set id=5; end",
        disk.display()
    );
    let why = "two labels";
    configure(&host, "k1", &format!("set -F label={LOW}; {device}"));
    for (zone, label, refused) in [("k2", HIGH, true), ("k3", LOW, false)] {
        configure(&host, zone, &format!("set label={label}; {device}"));
        let ran = host.on(zone, &["verify"]);
        assert_eq!(ran.err.contains(why), refused, "{zone}: {ran:?}");
        if refused {
            assert_eq!(ran.code(), Some(1), "{ran:?}");
            host.zonecfg(&["-z", zone, "delete -F"]).quiet();
        }
    }
    // A profile and a kernel zone exclude each other, also with a label.
    let ran = host.zonecfg(&["-z", "k3", "set file-mac-profile=strict"]);
    let refused = match ran.code() {
        Some(0) => host.on("k3", &["verify"]),
        _ => ran,
    };
    assert!(
        refused.code() == Some(1) && refused.err.contains("file-mac-profile"),
        "{refused:?}"
    );
}
