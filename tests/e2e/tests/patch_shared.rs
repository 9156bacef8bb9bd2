//! Tests that running zones share a patch and take it by their reboot.

use std::collections::BTreeMap;
use std::process::Stdio;

use e2e::debian::{Archive, Deb};
use e2e::inside::syscall;
use e2e::patching::running::{NEW, OLD, app, running, version};
use e2e::patching::{apply, fate, standing, zonepatch};
use e2e::{Host, start, wait_for};
use serde_json::Value;

const FIVE: [&str; 5] = ["web1", "web2", "web3", "web4", "web5"];

/// Returns a host with five running zones.
fn five() -> Option<Host> {
    let host = running("web[1-5]")?;
    for zone in FIVE {
        host.boot(zone);
    }
    Some(host)
}

/// Returns the zones that were patched in this way.
fn by(reports: &BTreeMap<String, Value>, way: &str) -> Vec<String> {
    let is = |one: &&Value| fate(one).0 == "patched" && fate(one).1 == way;
    let zones = reports.iter().filter(|(_, one)| is(one));
    zones.map(|(zone, _)| zone.clone()).collect()
}

#[test]
fn running_zones_share_a_patch_and_take_it_by_their_reboot() {
    let Some(host) = five() else { return };
    for zone in FIVE {
        host.sh(zone, &format!("echo {zone} >/etc/since"));
    }
    // This zone has a file of the patch itself, so its own package manager patches it.
    host.sh("web5", "echo mine >/opt/app/a; echo 2 >/opt/app/z");
    let reports = apply(&host, &["-z", "web*", "--activate=next"]);
    assert_eq!(
        by(&reports, "environment"),
        ["web1", "web2", "web5"],
        "{reports:?}"
    );
    assert_eq!(by(&reports, "shared"), ["web3", "web4"], "{reports:?}");
    let why = fate(&reports["web5"]).2;
    assert!(why.contains("/opt/app/a was changed in this zone"), "{why}");
    for zone in &FIVE[..4] {
        assert_eq!(version(&host, zone), OLD);
        assert_eq!(standing(&host, zone), ["pending"]);
        host.sh(zone, "echo later >/etc/later");
    }
    for zone in FIVE {
        host.on(zone, &["reboot"]).quiet();
        assert_eq!(version(&host, zone), NEW);
        assert_eq!(
            host.sh(zone, "cat /etc/since; ls /etc/later 2>&1 | grep -c ^/ || :"),
            format!("{zone}\n0")
        );
        assert_eq!(standing(&host, zone), ["applied"]);
    }
    // The zones whose package managers ran use the layer, too: all of these share the next patch.
    let archive = Archive::new(host.path("/repo"));
    archive.add(&app("3"));
    let reports = apply(&host, &["-z", "web[1-4]", "--activate=now"]);
    assert_eq!(by(&reports, "environment"), ["web1", "web2"], "{reports:?}");
    assert_eq!(by(&reports, "shared"), ["web3", "web4"], "{reports:?}");
    for zone in &FIVE[..4] {
        assert_eq!(version(&host, zone), "3 ii 222");
        let why = fate(&reports[*zone]).2;
        assert!(why.contains("it was rebooted into it"), "{why}");
        assert_eq!(host.sh(zone, "cat /etc/since"), *zone);
    }
    let _ = zonepatch(&host, &["rollback", "-z", "web[1-4]", "--activate=now"]).ok();
    for zone in &FIVE[..4] {
        assert_eq!(version(&host, zone), NEW);
    }
}

#[test]
fn no_other_zone_gets_a_result_with_which_a_zone_is_not_well() {
    let Some(host) = five() else { return };
    std::fs::create_dir_all(host.path("/etc/patch")).unwrap();
    std::fs::write(host.path("/etc/patch/pdo.conf"), "health_timeout=1\n").unwrap();
    let old = "test $(cat /opt/app/a) = 1";
    let ran = zonepatch(
        &host,
        &[
            "apply",
            "-j",
            "-z",
            "web*",
            "--activate=now",
            "--health",
            old,
        ],
    );
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    for one in value["zones"].as_array().unwrap() {
        let (outcome, _, why) = fate(one);
        assert_eq!(outcome, "failed", "{one}");
        assert!(
            why.contains("is not well with the patch; the patch was undone"),
            "{why}"
        );
    }
    for zone in FIVE {
        assert_eq!(host.state(zone), "running");
        assert_eq!(version(&host, zone), OLD);
        assert_eq!(standing(&host, zone), ["rolled_back"]);
        // Its own package manager patched each zone.
        let past = zonepatch(&host, &["history", "-z", zone, "-j"]).ok();
        let past: Value = serde_json::from_str(&past.out).unwrap();
        assert_eq!(past[0]["how"], "environment", "{past}");
    }
}

#[test]
fn a_running_and_a_halted_zone_are_patched_for_the_others() {
    let Some(host) = running("web[1-4]") else {
        return;
    };
    host.boot("web3");
    let reports = apply(&host, &["-z", "web*", "--activate=now"]);
    // The running zone comes first.
    assert_eq!(by(&reports, "environment"), ["web3"], "{reports:?}");
    assert_eq!(by(&reports, "real"), ["web1"], "{reports:?}");
    assert_eq!(by(&reports, "shared"), ["web2", "web4"], "{reports:?}");
    assert_eq!(host.state("web1"), "installed");
    for zone in ["web1", "web2", "web4"] {
        host.boot(zone);
    }
    for zone in ["web1", "web2", "web3", "web4"] {
        assert_eq!(version(&host, zone), NEW);
        assert_eq!(standing(&host, zone), ["applied"]);
    }
}

#[test]
fn a_zone_that_is_halted_before_its_reboot_stays_halted() {
    let Some(host) = five() else { return };
    // The first of the two patched zones is rebooted, and its health command waits for the test.
    let health = "touch /dev/shm/asked; test -e /dev/shm/well";
    let words = ["apply", "-z", "web*", "--activate=now", "--health", health];
    let mut command = host.command("zonepatch", &words);
    let child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let has = |zone: &str, file: &str| {
        let look = format!("test -e /dev/shm/{file}");
        host.zlogin(&[zone, &look]).code() == Some(0)
    };
    let asked = wait_for("a health command", || {
        ["web1", "web2"].into_iter().find(|zone| has(zone, "asked"))
    });
    let other = if asked == "web1" { "web2" } else { "web1" };
    host.halt(other);
    let mut left = vec![asked, "web3", "web4", "web5"];
    wait_for("all health commands", || {
        left.retain(|zone| {
            let is_asked = has(zone, "asked");
            if is_asked {
                host.sh(zone, "touch /dev/shm/well");
            }
            !is_asked
        });
        left.is_empty().then_some(())
    });
    let ran = child.wait_with_output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}");
    assert!(
        said.contains("for its next boot, as it was halted meanwhile"),
        "{said}"
    );
    assert_eq!(host.state(other), "installed");
    assert_eq!(standing(&host, other), ["pending"]);
    host.boot(other);
    for zone in FIVE {
        assert_eq!(version(&host, zone), NEW);
    }
}

#[test]
fn permissions_that_two_zones_changed_do_not_reach_the_others() {
    let Some(host) = five() else { return };
    for zone in ["web1", "web2"] {
        host.sh(zone, "chmod 711 /opt/app");
    }
    let reports = apply(&host, &["-z", "web*", "--activate=now"]);
    let why = fate(&reports["web1"]).2;
    assert!(why.contains("/opt/app has other permissions"), "{why}");
    for zone in FIVE {
        assert_eq!(version(&host, zone), NEW);
        let mode = if ["web1", "web2"].contains(&zone) {
            "711"
        } else {
            "755"
        };
        assert_eq!(host.sh(zone, "stat -c %a /opt/app"), mode, "{zone}");
    }
    assert_eq!(by(&reports, "shared"), ["web5"], "{reports:?}");
}

#[test]
fn zones_with_different_results_share_none() {
    let Some(host) = five() else { return };
    let archive = Archive::new(host.path("/repo"));
    archive.add(&Deb {
        postinst: "cat /opt/app/a >/var/lib/app; cat /proc/sys/kernel/random/uuid >/opt/app/id",
        ..app("3")
    });
    let reports = apply(&host, &["-z", "web*", "--activate=next"]);
    assert_eq!(by(&reports, "environment"), FIVE, "{reports:?}");
    let why = fate(&reports["web5"]).2;
    assert!(why.contains("came to differ in /opt/app/id"), "{why}");
}

#[test]
fn a_zone_that_reboots_itself_during_the_patch_runs_with_it() {
    let Some(host) = five() else { return };
    let archive = Archive::new(host.path("/repo"));
    archive.add(&Deb {
        postinst: "cat /opt/app/a >/var/lib/app; sleep 3",
        ..app("3")
    });
    let words = ["apply", "-z", "web*", "--activate=now"];
    let mut command = host.command("zonepatch", &words);
    let child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    // Two package managers work in copies of their zones. Each of these zones ends meanwhile, and its
    // zoneadmd waits for the lock to boot it again.
    let log = host.path("/var/log/zones");
    wait_for("two package managers", || {
        let files = std::fs::read_dir(&log).ok()?.flatten();
        let begun = files.filter(|file| {
            let name = file.file_name().into_string().unwrap();
            let text = || std::fs::read_to_string(file.path()).unwrap_or_default();
            name.starts_with("zonepatch.") && text().contains("Setting up app")
        });
        (begun.count() == 2).then_some(())
    });
    // reboot(2) with the two magic numbers and the command RESTART.
    let reboot = syscall(libc::SYS_reboot, "0xfee1dead, 672274793, 0x01234567, 0");
    for zone in ["web1", "web2"] {
        let _ = host.zlogin(&[zone, &reboot]);
    }
    let ran = child.wait_with_output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}");
    for zone in FIVE {
        host.wait_for_state(zone, "running");
        assert_eq!(version(&host, zone), "3 ii 222", "{said}");
    }
}
