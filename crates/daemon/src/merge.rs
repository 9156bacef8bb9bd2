//! Merges the files below the disks of a running kernel zone.
//!
//! QEMU does the work, and zoneadmd serves the zone meanwhile. The record keeps the former files until
//! the merge is complete: it fits the disks at each moment.

use model::State;
use vm::merge::{self, Merging};
use vm::qmp::Monitor;

use crate::error::{MachineError, SnapshotError};
use crate::server::Server;
use crate::snapshot::mended;
use host::flatten;
use kernelzone::live_snapshot::LEAST_MERGED;

/// The message after a merge.
const MERGED: &str = "the files below its disks were merged";

impl Server<'_> {
    /// Begins a merge, or completes it once QEMU has done it. Returns the bytes that are done and the
    /// bytes in all; `None` after the end, and if there is nothing to merge. After an error no merge
    /// is under way.
    pub(super) fn merge_disks(&mut self) -> Result<Option<(u64, u64)>, SnapshotError> {
        if self.runtime.state != State::Running || self.leaving.is_some() {
            return Err(SnapshotError::NotRunning);
        }
        self.refuse_away()?;
        let done = self.merge_step();
        if let Err(why) = &done {
            self.log(&format!(
                "did not merge the files of its disks: {}",
                flatten(why)
            ));
            self.stop_merge();
        }
        done
    }

    fn merge_step(&mut self) -> Result<Option<(u64, u64)>, SnapshotError> {
        let config = store::xml::load_running(&self.host.root, self.zone)?;
        let zonepath = self.host.root.path(&config.zonepath());
        let monitor = self.disk_monitor()?;
        match merge::state(monitor).map_err(MachineError::from)? {
            Merging::Runs { done, total } => Ok(Some((done, total))),
            Merging::Complete => {
                merge::end(monitor).map_err(MachineError::from)?;
                mended(monitor, &zonepath)?;
                self.log(MERGED);
                Ok(None)
            }
            Merging::No => {
                let stacks = mended(monitor, &zonepath)?;
                let many = stacks.iter().filter(|(_, one)| one.below >= LEAST_MERGED);
                let disks: Vec<u32> = many.map(|(id, _)| *id).collect();
                if disks.is_empty() {
                    return Ok(None);
                }
                merge::begin(monitor, &disks).map_err(MachineError::from)?;
                Ok(Some((0, 0)))
            }
        }
    }

    /// Gives up a merge whose command has died or has waited long enough, because no other operation
    /// on the disks is possible meanwhile. The disks keep their files.
    pub(super) fn stop_merge(&mut self) {
        let Ok(config) = store::xml::load_running(&self.host.root, self.zone) else {
            return;
        };
        let zonepath = self.host.root.path(&config.zonepath());
        let Ok(monitor) = self.disk_monitor() else {
            return;
        };
        let state = merge::state(monitor);
        if matches!(state, Ok(Merging::No)) {
            return;
        }
        // If QEMU refuses, the operation reports its own error.
        let ended = merge::end(monitor).is_ok();
        let mended = mended(monitor, &zonepath).is_ok();
        // QEMU was done just before it was told to stop.
        if matches!(state, Ok(Merging::Complete)) && ended && mended {
            self.log(MERGED);
        }
    }

    fn disk_monitor(&mut self) -> Result<&mut Monitor, MachineError> {
        let machine = self.platform.machine.as_mut();
        let machine = machine.ok_or(MachineError::NotAMachine)?;
        machine.monitor.as_mut().ok_or(MachineError::Unresponsive)
    }
}
