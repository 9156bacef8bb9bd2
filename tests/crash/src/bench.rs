//! The test hosts on which an operation is tried.

use std::cell::Cell;
use std::process::Command;

use e2e::Host;
use e2e::ssh::Server;

/// The test hosts that an operation needs.
#[derive(Debug)]
pub struct Bench {
    /// The host whose zones are checked, and on which the command runs.
    pub host: Host,
    /// The second host of a migration, and the ssh server to reach it.
    pub far: Option<(Host, Server)>,
    /// True if the kill ended the QEMU of the kernel zone; strace traces QEMU, too.
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

    /// Returns a host with an installed sparse zone `master` that was cloned before.
    pub(crate) fn with_master() -> Option<Self> {
        let bench = Self::new()?;
        bench.host.install("master");
        first_clone(&bench.host);
        Some(bench)
    }

    /// As [`Bench::with_master`], with a clone `web` of it.
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

/// Clones `master` once, which seals its top layer, and removes the clone.
pub(crate) fn first_clone(host: &Host) {
    host.clone_from("master", "first");
    host.on("first", &["uninstall", "-F"]).quiet();
    host.zonecfg(&["-z", "first", "delete -F"]).quiet();
}
