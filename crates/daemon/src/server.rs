//! Serves an active zone to its end.

mod answer;
mod assembly;
mod end;
mod firewall;
mod leave;
mod order;
mod room;
mod serve;
mod suspend;
mod wait;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use model::{State, ZoneName};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use store::Root;
use store::runtime::Runtime;

use crate::beadm::Requests;
use crate::console::Console;
use crate::error::Error;
use crate::outgoing_guest::Leaving;
use crate::pager::Paging;
use crate::rctl::Rctls;
use crate::stall::Stall;
use control::log;
use host::Host;
use host::unix_socket::{self, Kind};
use net::watch::Watch;
use platform::Platform;
use platform::proc::Follower;
use subject::network::Records;

pub(super) use end::End;

/// The state of a zoneadmd that serves a zone.
#[derive(Debug)]
pub(super) struct Server<'a> {
    pub(super) host: &'a Host,
    pub(super) zone: &'a ZoneName,
    listener: OwnedFd,
    pub(super) console: Console,
    pub(super) platform: Platform,
    pub(super) runtime: Runtime,
    rctls: Option<Rctls>,
    /// The process that updates the files in which the zone sees its limits.
    pub(super) follower: Option<Follower>,
    /// Keeps the zone's root open until all waiting commands have been answered.
    root: Option<OwnedFd>,
    /// True after the end of the console's output.
    pub(super) silent: bool,
    /// The number of QEMU messages that were logged.
    pub(super) complaints: u32,
    /// The path of the socket to the agent in a guest that was resumed or migrated here.
    pub(super) resumed: Option<PathBuf>,
    /// The state of a guest that is paused because its disks have no space.
    pub(super) stall: Stall,
    /// The pager that is still restoring memory.
    pub(super) paging: Option<Paging>,
    /// The numbers of the memory chunks that the guest used first when it was resumed.
    pub(super) hot: Vec<u64>,
    /// The migration to another host, while it is in progress.
    pub(super) leaving: Option<Leaving>,
    /// The init with which a kernel zone in state ready will be started.
    pub(super) made: Option<model::plan::Init>,
    /// The handler of the zone's requests about its boot environments.
    requests: Option<Requests>,
    /// The watch over the host's firewall, if the firewall has rules of the zone.
    firewall: Option<Watch>,
    /// The process of the resolver of zones, while it runs.
    resolver: Option<OwnedFd>,
    /// The lock of the zone's root, which shows that the root may be mounted; it is released last.
    _root_lock: File,
    /// Connections of the commands that wait for the end of the zone.
    waiting: Vec<OwnedFd>,
    /// True while init must still be told to shut down, because init was not ready for the order.
    untold: bool,
    /// True when init is zinit.
    pub(super) has_zinit: bool,
    /// The last time at which zoneadmd pressed the power button of the guest.
    pressed: Option<Instant>,
    /// The time at which the zone was booted or adopted.
    pub(super) booted: Instant,
    /// Count of the reboots in quick succession that led to this boot.
    pub(super) reboots: u32,
}

/// Makes the socket on which a zone's zoneadmd listens; it replaces the socket of a dead zoneadmd.
pub(super) fn listen(root: &Root, zone: &ZoneName) -> Result<OwnedFd, Error> {
    let path = root.socket(zone);
    std::fs::create_dir_all(root.run())
        .and_then(|()| unix_socket::listen_at(&path, Kind::Packets))
        .map_err(|source| Error::Listen { path, source })
}

impl<'a> Server<'a> {
    pub(super) fn new(
        host: &'a Host,
        zone: &'a ZoneName,
        root_lock: File,
        listener: OwnedFd,
        console: Console,
        mut platform: Platform,
        runtime: Runtime,
    ) -> Self {
        let asked = platform.environments.take();
        let requests = asked.map(|socket| Requests::new(socket, runtime.first_id));
        // The console is non-blocking, because input of a client must never make zoneadmd wait for
        // the zone.
        if let Ok(flags) = fcntl_getfl(&platform.console) {
            let _ = fcntl_setfl(&platform.console, flags | OFlags::NONBLOCK);
        }
        Self {
            host,
            zone,
            listener,
            console,
            platform,
            runtime,
            rctls: None,
            follower: None,
            root: None,
            silent: false,
            complaints: 0,
            resumed: None,
            stall: Stall::default(),
            paging: None,
            hot: Vec::new(),
            leaving: None,
            made: None,
            requests,
            firewall: None,
            resolver: None,
            _root_lock: root_lock,
            waiting: Vec::new(),
            untold: false,
            has_zinit: false,
            pressed: None,
            booted: Instant::now(),
            reboots: 0,
        }
    }

    /// Returns the message for the command that booted the zone.
    pub(super) fn report(&self) -> String {
        let mut text = "ok".to_owned();
        for remark in &self.platform.remarks {
            text.push('\n');
            text.push_str(remark);
        }
        text
    }

    /// Does the work that can wait until the command that booted the zone has its answer.
    pub(super) fn settle(&mut self) {
        if let Err(error) = self.platform.go_home() {
            self.log(&format!(
                "could not go back to the namespaces of the host: {error}"
            ));
        }
        self.follow();
        let what = if self.runtime.state == State::Running {
            "booted"
        } else {
            "ready"
        };
        self.console.notice(&format!("Zone {what}"));
        self.log(&format!("{what}, id {}", self.runtime.id));
        for remark in std::mem::take(&mut self.platform.remarks) {
            self.log(&format!("WARNING: {remark}"));
        }
        self.assemble();
        if let Some(agent) = self.resumed.take() {
            // The guest runs only from this moment on, but its network links are older, so zoneadmd
            // announces its addresses again.
            Records::of(&self.host.root).announce_again(self.zone);
            crate::suspend::correct_clock(&self.host.root, self.zone, &agent);
        }
    }

    /// Starts the process that updates the files in which the zone sees its limits.
    pub(super) fn follow(&mut self) {
        let Platform { cgroups, init, .. } = &self.platform;
        let (root, owner) = (&self.host.root, self.runtime.first_id);
        self.follower = Follower::start(root, self.zone, cgroups, init, owner);
    }

    /// Logs the limits that the zone has reached.
    fn tell(&self, hits: &[limits::Hit]) {
        for hit in hits {
            self.log(&hit.to_string());
        }
    }

    pub(super) fn save(&self) -> Result<(), store::Error> {
        store::runtime::save(&self.host.root, self.zone, &self.runtime)
    }

    pub(super) fn log(&self, text: &str) {
        log::message(&self.host.root, self.zone, text);
    }
}
