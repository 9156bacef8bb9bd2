//! Long tests of kernel zones: they run with `ZONES_TEST_LONG`, which `./check --long` sets.

use std::fs;
use std::path::Path;
use std::time::Instant;

use e2e::machine::{auxiliary, boot, configure, done, guest, has_qemu, install, up};
use e2e::roots::DOWNLOAD;
use e2e::run::run_within;
use e2e::{Host, left_to_long_runs, skip};

#[test]
fn four_suspend_at_once() {
    if left_to_long_runs("a long round") {
        return;
    }
    let Some(host) = Host::new() else { return };
    let Some(guest) = guest(&host) else { return };
    configure(&host, "k1", "");
    install(&host, "k1", &guest);
    let zones = ["k1", "k2", "k3", "k4"];
    for zone in &zones[1..] {
        done(host.on(zone, &["clone", "--create", "k1"]));
    }
    done(host.on("k*", &["boot"]));
    let id = |zone: &str| host.sh(zone, "cat /proc/sys/kernel/random/boot_id");
    // The images use most of the free space, so that each suspend takes long enough for all to
    // overlap.
    let fill = |zone: &str| {
        let make = format!("head -c 70000000 /dev/urandom >/run/data; echo {zone} >>/run/data");
        host.sh(zone, &format!("{make}; md5sum /run/data"))
    };
    let before = zones.map(|zone| {
        up(&host, zone);
        (id(zone), fill(zone))
    });
    let began = Instant::now();
    done(host.on("k*", &["suspend"]));
    let took = began.elapsed().as_secs_f64();
    let times = zones.map(|zone| {
        assert_eq!(auxiliary(&host, zone), "suspended", "{zone}");
        let log = host.path(&format!("/var/log/zones/{zone}.messages"));
        let log = fs::read_to_string(log).expect("a log");
        let line = log.lines().find(|line| line.contains("suspend: raw "));
        let line = line.expect("a line with figures");
        println!("{line}");
        let seconds = line
            .split(" MB in ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        seconds
            .and_then(|text| text.parse::<f64>().ok())
            .expect("seconds")
    });
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    let most = times.iter().copied().fold(0.0, f64::max);
    println!("from {least} to {most} s, all of them {took:.3} s");
    // The first and the last zone run alone for a while, with four times the share of the others.
    // The host has as much again.
    assert!(most <= 8.0 * least, "not fair: {times:?}");
    done(host.on("k*", &["boot"]));
    let after = zones.map(|zone| {
        up(&host, zone);
        (id(zone), host.sh(zone, "md5sum /run/data"))
    });
    assert_eq!(before, after);
    host.halt("k*");
}

#[test]
fn debian_is_made_here() {
    if left_to_long_runs("a long round") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !has_qemu() {
        return;
    }
    if !Path::new("/usr/bin/mmdebstrap").exists() {
        skip("mmdebstrap is not installed");
        return;
    }
    configure(&host, "d1", "select capped-memory; set physical=512m; end");
    let words = ["-z", "d1", "install", "-x", "install-size=2G"];
    let mut install = host.command("zoneadm", &words);
    let said = run_within(DOWNLOAD, &mut install, b"").ok().out;
    assert!(said.contains("Kernel: /boot/vmlinuz-"), "{said}");
    boot(&host, "d1");
    let state = "systemctl is-system-running --wait";
    assert_eq!(host.sh("d1", state), "running");
    assert!(host.sh("d1", "uname -r").contains("cloud"));
    host.on("d1", &["shutdown"]).quiet();
    assert_eq!(host.state("d1"), "installed");
}
