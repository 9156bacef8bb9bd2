//! Tests that layers are merged while the zone runs, and that the zone notices nothing, then or at
//! its next boot.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use e2e::tree::{Face, assert_same, change, face};
use e2e::{Host, Ran, rounds, start, wait_for};

/// Number of layers that `merge` leaves.
const SHORT: u64 = 4;
/// Maximum number of layers that normal use can produce.
const DEEP: u64 = 8;

/// A zone `web` with seven layers. Each of them changes files of lower layers.
fn with_deep_web() -> Option<Host> {
    let host = Host::with_web()?;
    for step in 0..6 {
        host.on("web", &["mount"]).quiet();
        change(&host.path("/zones/web/lu"), step);
        host.on("web", &["unmount"]).quiet();
        host.on("web", &["snapshot", "step"]).quiet();
        host.on("web", &["destroy-snapshot", "step"]).quiet();
    }
    assert!(layers(&host) > SHORT, "{} layers", layers(&host));
    Some(host)
}

/// Returns the output of `storage` for zone `web`.
#[track_caller]
fn storage(host: &Host) -> serde_json::Value {
    let ran = host.on("web", &["storage", "-j"]).ok();
    serde_json::from_str::<serde_json::Value>(&ran.out).unwrap()[0].clone()
}

fn layers(host: &Host) -> u64 {
    storage(host)["layers"].as_u64().unwrap()
}

/// Returns the layers that a running zone has mounted, while other layers wait for its next boot.
fn mounted(host: &Host) -> Option<u64> {
    storage(host)["mounted_layers"].as_u64()
}

/// Returns the number of layers on disk.
fn on_disk(host: &Host) -> usize {
    let entries = fs::read_dir(host.path("/zones/.layers")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name != ".dead").count()
}

/// Returns the tree that [`change`] changed in a running zone, as the zone sees it.
fn tree(host: &Host) -> Face {
    let root = PathBuf::from(format!("/proc/{}/root", host.init_of("web")));
    face(&root.join("var/tree"))
}

/// Starts a process that writes continuously in the zone. Its counter is in /var/count.
fn write_all_the_time(host: &Host) {
    host.sh(
        "web",
        "(while :; do n=$((n+1)); echo $n >>/var/all; echo $n >/var/next; mv /var/next /var/count; \
         sleep 0.01; done) >/dev/null 2>&1 </dev/null &",
    );
    goes_on(host);
}

/// Waits until the zone has written twice more.
fn goes_on(host: &Host) {
    let count = || {
        let text = fs::read_to_string(host.top("web").join("var/count")).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or_default()
    };
    let before = count();
    wait_for("writes of the zone", || {
        (count() > before + 1).then_some(())
    });
}

/// Checks that all files that the zone wrote exist.
fn all_is_written(host: &Host) {
    let script = "n=0; while read x; do n=$((n+1)); [ $x = $n ] || echo $x after $n; done </var/all; \
                  [ $n -ge $(cat /var/count) ] && echo whole";
    assert_eq!(host.sh("web", script), "whole");
}

#[test]
fn a_zone_that_writes_does_not_notice() {
    let Some(host) = with_deep_web() else { return };
    host.boot("web");
    let (deep, before) = (layers(&host), tree(&host));
    write_all_the_time(&host);
    let planned = host.on("web", &["merge", "-n"]).ok();
    assert!(planned.out.contains("for its next boot"), "{planned:?}");
    assert_eq!(mounted(&host), None);
    host.on("web", &["merge"]).quiet();
    assert_eq!((layers(&host), mounted(&host)), (SHORT, Some(deep)));
    assert_same(&before, &tree(&host));
    goes_on(&host);
    host.on("web", &["merge"])
        .says(0, "zoneadm: zone 'web': zone has few layers already");

    // The zone changes files of the old layers, and files that it moved within them.
    host.sh(
        "web",
        "cd /var/tree && mv moved step && echo more >>step/g && ln same1 link/same3 && rm same2 \
         && rm -r gone && mkdir gone && mv link/a/b gone/b && chmod 600 cap && mv link/a link/c",
    );
    let changed = tree(&host);
    host.halt("web");
    let kept = on_disk(&host);
    host.boot("web");
    assert_eq!((layers(&host), mounted(&host)), (SHORT, None));
    assert_same(&changed, &tree(&host));
    assert!(on_disk(&host) < kept, "{kept} layers stay");
    all_is_written(&host);
}

#[test]
fn a_halted_zone_is_merged_at_once() {
    let Some(host) = with_deep_web() else { return };
    let face_of = |host: &Host| {
        host.on("web", &["mount"]).quiet();
        let face = face(&host.path("/zones/web/lu"));
        host.on("web", &["unmount"]).quiet();
        face
    };
    let before = face_of(&host);
    host.on("web", &["mount"]).quiet();
    host.on("web", &["merge"])
        .mentions(1, "merge operation is invalid for mounted zones");
    host.on("web", &["unmount"]).quiet();
    host.on("web", &["merge"]).quiet();
    assert_eq!((layers(&host), mounted(&host)), (SHORT, None));
    assert_same(&before, &face_of(&host));
    host.configure("empty", "");
    host.on("empty", &["merge"])
        .mentions(1, "must be installed before merge");
}

#[test]
fn later_commands_find_the_layers_after_a_merge() {
    let Some(host) = with_deep_web() else { return };
    host.boot("web");
    let before = tree(&host);
    host.on("web", &["merge"]).quiet();
    // A snapshot of the running zone uses the merged layers.
    let _ = host.on("web", &["snapshot", "merged"]).ok();
    assert_same(&before, &tree(&host));
    host.halt("web");
    // The halted zone still has the old layers; each of these verbs removes them.
    host.on("copy", &["clone", "--create", "web"]).quiet();
    host.boot("copy");
    let root = PathBuf::from(format!("/proc/{}/root", host.init_of("copy")));
    let same: Vec<_> = face(&root.join("var/tree")).into_keys().collect();
    assert_eq!(same, before.keys().cloned().collect::<Vec<_>>());
    host.on("web", &["rollback", "-F", "merged"]).quiet();
    host.boot("web");
    assert_same(&before, &tree(&host));
    assert_eq!(mounted(&host), None);
    host.halt("web");
    host.on("web", &["uninstall", "-F"]).quiet();
    assert_eq!(host.sh("copy", "cat /var/tree/link/a/b/h"), "a/b/c/h");
}

#[test]
fn an_uninstall_takes_along_what_a_zone_had_mounted() {
    let Some(host) = with_deep_web() else { return };
    host.boot("web");
    host.on("web", &["merge"]).quiet();
    host.halt("web");
    host.on("web", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/web").exists());
    // Returns the layer of the zone's origin.
    assert_eq!(on_disk(&host), 1);
}

/// Starts a merge and kills it a moment later.
fn killed_after(host: &Host, pause: Duration) {
    let mut child = start(&mut host.command("zoneadm", &["-z", "web", "merge"]));
    std::thread::sleep(pause);
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_merge_that_is_killed_leaves_the_old_or_the_new() {
    let Some(host) = with_deep_web() else { return };
    host.boot("web");
    let (deep, before) = (layers(&host), tree(&host));
    for step in 1..=2 {
        let ran: Ran = host.with_fault(&format!("merge:{step}:kill"), "web", &["merge"]);
        assert!(ran.was_killed(), "{ran:?}");
        assert_eq!(layers(&host), if step == 1 { deep } else { SHORT });
        assert_same(&before, &tree(&host));
    }
    host.on("web", &["reboot"]).quiet();
    assert_same(&before, &tree(&host));
    // The kills come at random moments.
    for round in rounds(8) {
        host.halt("web");
        for step in 6..11 {
            host.put("web", &format!("var/tree/{round}-{step}"), "text");
            host.on("web", &["snapshot", "step"]).quiet();
            host.on("web", &["destroy-snapshot", "step"]).quiet();
        }
        host.boot("web");
        let before = tree(&host);
        killed_after(&host, Duration::from_micros(700 * (round % 8)));
        assert_same(&before, &tree(&host));
        // The same command again finishes the work.
        let _ = host.on("web", &["merge"]).ok();
        assert!(layers(&host) <= SHORT);
        assert_same(&before, &tree(&host));
        host.on("web", &["reboot"]).quiet();
        assert_same(&before, &tree(&host));
    }
}

#[test]
fn snapshots_of_a_running_zone_never_make_a_long_chain() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut beside = 0;
    for round in 0..16 {
        host.sh("web", &format!("echo {round} >/var/at{round}"));
        let name = format!("s{round}");
        let _ = host.on("web", &["snapshot", &name]).ok();
        beside += u32::from(mounted(&host).is_some());
        host.halt("web");
        // The snapshot's chain of layers gets the merged layers, too.
        host.on("web", &["rollback", "-F", &name]).quiet();
        assert!(layers(&host) <= DEEP, "{} layers", layers(&host));
        host.boot("web");
        assert_eq!(
            host.sh("web", "ls /var/at* | wc -l"),
            (round + 1).to_string()
        );
    }
    assert!(beside >= 2, "merged {beside} times beside it");
    let listed = host.on("web", &["snapshots", "-p"]).ok();
    for line in listed.out.lines() {
        let depth: u64 = line.split(':').nth(3).unwrap().parse().unwrap();
        assert!(depth <= DEEP, "{line}");
    }
}
