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

/// Maximum length of QEMU's last text that is logged with its end, in bytes.
const MAX_LAST_TEXT_BYTES: usize = 300;

/// The action after the zone's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Halted,
    Reboot,
}

impl Server<'_> {
    /// Handles the end of the zone's init, which exited or asked the kernel for a reboot or halt.
    /// Logs which.
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
            // It was another zoneadmd's child.
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
                // QEMU says why before it ends by itself.
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
        // a power-off. Only a parent is told: an adopted zone halts. The status that other
        // processes can read from Linux 6.15 on (PIDFD_INFO_EXIT) is 0 in both cases.
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

    /// Returns the action after an end that was no reboot: a zone that `failed` boots again if it
    /// was booted with the attribute for that.
    fn end_of(&self, failed: bool) -> End {
        let running = || store::xml::load_running(&self.host.root, self.zone);
        if !failed || !running().is_ok_and(|config| config.restarts_on_failure()) {
            return End::Halted;
        }
        self.log("its attr restart=on-failure boots it again");
        End::Reboot
    }

    /// The zone ended by itself: cleans up, answers who waits, boots again if wanted.
    pub(crate) fn finish(mut self, end: End, held: Option<ZoneLock>) -> Result<(), Error> {
        // Another holder of the lock wants the zone to end.
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
    pub(crate) fn forget(&self) -> Result<(), store::Error> {
        store::runtime::forget(&self.host.root, self.zone)
    }

    /// Lets go of the root of a zone that was taken down.
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
            self.log(&format!(
                "WARNING: halts without a record of it: {}",
                flatten(&error)
            ));
        }
        self.root = self.platform.hold_root();
        let fault = self.host.fault.clone().strikes("halt");
        let down = if fault {
            Err(InjectedFault.into())
        } else {
            let down = self.platform.take_down().map_err(Error::from);
            let records = Records::of(&self.host.root);
            down.and_then(|()| Ok(records.release(self.zone)?))
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
            Ok(self.forget()?)
        });
        if let Err(error) = &result {
            self.log(&format!("could not halt: {}", flatten(error)));
        }
        result
    }
}
