//! Moves of a zonepath, and the rename of a zone.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use e2e::run::run;

use super::operation::Operation;
use super::storage::tiny;
use super::zones::{again, goes_on, remove, settled};
use crate::bench::Bench;
use crate::strike::Who;

/// The zonepath to which the zone is moved by a rename.
const NEW: &str = "/zones/web2";

/// The zonepath to which the zone is copied.
const COPY: &str = "/zones/new/web";

/// Creates a clone with a snapshot, and a clone of that.
fn cloned(bench: &Bench) {
    bench.host.clone_from("master", "web");
    with_snapshot(bench);
}

fn with_snapshot(bench: &Bench) {
    let host = &bench.host;
    host.put("web", "var/word", "one\n");
    host.on("web", &["snapshot", "s"]).quiet();
    host.put("web", "var/word", "two\n");
    host.clone_from("web", "other");
}

fn folder(bench: &Bench) -> PathBuf {
    let new = bench.host.path(COPY);
    new.parent().expect("a folder").to_owned()
}

/// As [`cloned`], for a zone of a few files, with a mount at the folder to which the zone is moved:
/// no folder can be renamed across it.
fn tiny_beside_mount(bench: &Bench) {
    let host = &bench.host;
    let tree = host.path("/tiny").display().to_string();
    host.zonecfg(&["-z", "web", "create -F -t SUNWlx"]).quiet();
    let _ = host.on("web", &["install", "-d", &tree]).ok();
    with_snapshot(bench);
    let folder = folder(bench);
    fs::create_dir_all(&folder).expect("a folder");
    let mut mount = Command::new("mount");
    run(mount.arg("--bind").args([&folder, &folder]), b"").quiet();
}

fn unmount(bench: &Bench) {
    delete_all(bench);
    run(Command::new("umount").arg(folder(bench)), b"").quiet();
    fs::remove_dir(folder(bench)).expect("an empty folder");
}

fn delete_all(bench: &Bench) {
    for zone in ["web", "db", "other"] {
        if bench.host.rows().iter().any(|row| row.name == zone) {
            remove(&bench.host, zone);
            let delete = ["-z", zone, "delete -F"];
            bench.host.zonecfg(&delete).quiet();
        }
    }
}

/// Returns a file of a halted zone as the zone would see it.
#[track_caller]
fn content(bench: &Bench, zone: &str, path: &str) -> String {
    again(&bench.host, zone, &["mount"]).quiet();
    let zonepath = PathBuf::from(bench.host.row(zone).zonepath);
    let at = bench.host.path(&zonepath.display().to_string());
    let text = fs::read_to_string(at.join("lu").join(path)).unwrap_or_default();
    bench.host.on(zone, &["unmount"]).quiet();
    text.trim_end().to_owned()
}

/// Expects that the zone is whole at its old or its new zonepath, and that the same command brings
/// it to the new one.
#[track_caller]
fn moved(bench: &Bench, to: &str) {
    let host = &bench.host;
    goes_on(host, "web", &["move", to]);
    let row = host.row("web");
    assert_eq!(
        (row.state.as_str(), row.zonepath.as_str()),
        ("installed", to)
    );
    assert!(!host.path("/zones/web").exists());
    let config = host.zonecfg(&["-z", "web", "info zonepath"]).ok().out;
    assert_eq!(config, format!("zonepath: {to}\n"));
    assert_eq!(content(bench, "web", "var/word"), "two");
    assert_eq!(content(bench, "other", "var/word"), "two");
    again(host, "web", &["rollback", "-F", "s"]).quiet();
    assert_eq!(content(bench, "web", "var/word"), "one");
}

/// Expects that the zone has exactly one of its names, and that the same command gives it the new
/// one.
#[track_caller]
fn renamed(bench: &Bench) {
    let host = &bench.host;
    let has = |zone: &str| host.rows().iter().any(|row| row.name == zone);
    assert_ne!(has("web"), has("db"), "the zone has one name");
    if has("web") {
        settled(host, "web", &["installed"]);
        host.zonecfg(&["-z", "web", "set zonename=db"]).quiet();
    }
    let row = host.row("db");
    assert_eq!(
        (row.state.as_str(), row.zonepath.as_str()),
        ("installed", "/zones/web")
    );
    assert_eq!(content(bench, "db", "var/word"), "two");
    assert!(!host.path("/etc/zones/web.xml").exists());
    assert!(host.path("/etc/zones/db.xml").exists());
}

pub(super) fn all() -> Vec<Operation> {
    vec![
        Operation {
            name: "move",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: cloned,
            command: |bench| bench.zoneadm(&["move", NEW]),
            after: |bench| moved(bench, NEW),
            end: delete_all,
        },
        Operation {
            name: "move, copied",
            who: &[Who::Command],
            most: usize::MAX,
            bench: tiny,
            begin: tiny_beside_mount,
            command: |bench| bench.zoneadm(&["move", COPY]),
            after: |bench| moved(bench, COPY),
            end: unmount,
        },
        Operation {
            name: "rename",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: cloned,
            command: |bench| {
                bench
                    .host
                    .command("zonecfg", &["-z", "web", "set zonename=db"])
            },
            after: renamed,
            end: delete_all,
        },
    ]
}
