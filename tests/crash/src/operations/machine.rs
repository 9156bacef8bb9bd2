//! Suspend and resume of a kernel zone.

use std::fs;

use e2e::guest::BOOT_ID;
use e2e::{Host, machine, wait_for};

use super::operation::Operation;
use super::zones::goes_on;
use crate::bench::Bench;
use crate::strike::Who;

/// Prints the data that the guest keeps in memory and on disk: the boot id, a mark in /run, and a
/// mark on its disk.
const LOOK: &str = "cat /run/boot /run/mark /var/mark";

fn said(host: &Host, script: &str) -> String {
    let ran = wait_for("answer of the guest", || {
        let ran = host.zlogin(&["web", script]);
        (ran.code() == Some(0)).then_some(ran)
    });
    ran.text().to_owned()
}

/// Returns a running kernel zone `web` whose guest has stored its boot id.
fn guest() -> Option<Bench> {
    let bench = Bench::new()?;
    let host = &bench.host;
    let guest = machine::guest(host)?;
    machine::configure(host, "web", "");
    machine::install(host, "web", &guest);
    boots(host);
    Some(bench)
}

/// Boots the guest, and stores its boot id in its memory and on its disk.
fn boots(host: &Host) {
    machine::boot(host, "web");
    let boot = said(host, BOOT_ID);
    let mark = format!("echo {boot} >/run/boot; echo kept >/run/mark; echo kept >/var/mark; sync");
    let _ = host.zlogin(&["web", &mark]).ok();
    fs::write(host.path(BOOTED), boot).expect("a file");
}

/// The file with the id of the guest's only boot.
const BOOTED: &str = "/trace-boot";

fn image(host: &Host) -> bool {
    host.path("/zones/web/suspend").exists()
}

fn is_suspended(host: &Host) -> bool {
    host.state("web") == "installed" && machine::auxiliary(host, "web") == "suspended"
}

/// Expects that the guest runs, and was not booted again.
#[track_caller]
fn kept(host: &Host) {
    let first = fs::read_to_string(host.path(BOOTED)).expect("the id of the boot");
    assert_eq!(
        said(host, BOOT_ID),
        first.trim(),
        "the guest was booted again"
    );
    assert_eq!(said(host, LOOK), format!("{}\nkept\nkept", first.trim()));
    assert_eq!(host.state("web"), "running");
    assert!(!image(host), "an image beside a guest that runs");
}

/// Waits until no process restores memory any more.
fn is_whole(host: &Host) {
    wait_for("all memory of the guest", || {
        let known = fs::read_to_string(host.path("run/zones/web.state")).ok()?;
        known
            .contains("\"pager\":null")
            .then_some(())
            .or_else(|| (!known.contains("\"pager\"")).then_some(()))
    });
}

/// Starts the zone, as the administrator's next command does.
#[track_caller]
fn resumes(host: &Host) {
    goes_on(host, "web", &["boot"]);
    kept(host);
    is_whole(host);
}

#[track_caller]
fn suspends(host: &Host) {
    goes_on(host, "web", &["suspend"]);
    assert!(is_suspended(host), "{}", host.state("web"));
}

/// Expects that the zone runs or is suspended after a kill. If QEMU itself was killed, the zone is
/// booted again.
#[track_caller]
fn stands(bench: &Bench) -> String {
    let host = &bench.host;
    let lost_memory = bench.lost_memory.take();
    let state = wait_for("a state that stays", || {
        let state = host.state("web");
        let passes = ["shutting_down", "down", "ready"].contains(&state.as_str())
            || lost_memory && state == "running";
        (!passes).then_some(state)
    });
    let states = ["running", "installed"];
    assert!(states.contains(&state.as_str()), "zone web is {state}");
    if lost_memory && state == "installed" && !is_suspended(host) {
        boots(host);
        return "running".to_owned();
    }
    if state == "installed" {
        assert!(is_suspended(host), "the memory of the guest is lost");
    }
    state
}

pub(super) fn all() -> Vec<Operation> {
    vec![
        Operation {
            name: "suspend",
            who: &[Who::Command, Who::Running],
            most: 12,
            bench: guest,
            begin: |_| {},
            command: |bench| bench.zoneadm(&["suspend"]),
            after: |bench| {
                let host = &bench.host;
                if stands(bench) == "running" {
                    suspends(host);
                }
                resumes(host);
            },
            end: |_| {},
        },
        Operation {
            name: "resume",
            who: &[Who::Command, Who::Started],
            most: 12,
            bench: guest,
            begin: |bench| suspends(&bench.host),
            command: |bench| bench.zoneadm(&["boot"]),
            after: |bench| {
                stands(bench);
                resumes(&bench.host);
            },
            end: |_| {},
        },
    ]
}
