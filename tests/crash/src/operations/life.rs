//! Boot, halt, reboot and shutdown.

use super::operation::Operation;
use super::zones::{again, goes_on, settled};
use crate::bench::Bench;
use crate::face;
use crate::strike::Who;

const ALIVE: &[&str] = &["installed", "running"];

/// Returns a zone with a link to the host, if `run` created a network for it.
fn networked() -> Option<Bench> {
    let bench = Bench::with_web()?;
    if face::links().iter().any(|name| name == "crash0") {
        let net = "set ip-type=exclusive; add anet; set lower-link=crash0; \
                   set allowed-address=10.99.0.2/24; end";
        bench.host.zonecfg(&["-z", "web", net]).quiet();
    }
    Some(bench)
}

/// Expects that the zone answers, with its own host name.
#[track_caller]
fn answers(bench: &Bench) {
    assert_eq!(settled(&bench.host, "web", &["running"]), "running");
    assert_eq!(bench.host.sh("web", "hostname"), "web");
}

#[track_caller]
fn boots(bench: &Bench) {
    settled(&bench.host, "web", ALIVE);
    goes_on(&bench.host, "web", &["boot"]);
    answers(bench);
}

#[track_caller]
fn halts(bench: &Bench) {
    settled(&bench.host, "web", ALIVE);
    goes_on(&bench.host, "web", &["halt"]);
    assert_eq!(settled(&bench.host, "web", &["installed"]), "installed");
}

fn halt(bench: &Bench) {
    let _ = again(&bench.host, "web", &["halt"]).ok();
}

fn boot(bench: &Bench) {
    bench.host.boot("web");
}

pub(super) fn all() -> Vec<Operation> {
    vec![
        Operation {
            name: "boot",
            who: &[Who::Command, Who::Started],
            most: 24,
            bench: networked,
            begin: |_| {},
            command: |bench| bench.zoneadm(&["boot"]),
            after: boots,
            end: halt,
        },
        Operation {
            name: "halt",
            who: &[Who::Command, Who::Running],
            most: 24,
            bench: networked,
            begin: boot,
            command: |bench| bench.zoneadm(&["halt"]),
            after: halts,
            end: |_| {},
        },
        Operation {
            name: "reboot",
            who: &[Who::Command, Who::Running],
            most: 24,
            bench: networked,
            begin: boot,
            command: |bench| bench.zoneadm(&["reboot"]),
            after: boots,
            end: halt,
        },
        Operation {
            name: "ready",
            who: &[Who::Command, Who::Started],
            most: 12,
            bench: networked,
            begin: |_| {},
            command: |bench| bench.zoneadm(&["ready"]),
            after: |bench| {
                settled(&bench.host, "web", &["installed", "ready", "running"]);
                goes_on(&bench.host, "web", &["boot"]);
                answers(bench);
            },
            end: halt,
        },
    ]
}
