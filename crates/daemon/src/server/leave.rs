//! A machine that leaves for another host while it runs: the part of its zoneadmd.
//!
//! The moving process (`zoneadm migrate`) holds the connection, carries QEMU's data, and decides
//! when to go on. When the connection ends the machine runs on here; but not when it may run
//! elsewhere by then, which the mark in the zonepath says that is written before.

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

/// Maximum time that the machine may stand still before all is sent: the other side has to write
/// out a file, and to confirm it.
const MAX_DOWNTIME: Duration = Duration::from_secs(120);

/// Maximum number of bytes of its disks that may be left when it stands still: it stands still for
/// them, too.
const MAX_REMAINING_DISK_BYTES: u64 = 256 << 20;

impl Server<'_> {
    /// Begins to send the machine; the connection is kept for that.
    pub(super) fn begin_leaving(&mut self, client: OwnedFd, order: &Leave) {
        let (theirs, mut ours) = match self.may_leave(order).and_then(|()| channels(order)) {
            Ok(channels) => channels,
            Err(why) => return say(&client, &Reply::Error(flatten(&why))),
        };
        // First: QEMU speaks to the other one while it is told of the mirrors.
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
            // A QEMU that still waits for the other one hears nobody else.
            for end in &ours {
                let _ = shutdown(end, Shutdown::Both);
            }
            self.stop_leaving(&why.into());
        }
    }

    /// Refuses whatever could let a machine run that may run on another host by now.
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

    fn may_leave(&self, order: &Leave) -> Result<(), LeaveError> {
        self.refuse_away()?;
        if self.runtime.state != State::Running || self.leaving.is_some() {
            return Err(LeaveError::NotRunning);
        }
        if self.paging.is_some() {
            return Err(LeaveError::StillRestored);
        }
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

    /// Sets the auxiliary state that `list -s` shows.
    fn call(&mut self, what: &str) {
        self.runtime.auxiliary = what.to_owned();
        if let Err(error) = self.save() {
            self.log(&flatten(&error));
        }
    }

    /// Looks after a machine that leaves; `heard` when who moves it has something to say.
    /// True when it is gone, and we are done.
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
                    // zoneadmd did not read its other sources while the memory was sent.
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

    /// Carries out an order of the migrating command. Returns true if the machine has ended here.
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

    /// Handles the end of the moving process.
    fn lose_mover(&mut self) {
        let sent = self.leaving.as_ref().filter(|one| one.stage == Stage::Sent);
        // The mark is written before the other host may let it run.
        if !sent.is_some_and(|leaving| away::is_away(&leaving.zonepath)) {
            return self.stop_leaving(&LeaveError::CommandEnded);
        }
        self.leaving = None;
        self.log(AWAY);
        self.console.notice("Zone may be on another host");
    }

    /// Lets the machine run on here, and tells why.
    pub(super) fn stop_leaving(&mut self, why: &LeaveError) {
        let Some(leaving) = self.leaving.take() else {
            return;
        };
        // Its ends of the connections first: QEMU then waits for nobody.
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

    /// Lets a machine run that stands still on its way.
    pub(super) fn run_on(&mut self) -> Result<(), MachineError> {
        let monitor = self.monitor();
        let undone = monitor.and_then(|monitor| Ok(live::undo(monitor)?));
        let machine = self.platform.machine.as_ref();
        let panicked = machine.is_some_and(|machine| machine.panicked);
        self.call(if panicked { "panicked" } else { "" });
        undone
    }
}
