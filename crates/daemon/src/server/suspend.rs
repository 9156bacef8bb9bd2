//! Handles the order to suspend a guest, and the end of the pager that restores the guest's memory.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use model::State;
use rustix::process::Signal;

use super::Server;
use crate::error::{MachineError, PagerError, PagingError, SuspendError};
use crate::processors::bound;
use crate::suspend::{self, Unsaved};
use control::protocol::Suspend;
use host::flatten;
use host::progress::Teller;
use kernelzone::image;
use subject::network::Records;

impl Server<'_> {
    /// Saves the guest's memory and devices. After success the guest is stopped and must only be
    /// taken down. After an error the guest runs on, and there is no image.
    pub(super) fn suspend(&mut self, order: &Suspend) -> Result<(), SuspendError> {
        if self.runtime.state != State::Running {
            return Err(SuspendError::NotRunning);
        }
        // This check comes first, because after a failed suspend the guest is resumed, and a guest
        // that may run on another host must not run here.
        self.refuse_away()?;
        self.refuse_changed()?;
        self.stop_merge();
        // The deadline for all steps of the suspend together.
        let end = Instant::now() + Duration::from_secs(order.seconds);
        let pid = self.platform.init.pid;
        // Memory that is not restored yet would be missing in the new image.
        if let Some(pager) = &self.paging {
            if !pager.ends_within(end.saturating_duration_since(Instant::now())) {
                return Err(SuspendError::StillRestored);
            }
            self.hear_pager().map_err(SuspendError::Stopped)?;
        }
        if image::exists(&order.image) {
            return Err(SuspendError::Occupied {
                path: order.image.clone(),
            });
        }
        let machine = self.platform.machine.as_mut();
        let machine = machine.ok_or(MachineError::NotAMachine)?;
        let bound = bound(self.host, pid, &self.platform.cgroups);
        let teller = Teller::new(&self.host.root, self.zone);
        let saved = suspend::save(machine, pid, order, end, &self.hot, &teller);
        drop(teller);
        drop(bound);
        match saved {
            Ok(saved) => {
                for line in suspend::told(&saved) {
                    self.log(&line);
                }
                self.log(&format!("suspended to {}", order.image.display()));
                // If the network addresses cannot be held, the guest is suspended anyway.
                if let Err(why) = Records::of(&self.host.root).hold(self.zone) {
                    self.log(&format!("could not hold its addresses: {}", flatten(&why)));
                }
                Ok(())
            }
            Err(Unsaved { why, begun }) => {
                let why = Box::new(why);
                let error = match suspend::go_on(machine, begun.then_some(&order.image)) {
                    Ok(()) => SuspendError::RunsOn(why),
                    Err(also) => SuspendError::StandsStill {
                        why,
                        also: Box::new(also),
                    },
                };
                self.log(&format!("could not suspend: {}", flatten(&error)));
                Err(error)
            }
        }
    }

    /// Handles the end of the pager. If memory is missing, the guest is killed, because it could
    /// only wait without end.
    pub(super) fn hear_pager(&mut self) -> Result<(), PagingError> {
        let Some(pager) = self.paging.take() else {
            return Ok(());
        };
        let end = pager.end(self.platform.init.pid);
        self.runtime.pager = None;
        if let Err(error) = self.save() {
            self.log(&flatten(&error));
        }
        match end {
            Ok(whole) => {
                self.log(&whole.line);
                // The list begins with the chunks of the latest resume, followed by those of the
                // resume before.
                let earlier = std::mem::replace(&mut self.hot, whole.asked);
                self.hot.extend(earlier);
                let mut seen = HashSet::new();
                self.hot.retain(|chunk| seen.insert(*chunk));
                self.hot.truncate(::suspend::MAX_HOT_CHUNKS);
                Ok(())
            }
            // The guest had ended before the pager.
            Err(PagerError::MachineEnded) => Ok(()),
            Err(why) => {
                let qemu = self.platform.init.pidfd.as_fd();
                let _ = sys::process::send_signal(qemu, Signal::KILL.as_raw());
                let error = PagingError::Lost(why);
                self.log(&format!(
                    "stopped: {}; it boots cold the next time",
                    flatten(&error)
                ));
                self.console
                    .notice("Zone stopped: not all of its memory could be restored");
                Err(error)
            }
        }
    }
}
