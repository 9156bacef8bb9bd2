//! Handles the requests of commands to zoneadmd.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use limits::{Base, Changed};
use model::State;
use model::controls::Controls;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv};

use super::{End, Server};
use crate::connection::{done_or, is_there, reply};
use crate::error::Error;
use control::protocol::{MAX_PACKET, Reply, Request};
use host::flatten;
use platform::Platform;
use platform::plan::guest::made_ready;
use platform::proc;
use subject::freeze;

/// Timeout for a new connection to send its request: short, but enough on a very busy host.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

impl Server<'_> {
    pub(crate) const fn listener(&self) -> &OwnedFd {
        &self.listener
    }

    /// Accepts one connection and returns its request; an unknown request is answered with an
    /// error.
    pub(crate) fn hear_one(&self) -> Option<(OwnedFd, Request)> {
        let client = accept_with(&self.listener, SocketFlags::CLOEXEC).ok()?;
        let _ = set_socket_timeout(&client, Timeout::Recv, Some(REQUEST_TIMEOUT));
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

    /// Answers one connection. Returns true if the zone is down and zoneadmd can end.
    // This function is long because it is a table with one arm for each order.
    pub(super) fn answer_one(&mut self) -> bool {
        let Some((client, request)) = self.hear_one() else {
            return false;
        };
        match request {
            Request::Boot(init) => {
                let booted = self.boot(&init);
                let failed = booted.is_err();
                reply(&client, &done_or(&booted));
                return failed;
            }
            Request::Halt => {
                let down = self.take_down(End::Halted);
                reply(&client, &done_or(&down));
                self.answer_waiting(&down);
                return down.is_ok();
            }
            Request::Suspend(order) => {
                let saved = self.suspend(&order).map_err(Error::from);
                let down = saved.and_then(|()| self.take_down(End::Halted));
                reply(&client, &done_or(&down));
                if down.is_ok() {
                    self.answer_waiting(&down);
                    return true;
                }
            }
            Request::Leave(order) => self.begin_leaving(client, &order),
            Request::GoOn => {
                let runs = match self.refuse_away() {
                    Ok(()) => done_or(&self.run_on()),
                    refused => done_or(&refused),
                };
                reply(&client, &runs);
            }
            Request::Savecore(path) => reply(&client, &done_or(&self.save_core(&path))),
            Request::Shutdown if self.platform.machine.is_some() => {
                match self.press_power_button() {
                    Ok(()) => {
                        self.pressed = Some(Instant::now());
                        self.waiting.push(client);
                    }
                    refused => reply(&client, &done_or(&refused)),
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
                    self.answer_waiting(&Err(Error::HaltedByOther));
                }
                let done = cuts.then_some(()).ok_or(Error::NothingAwaited);
                reply(&client, &done_or(&done));
            }
            Request::Controls(new) => reply(
                &client,
                &match self.change_controls(&new) {
                    Ok(changed) => Reply::Changed(changed),
                    Err(error) => Reply::Error(flatten(&error)),
                },
            ),
            Request::Part(change) => reply(&client, &done_or(&self.change_part(&change))),
            Request::Snapshot(name) => {
                let answer = match self.snapshot(&name) {
                    Ok(taken) => Reply::Taken(taken),
                    Err(error) => Reply::Error(flatten(&error)),
                };
                reply(&client, &answer);
            }
            Request::MergeDisks => {
                let answer = match self.merge_disks() {
                    Ok(None) => Reply::Done,
                    Ok(Some((done, total))) => Reply::Merging(done, total),
                    Err(error) => Reply::Error(flatten(&error)),
                };
                reply(&client, &answer);
            }
            Request::StopMerge => {
                self.stop_merge();
                reply(&client, &Reply::Done);
            }
            Request::Freeze => self.stand_still(&client),
            Request::Trusted => match &self.platform.trusted {
                Some(space) => {
                    reply(&client, &Reply::Done);
                    // The client may have ended.
                    let _ = sys::passing::send(client.as_fd(), space.as_fd(), "trusted");
                }
                None => reply(&client, &done_or(&Err(Error::NoTrustedPath))),
            },
            Request::Console => {
                // zoneadmd may not have noticed yet that the former console client has
                // disconnected.
                self.console.forget_gone_client();
                let pid =
                    socket_peercred(&client).map_or(0, |peer| peer.pid.as_raw_nonzero().get());
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

    /// Keeps the zone frozen until the client closes the connection. A frozen zone needs no other
    /// service of zoneadmd during this time.
    pub(super) fn stand_still(&self, client: &OwnedFd) {
        let frozen = freeze::stop(&self.platform.cgroups);
        let holds = frozen.is_ok();
        reply(client, &done_or(&frozen));
        while holds && is_there(client) {
            let mut watched = [PollFd::new(client, PollFlags::empty())];
            // Without requested events, poll returns only when the client closes the connection.
            let _ = poll(&mut watched, None);
        }
        if let Err(error) = self.platform.cgroups.freeze(false) {
            self.log(&format!(
                "could not let the zone go on: {}",
                flatten(&error)
            ));
        }
    }

    pub(super) fn boot(&mut self, init: &model::plan::Init) -> Result<(), Error> {
        if self.runtime.state != State::Ready {
            return Err(Error::AlreadyBooted);
        }
        self.console
            .booting(&init.arguments.get(1..).unwrap_or_default().join(" "));
        let made = self.made.take().map(|made| made_ready(&made, init));
        let init = made.as_ref().unwrap_or(init);
        if let Err(error) = self.platform.start(init) {
            self.console.notice("Zone boot failed");
            let also = self.take_down(End::Halted).err();
            return Err(Error::from(error).with(also));
        }
        self.has_zinit = init.path.is_none();
        self.runtime.state = State::Running;
        self.runtime.environment.clone_from(&init.environment);
        self.save()?;
        self.log("booted");
        self.assemble();
        Ok(())
    }

    /// Changes the zone's resource controls, all or none.
    pub(super) fn change_controls(&mut self, new: &Controls) -> Result<Changed, Error> {
        let base = Base::find(&self.host.cgroup)?;
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
        let changed = changed?;
        saved?;
        Ok(changed)
    }

    /// Shows the zone new kinds of limits.
    pub(super) fn review_limit_files(&mut self, controls: &Controls) {
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
}
