//! The operations of zonepatch on halted, running and sharing zones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use e2e::debian::{self, Archive};
use e2e::patching::{app, install_with, zonepatch};

use super::operation::Operation;
use super::small::INIT;
use super::zones::{again, content, remove, settled};
use crate::bench::Bench;
use crate::strike::Who;

/// Returns a host with clones of a zone that has version 1 of a package; the package archive has
/// version 2.
fn fleet(zones: &[&str]) -> Option<Bench> {
    if !debian::can_be_made() {
        return None;
    }
    let bench = Bench::new()?;
    let host = &bench.host;
    let root = host.path("/debian");
    debian::make(&root);
    fs::create_dir_all(root.join("usr/sbin")).expect("a folder");
    let init = root.join("usr/sbin/init");
    fs::write(&init, INIT).expect("an init");
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).expect("an init");
    let archive = Archive::new(host.path("/repo"));
    let first = archive.add(&app("1")).display().to_string();
    install_with(host, "master", &archive);
    let _ = zonepatch(host, &["apply", "-z", "master", &first]).ok();
    for zone in zones {
        host.clone_from("master", zone);
    }
    archive.add(&app("2"));
    Some(bench)
}

/// Returns the version of the package in a halted zone, and expects that all its files are of this
/// version.
#[track_caller]
fn version(bench: &Bench, zone: &str) -> &'static str {
    let text = content(&bench.host, zone, "opt/app/data");
    let index = content(&bench.host, zone, "var/lib/dpkg/status");
    let record = index
        .split("\n\n")
        .find(|record| record.starts_with("Package: app\n"))
        .expect("a record of the package");
    assert!(
        record.contains("\nStatus: install ok installed\n"),
        "{record}"
    );
    match text.as_str() {
        "one" if record.contains("\nVersion: 1\n") => "1",
        "two" if record.contains("\nVersion: 2\n") => "2",
        _ => panic!("a mixture: {text} and {record}"),
    }
}

/// Runs `zonepatch recover`, checks every zone, and returns each to version 1.
fn recovered(bench: &Bench, zones: &[&str]) {
    let host = &bench.host;
    e2e::wait_for("a recovery that nobody is in the way of", || {
        let ran = zonepatch(host, &["recover"]);
        (ran.code() == Some(0)).then_some(())
    });
    for zone in zones {
        if settled(host, zone, &["installed", "running"]) == "running" {
            let _ = again(host, zone, &["halt"]).ok();
        }
        let _ = version(bench, zone);
    }
    // The same command can be repeated.
    let mut ran = zonepatch(host, &["apply", "-z", "web*"]);
    if ran.err.contains("its next boot takes") {
        // The zone was patched before the kill: the boot completes the patch.
        for zone in zones {
            host.boot(zone);
            host.halt(zone);
        }
        ran = zonepatch(host, &["apply", "-z", "web*"]);
    }
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    for zone in zones {
        if host.state(zone) == "running" {
            host.halt(zone);
        }
        assert_eq!(version(bench, zone), "2");
    }
}

const ONE: &[&str] = &["web1"];
const ALL: &[&str] = &["web1", "web2", "web3"];

/// Creates new clones for each run, without a history of patches.
fn remade(bench: &Bench, zones: &[&str]) {
    for zone in zones {
        bench.host.clone_from("master", zone);
    }
}

fn removed(bench: &Bench, zones: &[&str]) {
    for zone in zones {
        remove(&bench.host, zone);
        bench.host.zonecfg(&["-z", zone, "delete -F"]).quiet();
    }
}

fn apply(bench: &Bench, more: &[&str]) -> Command {
    bench
        .host
        .command("zonepatch", &[&["apply", "-z", "web*"], more].concat())
}

pub(super) fn all() -> Vec<Operation> {
    vec![
        Operation {
            name: "patch, halted",
            who: &[Who::Command, Who::Started],
            most: 4,
            bench: || fleet(&[]),
            begin: |bench| remade(bench, ONE),
            command: |bench| apply(bench, &[]),
            after: |bench| recovered(bench, ONE),
            end: |bench| removed(bench, ONE),
        },
        Operation {
            name: "patch, running",
            who: &[Who::Command],
            most: 4,
            bench: || fleet(&[]),
            begin: |bench| {
                remade(bench, ONE);
                bench.host.boot("web1");
            },
            command: |bench| apply(bench, &["--activate=next"]),
            after: |bench| recovered(bench, ONE),
            end: |bench| removed(bench, ONE),
        },
        Operation {
            name: "patch, shared",
            who: &[Who::Command],
            most: 4,
            bench: || fleet(&[]),
            begin: |bench| remade(bench, ALL),
            command: |bench| apply(bench, &[]),
            after: |bench| recovered(bench, ALL),
            end: |bench| removed(bench, ALL),
        },
        Operation {
            name: "patch, shared, running",
            who: &[Who::Command],
            most: 4,
            bench: || fleet(&[]),
            begin: |bench| {
                remade(bench, ALL);
                for zone in ALL {
                    bench.host.boot(zone);
                }
            },
            command: |bench| apply(bench, &["--activate=next"]),
            after: |bench| recovered(bench, ALL),
            end: |bench| removed(bench, ALL),
        },
    ]
}
