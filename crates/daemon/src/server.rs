//! Serving an active zone to its end.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use limits::{Base, Changed};
use model::controls::Controls;
use model::{State, ZoneName};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use rustix::time::Timespec;
use store::Root;
use store::lock::{self, Wait, ZoneLock};
use store::runtime::Runtime;

use crate::beadm::Requests;
use crate::console::Console;
use crate::outgoing_guest::Leaving;
use crate::pager::Paging;
use crate::rctl::Rctls;
use crate::stall::Stall;
use crate::suspend;
use control::log;
use control::protocol::{MAX_PACKET, Reply, Request};
use host::Host;
use host::flatten;
use host::init_ready::is_ready_for;
use host::unix_socket::{self, Kind};
use platform::Platform;
use platform::plan::guest::made_ready;
use platform::proc::{self, Follower};
use subject::freeze;
use subject::network::Records;

/// Maximum length of QEMU's last text that is logged with its end, in bytes.
const MAX_LAST_TEXT_BYTES: usize = 300;

/// Interval between attempts to tear down an ended zone while a command holds its lock.
const TEARDOWN_RETRY_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Timeout for a new connection to send its request: short, but enough on a host that is very busy.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which zoneadmd checks that init is ready for the order to shut down.
const INIT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Interval at which zoneadmd presses the power button of a machine until it ends: its firmware
/// and a kernel that starts do not see it.
const POWER_BUTTON_INTERVAL: Duration = Duration::from_secs(10);

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

/// The action after the zone's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Halted,
    Reboot,
}

/// Makes the socket of a zone's zoneadmd; one that a dead zoneadmd left is replaced.
pub(super) fn listen(root: &Root, zone: &ZoneName) -> Result<OwnedFd, String> {
    let path = root.socket(zone);
    std::fs::create_dir_all(root.run())
        .and_then(|()| unix_socket::listen_at(&path, Kind::Packets))
        .map_err(|error| format!("could not listen on {}: {error}", path.display()))
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
        // What a client types must never make zoneadmd wait for the zone.
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
            suspend::correct_clock(&self.host.root, self.zone, &agent);
        }
    }

    /// Starts the reader of a zone that is shown its limits.
    pub(super) fn follow(&mut self) {
        let Platform { cgroups, init, .. } = &self.platform;
        let (root, owner) = (&self.host.root, self.runtime.first_id);
        self.follower = Follower::start(root, self.zone, cgroups, init, owner);
    }

    /// Serves until the zone is down.
    pub(super) fn serve(mut self) -> Result<(), String> {
        self.rctls = Some(Rctls::new(&self.platform.cgroups));
        // From here on it mostly waits; that it keeps more than it needs is no error.
        let _ = sys::memory::release_program_pages();
        let mut ended = None;
        loop {
            let [
                from_zone,
                from_client,
                asked,
                gone,
                hit,
                told,
                complains,
                paged,
                wanted,
                moved,
                unread,
            ] = self.wait(ended.is_some())?;
            if paged {
                // What it says is in the log; the zone ends if it must.
                let _ = self.hear_pager();
            }
            if let Some(follower) = self.follower.as_mut().filter(|_| ended.is_none()) {
                follower.mind(unread);
            }
            if let Some(requests) = &mut self.requests {
                requests.go_on(self.host, self.zone, wanted);
            }
            if told {
                self.hear_machine();
            }
            if ended.is_none() {
                self.mind_room();
            }
            if complains {
                self.log_complaint();
            }
            if let Some(rctls) = &mut self.rctls {
                if hit {
                    rctls.wake();
                }
                let hits = rctls.hits();
                self.tell(&hits);
            }
            if from_zone {
                self.show_output();
            }
            if from_client {
                self.console.take_client_input(&self.platform.console);
            }
            if asked && self.answer_one() {
                return Ok(());
            }
            if ended.is_none() {
                self.insist();
            }
            if self.leaving.is_some() && self.go_on_leaving(moved) {
                return Ok(());
            }
            if gone && ended.is_none() {
                // It may be the one who ended the machine, and is about to say why.
                if self.paging.as_ref().is_some_and(Paging::ends_soon) {
                    let _ = self.hear_pager();
                }
                ended = Some(self.how_it_ended());
                // Who moves it holds the lock.
                self.stop_leaving("it has ended");
            }
            if let Some(end) = ended {
                self.waiting.retain(is_there);
                let held = lock::zone(&self.host.root, self.zone, Wait::No);
                // A command that holds the lock and does not wait for us will ask
                // itself if it cares.
                if held.is_ok() || !self.waiting.is_empty() {
                    return self.finish(end, held.ok());
                }
            }
        }
    }

    /// Waits for something to happen; says what did.
    fn wait(&self, ended: bool) -> Result<[bool; 11], String> {
        let client = self.console.client();
        let limit = self.rctls.as_ref().and_then(Rctls::descriptor);
        // Descriptors that do not matter now are replaced by one that never speaks.
        let idle = self.listener.as_fd();
        let machine = self.platform.machine.as_ref();
        let monitor = machine.and_then(|machine| machine.monitor.as_ref());
        let monitor = monitor.map(AsFd::as_fd);
        let complaints = machine.map(|machine| machine.complaints.as_fd());
        let pager = self.paging.as_ref().map(AsFd::as_fd);
        let requests = self.requests.as_ref().filter(|_| !ended);
        let (request, events, pause) =
            requests.map_or((idle, PollFlags::empty(), None), Requests::watched);
        let leaving = self.leaving.as_ref().filter(|_| !ended);
        let mover = leaving.map(|leaving| leaving.client().as_fd());
        let follower = self.follower.as_ref().filter(|_| !ended);
        let reader = follower.and_then(Follower::descriptor);
        let mut watched = [
            PollFd::from_borrowed_fd(self.platform.console.as_fd(), reading(!self.silent)),
            PollFd::from_borrowed_fd(
                client.unwrap_or(idle),
                if client.is_some() {
                    PollFlags::IN
                } else {
                    PollFlags::empty()
                },
            ),
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::from_borrowed_fd(
                if ended {
                    idle
                } else {
                    self.platform.init.pidfd.as_fd()
                },
                if ended {
                    PollFlags::empty()
                } else {
                    PollFlags::IN
                },
            ),
            PollFd::from_borrowed_fd(
                limit.unwrap_or(idle),
                if limit.is_some() {
                    PollFlags::IN
                } else {
                    PollFlags::empty()
                },
            ),
            PollFd::from_borrowed_fd(monitor.unwrap_or(idle), reading(monitor.is_some())),
            PollFd::from_borrowed_fd(complaints.unwrap_or(idle), reading(complaints.is_some())),
            PollFd::from_borrowed_fd(pager.unwrap_or(idle), reading(pager.is_some())),
            PollFd::from_borrowed_fd(request, events),
            PollFd::from_borrowed_fd(mover.unwrap_or(idle), reading(mover.is_some())),
            PollFd::from_borrowed_fd(reader.unwrap_or(idle), reading(reader.is_some())),
        ];
        let patience = self.rctls.as_ref().and_then(Rctls::patience);
        let room = self.stall.patience();
        let restart = follower.and_then(Follower::due_in);
        let pause = pause
            .into_iter()
            .chain(restart)
            .chain(self.order_pause())
            .chain(leaving.and_then(Leaving::pause));
        let patience = patience.into_iter().chain(pause).chain(room).min();
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let patience = if ended {
            Some(TEARDOWN_RETRY_INTERVAL)
        } else {
            patience
        };
        match poll(&mut watched, patience.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok([false; 11]),
            Err(errno) => return Err(format!("could not wait: {errno}")),
        }
        let spoke = |i: usize, really: bool| really && !watched[i].revents().is_empty();
        Ok([
            spoke(0, !self.silent),
            spoke(1, client.is_some()),
            spoke(2, true),
            spoke(3, !ended),
            spoke(4, limit.is_some()),
            spoke(5, monitor.is_some()),
            spoke(6, complaints.is_some()),
            spoke(7, pager.is_some()),
            spoke(8, !events.is_empty()),
            spoke(9, mover.is_some()),
            spoke(10, reader.is_some()),
        ])
    }

    /// Logs the limits that the zone ran into.
    fn tell(&self, hits: &[limits::Hit]) {
        for hit in hits {
            self.log(&hit.to_string());
        }
    }

    /// Returns the time until the order to shut down is tried again, while a command waits for it.
    fn order_pause(&self) -> Option<Duration> {
        if self.waiting.is_empty() {
            return None;
        }
        let pressed = self
            .pressed
            .map(|at| POWER_BUTTON_INTERVAL.saturating_sub(at.elapsed()));
        self.untold.then_some(INIT_POLL_INTERVAL).or(pressed)
    }

    /// Gives the order to shut down if it could not be given before, or may have been lost.
    fn insist(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if self.untold {
            self.tell_init();
        }
        if self
            .pressed
            .is_some_and(|at| at.elapsed() >= POWER_BUTTON_INTERVAL)
        {
            self.pressed = Some(Instant::now());
            // The command that waits heard of an error the first time.
            let _ = self.press_power_button();
        }
    }

    /// Tells init to shut down, once it is ready for that.
    fn tell_init(&mut self) {
        let (init, signal) = (&self.platform.init, self.runtime.shutdown_signal);
        // Ours blocks its orders from the beginning.
        if !self.has_zinit && !is_ready_for(init.pid, signal) {
            return;
        }
        self.untold = false;
        if let Err(error) = sys::process::send_signal(init.pidfd.as_fd(), signal) {
            self.answer_waiting(&Err(format!("could not signal init: {error}")));
        }
    }

    pub(super) const fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// Takes one connection, and what it asks for; one that asks for nothing known is answered.
    pub(super) fn hear_one(&self) -> Option<(OwnedFd, Request)> {
        let client = accept_with(&self.listener, SocketFlags::CLOEXEC).ok()?;
        let _ = rustix::net::sockopt::set_socket_timeout(
            &client,
            rustix::net::sockopt::Timeout::Recv,
            Some(REQUEST_TIMEOUT),
        );
        let mut packet = vec![0; MAX_PACKET];
        let (length, _) = recv(&client, packet.as_mut_slice(), RecvFlags::empty()).ok()?;
        match serde_json::from_slice(&packet[..length]) {
            Ok(request) => Some((client, request)),
            Err(error) => {
                reply(&client, &Reply::Error(format!("not a request: {error}")));
                None
            }
        }
    }

    /// Answers one connection; true when the zone is down and we are done.
    fn answer_one(&mut self) -> bool {
        let Some((client, request)) = self.hear_one() else {
            return false;
        };
        match request {
            Request::Boot(init) => {
                let booted = self.boot(&init);
                let failed = booted.is_err();
                reply(&client, &done_or(booted));
                return failed;
            }
            Request::Halt => {
                let down = self.take_down(End::Halted);
                reply(&client, &done_or(down.clone()));
                self.answer_waiting(&down);
                return down.is_ok();
            }
            Request::Suspend(order) => {
                let down = self
                    .suspend(&order)
                    .and_then(|()| self.take_down(End::Halted));
                reply(&client, &done_or(down.clone()));
                if down.is_ok() {
                    self.answer_waiting(&down);
                    return true;
                }
            }
            Request::Leave(order) => self.begin_leaving(client, &order),
            Request::GoOn => {
                let runs = self.refuse_away().and_then(|()| self.run_on());
                reply(&client, &done_or(runs));
            }
            Request::Savecore(path) => reply(&client, &done_or(self.save_core(&path))),
            Request::Shutdown if self.platform.machine.is_some() => {
                match self.press_power_button() {
                    Ok(()) => {
                        self.pressed = Some(Instant::now());
                        self.waiting.push(client);
                    }
                    Err(error) => reply(&client, &Reply::Error(error)),
                }
            }
            Request::Shutdown => {
                self.waiting.push(client);
                self.untold = true;
                self.tell_init();
            }
            Request::Cancel { shutdown } => {
                let cuts = shutdown && !self.waiting.is_empty();
                if cuts {
                    self.untold = false;
                    self.pressed = None;
                    self.answer_waiting(&Err("another command halts the zone".to_owned()));
                }
                let nothing = || "nothing is waited for".to_owned();
                reply(&client, &done_or(cuts.then_some(()).ok_or_else(nothing)));
            }
            Request::Controls(new) => reply(
                &client,
                &match self.change_controls(&new) {
                    Ok(changed) => Reply::Changed(changed),
                    Err(error) => Reply::Error(error),
                },
            ),
            Request::Freeze => self.stand_still(&client),
            Request::Console => {
                // One that has just gone was not noticed yet.
                self.console.forget_gone_client();
                let pid = rustix::net::sockopt::socket_peercred(&client)
                    .map_or(0, |peer| peer.pid.as_raw_nonzero().get());
                match self.console.admit(client, pid) {
                    Ok(()) => {
                        if let Some(client) = self.console.client() {
                            reply(&client, &Reply::Done);
                        }
                    }
                    Err((client, pid)) => reply(
                        &client,
                        &Reply::Error(format!("Console is already in use by process ID {pid}.")),
                    ),
                }
            }
        }
        false
    }

    /// Keeps the zone frozen while somebody holds the other end. Nothing happens in
    /// the zone meanwhile, so there is nothing else to do here.
    fn stand_still(&self, client: &OwnedFd) {
        let frozen = freeze::stop(&self.platform.cgroups);
        let holds = frozen.is_ok();
        reply(client, &done_or(frozen.map_err(|error| flatten(&error))));
        while holds && is_there(client) {
            let mut watched = [PollFd::new(client, PollFlags::empty())];
            // Only its end wakes this.
            let _ = poll(&mut watched, None);
        }
        if let Err(error) = self.platform.cgroups.freeze(false) {
            self.log(&format!(
                "could not let the zone go on: {}",
                flatten(&error)
            ));
        }
    }

    fn boot(&mut self, init: &model::plan::Init) -> Result<(), String> {
        if self.runtime.state != State::Ready {
            return Err("zone is already booted".to_owned());
        }
        self.console
            .booting(&init.arguments.get(1..).unwrap_or_default().join(" "));
        let made = self.made.take().map(|made| made_ready(&made, init));
        let init = made.as_ref().unwrap_or(init);
        if let Err(error) = self.platform.start(init) {
            let error = flatten(&error);
            self.console.notice("Zone boot failed");
            return Err(match self.take_down(End::Halted) {
                Ok(()) => error,
                Err(also) => format!("{error}; {also}"),
            });
        }
        self.has_zinit = init.path.is_none();
        self.runtime.state = State::Running;
        self.runtime.environment.clone_from(&init.environment);
        self.save()?;
        self.log("booted");
        Ok(())
    }

    /// Gives the zone other resource controls, all or none.
    fn change_controls(&mut self, new: &Controls) -> Result<Changed, String> {
        let base = Base::find(&self.host.cgroup).map_err(|error| flatten(&error))?;
        let old = self.runtime.controls.clone();
        let init = &self.platform.init;
        let first = limits::First {
            pid: init.pid,
            pidfd: init.pidfd.as_fd(),
            owner: self.runtime.first_id,
        };
        let groups = &mut self.platform.cgroups;
        let changed = limits::change_zone(groups, &base, first, &old, new);
        self.runtime.cgroups = groups.paths();
        if changed.is_ok() {
            self.runtime.controls.clone_from(new);
            if let Some(rctls) = &mut self.rctls {
                rctls.review();
            }
            self.review_limit_files(new);
        }
        let saved = self.save();
        match &changed {
            Ok(changed) => {
                match new.is_empty() {
                    true => self.log("has no resource controls now"),
                    false => self.log(&format!("controls changed: {new}")),
                }
                for remark in changed.remarks() {
                    self.log(&format!("WARNING: {remark}"));
                }
            }
            Err(error) => self.log(&format!("controls not changed: {}", flatten(error))),
        }
        let changed = changed.map_err(|error| flatten(&error))?;
        saved.map(|()| changed)
    }

    /// Shows the zone limits of a kind that it had not before.
    fn review_limit_files(&mut self, controls: &Controls) {
        if self.platform.machine.is_some() {
            return;
        }
        let Platform { cgroups, init, .. } = &self.platform;
        let (root, owner) = (&self.host.root, self.runtime.first_id);
        let follower = &mut self.follower;
        let reviewed = proc::review(follower, root, self.zone, cgroups, init, owner, controls);
        if let Err(error) = reviewed {
            self.log(&format!(
                "WARNING: could not write the limits for the zone to read: {error}"
            ));
        }
    }

    /// The zone's init has ended: by itself, or by what it asked the kernel for. Logs which.
    fn how_it_ended(&mut self) -> End {
        let status = waitid(
            WaitId::PidFd(self.platform.init.pidfd.as_fd()),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        );
        let status = status.ok().flatten();
        let signal = status.as_ref().and_then(|one| one.terminating_signal());
        let exit = status.as_ref().and_then(|one| one.exit_status());
        let how = |what: &str| match (signal, exit) {
            (Some(signal), _) => format!("{what} was killed by signal {signal}"),
            (_, Some(exit)) => format!("{what} exited with status {exit}"),
            // It was another zoneadmd's child.
            _ => format!("{what} ended, and only a parent is told how"),
        };
        if let Some(machine) = &mut self.platform.machine {
            machine.events();
            let complaint = machine.complaint();
            let (restarts, cause) = (machine.restarts, machine.end);
            let mut text = match (cause, signal) {
                (Some(cause), None) => cause.to_owned(),
                _ => how("QEMU"),
            };
            if !complaint.is_empty() {
                let complaint: String = complaint.chars().take(MAX_LAST_TEXT_BYTES).collect();
                text.push_str(&format!("; it said: {complaint}"));
            }
            self.log(&format!("ended: {text}"));
            return match restarts {
                true => End::Reboot,
                false => End::Halted,
            };
        }
        // reboot(2) in a pid namespace ends its init with SIGHUP for a restart and
        // with SIGINT for a power-off. Only a parent is told: an adopted zone halts. What
        // others can ask from Linux 6.15 on (PIDFD_INFO_EXIT) is 0 in both cases.
        let (end, text) = match signal {
            Some(signal) if signal == Signal::HUP.as_raw() => {
                (End::Reboot, "the zone rebooted itself".to_owned())
            }
            Some(signal) if signal == Signal::INT.as_raw() => {
                (End::Halted, "the zone powered itself off".to_owned())
            }
            _ => (End::Halted, how("init")),
        };
        self.log(&format!("ended: {text}"));
        end
    }

    /// The zone ended by itself: cleans up, answers who waits, boots again if wanted.
    pub(super) fn finish(mut self, end: End, held: Option<ZoneLock>) -> Result<(), String> {
        // Whoever holds the lock instead of us wants the zone to end.
        let again = held.filter(|_| end == End::Reboot && self.waiting.is_empty());
        let Some(held) = again else {
            let down = self.take_down(End::Halted);
            self.answer_waiting(&down);
            return down;
        };
        self.take_down(End::Reboot)?;
        self.boot_again(&held)
    }

    /// Forgets the zone: from here on it is halted for everybody.
    pub(super) fn forget(&self) -> Result<(), String> {
        store::runtime::forget(&self.host.root, self.zone).map_err(|error| flatten(&error))
    }

    /// Lets go of the root of a zone that was taken down.
    pub(super) fn forget_root(&mut self) {
        self.root = None;
    }

    pub(super) fn answer_waiting(&mut self, down: &Result<(), String>) {
        for waiting in self.waiting.drain(..) {
            reply(&waiting, &done_or(down.clone()));
        }
    }

    pub(super) fn take_down(&mut self, end: End) -> Result<(), String> {
        if let Some(rctls) = self.rctls.take() {
            self.tell(&rctls.last_hits());
        }
        // They have nothing to do for a machine that ends.
        self.paging = None;
        self.leaving = None;
        if let Some(mut follower) = self.follower.take() {
            follower.end();
        }
        self.runtime.state = State::ShuttingDown;
        // A zone ends also where nothing can be written. Without this record the zone is listed
        // as running until its first process is gone.
        if let Err(error) = self.save() {
            self.log(&format!("WARNING: halts without a record of it: {error}"));
        }
        self.root = self.platform.hold_root();
        let fault = self.host.fault.clone().strikes("halt");
        let down = if fault {
            Err("a fault was asked for".to_owned())
        } else {
            let down = self.platform.take_down().map_err(|error| flatten(&error));
            down.and_then(|()| Records::of(&self.host.root).release(self.zone))
        };
        // Said before the zone is forgotten: then it is halted for everybody, and
        // nothing that takes time may come between that and the end of the lock.
        let result = down.and_then(|()| {
            self.console.notice("Zone halted");
            self.log("halted");
            if end == End::Reboot {
                self.console.notice("Zone rebooting");
                self.log("reboots");
                // Until it boots it is shutting down.
                return Ok(());
            }
            self.forget()
        });
        if let Err(error) = &result {
            self.log(&format!("could not halt: {error}"));
        }
        result
    }

    pub(super) fn save(&self) -> Result<(), String> {
        store::runtime::save(&self.host.root, self.zone, &self.runtime)
            .map_err(|error| flatten(&error))
    }

    pub(super) fn log(&self, text: &str) {
        log::message(&self.host.root, self.zone, text);
    }
}

const fn reading(really: bool) -> PollFlags {
    match really {
        true => PollFlags::IN,
        false => PollFlags::empty(),
    }
}

fn done_or(result: Result<(), String>) -> Reply {
    result.map_or_else(Reply::Error, |()| Reply::Done)
}

/// Returns whether somebody still waits at the other end.
pub(super) fn is_there(client: &OwnedFd) -> bool {
    let mut watched = [PollFd::new(client, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut watched, Some(&now)), Ok(0))
}

pub(super) fn reply(client: &impl AsFd, reply: &Reply) {
    // A reply is plain data: it always has a JSON form.
    let packet = serde_json::to_vec(reply).unwrap_or_default();
    // Whoever asked may be gone.
    let _ = send(client, &packet, SendFlags::NOSIGNAL);
}
