//! The end of a zone: the cause of the end, and the tear-down after it.

use std::os::fd::AsFd;

use model::State;
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use store::lock::ZoneLock;

use super::Server;
use crate::connection::{done_or, reply};
use crate::error::{Error, InjectedFault};
use host::flatten;
use subject::network::Records;

/// Maximum number of characters of QEMU's last message that are logged at the end of the guest.
const MAX_LAST_TEXT_BYTES: usize = 300;

/// The action of zoneadmd after the zone's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Halted,
    Reboot,
}

impl Server<'_> {
    /// Handles and logs the end of the zone's init, which exited or asked the kernel for a reboot
    /// or halt.
    pub(super) fn how_it_ended(&mut self) -> End {
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
            // The exit status is unknown, because the process is a child of another zoneadmd.
            _ => format!(
                "{what} ended; its exit status is unknown, because another zoneadmd started it"
            ),
        };
        if let Some(machine) = &mut self.platform.machine {
            machine.events();
            let complaint = machine.complaint();
            let (restarts, cause) = (machine.restarts, machine.end);
            let (mut text, failed) = match (cause, signal) {
                (Some(cause), None) => (cause.text().to_owned(), cause.is_failure()),
                // QEMU was killed, or ended by itself and wrote the reason before its end.
                _ => (how("QEMU"), true),
            };
            if !complaint.is_empty() {
                let complaint: String = complaint.chars().take(MAX_LAST_TEXT_BYTES).collect();
                text.push_str(&format!("; it said: {complaint}"));
            }
            self.log(&format!("ended: {text}"));
            return match restarts {
                true => End::Reboot,
                false => self.end_of(failed),
            };
        }
        // reboot(2) in a pid namespace ends its init with SIGHUP for a restart and with SIGINT for
        // a power-off. Only the parent sees this signal, so an adopted zone halts. The status that
        // other processes can read from Linux 6.15 on (PIDFD_INFO_EXIT) is 0 in both cases.
        let (failed, text) = match signal {
            Some(signal) if signal == Signal::HUP.as_raw() => {
                self.log("ended: the zone rebooted itself");
                return End::Reboot;
            }
            Some(signal) if signal == Signal::INT.as_raw() => {
                (false, "the zone powered itself off".to_owned())
            }
            _ => (
                signal.is_some() || exit.is_some_and(|exit| exit != 0),
                how("init"),
            ),
        };
        self.log(&format!("ended: {text}"));
        self.end_of(failed)
    }

    /// Returns the action after an end that was no reboot: a zone that `failed` boots again if its
    /// attribute `restart` is `on-failure`.
    fn end_of(&self, failed: bool) -> End {
        let running = || store::xml::load_running(&self.host.root, self.zone);
        if !failed || !running().is_ok_and(|config| config.restarts_on_failure()) {
            return End::Halted;
        }
        self.log("its attr restart=on-failure boots it again");
        End::Reboot
    }

    /// Cleans up after a zone that ended by itself, answers the waiting commands, and boots the
    /// zone again if it asked for a reboot.
    pub(crate) fn finish(mut self, end: End, held: Option<ZoneLock>) -> Result<(), Error> {
        // If another process holds the zone's lock, that process wants the zone to end.
        let again = held.filter(|_| end == End::Reboot && self.waiting.is_empty());
        let Some(held) = again else {
            let down = self.take_down(End::Halted);
            self.answer_waiting(&down);
            return down;
        };
        self.take_down(End::Reboot)?;
        self.boot_again(&held)
    }

    /// Removes the zone's stored state: from now on, all commands see the zone as halted.
    pub(crate) fn forget(&self) -> Result<(), store::Error> {
        store::runtime::forget(&self.host.root, self.zone)
    }

    /// Closes the root of a zone that was taken down.
    pub(crate) fn forget_root(&mut self) {
        self.root = None;
    }

    pub(crate) fn answer_waiting(&mut self, down: &Result<(), Error>) {
        for waiting in self.waiting.drain(..) {
            reply(&waiting, &done_or(down));
        }
    }

    pub(crate) fn take_down(&mut self, end: End) -> Result<(), Error> {
        if let Some(rctls) = self.rctls.take() {
            self.tell(&rctls.last_hits());
        }
        // The pager and the migration are not needed for a guest that ends.
        self.paging = None;
        self.leaving = None;
        if let Some(mut follower) = self.follower.take() {
            follower.end();
        }
        self.runtime.state = State::ShuttingDown;
        // The zone ends even if its state cannot be written. Without this record the zone is listed
        // as running until its first process has ended.
        if let Err(error) = self.save() {
            self.log(&format!(
                "WARNING: halts without a record of it: {}",
                flatten(&error)
            ));
        }
        // Zones of higher labels must not keep the file system of this zone busy.
        match platform::views::vanish(self.host, self.zone) {
            Ok(remarks) => remarks.iter().for_each(|remark| self.log(remark)),
            Err(error) => self.log(&format!(
                "its views in other zones stay: {}",
                flatten(&error)
            )),
        }
        self.root = self.platform.hold_root();
        self.platform.trusted = None;
        let fault = self.host.fault.clone().strikes("halt");
        let down = if fault {
            Err(InjectedFault.into())
        } else {
            let down = self.platform.take_down().map_err(Error::from);
            let records = Records::of(&self.host.root);
            down.and_then(|()| Ok(records.release(self.zone)?))
        };
        // The end is logged before the zone's state is removed. After the removal all commands see
        // the zone as halted, so no slow step may come between the removal and the release of the
        // lock.
        let result = down.and_then(|()| {
            self.console.notice("Zone halted");
            self.log("halted");
            if end == End::Reboot {
                self.console.notice("Zone rebooting");
                self.log("reboots");
                // The state stays `shutting down` until the zone boots again.
                return Ok(());
            }
            Ok(self.forget()?)
        });
        if let Err(error) = &result {
            self.log(&format!("could not halt: {}", flatten(error)));
        }
        result
    }
}
