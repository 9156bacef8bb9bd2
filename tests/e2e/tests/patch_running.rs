//! Tests zonepatch on running zones: a boot environment is patched, and a boot uses it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use e2e::debian::{Archive, Deb};
use e2e::patching::running::{NEW, OLD, app, running, version};
use e2e::patching::{standing, zonepatch};
use e2e::{Host, rounds, start, wait_for};
use serde_json::Value;

fn environments(host: &Host, zone: &str) -> BTreeMap<String, String> {
    let list = host.on(zone, &["beadm", "list", "-H"]).ok();
    list.out
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(';').collect();
            let name = fields[0].to_owned();
            (name, fields.get(2).copied().unwrap_or_default().to_owned())
        })
        .collect()
}

#[test]
fn a_running_zone_is_patched_for_its_next_boot_and_goes_back() {
    let Some(host) = running("web") else { return };
    host.boot("web");
    assert_eq!(version(&host, "web"), OLD);
    zonepatch(&host, &["apply", "-z", "web"]).mentions(1, "--activate=next");
    let ran = zonepatch(&host, &["plan", "-z", "web"]).ok();
    assert!(ran.out.contains("app 1 -> 2"), "{ran:?}");
    // A dry run leaves nothing, and the zone still writes to the same root.
    host.sh("web", "echo since >/etc/since");
    assert_eq!(environments(&host, "web").len(), 1);

    let ran = zonepatch(&host, &["apply", "-z", "web", "--activate=next"]).ok();
    assert!(ran.out.contains("web: patched be"), "{ran:?}");
    assert_eq!(version(&host, "web"), OLD);
    assert_eq!(standing(&host, "web"), ["pending"]);
    let status = zonepatch(&host, &["status", "-z", "web"]).ok();
    assert!(status.out.contains("with the next boot"), "{status:?}");
    zonepatch(&host, &["apply", "-z", "web", "--activate=next"])
        .mentions(1, "its next boot takes boot environment patched-");

    // A boot environment that was never booted is removed.
    let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
    assert_eq!(standing(&host, "web"), ["rolled_back"]);
    assert_eq!(environments(&host, "web").len(), 1);
    host.on("web", &["reboot"]).quiet();
    assert_eq!(version(&host, "web"), OLD);

    let _ = zonepatch(&host, &["apply", "-z", "web", "--activate=next"]).ok();
    host.on("web", &["reboot"]).quiet();
    assert_eq!(version(&host, "web"), NEW);
    assert_eq!(host.sh("web", "cat /etc/since"), "since");
    assert_eq!(standing(&host, "web"), ["rolled_back", "applied"]);
    let ran = zonepatch(&host, &["apply", "-z", "web", "--activate=next"]).ok();
    assert!(ran.out.contains("web: unchanged"), "{ran:?}");

    // The rollback needs a reboot. Files that the zone wrote since the patch stay in the boot
    // environment that it leaves.
    host.sh("web", "echo later >/etc/later");
    zonepatch(&host, &["rollback", "-z", "web"]).mentions(1, "--activate=now");
    let _ = zonepatch(&host, &["rollback", "-z", "web", "--activate=now"]).ok();
    assert_eq!(version(&host, "web"), OLD);
    assert_eq!(host.sh("web", "ls /etc/later || :"), "");
    assert_eq!(standing(&host, "web"), ["rolled_back", "rolled_back"]);

    // One more reboot returns to the patched boot environment.
    let ran = zonepatch(&host, &["apply", "-z", "web", "--activate=now"]).ok();
    assert!(ran.out.contains("it was rebooted into it"), "{ran:?}");
    assert_eq!(version(&host, "web"), NEW);
    assert_eq!(standing(&host, "web").last().unwrap(), "applied");
    host.halt("web");
    let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
    host.boot("web");
    assert_eq!(version(&host, "web"), OLD);

    // A zone that does not boot with its patch returns to the former boot environment by itself.
    let archive = Archive::new(host.path("/repo"));
    archive.add(&Deb {
        postinst: "rm /usr/sbin/init",
        ..app("3")
    });
    let ran = zonepatch(&host, &["apply", "-z", "web", "--activate=now"]);
    ran.mentions(1, "did not boot with the patch; the patch was undone");
    assert_eq!(host.state("web"), "running");
    assert_eq!(version(&host, "web"), OLD);
    assert_eq!(standing(&host, "web").last().unwrap(), "rolled_back");
}

/// Returns the last two fields of `zoneadm list -p` for `web`.
fn immutable(host: &Host) -> String {
    let line = host.on("web", &["list", "-p"]).ok().out;
    line.trim_end()
        .rsplitn(3, ':')
        .take(2)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn an_immutable_zone_is_patched_halted_and_for_its_next_boot() {
    let Some(host) = running("web") else { return };
    // The init of the other tests starts a process every second, which delays the self-assembly.
    let quiet = "#!/bin/sh\ntrap 'exit 0' TERM INT PWR\nsleep 1000000 & wait\n";
    host.put_program("web", "usr/sbin/init", quiet);
    host.zonecfg(&["-z", "web", "set file-mac-profile=strict"])
        .quiet();
    host.boot("web");
    let read_only = || {
        wait_for("the zone read-only", || {
            let is_up = immutable(&host) == "strict R" && host.state("web") == "running";
            is_up.then_some(())
        });
    };
    read_only();
    assert_eq!(version(&host, "web"), OLD);
    zonepatch(&host, &["apply", "-z", "web", "--live"])
        .mentions(1, "is immutable; patch it for its next boot");
    assert_eq!(version(&host, "web"), OLD);
    let ran = zonepatch(&host, &["apply", "-z", "web", "--activate=next"]).ok();
    assert!(ran.out.contains("web: patched be"), "{ran:?}");
    host.on("web", &["reboot"]).quiet();
    read_only();
    assert_eq!(version(&host, "web"), NEW);
    host.halt("web");
    let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
    let ran = zonepatch(&host, &["apply", "-z", "web"]).ok();
    assert!(ran.out.contains("web: patched"), "{ran:?}");
    host.boot("web");
    read_only();
    assert_eq!(version(&host, "web"), NEW);
    host.halt("web");
}

#[test]
fn a_kill_at_any_moment_leaves_a_running_zone_that_boots_old_or_new() {
    let Some(host) = running("web") else { return };
    host.boot("web");
    let words = ["apply", "-z", "web", "--activate=next"];
    let began = std::time::Instant::now();
    let _ = zonepatch(&host, &words).ok();
    let whole = began.elapsed().max(Duration::from_millis(100));
    let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..rounds(2).end {
        let mut command = host.command("zonepatch", &words);
        command.stdout(std::process::Stdio::null());
        let mut child = start(&mut command);
        // The kills are spread over the whole run, and a little beyond its end.
        let part = u32::try_from((round * 7919) % 1000).unwrap();
        std::thread::sleep(whole * part / 900);
        let _ = child.kill();
        let _ = child.wait();
        // The zone boots before or after a command that repairs it.
        if round % 2 == 0 {
            zonepatch(&host, &["recover"]).quiet();
        }
        assert_eq!(version(&host, "web"), OLD);
        // A process that the killed command started may still hold the zone's lock.
        wait_for("reboot", || {
            (host.on("web", &["reboot"]).code() == Some(0)).then_some(())
        });
        let is = version(&host, "web");
        zonepatch(&host, &["recover"]).quiet();
        if is == NEW {
            assert_eq!(standing(&host, "web").last().unwrap(), "applied");
            let back = ["rollback", "-z", "web", "--activate=now"];
            let _ = zonepatch(&host, &back).ok();
        }
        *seen.entry(is).or_default() += 1;
    }
    println!("what was booted after a kill: {seen:?}");
    assert!(seen.keys().all(|one| one == OLD || one == NEW), "{seen:?}");
    assert!(seen.contains_key(OLD), "no kill came in time: {seen:?}");
}

/// Returns the last patch of a zone.
fn last(host: &Host, zone: &str) -> Value {
    let past = zonepatch(host, &["history", "-z", zone, "-j"]).ok();
    let past: Value = serde_json::from_str(&past.out).unwrap();
    past.as_array().unwrap().last().unwrap().clone()
}

#[test]
fn a_zone_is_patched_in_place_and_goes_back_when_that_fails() {
    let Some(host) = running("web") else { return };
    let archive = Archive::new(host.path("/repo"));
    host.boot("web");
    // This file is gone after a boot.
    host.sh("web", "echo up >/dev/shm/up; echo before >/etc/before");
    let up = |host: &Host| host.sh("web", "cat /dev/shm/up 2>/dev/null || :");
    // A program that the patch replaces while it runs.
    host.sh("web", "cp /usr/bin/sleep /opt/sleeper");
    host.sh("web", "/opt/sleeper 100000 </dev/null >/dev/null 2>&1 &");
    archive.add(&Deb {
        postinst: "cat /opt/app/a >/var/lib/app\n\
                   cp /usr/bin/sleep /opt/sleeper.new; mv /opt/sleeper.new /opt/sleeper",
        ..app("3")
    });
    let ran = zonepatch(
        &host,
        &[
            "apply",
            "-z",
            "web",
            "--live",
            "--health",
            "test -e /opt/app/a",
        ],
    );
    let ran = ran.ok();
    assert!(ran.out.contains("web: patched live, 1 package"), "{ran:?}");
    assert!(ran.out.contains(", well\n"), "{ran:?}");
    assert!(
        ran.out.contains("goes on with the former /opt/sleeper"),
        "{ran:?}"
    );
    assert!(ran.out.contains("\tsleeper ("), "{ran:?}");
    assert_eq!(version(&host, "web"), "3 ii 222");
    assert_eq!(up(&host), "up");
    assert_eq!(last(&host, "web")["how"], "live");
    let ran = zonepatch(&host, &["apply", "-z", "web", "--live"]).ok();
    assert!(ran.out.contains("web: unchanged"), "{ran:?}");
    let _ = zonepatch(&host, &["rollback", "-z", "web", "--activate=now"]).ok();
    assert_eq!(version(&host, "web"), OLD);
    assert_eq!(standing(&host, "web"), ["rolled_back"]);

    // The package is a file of the host, because the zone has no other source for it.
    let file = archive.add(&app("4"));
    let kept = host.path("/app.deb");
    fs::rename(&file, &kept).unwrap();
    archive.refresh();
    let kept = kept.display().to_string();
    let _ = zonepatch(&host, &["apply", "-z", "web", "--live", &kept]).ok();
    assert_eq!(version(&host, "web"), "4 ii 222");
    assert_eq!(host.sh("web", "ls -d /var/cache/zonepatch* || :"), "");
    let _ = zonepatch(&host, &["rollback", "-z", "web", "--activate=now"]).ok();

    // No package was changed, so nothing is undone.
    host.sh("web", "echo up >/dev/shm/up");
    let before = environments(&host, "web");
    zonepatch(&host, &["apply", "-z", "web", "--live", "nothing"]).mentions(1, "nothing");
    assert_eq!(up(&host), "up");
    assert_eq!(environments(&host, "web"), before);
    // The package manager fails in the middle, and then a health command fails.
    archive.add(&Deb {
        postinst: "echo broken as planned >&2; exit 1",
        ..app("5")
    });
    let ran = zonepatch(&host, &["apply", "-z", "web", "--live"]);
    ran.mentions(1, "the zone was taken back with a reboot");
    assert_eq!(version(&host, "web"), OLD);
    assert_eq!(
        (up(&host), host.sh("web", "cat /etc/before")),
        (String::new(), "before".into())
    );
    fs::remove_file(archive.folder().join("app_5_all.deb")).unwrap();
    archive.refresh();
    fs::create_dir_all(host.path("/etc/patch")).unwrap();
    fs::write(
        host.path("/etc/patch/pdo.conf"),
        "health=exit 7\nhealth_timeout=1\n",
    )
    .unwrap();
    let ran = zonepatch(&host, &["apply", "-z", "web", "--live"]);
    ran.mentions(1, "its health command ");
    assert_eq!(version(&host, "web"), OLD);
    assert_eq!(standing(&host, "web").len(), 2);
}

#[test]
fn a_zone_whose_dpkg_is_killed_in_the_midst_of_a_patch_in_place_goes_back() {
    let Some(host) = running("web") else { return };
    let archive = Archive::new(host.path("/repo"));
    host.boot("web");
    // The files of this package are in place when dpkg is killed on the next package, as when
    // memory runs out. The status file does not have this package yet.
    archive.add(&app("3"));
    archive.add(&Deb {
        name: "extra",
        version: "1",
        preinst: "grep -q 2 /opt/app/a && touch /dev/shm/replaced\n\
                  cp /var/lib/dpkg/status /dev/shm/status; kill -9 $PPID",
        fields: "Depends: app (>= 3)\n",
        ..Deb::default()
    });
    let archive = archive.folder().display().to_string();
    let debs = ["app_3_all.deb", "extra_1_all.deb"].map(|name| format!("{archive}/{name}"));
    host.sh(
        "web",
        "cp /var/lib/dpkg/status /root/status; echo up >/dev/shm/up",
    );
    let ran = zonepatch(&host, &["apply", "-z", "web", "--live", &debs[0], &debs[1]]);
    ran.mentions(1, "the zone was taken back with a reboot");
    assert_eq!(host.sh("web", "ls /dev/shm"), "");
    assert_eq!(version(&host, "web"), OLD);
    assert_eq!(host.sh("web", "ls /var/lib/dpkg/updates"), "");
    assert_eq!(standing(&host, "web"), [""; 0]);
    // The half-done work of the killed patch is kept.
    let left = environments(&host, "web");
    assert_eq!(left.len(), 2, "{left:?}");
}

/// Kills a patch in place while the package's script runs.
fn cut_off(host: &Host) {
    let mut command = host.command("zonepatch", &["apply", "-z", "web", "--live"]);
    let mut child = start(command.stdout(std::process::Stdio::null()));
    wait_for("the package's script", || {
        (host.zlogin(&["web", "test -e /dev/shm/half"]).code() == Some(0)).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_patch_in_place_that_is_killed_goes_back_with_the_next_boot() {
    let Some(host) = running("web") else { return };
    let archive = Archive::new(host.path("/repo"));
    host.boot("web");
    archive.add(&Deb {
        postinst: "touch /dev/shm/half; while [ ! -e /dev/shm/go ]; do sleep 0.1; done",
        ..app("3")
    });
    for recovers in [true, false] {
        cut_off(&host);
        if recovers {
            zonepatch(&host, &["recover"]).quiet();
        }
        let status = zonepatch(&host, &["status", "-z", "web"]).ok();
        let says = match recovers {
            true => "its next boot takes boot environment patch-",
            false => "a patch was cut off",
        };
        assert!(status.out.contains(says), "{status:?}");
        host.sh("web", "touch /dev/shm/go");
        // A process that the killed command started may still hold the zone's lock.
        wait_for("reboot", || {
            (host.on("web", &["reboot"]).code() == Some(0)).then_some(())
        });
        assert_eq!(version(&host, "web"), OLD);
        zonepatch(&host, &["recover"]).quiet();
        let status = zonepatch(&host, &["status", "-z", "web"]).ok();
        assert!(!status.out.contains("boot environment"), "{status:?}");
        assert!(!status.out.contains("cut off"), "{status:?}");
        assert_eq!(standing(&host, "web"), [""; 0]);
    }
}

#[test]
fn a_zone_that_is_not_well_with_its_patch_goes_back() {
    let Some(host) = running("web") else { return };
    host.boot("web");
    fs::create_dir_all(host.path("/etc/patch")).unwrap();
    fs::write(host.path("/etc/patch/pdo.conf"), "health_timeout=1\n").unwrap();
    let old = "test $(cat /opt/app/a) = 1";
    let ran = zonepatch(
        &host,
        &["apply", "-z", "web", "--activate=now", "--health", old],
    );
    ran.mentions(
        1,
        "is not well with the patch; the patch was undone: its health command ",
    );
    assert_eq!(host.state("web"), "running");
    assert_eq!(version(&host, "web"), OLD);
    assert_eq!(standing(&host, "web"), ["rolled_back"]);

    // This is the zone's own health command, which the earlier case did not reach.
    fs::remove_file(host.path("/etc/patch/pdo.conf")).unwrap();
    let own = "add attr; set name=patch-health; set type=string; \
               set value=\"test -e /etc/well || { touch /etc/well; false; }\"; end";
    host.zonecfg(&["-z", "web", own]).quiet();
    let ran = zonepatch(&host, &["apply", "-z", "web", "--activate=now"]).ok();
    assert!(
        ran.out.contains(", well (it was rebooted into it)"),
        "{ran:?}"
    );
    assert_eq!(version(&host, "web"), NEW);
    // The health command does not run for a halted zone.
    host.halt("web");
    let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
    let ran = zonepatch(&host, &["apply", "-z", "web"]).ok();
    assert!(ran.out.contains("health not checked"), "{ran:?}");
}

#[test]
fn a_zone_whose_programs_do_not_end_is_not_waited_for_without_end() {
    let Some(host) = running("web") else { return };
    host.boot("web");
    host.sh(
        "web",
        "f=$(command -v mkdir); rm $f; printf '#!/bin/sh\nexec sleep 98764\n' >$f; chmod 755 $f",
    );
    let deb = host.path("/repo/app_2_all.deb").display().to_string();
    let words = ["apply", "-z", "web", "--live", "--time-limit", "2", &deb];
    zonepatch(&host, &words).mentions(1, "zone 'web': did not mkdir -m 700 '/var/cache/zonepatch-");
    assert_eq!(host.state("web"), "running");
    assert_eq!(version(&host, "web"), "1 ii 111");
}
