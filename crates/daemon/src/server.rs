//! Serving an active zone to its end.

mod answer;
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

/// A zoneadmd at work.
#[derive(Debug)]
pub(super) struct Server<'a> {
    pub(super) host: &'a Host,
    pub(super) zone: &'a ZoneName,
    listener: OwnedFd,
    pub(super) console: Console,
    pub(super) platform: Platform,
    pub(super) runtime: Runtime,
    rctls: Option<Rctls>,
    /// Keeps the files true that show the zone its limits.
    pub(super) follower: Option<Follower>,
    /// Keeps the root open until everybody has been answered.
    root: Option<OwnedFd>,
    /// True when the console has come to its end.
    pub(super) silent: bool,
    /// The number of QEMU's messages.
    pub(super) complaints: u32,
    /// The channel to the agent in a guest that goes on after a suspend.
    pub(super) resumed: Option<PathBuf>,
    /// The space for the machine's writes.
    pub(super) stall: Stall,
    /// The pager that still brings memory in.
    pub(super) paging: Option<Paging>,
    /// The pieces of memory that the machine wanted first when it was resumed.
    pub(super) hot: Vec<u64>,
    /// The machine's way to another host, while it is on it.
    pub(super) leaving: Option<Leaving>,
    /// The init that a machine in state ready is started as.
    pub(super) made: Option<model::plan::Init>,
    /// The zone's requests about its boot environments.
    requests: Option<Requests>,
    /// Changes of the host's firewall, for a zone that has rules in it.
    firewall: Option<Watch>,
    /// Tells others that the root may be mounted; released last.
    _root_lock: File,
    /// Connections that are answered when the zone has ended.
    waiting: Vec<OwnedFd>,
    /// True while init is still to be told to shut down: it was not ready for the order.
    untold: bool,
    /// True when init is zinit.
    pub(super) has_zinit: bool,
    /// When the power button of the machine was pressed last.
    pressed: Option<Instant>,
    /// When the zone was booted, or adopted.
    pub(super) booted: Instant,
    /// Count of the reboots in quick succession that led to this boot.
    pub(super) reboots: u32,
}

/// Makes the socket of a zone's zoneadmd; one that a dead zoneadmd left is replaced.
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
        // Input of a client must never make zoneadmd wait for the zone.
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
        if let Some(agent) = self.resumed.take() {
            // It runs only since now, and its links are older.
            Records::of(&self.host.root).announce_again(self.zone);
            crate::suspend::correct_clock(&self.host.root, self.zone, &agent);
        }
    }

    /// Starts the reader of a zone that is shown its limits.
    pub(super) fn follow(&mut self) {
        let Platform { cgroups, init, .. } = &self.platform;
        let (root, owner) = (&self.host.root, self.runtime.first_id);
        self.follower = Follower::start(root, self.zone, cgroups, init, owner);
    }

    /// Logs the limits that the zone ran into.
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
