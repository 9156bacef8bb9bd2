//! Tests the inits of other systems: each boots, carries out orders, and shuts down.

use std::fs;
use std::path::PathBuf;

use e2e::container::{archive, busybox, file, link, system};
use e2e::{Host, wait_for};

const INITTAB: &[u8] = b"::sysinit:/bin/touch /etc/started
::respawn:/bin/sleep 1000
::shutdown:/bin/touch /etc/stopped
";

/// Makes a small system with the init of busybox.
fn with_busybox(host: &Host) -> Option<PathBuf> {
    let mut members = system(&busybox()?);
    // Of two members with one name, the later one stays.
    members.push(link("sbin/init", "../bin/busybox"));
    for name in ["reboot", "poweroff"] {
        members.push(link(&format!("bin/{name}"), "busybox"));
    }
    members.push(file("etc/inittab", INITTAB));
    let path = host.path("/busybox.tar");
    fs::write(&path, archive(&members)).unwrap();
    Some(path)
}

fn install(host: &Host, zone: &str, root: &std::path::Path) {
    host.zonecfg(&["-z", zone, "create -t SUNWlx"]).quiet();
    let _ = host
        .on(zone, &["install", "-a", &root.to_string_lossy()])
        .ok();
}

fn gone(host: &Host, zone: &str) {
    wait_for("the end of the zone", || {
        (host.state(zone) == "installed").then_some(())
    });
}

#[test]
fn the_init_of_busybox_goes_by_its_table() {
    let Some(host) = Host::new() else { return };
    let Some(root) = with_busybox(&host) else {
        return;
    };
    install(&host, "tiny", &root);
    let etc = host.top("tiny").join("etc");
    let started = || wait_for("init", || etc.join("started").exists().then_some(()));
    host.boot("tiny");
    started();
    assert_eq!(host.sh("tiny", "cat /proc/1/comm"), "init");
    host.on("tiny", &["shutdown"]).quiet();
    assert_eq!(host.state("tiny"), "installed");
    assert!(etc.join("stopped").exists(), "it ended in order");
    // The messages inside the zone.
    for name in ["started", "stopped"] {
        fs::remove_file(etc.join(name)).unwrap();
    }
    host.boot("tiny");
    started();
    fs::remove_file(etc.join("started")).unwrap();
    let _ = host.zlogin(&["tiny", "reboot"]);
    started();
    assert!(etc.join("stopped").exists(), "it ended in order");
    // The new init accepts signals after it has started to read its table.
    fs::remove_file(etc.join("stopped")).unwrap();
    wait_for("the zone after its reboot", || {
        (host.state("tiny") == "running").then_some(())
    });
    let _ = host.zlogin(&["tiny", "poweroff"]);
    gone(&host, "tiny");
    assert!(etc.join("stopped").exists(), "it ended in order");
    host.clone_from("tiny", "other");
    host.boot("other");
    assert_eq!(host.sh("other", "hostname"), "other");
    host.halt("other");
}

/// Makes a Debian system with another init than systemd.
fn comes_and_goes(name: &str, packages: &str, is_up: &str, first: &str) {
    let Some(host) = Host::new() else { return };
    if e2e::left_to_long_runs("a root is downloaded") {
        return;
    }
    let root = match e2e::roots::root(name, "bookworm", packages) {
        Ok(root) => root,
        Err(why) => return e2e::skip(&format!("no root: {why}")),
    };
    install(&host, "other", &root);
    // The table of sysvinit has the program for a power failure. In Debian's table, no package
    // contains this program.
    let table = host.top("other").join("etc/inittab");
    if let Ok(text) = fs::read_to_string(&table) {
        let text = text.replace("/etc/init.d/powerfail start", "/sbin/init 0");
        fs::write(&table, text).unwrap();
    }
    for _ in 0..2 {
        host.boot("other");
        wait_for("the services", || {
            let ran = host.zlogin(&["other", is_up]);
            (ran.code() == Some(0)).then_some(())
        });
        assert_eq!(
            host.sh("other", "cat /proc/1/comm; hostname"),
            format!("{first}\nother")
        );
        host.on("other", &["shutdown"]).quiet();
        assert_eq!(host.state("other"), "installed");
    }
    host.clone_from("other", "copy");
    host.boot("copy");
    assert_eq!(host.sh("copy", "hostname"), "copy");
    host.halt("copy");
}

#[test]
fn runit_brings_debian_up_and_down() {
    let is_up = "grep -q runsvdir /proc/[0-9]*/comm";
    comes_and_goes("bookworm-runit", "runit-init,runit", is_up, "runit");
}

#[test]
fn openrc_under_sysvinit_brings_debian_up_and_down() {
    let is_up = "rc-status -r | grep -q default";
    comes_and_goes("bookworm-openrc", "sysvinit-core,openrc", is_up, "init");
}
