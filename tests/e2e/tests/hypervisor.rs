//! Tests hypervisors in zones: the zone's limits also limit the guests.

use std::fs;
use std::path::Path;
use std::time::Instant;

use e2e::{Host, wait_for};

const QEMU: &str = "/usr/bin/qemu-system-x86_64";

/// The file to which the zone's QEMU writes its guest's output.
const SAID: &str = "root/said";

/// A disk whose boot code writes `G` to the serial line and then keeps its processor busy.
fn disk() -> Vec<u8> {
    // The instructions are: mov dx, 0x3f8; mov al, 'G'; out dx, al; jmp to itself
    let mut sector = vec![0xba, 0xf8, 0x03, 0xb0, b'G', 0xee, 0xeb, 0xfe];
    sector.resize(510, 0);
    sector.extend([0x55, 0xaa]);
    sector
}

/// Returns a command that starts a guest with this many MiB, all allocated at once.
fn guest(mib: u32) -> String {
    format!(
        "{QEMU} -accel tcg -m {mib} -mem-prealloc -nodefaults -display none -serial file:/{SAID} \
         -drive file=/root/disk,format=raw,if=ide"
    )
}

/// Returns the CPU time that the zone has used, in microseconds.
fn used(host: &Host, zone: &str) -> u128 {
    let groups = host.groups_of(zone).into_iter();
    let stat = groups.filter_map(|group| {
        let at_the_top = group.file_name().is_some_and(|name| name == zone);
        at_the_top.then(|| fs::read_to_string(group.join("cpu.stat")).ok())?
    });
    let texts: Vec<String> = stat.collect();
    let mut lines = texts.iter().flat_map(|text| text.lines());
    lines
        .find_map(|line| line.strip_prefix("usage_usec "))
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("no usage of zone {zone}"))
}

#[test]
fn clones_of_a_master_run_a_guest_each_within_their_caps() {
    let Some(host) = Host::new() else { return };
    if !Path::new(QEMU).exists() {
        return e2e::skip("no QEMU (package qemu-system-x86)");
    }
    // The zone is sparse: it has the host's QEMU without an installation.
    let devices = "add device; set match=/dev/kvm; end; add device; set match=/dev/net/tun; end; ";
    let caps = "add capped-cpu; set ncpus=0.25; end; \
                add capped-memory; set physical=192M; set swap=192M; end";
    host.configure("master", &format!("{devices}{caps}"));
    host.on("master", &["install"]).quiet();
    host.put("master", "root/disk", disk());
    host.clone_from("master", "user[1-2]");
    let zones = ["user1", "user2"];
    for zone in zones {
        host.boot(zone);
        host.sh(zone, &format!("{} >/dev/null 2>&1 &", guest(64)));
    }
    for zone in zones {
        let said = host.top(zone).join(SAID);
        wait_for(&format!("word of the guest of {zone}"), || {
            fs::read(&said).ok().filter(|text| text.contains(&b'G'))
        });
    }
    // Both guests are always busy, and neither zone gets more than a quarter of a CPU.
    let before = zones.map(|zone| used(&host, zone));
    let began = Instant::now();
    std::thread::sleep(std::time::Duration::from_secs(4));
    let spent: Vec<u128> = zones
        .iter()
        .zip(before)
        .map(|(zone, before)| used(&host, zone) - before)
        .collect();
    let wall = began.elapsed().as_micros();
    // The limit is a quarter of each period of 0.1 s. One more period may have begun and not ended.
    let most = (wall / 4 + 2 * 25_000) * 108 / 100;
    for (zone, spent) in zones.iter().zip(&spent) {
        assert!(
            (1..=most).contains(spent),
            "{zone}: {spent} us in {wall} us"
        );
    }
    // A guest that is larger than its zone's limit is killed, and the other zone's guest is not.
    let ran = host.zlogin(&["user1", &guest(512)]);
    assert_ne!(ran.code(), Some(0), "{ran:?}");
    host.sh("user2", "kill -0 $(pidof qemu-system-x86_64)");
    if Path::new("/dev/kvm").exists() {
        assert_eq!(
            host.sh(
                "user1",
                "test -c /dev/kvm && test -c /dev/net/tun && echo both"
            ),
            "both"
        );
    }
    for zone in zones {
        host.halt(zone);
    }
}

#[test]
fn verify_warns_of_virtualbox_without_its_module_and_the_zone_boots() {
    if Path::new("/dev/vboxdrv").exists() {
        return e2e::skip("this host has VirtualBox's module");
    }
    let Some(host) = Host::with_web() else { return };
    host.zonecfg(&["-z", "web", "add device; set match=/dev/vboxdrv; end"])
        .quiet();
    let verified = host.on("web", &["verify"]).ok();
    assert_eq!(
        verified.err.trim_end(),
        "zoneadm: zone 'web': WARNING: device match=/dev/vboxdrv: nothing on this host matches"
    );
    host.boot("web");
    assert_eq!(host.sh("web", "test -e /dev/vboxdrv || echo none"), "none");
    host.halt("web");
}
