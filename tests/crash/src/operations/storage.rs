//! Install, clone, uninstall, snapshot, rollback, merge and boot environments.

use std::fs;

use super::operation::Operation;
use super::zones::{again, content, goes_on, mend, remove, settled};
use crate::bench::Bench;
use crate::strike::Who;

const BUILT: &[&str] = &["configured", "incomplete", "installed"];

/// Returns a host with a tiny tree, from which zones of brand lx are installed.
pub(super) fn tiny() -> Option<Bench> {
    let bench = Bench::new()?;
    for name in ["sbin/init", "etc/hostname", "bin/sh"] {
        let path = bench.host.path("/tiny").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, "").expect("a file");
    }
    bench
        .host
        .zonecfg(&["-z", "web", "create -t SUNWlx"])
        .quiet();
    Some(bench)
}

/// Installs a zone after a kill, in the way that the zone's state requires.
fn installs(bench: &Bench, words: &[&str]) {
    settled(&bench.host, "web", BUILT);
    mend(&bench.host, "web");
    if bench.host.state("web") == "configured" {
        goes_on(&bench.host, "web", words);
    }
    assert_eq!(bench.host.state("web"), "installed");
    // The next command for the zone completes an install that was killed at its end.
    let _ = content(&bench.host, "web", "etc/hostname");
}

fn remove_web(bench: &Bench) {
    remove(&bench.host, "web");
}

/// Creates a clone with its own file in its top layer.
fn cloned(bench: &Bench) {
    bench.host.clone_from("master", "web");
    bench.host.put("web", "var/word", "one\n");
}

fn delete_web(bench: &Bench) {
    remove(&bench.host, "web");
    bench.host.zonecfg(&["-z", "web", "delete -F"]).quiet();
}

/// Expects that each zone exists completely or is incomplete or deleted, and that the same command
/// deletes both zones and their files.
fn deleted(bench: &Bench) {
    let host = &bench.host;
    let has = |zone: &str| host.rows().iter().any(|row| row.name == zone);
    if has("web") {
        let state = settled(host, "web", &["incomplete", "installed"]);
        if state == "installed" {
            assert_eq!(content(host, "web", "var/word"), "one");
        }
    }
    if has("new") {
        settled(host, "new", &["configured"]);
    }
    for zone in ["web", "new"] {
        let ran = again(host, zone, &["uninstall", "--delete", "-F"]);
        let is_gone = ran.err.contains("No such zone configured");
        assert!(ran.code() == Some(0) || is_gone, "{ran:?}");
        assert!(!has(zone), "zone {zone} is still in the index");
        for path in [format!("/etc/zones/{zone}.xml"), format!("/zones/{zone}")] {
            assert!(!host.path(&path).exists(), "{path} is left");
        }
    }
}

/// Creates a clone with more layers than a merge keeps.
fn deep(bench: &Bench) {
    bench.host.clone_from("master", "web");
    for step in ["one", "two", "three", "four", "five"] {
        bench.host.put("web", "var/word", format!("{step}\n"));
        bench.host.put("web", &format!("var/{step}/file"), step);
        bench.host.on("web", &["snapshot", "step"]).quiet();
        bench.host.on("web", &["destroy-snapshot", "step"]).quiet();
    }
}

/// Halts a zone if it runs.
fn rests(bench: &Bench) {
    if settled(&bench.host, "web", &["installed", "running"]) == "running" {
        let _ = again(&bench.host, "web", &["halt"]).ok();
    }
}

fn has(bench: &Bench, name: &str) -> bool {
    let listed = again(&bench.host, "web", &["snapshots", "-p"]).ok();
    listed
        .out
        .lines()
        .any(|line| line.split(':').nth(1) == Some(name))
}

/// Expects that the snapshot exists completely or not at all, and that the next snapshot succeeds.
fn snapshots(bench: &Bench) {
    settled(&bench.host, "web", &["installed", "running"]);
    if has(bench, "s") {
        again(&bench.host, "web", &["destroy-snapshot", "s"]).quiet();
    }
    goes_on(&bench.host, "web", &["snapshot", "s"]);
    assert!(has(bench, "s"));
    if bench.host.state("web") == "running" {
        // The zone is not left frozen.
        assert_eq!(bench.host.sh("web", "cat /var/word"), "one");
    } else {
        assert_eq!(content(&bench.host, "web", "var/word"), "one");
    }
}

fn with_snapshot(bench: &Bench) {
    cloned(bench);
    bench.host.on("web", &["snapshot", "s"]).quiet();
    bench.host.put("web", "var/word", "two\n");
}

fn merged(bench: &Bench) {
    settled(&bench.host, "web", &["installed", "running"]);
    goes_on(&bench.host, "web", &["merge"]);
    rests(bench);
    assert_eq!(content(&bench.host, "web", "var/word"), "five");
    assert_eq!(content(&bench.host, "web", "var/one/file"), "one");
}

/// Returns a host with a running zone that has a second boot environment, in which a file has
/// another text.
fn with_environments(bench: &Bench) {
    cloned(bench);
    let _ = bench.host.on("web", &["beadm", "create", "other"]).ok();
    bench.host.put("web", "var/word", "two\n");
}

fn activated(bench: &Bench) {
    let state = settled(&bench.host, "web", &["installed", "running"]);
    let words = match state.as_str() {
        "running" => &["beadm", "activate", "--now", "other"][..],
        _ => &["beadm", "activate", "other"],
    };
    let ran = again(&bench.host, "web", words);
    // A switch that was completed before the kill is not a failure.
    assert!(
        ran.code() == Some(0) || ran.err.contains("active"),
        "{ran:?}"
    );
    if bench.host.state("web") != "running" {
        goes_on(&bench.host, "web", &["boot"]);
    }
    assert_eq!(bench.host.sh("web", "cat /var/word"), "one");
    let _ = bench
        .host
        .on("web", &["beadm", "activate", "--now", "initial"])
        .ok();
    assert_eq!(bench.host.sh("web", "cat /var/word"), "two");
}

pub(super) fn all() -> Vec<Operation> {
    vec![
        Operation {
            name: "install",
            who: &[Who::Command],
            most: usize::MAX,
            bench: tiny,
            begin: |_| {},
            command: |bench| {
                let tree = bench.host.path("/tiny").display().to_string();
                bench.zoneadm(&["install", "-d", &tree])
            },
            after: |bench| {
                let tree = bench.host.path("/tiny").display().to_string();
                installs(bench, &["install", "-d", &tree]);
            },
            end: remove_web,
        },
        Operation {
            name: "install, sparse",
            who: &[Who::Command],
            most: 2,
            bench: || {
                let bench = Bench::new()?;
                bench.host.configure("web", "");
                Some(bench)
            },
            begin: |_| {},
            command: |bench| bench.zoneadm(&["install"]),
            after: |bench| installs(bench, &["install"]),
            end: remove_web,
        },
        Operation {
            name: "clone",
            who: &[Who::Command],
            most: usize::MAX,
            bench: || {
                let bench = Bench::with_master()?;
                bench.host.configure("web", "");
                Some(bench)
            },
            // The origin is a zone of its own: its written files are sealed first.
            begin: |bench| bench.host.clone_from("master", "origin"),
            command: |bench| bench.zoneadm(&["clone", "origin"]),
            after: |bench| {
                let host = &bench.host;
                settled(host, "web", BUILT);
                assert_eq!(settled(host, "origin", &["installed"]), "installed");
                // A clone that was killed can be repeated without another command.
                if host.state("web") != "installed" {
                    goes_on(host, "web", &["clone", "origin"]);
                }
                assert_eq!(host.state("web"), "installed");
                assert_eq!(content(host, "web", "etc/hostname"), "web");
                assert_eq!(content(host, "origin", "etc/hostname"), "origin");
            },
            end: |bench| {
                remove_web(bench);
                remove(&bench.host, "origin");
                bench.host.zonecfg(&["-z", "origin", "delete -F"]).quiet();
            },
        },
        Operation {
            name: "uninstall",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: cloned,
            command: |bench| bench.zoneadm(&["uninstall", "-F"]),
            after: |bench| {
                let state = settled(&bench.host, "web", BUILT);
                if state == "installed" {
                    assert_eq!(content(&bench.host, "web", "var/word"), "one");
                }
                remove(&bench.host, "web");
                assert_eq!(bench.host.state("web"), "configured");
            },
            end: delete_web,
        },
        Operation {
            name: "uninstall-delete",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            // Zone "new" has a configuration only.
            begin: |bench| {
                cloned(bench);
                bench.host.configure("new", "");
            },
            command: |bench| bench.zoneadm(&["-z", "new", "uninstall", "--delete", "-F"]),
            after: deleted,
            end: |_| {},
        },
        Operation {
            name: "snapshot",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: cloned,
            command: |bench| bench.zoneadm(&["snapshot", "s"]),
            after: snapshots,
            end: delete_web,
        },
        Operation {
            name: "snapshot, running",
            who: &[Who::Command, Who::Running],
            most: usize::MAX,
            bench: || {
                let bench = Bench::with_master()?;
                cloned(&bench);
                bench.host.boot("web");
                Some(bench)
            },
            begin: |bench| {
                if bench.host.state("web") != "running" {
                    bench.host.boot("web");
                }
            },
            command: |bench| bench.zoneadm(&["snapshot", "s"]),
            after: snapshots,
            end: |bench| bench.host.on("web", &["destroy-snapshot", "s"]).quiet(),
        },
        Operation {
            // Unchanged files are those of the older snapshot.
            name: "snapshot, running, with an older one",
            who: &[Who::Command],
            most: usize::MAX,
            bench: || {
                let bench = Bench::with_master()?;
                cloned(&bench);
                bench.host.boot("web");
                bench.host.sh("web", "echo old >/var/old; sleep 1.2");
                let _ = bench.host.on("web", &["snapshot", "old"]).ok();
                Some(bench)
            },
            begin: |bench| {
                if bench.host.state("web") != "running" {
                    bench.host.boot("web");
                }
                bench.host.sh("web", "echo one >/var/word");
            },
            command: |bench| bench.zoneadm(&["snapshot", "s"]),
            after: |bench| {
                snapshots(bench);
                assert!(has(bench, "old"));
            },
            end: |bench| bench.host.on("web", &["destroy-snapshot", "s"]).quiet(),
        },
        Operation {
            name: "destroy-snapshot",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: with_snapshot,
            command: |bench| bench.zoneadm(&["destroy-snapshot", "s"]),
            after: |bench| {
                settled(&bench.host, "web", &["installed"]);
                if has(bench, "s") {
                    again(&bench.host, "web", &["destroy-snapshot", "s"]).quiet();
                }
                assert!(!has(bench, "s"));
                assert_eq!(content(&bench.host, "web", "var/word"), "two");
            },
            end: delete_web,
        },
        Operation {
            name: "rollback",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: with_snapshot,
            command: |bench| bench.zoneadm(&["rollback", "-F", "s"]),
            after: |bench| {
                settled(&bench.host, "web", &["installed"]);
                let word = content(&bench.host, "web", "var/word");
                assert!(["one", "two"].contains(&word.as_str()), "{word}");
                again(&bench.host, "web", &["rollback", "-F", "s"]).quiet();
                assert_eq!(content(&bench.host, "web", "var/word"), "one");
            },
            end: delete_web,
        },
        Operation {
            name: "merge",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: deep,
            command: |bench| bench.zoneadm(&["merge"]),
            after: merged,
            end: delete_web,
        },
        Operation {
            name: "merge, running",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: |bench| {
                deep(bench);
                bench.host.boot("web");
            },
            command: |bench| bench.zoneadm(&["merge"]),
            after: merged,
            end: delete_web,
        },
        Operation {
            name: "environment create",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: cloned,
            command: |bench| bench.zoneadm(&["beadm", "create", "other"]),
            after: |bench| {
                settled(&bench.host, "web", &["installed"]);
                let ran = again(&bench.host, "web", &["beadm", "create", "other"]);
                assert!(
                    ran.code() == Some(0) || ran.err.contains("other"),
                    "{ran:?}"
                );
                again(&bench.host, "web", &["beadm", "destroy", "-F", "other"]).quiet();
                assert_eq!(content(&bench.host, "web", "var/word"), "one");
            },
            end: delete_web,
        },
        Operation {
            name: "environment activate",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: with_environments,
            command: |bench| bench.zoneadm(&["beadm", "activate", "other"]),
            after: activated,
            end: delete_web,
        },
        Operation {
            name: "environment activate, now",
            who: &[Who::Command, Who::Running],
            most: 24,
            bench: Bench::with_master,
            begin: |bench| {
                with_environments(bench);
                bench.host.boot("web");
            },
            command: |bench| bench.zoneadm(&["beadm", "activate", "--now", "other"]),
            after: activated,
            end: delete_web,
        },
    ]
}
