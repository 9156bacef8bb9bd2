//! A machine that QEMU paused because the file system of its disks is full. Its guest
//! knows nothing of that and waits; it is made to try again until it gets through.

use std::time::Instant;

use super::Server;
use crate::stall::Turn;
use host::flatten;

/// The auxiliary state that `zoneadm list -s` shows meanwhile.
const AUXILIARY: &str = "no-space";

impl Server<'_> {
    /// Sees to a machine that was stopped for want of room.
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
