//! Tests `zoneadm migrate` over a real sshd that leads to another root of zones: the sent data, and
//! the state after a cut at any moment.

use std::fs;
use std::process::Command;
use std::time::Duration;

use e2e::run::run;
use e2e::ssh::{Server, state};
use e2e::{Host, Random, rounds, start, still_runs_after};

#[test]
fn a_running_zone_goes_and_comes_back() {
    let (Some(here), Some(there)) = (Host::with_web(), Host::new()) else {
        return;
    };
    let Some(server) = Server::new(&there) else {
        return;
    };
    here.put("web", "var/word", "before\n");
    here.on("web", &["snapshot", "old"]).quiet();
    here.boot("web");
    here.sh(
        "web",
        "echo after >/var/word; mkdir /var/d; echo x >/var/d/x; ln /var/d/x /var/d/y; rm /etc/motd; mv /etc/skel /etc/was",
    );
    let planned = server.migrate(&here, "web", &["-n"]).ok();
    let steps = "zoneadm: zone 'web': Importing zone configuration.\n\
                 zoneadm: zone 'web': Attaching zone.\n\
                 zoneadm: zone 'web': Dry-run migration successful.\n\
                 zoneadm: zone 'web': Cleaning up.\n\
                 migrate zone web:\n  send ";
    assert!(planned.out.starts_with(steps), "{planned:?}");
    let planned = server.migrate(&here, "web", &["-n", "-q"]).ok();
    assert!(
        planned.out.starts_with("migrate zone web:\n"),
        "{planned:?}"
    );
    assert_eq!(state(&there, "web"), "none");
    let uuid = here.row("web").uuid;
    let ran = server.migrate(&here, "web", &[]).ok();
    assert!(ran.out.contains("Halting the zone."), "{ran:?}");
    assert_eq!(here.state("web"), "configured");
    assert!(!here.path("/zones/web").exists());
    assert_eq!(
        (there.state("web"), there.row("web").uuid),
        ("running".into(), uuid)
    );
    assert_eq!(
        there.sh(
            "web",
            "cat /var/word /var/d/y; stat -c %h /var/d/x; ls -d /etc/motd /etc/skel /etc/was/.bashrc 2>/dev/null; hostname"
        ),
        "after\nx\n2\n/etc/was/.bashrc\nweb"
    );
    // A zone that cannot run on the target stays on the source.
    server
        .migrate(&here, "web", &[])
        .mentions(1, "must be installed before migrate");
    here.on("again", &["clone", "--create", "master"]).quiet();
    there.configure("again", "");
    fs::create_dir_all(there.path("/zones/again/root")).unwrap();
    server
        .migrate(&here, "again", &[])
        .mentions(1, "is there already");
    assert_eq!(here.state("again"), "installed");
    fs::remove_dir_all(there.path("/zones/again")).unwrap();
    // A second zone does not send the layer that the first one brought.
    let ran = server.migrate(&here, "again", &[]).ok();
    assert!(ran.out.contains("Sending 0 of 1 layers."), "{ran:?}");
    assert_eq!(there.state("again"), "installed");
    assert_eq!(here.state("again"), "configured");
}

#[test]
fn cut_at_any_moment_a_zone_is_whole_on_one_side() {
    let (Some(here), Some(there)) = (Host::new(), Host::new()) else {
        return;
    };
    let Some(server) = Server::new(&there) else {
        return;
    };
    here.install("base");
    // The layer and the top both have some megabytes, so that the migration takes a while.
    let is_long = rounds(1).end > 1;
    let (megabytes, times) = if is_long { (512, 10) } else { (8, 4) };
    let fill = |zone: &str, name: &str| {
        let path = here.put(zone, name, "");
        let mut dd = Command::new("dd");
        dd.arg("if=/dev/urandom")
            .arg(format!("of={}", path.display()))
            .args(["bs=1M", &format!("count={megabytes}"), "status=none"]);
        run(&mut dd, b"").quiet();
    };
    fill("base", "var/one");
    // Approximate duration of a migration on an idle machine.
    let most = if is_long { 20_000 } else { 2_000 };
    let mut random = Random::new(99);
    let (mut cut, mut asked) = (0, 0);
    for round in 0..times {
        let zone = format!("web{round}");
        let zone = zone.as_str();
        here.clone_from("base", zone);
        fill(zone, "var/two");
        here.boot(zone);
        let sum = "sha256sum /var/one /var/two";
        let sums = here.sh(zone, sum);
        // Packages may be installed on this machine in the meantime.
        let mut command = server.command(&here, zone, &["-u"]);
        let nowhere = std::process::Stdio::null;
        let mut child = start(command.stdout(nowhere()).stderr(nowhere()));
        cut += u32::from(still_runs_after(&mut child, random.below(most)));
        // The test kills the program, the connection, or both.
        if round % 3 != 1 {
            let _ = child.kill();
        }
        if round % 3 != 0 {
            server.cut();
        }
        let _ = child.wait();
        // The same command again completes the migration. Until then one of the two hosts has the
        // whole zone.
        let mut tries = 0;
        loop {
            let both = (state(&here, zone), state(&there, zone));
            if both == ("configured".into(), "running".into()) {
                break;
            }
            let marked = here.path("/zones").join(zone).join(".migrating").exists();
            if !marked && both.0 == "installed" {
                assert_ne!(both.1, "running", "twice");
                here.boot(zone);
            }
            if !marked && both.0 != "configured" && both.0 != "incomplete" {
                let ran = here.zlogin(&[zone, sum]);
                // zoneadmd may still halt the zone for the killed command.
                if state(&here, zone) != both.0 {
                    continue;
                }
                assert_eq!(ran.ok().text(), sums, "{both:?}");
            }
            if both.0 == "incomplete" {
                // The cut came while the source removed the files that the target now has.
                assert_eq!(both.1, "running", "nowhere");
                here.on(zone, &["uninstall", "-F"]).quiet();
                continue;
            }
            let ran = server.migrate(&here, zone, &["-u"]);
            asked += 1;
            tries += 1;
            assert!(tries < 8, "{both:?} {ran:?}");
            if ran.code() != Some(0) {
                // The target may still be removing the received files.
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        assert_eq!(there.sh(zone, sum), sums);
        println!("{zone}: given again {tries} times");
        there.halt(zone);
        there.on(zone, &["uninstall", "-F"]).quiet();
    }
    println!("{cut} were cut off, {asked} times it was given again");
}
