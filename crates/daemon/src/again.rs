//! A zone that rebooted itself: the pause before its next boot, and the orders that end the pause
//! early.
//!
//! Each reboot loads the host, and the zone has no control groups during a reboot. So a zone that
//! reboots soon after its last boot, several times in succession, waits longer each time.

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

/// Minimum uptime after which a reboot of a zone no longer counts as one in quick succession.
const STABLE_TIME: Duration = Duration::from_secs(60);

/// Number of reboots in quick succession after which the next boot follows without a pause.
const FREE_REBOOTS: u32 = 3;

/// Maximum pause before a boot.
const MAX_REBOOT_PAUSE: Duration = Duration::from_secs(60);

/// Returns the count of reboots in quick succession, this reboot included. `before` is the count
/// when the zone was booted; `ran` is its uptime.
fn in_succession(before: u32, ran: Duration) -> u32 {
    match ran < STABLE_TIME {
        true => before.saturating_add(1),
        false => 1,
    }
}

/// Returns the pause before the next boot after `reboots` reboots in quick succession.
fn pause(reboots: u32) -> Duration {
    let Some(late) = reboots.checked_sub(FREE_REBOOTS + 1) else {
        return Duration::ZERO;
    };
    let seconds = 1_u64.checked_shl(late).unwrap_or(u64::MAX);
    Duration::from_secs(seconds).min(MAX_REBOOT_PAUSE)
}

/// Reason for the end of a pause before a boot.
enum Over {
    /// The pause lasted for its full time.
    Waited,
    /// Another command asks to halt the zone, and waits for an answer on this connection.
    Cut(OwnedFd),
}

impl Server<'_> {
    /// Boots a zone again that has just been taken down. zoneadmd keeps the zone's lock and passes
    /// it on to the command that boots the zone, so that no other command finds the zone halted in
    /// between.
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
            // The zone's root is closed before the pause, because the pause can be long.
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

    /// Waits until `end`, or until a command asks to halt the zone.
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
