//! Detach, attach, import and migration of a zone.

use std::fs;
use std::process::Command;

use e2e::Host;
use e2e::ssh::{Server, state};

use super::operation::Operation;
use super::zones::{content, goes_on, mend, remove, settled};
use crate::bench::Bench;
use crate::strike::Who;

fn cloned(bench: &Bench) {
    bench.host.clone_from("master", "web");
    bench.host.put("web", "var/word", "one\n");
}

fn delete_web(bench: &Bench) {
    remove(&bench.host, "web");
    bench.host.zonecfg(&["-z", "web", "delete -F"]).quiet();
}

/// Attaches a zone whose detach or attach was killed.
#[track_caller]
fn attaches(bench: &Bench) {
    let state = settled(
        &bench.host,
        "web",
        &["configured", "installed", "incomplete"],
    );
    if state != "installed" {
        goes_on(&bench.host, "web", &["attach"]);
    }
    assert_eq!(content(&bench.host, "web", "var/word"), "one");
}

/// The file into which the zone was exported.
const EXPORTED: &str = "/web.tar.zst";

fn exported(bench: Bench) -> Bench {
    cloned(&bench);
    let file = bench.host.path(EXPORTED).display().to_string();
    let _ = bench.host.on("web", &["export", &file]).ok();
    delete_web(&bench);
    bench
}

fn import(bench: &Bench) -> Command {
    let file = bench.host.path(EXPORTED).display().to_string();
    bench.zoneadm(&["import", &file])
}

/// Imports the zone again if it does not exist.
fn imports(bench: &Bench) {
    let host = &bench.host;
    if state(host, "web") != "none" {
        settled(host, "web", &["configured", "incomplete", "installed"]);
        mend(host, "web");
    }
    if state(host, "web") != "installed" {
        let file = host.path(EXPORTED).display().to_string();
        goes_on(host, "web", &["import", &file]);
    }
    assert_eq!(content(host, "web", "var/word"), "one");
}

fn two_hosts() -> Option<Bench> {
    let mut bench = Bench::with_small()?;
    let far = Host::new()?;
    let server = Server::new(&far)?;
    // The other host's zoneadm is the wrapper.
    let session = far.path("ssh/session");
    let text = fs::read_to_string(&session).expect("the session");
    fs::write(session, text.replace("/front:", "/far:")).expect("the session");
    bench.far = Some((far, server));
    Some(bench)
}

fn far(bench: &Bench) -> (&Host, &Server) {
    let (host, server) = bench.far.as_ref().expect("another host");
    (host, server)
}

/// Expects that the zone is complete on one host, and that another migration brings it to the other
/// host.
#[track_caller]
fn arrives(bench: &Bench, ends: &str) {
    let (there, server) = far(bench);
    let here = || state(&bench.host, "web");
    let (had_gone, ran) = e2e::wait_for("end of what the migration waits for", || {
        // If the zone has left this host, the same command removes the rest of its zonepath.
        let has_gone = here() == "configured";
        let ran = server.migrate(&bench.host, "web", &[]);
        let busy = ["may have an operation in progress", "is under way"];
        (!busy.iter().any(|text| ran.err.contains(text))).then_some((has_gone, ran))
    });
    if !had_gone {
        assert_eq!(ran.code(), Some(0), "{ran:?}");
    }
    assert_eq!(here(), "configured");
    if ends == "any" && state(there, "web") == "installed" {
        // The kill interrupted the zone's boot. Only the next boot removes the remains.
        goes_on(there, "web", &["boot"]);
    }
    if state(there, "web") == "running" || ends == "running" {
        assert_eq!(state(there, "web"), "running");
        assert_eq!(there.sh("web", "cat /var/word"), "one");
        there.halt("web");
    }
    assert_eq!(state(there, "web"), "installed");
    assert_eq!(content(there, "web", "var/word"), "one");
}

fn both_without(bench: &Bench) {
    let (there, _) = far(bench);
    for host in [&bench.host, there] {
        if state(host, "web") != "none" {
            remove(host, "web");
            host.zonecfg(&["-z", "web", "delete -F"]).quiet();
        }
    }
}

pub(super) fn all() -> Vec<Operation> {
    vec![
        Operation {
            name: "detach",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: cloned,
            command: |bench| bench.zoneadm(&["detach"]),
            after: |bench| {
                let state = settled(
                    &bench.host,
                    "web",
                    &["configured", "installed", "incomplete"],
                );
                if state == "installed" {
                    goes_on(&bench.host, "web", &["detach"]);
                }
                attaches(bench);
            },
            end: delete_web,
        },
        Operation {
            name: "attach",
            who: &[Who::Command],
            most: usize::MAX,
            bench: Bench::with_master,
            begin: |bench| {
                cloned(bench);
                let _ = bench.host.on("web", &["detach"]).ok();
            },
            command: |bench| bench.zoneadm(&["attach"]),
            after: attaches,
            end: delete_web,
        },
        Operation {
            name: "import",
            who: &[Who::Command],
            most: usize::MAX,
            bench: || Some(exported(Bench::with_small()?)),
            begin: |_| {},
            command: import,
            after: imports,
            end: delete_web,
        },
        Operation {
            name: "import, sparse",
            who: &[Who::Command],
            most: 2,
            bench: || Some(exported(Bench::with_master()?)),
            begin: |_| {},
            command: import,
            after: imports,
            end: delete_web,
        },
        Operation {
            name: "migrate, halted",
            who: &[Who::Command, Who::Far],
            most: usize::MAX,
            bench: two_hosts,
            begin: cloned,
            command: |bench| {
                let (_, server) = far(bench);
                server.command(&bench.host, "web", &[])
            },
            after: |bench| arrives(bench, "installed"),
            end: both_without,
        },
        Operation {
            name: "migrate, running",
            who: &[Who::Command, Who::Far],
            most: usize::MAX,
            bench: two_hosts,
            begin: |bench| {
                cloned(bench);
                bench.host.boot("web");
            },
            command: |bench| {
                let (_, server) = far(bench);
                server.command(&bench.host, "web", &[])
            },
            after: |bench| arrives(bench, "any"),
            end: both_without,
        },
    ]
}
