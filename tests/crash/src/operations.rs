//! The operations that are cut off: what stands before each, the command, and what the
//! next command makes of the half of it.

mod life;
mod machine;
mod moving;
mod patched;
mod small;
mod storage;

use std::cell::Cell;
use std::process::Command;

use e2e::run::run;
use e2e::ssh::Server;
use e2e::{Host, Ran, wait_for};

use crate::strike::Who;

/// The hosts that an operation needs.
#[derive(Debug)]
pub struct Bench {
    /// The one whose zones are looked at, and whose command it is.
    pub host: Host,
    /// Another one, and the way to it.
    pub far: Option<(Host, Server)>,
    /// True if the machine of its kernel zone was killed, which strace follows, too.
    pub lost_memory: Cell<bool>,
}

impl Bench {
    fn new() -> Option<Self> {
        let host = Host::new()?;
        Some(Self {
            host,
            far: None,
            lost_memory: Cell::new(false),
        })
    }

    /// With an installed sparse zone `master` that has been cloned before.
    fn with_master() -> Option<Self> {
        let bench = Self::new()?;
        bench.host.install("master");
        small::first_clone(&bench.host);
        Some(bench)
    }

    /// [`Bench::with_master`], and a clone `web` of it.
    fn with_web() -> Option<Self> {
        let bench = Self::with_master()?;
        bench.host.clone_from("master", "web");
        Some(bench)
    }

    fn zoneadm(&self, words: &[&str]) -> Command {
        self.host
            .command("zoneadm", &[&["-z", "web"], words].concat())
    }
}

/// An operation on zone `web`.
pub struct Operation {
    /// As the table says it.
    pub name: &'static str,
    /// The processes that are killed in it, one enumeration each.
    pub who: &'static [Who],
    /// The most sites of one shape that are tried, see [`crate::calls::thinned`].
    pub most: usize,
    /// Makes what all runs of it share; nothing, said, where that cannot be.
    pub bench: fn() -> Option<Bench>,
    /// Makes what it begins with.
    pub begin: fn(&Bench),
    /// The command.
    pub command: fn(&Bench) -> Command,
    /// Looks at what a kill left, and goes on; panics at what must not be.
    pub after: fn(&Bench),
    /// Undoes what `begin`, the command and `after` made.
    pub end: fn(&Bench),
}

/// All of them, the quick ones first.
#[must_use]
pub fn all() -> Vec<Operation> {
    [
        storage::all(),
        life::all(),
        moving::all(),
        machine::all(),
        patched::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Gives a command again that a killed one may still be in the way of for a moment: what
/// that one started is left to end.
#[track_caller]
fn again(host: &Host, zone: &str, words: &[&str]) -> Ran {
    wait_for(
        &format!("end of what zoneadm -z {zone} {words:?} waits for"),
        || {
            let ran = host.on(zone, words);
            (!ran
                .err
                .contains("another zoneadm may have an operation in progress"))
            .then_some(ran)
        },
    )
}

/// [`again`] of a command that must succeed.
#[track_caller]
fn goes_on(host: &Host, zone: &str, words: &[&str]) {
    let ran = again(host, zone, words);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
}

/// Expects one of these states of a zone, once nobody works on it any more; returns it.
#[track_caller]
fn settled(host: &Host, zone: &str, states: &[&str]) -> String {
    let state = wait_for("a state that stays", || {
        let state = host.state(zone);
        let passes = ["shutting_down", "down"].contains(&state.as_str());
        (!passes).then_some(state)
    });
    assert!(states.contains(&state.as_str()), "zone {zone} is {state}");
    // The kernel has the state that the index says.
    if state == "running" {
        wait_for("one first process of the zone", || {
            (host.inits_of(zone).len() == 1).then_some(())
        });
    } else if state != "ready" {
        wait_for(&format!("end of the zone, which is {state}"), || {
            (host.inits_of(zone).is_empty() || host.state(zone) != state).then_some(())
        });
    }
    if ["installed", "running", "ready"].contains(&state.as_str()) {
        assert!(
            // Between two tops the next command takes the new one.
            host.top(zone).exists() || host.top(zone).with_file_name("root.new").exists(),
            "zone {zone} is {state} and has no root"
        );
    }
    host.state(zone)
}

/// Uninstalls an incomplete zone; a zone must be able to do that.
#[track_caller]
fn mend(host: &Host, zone: &str) {
    if host.state(zone) == "incomplete" {
        again(host, zone, &["uninstall", "-F"]).quiet();
    }
}

/// Uninstalls a zone wherever it stands.
#[track_caller]
fn remove(host: &Host, zone: &str) {
    if ["running", "ready", "shutting_down", "down"].contains(&host.state(zone).as_str()) {
        let _ = again(host, zone, &["halt"]).ok();
    }
    if host.state(zone) != "configured" {
        again(host, zone, &["uninstall", "-F"]).quiet();
    }
}

/// A file of a halted zone as the zone would see it.
#[track_caller]
fn content(host: &Host, zone: &str, path: &str) -> String {
    again(host, zone, &["mount"]).quiet();
    let at = host.path("/zones").join(zone).join("lu").join(path);
    let text = std::fs::read_to_string(at).unwrap_or_default();
    host.on(zone, &["unmount"]).quiet();
    text.trim_end().to_owned()
}

/// Uninstalls and deletes every zone of a host.
pub fn clear(host: &Host) {
    for row in host.rows() {
        if row.state == "mounted" {
            host.on(&row.name, &["unmount"]).quiet();
        }
        remove(host, &row.name);
        run(
            &mut host.command("zonecfg", &["-z", &row.name, "delete -F"]),
            b"",
        )
        .quiet();
    }
}
