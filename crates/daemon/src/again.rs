//! A zone that rebooted itself: the pause before its next boot, and the orders that end the pause
//! early.
//!
//! The host pays for a reboot: while it lasts the zone has no control groups. So a zone that
//! reboots soon after it was booted, again and again, waits longer each time.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use store::lock::ZoneLock;

use crate::connection::{done_or, reply};
use crate::error::Error;
use crate::server::Server;
use control::log;
use control::protocol::{Reply, Request};
use host::{flatten, spawn};

/// Minimum uptime of a zone whose reboot does not count as one of a quick succession.
const STABLE_TIME: Duration = Duration::from_secs(60);

/// Reboots in quick succession that have no pause before the next boot.
const FREE_REBOOTS: u32 = 3;

/// Maximum pause before a boot.
const MAX_REBOOT_PAUSE: Duration = Duration::from_secs(60);

/// Returns how many reboots in quick succession there are with this one; `before` of them had
/// been when the zone was booted, and it ran for `ran` then.
fn in_succession(before: u32, ran: Duration) -> u32 {
    match ran < STABLE_TIME {
        true => before.saturating_add(1),
        false => 1,
    }
}

/// Returns the pause before the boot that follows so many reboots in quick succession.
fn pause(reboots: u32) -> Duration {
    let Some(late) = reboots.checked_sub(FREE_REBOOTS + 1) else {
        return Duration::ZERO;
    };
    let seconds = 1_u64.checked_shl(late).unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(MAX_REBOOT_PAUSE)
}

/// Why a pause was over.
enum Over {
    /// It was as long as it should be.
    Waited,
    /// Another command wants the zone; it waits for an answer.
    Cut(OwnedFd),
}

impl Server<'_> {
    /// Boots the zone again, which has just been taken down. Its lock is held all the time, and
    /// handed on to the command that boots it: no other finds the zone halted in between.
    pub(super) fn boot_again(mut self, held: &ZoneLock) -> Result<(), Error> {
        let reboots = in_succession(self.reboots, self.booted.elapsed());
        let pause = pause(reboots);
        if !pause.is_zero() {
            let seconds = pause.as_secs();
            self.console
                .notice(&format!("Zone rebooting in {seconds} s"));
            self.log(&format!(
                "boots again in {seconds} s: this was reboot {reboots} in quick succession; halt it to keep it down"
            ));
            // Nothing of the zone stays open that long.
            self.forget_root();
            let over = self.stand_by(Instant::now() + pause);
            if let Over::Cut(client) = over {
                self.console.notice("Zone halted");
                self.log("halted: a command came before it booted again");
                let forgotten = self.forget();
                reply(&client, &done_or(&forgotten));
                return Ok(forgotten?);
            }
        }
        self.forget()?;
        let log = log::open(&self.host.root, self.zone).ok();
        let booting = spawn::boot_again(self.host, self.zone, reboots, held, log.as_ref());
        if let Err(error) = booting {
            self.log(&format!("could not boot again: {}", flatten(&error)));
        }
        Ok(())
    }

    /// Waits until `end`, or until a command wants to have the zone.
    fn stand_by(&mut self, end: Instant) -> Over {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Over::Waited;
            }
            let left = Timespec::try_from(left).ok();
            let mut watched = [PollFd::new(self.listener(), PollFlags::IN)];
            if !matches!(poll(&mut watched, left.as_ref()), Ok(1..)) {
                continue;
            }
            match self.hear_one() {
                Some((client, Request::Cancel { .. } | Request::Halt)) => return Over::Cut(client),
                Some((client, _)) => {
                    let left = end.saturating_duration_since(Instant::now()).as_secs() + 1;
                    let text = format!("the zone is rebooting and boots in {left} s");
                    reply(&client, &Reply::Error(text));
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
