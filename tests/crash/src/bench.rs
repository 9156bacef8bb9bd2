//! The hosts that an operation is tried on.

use std::cell::Cell;
use std::process::Command;

use e2e::Host;
use e2e::ssh::Server;

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
    pub(crate) fn new() -> Option<Self> {
        let host = Host::new()?;
        Some(Self {
            host,
            far: None,
            lost_memory: Cell::new(false),
        })
    }

    /// With an installed sparse zone `master` that has been cloned before.
    pub(crate) fn with_master() -> Option<Self> {
        let bench = Self::new()?;
        bench.host.install("master");
        first_clone(&bench.host);
        Some(bench)
    }

    /// [`Bench::with_master`], and a clone `web` of it.
    pub(crate) fn with_web() -> Option<Self> {
        let bench = Self::with_master()?;
        bench.host.clone_from("master", "web");
        Some(bench)
    }

    pub(crate) fn zoneadm(&self, words: &[&str]) -> Command {
        self.host
            .command("zoneadm", &[&["-z", "web"], words].concat())
    }
}

/// Clones `master` once, which seals its top, and removes the clone.
pub(crate) fn first_clone(host: &Host) {
    host.clone_from("master", "first");
    host.on("first", &["uninstall", "-F"]).quiet();
    host.zonecfg(&["-z", "first", "delete -F"]).quiet();
}
