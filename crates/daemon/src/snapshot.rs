//! Takes a snapshot of the disks of a running kernel zone.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use model::{Config, State, ZoneName};
use vm::qmp::Monitor;
use vm::snapshot::{self, Stack};

use crate::error::{FreezeError, InjectedFault, MachineError, SnapshotError};
use crate::frozen::{self, Frozen};
use crate::server::Server;
use control::log;
use control::protocol::Taken;
use host::fault::Fault;
use host::{Host, flatten};
use kernelzone::kept::Name;
use kernelzone::live_snapshot::{self, Live};
use platform::guest::{Machine, open};

/// The name under which a test asks for a fault at a step.
const VERB: &str = "live-snapshot";

impl Server<'_> {
    /// Takes a snapshot of the disks. The guest's agent freezes the file systems meanwhile. After an
    /// error the guest runs on.
    pub(super) fn snapshot(&mut self, name: &str) -> Result<Taken, SnapshotError> {
        let done = self.snapshot_taken(name);
        match &done {
            Ok(taken) => {
                let how = match &taken.unfrozen {
                    None => "with frozen file systems".to_owned(),
                    Some(why) => format!("its file systems were not frozen: {why}"),
                };
                let micros = taken.paused;
                self.log(&format!(
                    "snapshot {name} of its disks: paused for {micros} us, {how}"
                ));
            }
            Err(why) => self.log(&format!("no snapshot {name}: {}", flatten(why))),
        }
        done
    }

    fn snapshot_taken(&mut self, name: &str) -> Result<Taken, SnapshotError> {
        if self.runtime.state != State::Running || self.leaving.is_some() {
            return Err(SnapshotError::NotRunning);
        }
        self.refuse_away()?;
        self.stop_merge();
        let name = name.parse().map_err(SnapshotError::Name)?;
        let config = store::xml::load_running(&self.host.root, self.zone)?;
        let machine = self.platform.machine.as_mut();
        let machine = machine.ok_or(MachineError::NotAMachine)?;
        let monitor = machine.monitor.as_mut();
        let job = Job {
            host: self.host,
            zone: self.zone,
            config: &config,
            fault: self.host.fault.clone(),
        };
        job.take(monitor.ok_or(MachineError::Unresponsive)?, &name)
    }
}

struct Job<'a> {
    host: &'a Host,
    zone: &'a ZoneName,
    config: &'a Config,
    fault: Fault,
}

impl Job<'_> {
    /// Fails if a test requests a failure at this step.
    fn strike(&mut self) -> Result<(), SnapshotError> {
        match self.fault.strikes(VERB) {
            true => Err(InjectedFault.into()),
            false => Ok(()),
        }
    }

    fn take(mut self, monitor: &mut Monitor, name: &Name) -> Result<Taken, SnapshotError> {
        let zonepath = self.host.root.path(&self.config.zonepath());
        snapshot::refuse_paused(monitor).map_err(MachineError::from)?;
        let stacks = mended(monitor, &zonepath)?;
        self.strike()?;
        let live = live_snapshot::begin(self.host, self.config, &zonepath, name, &stacks)?;
        match self.switch(monitor, &live) {
            Ok(taken) => {
                // The disks have their new files, so an error leaves only an unfinished snapshot,
                // which the next operation removes.
                self.strike()?;
                live.complete(name)?;
                Ok(taken)
            }
            Err(why) => {
                // If QEMU does not tell which files it uses, the record keeps the new files: it is
                // right in both cases.
                let _ = mended(monitor, &zonepath);
                live.abandon();
                Err(why)
            }
        }
    }

    /// Puts the new files on the disks, with the guest's file systems frozen.
    fn switch(&mut self, monitor: &mut Monitor, live: &Live) -> Result<Taken, SnapshotError> {
        self.strike()?;
        live.write_record()?;
        self.strike()?;
        if !snapshot::has_agent(monitor).map_err(MachineError::from)? {
            let paused = self.replace(monitor, live)?;
            return Ok(taken(paused, Some(&FreezeError::NoAgent)));
        }
        let (frozen, count) = Frozen::freeze(self.host, self.zone);
        let paused = self.strike().and_then(|()| self.replace(monitor, live));
        // The guest is thawed also after an error.
        let thawed = frozen.thaw();
        let paused = paused?;
        self.strike()?;
        let unfrozen = match (count, thawed) {
            (Err(why), _) => Some(why),
            // The agent gave up before the disks had their new files.
            (Ok(1..), Ok(0)) => Some(FreezeError::Thawed),
            (Ok(0), _) => Some(FreezeError::Nothing),
            (Ok(_), Ok(_)) => None,
            (Ok(_), Err(why)) => Some(FreezeError::Late(Box::new(why))),
        };
        Ok(taken(paused, unfrozen.as_ref()))
    }

    fn replace(&self, monitor: &mut Monitor, live: &Live) -> Result<Duration, SnapshotError> {
        let mut overlays = Vec::new();
        for one in &live.overlays {
            let file = model::plan::MachineFile {
                path: one.path.clone(),
                read_only: false,
                direct: one.part.direct,
            };
            overlays.push(snapshot::Overlay {
                disk: one.disk,
                part: one.part,
                file: open(&file).map_err(SnapshotError::Open)?,
            });
        }
        let mut failed = None;
        let copy = &mut || {
            live.copy().map_err(|why| {
                let text = flatten(&why);
                failed = Some(why);
                vm::Error::Image(text)
            })
        };
        let taken = snapshot::take(monitor, overlays, copy);
        match (taken, failed) {
            (Ok(paused), _) => Ok(paused),
            (Err(_), Some(why)) => Err(why.into()),
            (Err(why), None) => Err(MachineError::from(why).into()),
        }
    }
}

fn taken(paused: Duration, unfrozen: Option<&FreezeError>) -> Taken {
    Taken {
        paused: u64::try_from(paused.as_micros()).unwrap_or(u64::MAX),
        unfrozen: unfrozen.map(|why| flatten(why)),
    }
}

/// Takes files out of the zone's record that QEMU does not use. Returns the disks in the machine.
pub(super) fn mended(
    monitor: &mut Monitor,
    zonepath: &Path,
) -> Result<BTreeMap<u32, Stack>, SnapshotError> {
    let stacks = snapshot::stacks(monitor).map_err(MachineError::from)?;
    live_snapshot::mend(zonepath, &stacks)?;
    Ok(stacks)
}

/// Clears up after a zoneadmd that died while it took a snapshot: thaws the guest, and makes the
/// record fit the machine. Logs what it did.
pub(super) fn after_death(host: &Host, zone: &ZoneName, machine: &mut Machine, zonepath: &Path) {
    frozen::thaw_after_death(host, zone);
    let Some(monitor) = machine.monitor.as_mut() else {
        return;
    };
    let mended = snapshot::stacks(monitor)
        .map_err(|error| flatten(&error))
        .and_then(|stacks| live_snapshot::mend(zonepath, &stacks).map_err(|error| flatten(&error)));
    match mended {
        Ok(false) => {}
        Ok(true) => log::message(&host.root, zone, "an interrupted snapshot was taken back"),
        // The record fits the disks in any case, and the next snapshot tries again.
        Err(why) => log::message(
            &host.root,
            zone,
            &format!("could not compare its disks with machine.json: {why}"),
        ),
    }
}
