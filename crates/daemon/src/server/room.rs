//! Handles a guest that QEMU paused because the file system of its disks is full. The guest does
//! not notice the pause. zoneadmd makes QEMU retry the write until it succeeds.

use std::time::Instant;

use super::Server;
use crate::stall::Turn;
use host::flatten;

/// The auxiliary state that `zoneadm list -s` shows while the guest is paused.
const AUXILIARY: &str = "no-space";

impl Server<'_> {
    /// Reports a guest that was paused for lack of disk space, and makes QEMU retry the write.
    pub(super) fn mind_room(&mut self) {
        let Some(machine) = &mut self.platform.machine else {
            return;
        };
        let stopped = std::mem::take(&mut machine.full);
        match self.stall.turn(stopped, Instant::now()) {
            Turn::Nothing => return,
            Turn::Retry => {
                let monitor = machine.monitor.as_mut();
                if let Some(Err(error)) = monitor.map(vm::full::retry) {
                    self.log(&format!("could not make it try again: {}", flatten(&error)));
                }
                return;
            }
            Turn::Tell => {
                if self.stall.may_tell() {
                    self.console
                        .notice("Zone is paused: the file system of its disks is full");
                    self.log("WARNING: paused: the file system of its disks is full; it resumes when there is space");
                }
                if self.runtime.auxiliary.is_empty() {
                    self.runtime.auxiliary = AUXILIARY.to_owned();
                }
            }
            Turn::Over => {
                if self.stall.may_tell() {
                    self.console.notice("Zone goes on");
                    self.log("goes on: there is room again");
                }
                if self.runtime.auxiliary == AUXILIARY {
                    self.runtime.auxiliary.clear();
                }
            }
        }
        if let Err(error) = self.save() {
            self.log(&flatten(&error));
        }
    }
}
