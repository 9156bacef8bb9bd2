//! Tests `zoneadm migrate` of kernel zones over a real sshd: halted, suspended and running zones,
//! and the state after a cut at any moment.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use e2e::guest::{Kept, boot_machine, disk_is_whole, image, in_guest, messages, wait_for_guest};
use e2e::ssh::{Server, hosts, state};
use e2e::{Host, Ran, Random, rounds, start, still_runs_after, wait_for};

/// Returns the file to which QEMU writes the first disk, and the files below it.
fn parts(host: &Host, zone: &str) -> Vec<String> {
    let path = host.path("zones").join(zone).join("machine.json");
    let text = fs::read(path).expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let disk = &record["disks"][0];
    let bases = disk["bases"].as_array().expect("bases").iter();
    let mut all = vec![disk["file"].as_str().expect("a file").to_owned()];
    all.extend(bases.filter_map(|base| base["name"].as_str().map(str::to_owned)));
    all
}

/// Checks that the command succeeded, with or without warnings.
fn done(ran: Ran) -> Ran {
    ran.ok()
}

#[test]
fn a_machine_goes_to_another_host_and_back() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some([(here, back), (there, server)]) = hosts() else {
        return;
    };
    if !boot_machine(&here, "") {
        return;
    }
    let kept = Kept::of(&here);
    let uuid = here.row("k1").uuid;
    let planned = done(server.migrate(&here, "k1", &["-n", "-t", "warm"])).out;
    assert!(planned.contains("  suspend the zone"), "{planned}");
    assert_eq!(state(&there, "k1"), "none");

    // A zone that cannot run on the target is not accepted there, and its guest was never paused.
    there
        .zonecfg(&["-z", "k1", "create -t SYSsolaris-kz; remove anet"])
        .quiet();
    server
        .migrate(&here, "k1", &[])
        .mentions(1, "its machine could not go on here: machine.");
    assert_eq!(state(&there, "k1"), "configured");
    assert!(!there.path("zones/k1").exists());
    kept.goes_on(&here);
    assert!(!messages(&here).contains("suspended to"));
    there.zonecfg(&["-z", "k1", "delete -F"]).quiet();

    // This is a running zone; migrate_live tests live migration.
    let ran = done(server.migrate(&here, "k1", &["-t", "warm"]));
    let told = ran
        .out
        .lines()
        .find(|line| line.contains("it stood still for "));
    println!("{}", told.expect("how long it stood still"));
    assert_eq!(here.state("k1"), "configured");
    assert!(!here.path("zones/k1").exists());
    kept.goes_on(&there);
    assert_eq!(there.row("k1").uuid, uuid);
    cut_off_while_it_runs([(&back, &there), (&server, &here)]);
    if state(&there, "k1") != "running" {
        let _ = done(server.migrate(&here, "k1", &[]));
    }

    // This zone is suspended.
    there.on("k1", &["suspend"]).quiet();
    let memory = |size| format!("select capped-memory; set physical={size}; end");
    here.zonecfg(&["-z", "k1", &memory("200m")]).quiet();
    back.migrate(&there, "k1", &[])
        .mentions(1, "cannot go on from where it was suspended");
    assert_eq!(here.state("k1"), "configured");
    assert!(!here.path("zones/k1").exists());
    here.zonecfg(&["-z", "k1", &memory("192m")]).quiet();
    cut_off(&back, &there);
    again_until_done(&back, &there, &here);
    assert!(!there.path("zones/k1").exists());
    let row = (here.state("k1"), here.row("k1").uuid);
    assert_eq!(row, ("installed".into(), uuid));
    assert!(image(&here).exists());
    let _ = done(here.on("k1", &["boot"]));
    kept.goes_on(&here);
    here.halt("k1");
    disk_is_whole(&here);

    only_what_is_not_there_is_sent(&server, &here, &there);
}

/// Interrupts migrations of a running kernel zone between two hosts, in both directions. Afterwards
/// the zone must run on exactly one of them.
fn cut_off_while_it_runs(mut sides: [(&Server, &Host); 2]) {
    let mut random = Random::new(11);
    for round in rounds(1) {
        let [(server, here), (_, there)] = sides;
        let count = wait_for_guest(here);
        let mut command = server.command(here, "k1", &["-t", "warm"]);
        let mut child = start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let end = Instant::now() + Duration::from_millis(random.below(5_000));
        let mut is_over = || child.try_wait().expect("a child").is_some();
        // The first cut comes while the guest is paused.
        while !is_over()
            && match round {
                0 => !image(here).exists(),
                _ => Instant::now() < end,
            }
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        println!("round {round}: cut off: {}", !is_over());
        // The test kills the connection, the program, or both.
        if round % 3 != 0 {
            let _ = child.kill();
        }
        if round % 3 != 1 {
            server.cut();
        }
        let _ = child.wait();
        let (moved, now) = wait_for("guest that goes on", || {
            let moved = match state(here, "k1").as_str() {
                "installed" => {
                    // The zone may be on the target, or may just be leaving it.
                    if here.on("k1", &["boot"]).code() != Some(0) {
                        let _ = server.migrate(here, "k1", &[]);
                    }
                    return None;
                }
                "running" => false,
                "incomplete" => {
                    // The cut came while the source removed the zone.
                    here.on("k1", &["uninstall", "-F"]).quiet();
                    true
                }
                _ => true,
            };
            let ran = in_guest(if moved { there } else { here }, "cat /run/count");
            let now = ran.text().parse::<u64>().ok();
            now.map(|now| (moved, now))
        });
        assert!(now >= count, "the counter was {count} and is {now}");
        let other = state(if moved { here } else { there }, "k1");
        assert_ne!(other, "running", "on both sides");
        if moved {
            sides.reverse();
        }
    }
}

/// Starts migrations, and interrupts them at random moments.
fn cut_off(server: &Server, here: &Host) {
    // Approximate duration of one migration on an idle machine, in milliseconds.
    let most = 2_000;
    let mut random = Random::new(7);
    let mut cut = 0;
    for round in rounds(1) {
        let mut command = server.command(here, "k1", &[]);
        let mut child = start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        cut += u32::from(still_runs_after(&mut child, random.below(most)));
        // The test kills the program, the connection, or both.
        if round % 3 != 1 {
            let _ = child.kill();
        }
        if round % 3 != 0 {
            server.cut();
        }
        let _ = child.wait();
        if state(here, "k1") != "installed" {
            break;
        }
    }
    println!("{cut} were cut off");
}

/// The same command again completes the migration. Until then one of the two hosts has the whole
/// zone.
fn again_until_done(server: &Server, here: &Host, there: &Host) {
    let mut tries = 0;
    while state(here, "k1") != "configured" {
        if state(here, "k1") == "incomplete" {
            // The cut came while the source removed the files that the target now has.
            assert_eq!(state(there, "k1"), "installed", "nowhere");
            here.on("k1", &["uninstall", "-F"]).quiet();
            break;
        }
        let ran = server.migrate(here, "k1", &[]);
        tries += 1;
        assert!(tries < 8, "{ran:?}");
        if ran.code() != Some(0) {
            // The target may still be removing its received files.
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Two zones whose disks share one base file migrate.
fn only_what_is_not_there_is_sent(server: &Server, here: &Host, there: &Host) {
    let _ = done(here.on("k2", &["clone", "--create", "k1"]));
    let shares = parts(here, "k2").len() > 1;
    for zone in ["k1", "k2"] {
        let files = parts(here, zone);
        let ran = done(server.migrate(here, zone, &[]));
        // For the second zone, the shared base file is already on the target.
        let sent = match zone {
            "k2" if shares => files.len() - 1,
            _ => files.len(),
        };
        let line = format!("Sending {sent} files of its machine");
        assert!(ran.out.contains(&line), "{line}: {ran:?}");
        assert_eq!(state(here, zone), "configured");
        assert!(!here.path("zones").join(zone).exists());
        assert_eq!(there.state(zone), "installed");
        assert_eq!(parts(there, zone), files);
        if shares {
            let base = there.path("zones").join(zone).join(&files[1]);
            let links = std::os::unix::fs::MetadataExt::nlink(&fs::metadata(base).expect("it"));
            assert_eq!(links, if zone == "k2" { 2 } else { 1 }, "{zone}");
        }
    }
}
