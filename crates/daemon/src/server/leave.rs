//! zoneadmd's part in migrating a running guest to another host.
//!
//! The migrating process (`zoneadm migrate`) holds the connection, carries QEMU's data, and decides
//! when the next step begins. If the connection ends, the guest runs on here, unless it may already
//! run on the other host. A mark in the zonepath, which is written before that point, shows that
//! the guest may run on the other host.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use model::State;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use store::xml;
use vm::live::{self, Sending};
use vm::qmp::Monitor;

use super::{End, Server};
use crate::error::{AWAY, AwayError, LeaveError, MachineError};
use crate::outgoing_guest::{Leaving, Stage, channels, say};
use control::protocol::{Leave, Left, MAX_PACKET, Reply, Word};
use host::flatten;
use subject::away;

/// Maximum time for which the guest may be paused before all data is sent: the target has to write
/// a file to disk, and to confirm this.
const MAX_DOWNTIME: Duration = Duration::from_secs(120);

/// Maximum number of bytes of the guest's disks that may be left when the guest is paused: the
/// guest stays paused until they are sent.
const MAX_REMAINING_DISK_BYTES: u64 = 256 << 20;

impl Server<'_> {
    /// Begins to send the guest to another host, and keeps the connection of the migrating command.
    pub(super) fn begin_leaving(&mut self, client: OwnedFd, order: &Leave) {
        let (theirs, mut ours) = match self.may_leave(order).and_then(|()| channels(order)) {
            Ok(channels) => channels,
            Err(why) => return say(&client, &Reply::Error(flatten(&why))),
        };
        // The command gets its sockets first, because QEMU already talks to the target while
        // zoneadmd starts the mirrors.
        let packet = serde_json::to_vec(&Reply::Done).unwrap_or_default();
        let passed: Vec<_> = theirs.iter().map(AsFd::as_fd).collect();
        if sys::passing::send_all(client.as_fd(), &passed, &packet).is_err() {
            return;
        }
        drop(theirs);
        self.log("leaves for another host while it runs");
        self.call("migrating-out");
        self.leaving = Some(Leaving {
            client,
            zonepath: order.zonepath.clone(),
            disks: order.disks.iter().map(|disk| disk.name.clone()).collect(),
            memory: ours.pop(),
            downtime: Duration::from_millis(order.downtime),
            stage: Stage::Disks,
            told: Instant::now(),
        });
        let started = self.monitor().and_then(|monitor| {
            let mut all = order.disks.iter().zip(&ours);
            Ok(all.try_for_each(|(disk, far)| {
                live::mirror(monitor, &disk.name, far.as_fd(), disk.whole)
            })?)
        });
        if let Err(why) = started {
            // A QEMU that still waits for the target does not answer zoneadmd, so these sockets are
            // shut down.
            for end in &ours {
                let _ = shutdown(end, Shutdown::Both);
            }
            self.stop_leaving(&why.into());
        }
    }

    /// Fails if the guest may run on another host. The caller must then not let the guest run here.
    pub(crate) fn refuse_away(&self) -> Result<(), AwayError> {
        if self.platform.machine.is_none() {
            return Ok(());
        }
        let config = xml::load_running(&self.host.root, self.zone);
        let zonepath = config?.zonepath();
        match away::is_away(&self.host.root.path(&zonepath)) {
            true => Err(AwayError::Away),
            false => Ok(()),
        }
    }

    fn may_leave(&mut self, order: &Leave) -> Result<(), LeaveError> {
        self.refuse_away()?;
        if self.runtime.state != State::Running || self.leaving.is_some() {
            return Err(LeaveError::NotRunning);
        }
        if self.paging.is_some() {
            return Err(LeaveError::StillRestored);
        }
        self.refuse_changed()?;
        self.stop_merge();
        match order.disks.len() < sys::passing::MAX_DESCRIPTORS {
            true => Ok(()),
            false => Err(LeaveError::TooManyDisks),
        }
    }

    fn monitor(&mut self) -> Result<&mut Monitor, MachineError> {
        let machine = self.platform.machine.as_mut();
        let machine = machine.ok_or(MachineError::NotAMachine)?;
        machine.monitor.as_mut().ok_or(MachineError::Unresponsive)
    }

    /// Sets the auxiliary state that `zoneadm list -s` shows.
    fn call(&mut self, what: &str) {
        self.runtime.auxiliary = what.to_owned();
        if let Err(error) = self.save() {
            self.log(&flatten(&error));
        }
    }

    /// Does the next step of a migration to another host. `heard` is true if the migrating command
    /// has sent a message. Returns true if the guest has ended here and zoneadmd can end.
    pub(super) fn go_on_leaving(&mut self, heard: bool) -> bool {
        if heard && self.hear_mover() {
            return true;
        }
        if let Err(why) = self.watch_leaving() {
            self.stop_leaving(&why);
        }
        false
    }

    fn watch_leaving(&mut self) -> Result<(), LeaveError> {
        let Some(mut leaving) = self.leaving.take() else {
            return Ok(());
        };
        let done = self.watch(&mut leaving);
        self.leaving = Some(leaving);
        done
    }

    fn watch(&mut self, leaving: &mut Leaving) -> Result<(), LeaveError> {
        let monitor = self.monitor()?;
        match leaving.stage {
            Stage::Disks => {
                let mirrors = live::mirrors(monitor, leaving.disks.len())?;
                if !mirrors.same {
                    let (done, total) = (mirrors.done, mirrors.total);
                    leaving.sometimes(&Left::Disks { done, total });
                    return Ok(());
                }
                let memory = leaving.memory.take().ok_or(LeaveError::NoStream)?;
                live::send_memory(monitor, memory.as_fd(), leaving.downtime)?;
                leaving.stage = Stage::Memory;
            }
            Stage::Memory => match live::sending(monitor)? {
                Sending::Runs { left, sent, rounds } => {
                    leaving.sometimes(&Left::Memory { left, sent, rounds });
                }
                Sending::Stands => {
                    leaving.stage = Stage::Stands(Instant::now());
                    let mirrors = live::mirrors(monitor, leaving.disks.len())?;
                    // zoneadmd did not check the progress of the disks while the memory was sent.
                    if mirrors.total.saturating_sub(mirrors.done) > MAX_REMAINING_DISK_BYTES {
                        return Err(LeaveError::DisksTooFast);
                    }
                    live::end_mirrors(monitor, &leaving.disks)?;
                    leaving.tell(&Left::Stands);
                }
                Sending::Sent => return Err(LeaveError::DisksNotAwaited),
            },
            Stage::Stands(since) if since.elapsed() > MAX_DOWNTIME => {
                return Err(LeaveError::NoAnswer {
                    seconds: MAX_DOWNTIME.as_secs(),
                });
            }
            Stage::Stands(_) => {
                live::sending(monitor)?;
            }
            Stage::Sent => {}
        }
        Ok(())
    }

    /// Carries out an order of the migrating command. Returns true if the guest has ended here.
    fn hear_mover(&mut self) -> bool {
        let Some(leaving) = &self.leaving else {
            return false;
        };
        let mut packet = [0; MAX_PACKET];
        let length = match recv(&leaving.client, &mut packet, RecvFlags::DONTWAIT) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
            Err(_) | Ok((0, _)) => {
                self.lose_mover();
                return false;
            }
            Ok((length, _)) => length,
        };
        match (serde_json::from_slice(&packet[..length]), leaving.stage) {
            (Ok(Word::Go), Stage::Stands(since)) => {
                let monitor = self.monitor();
                let sent = monitor.and_then(|monitor| Ok(live::complete(monitor)?));
                match (sent, &mut self.leaving) {
                    (Ok(()), Some(leaving)) => {
                        leaving.stage = Stage::Sent;
                        leaving.tell(&Left::Sent);
                        let took = since.elapsed().as_secs_f64();
                        self.log(&format!("all was sent, {took:.3} s after it was stopped"));
                    }
                    (Err(why), _) => self.stop_leaving(&why.into()),
                    (Ok(()), None) => {}
                }
            }
            (Ok(Word::Gone), Stage::Sent) => {
                let client = self.leaving.take().map(|leaving| leaving.client);
                self.log("runs on another host");
                let down = self.take_down(End::Halted);
                if let Some(client) = client {
                    let left = match &down {
                        Ok(()) => Left::Done,
                        Err(error) => Left::Failed(flatten(error)),
                    };
                    say(&client, &left);
                }
                self.answer_waiting(&down);
                return down.is_ok();
            }
            (Ok(Word::Stay), _) => self.stop_leaving(&LeaveError::GivenUp),
            _ => self.lose_mover(),
        }
        false
    }

    /// Handles the end of the migrating process.
    fn lose_mover(&mut self) {
        let sent = self.leaving.as_ref().filter(|one| one.stage == Stage::Sent);
        // The mark in the zonepath is written before the other host may let the guest run.
        if !sent.is_some_and(|leaving| away::is_away(&leaving.zonepath)) {
            return self.stop_leaving(&LeaveError::CommandEnded);
        }
        self.leaving = None;
        self.log(AWAY);
        self.console.notice("Zone may be on another host");
    }

    /// Cancels the migration, lets the guest run on here, and tells the command and the log why.
    pub(super) fn stop_leaving(&mut self, why: &LeaveError) {
        let Some(leaving) = self.leaving.take() else {
            return;
        };
        // zoneadmd closes its sockets first, so that QEMU does not wait for the target.
        let Leaving { client, memory, .. } = leaving;
        drop(memory);
        let why = flatten(why);
        let why = match self.run_on() {
            Ok(()) => format!("{why}; the zone runs on"),
            Err(also) => format!(
                "{why}; and the zone is stopped: {}; halt it",
                flatten(&also)
            ),
        };
        self.log(&format!("did not leave: {why}"));
        say(&client, &Left::Failed(why));
    }

    /// Lets a guest run that is paused in a migration.
    pub(super) fn run_on(&mut self) -> Result<(), MachineError> {
        let monitor = self.monitor();
        let undone = monitor.and_then(|monitor| Ok(live::undo(monitor)?));
        let machine = self.platform.machine.as_ref();
        let panicked = machine.is_some_and(|machine| machine.panicked);
        self.call(if panicked { "panicked" } else { "" });
        undone
    }
}
