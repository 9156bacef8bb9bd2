//! Decides when a guest that was paused for lack of disk space retries its write, and when zoneadmd
//! reports this.

use std::time::{Duration, Instant};

/// Interval between two attempts to resume the guest.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of reports: a QEMU that a guest has taken over could cause reports without end.
const MAX_REPORTS: u32 = 100;

/// Watches a guest whose disk is full.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// The time of the next check; `None` if the guest has disk space.
    due: Option<Instant>,
    /// True if the guest has been paused again since its last retry.
    again: bool,
    told: u32,
}

/// The action of zoneadmd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// Report that the guest is paused.
    Tell,
    /// Let the guest retry its write.
    Retry,
    /// Report that the write succeeded.
    Over,
}

impl Stall {
    /// Returns the time until the next check.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.due
            .map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Returns the action that is due `now`. `stopped` is true if QEMU paused the guest since the
    /// last call.
    pub(super) fn turn(&mut self, stopped: bool, now: Instant) -> Turn {
        self.again |= stopped;
        match self.due {
            None if stopped => {
                self.due = Some(now + RETRY_INTERVAL);
                Turn::Tell
            }
            Some(due) if due <= now && self.again => {
                self.again = false;
                self.due = Some(now + RETRY_INTERVAL);
                Turn::Retry
            }
            Some(due) if due <= now => {
                self.due = None;
                Turn::Over
            }
            _ => Turn::Nothing,
        }
    }

    /// Counts a report; returns false if the guest has caused too many reports.
    pub(super) fn may_tell(&mut self) -> bool {
        self.told = self.told.saturating_add(1);
        self.told <= MAX_REPORTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_disk_is_retried_until_it_writes() {
        let mut stall = Stall::default();
        let began = Instant::now();
        let at = |pauses: u32| began + RETRY_INTERVAL * pauses;
        assert_eq!(stall.turn(false, at(0)), Turn::Nothing);
        assert!(stall.patience().is_none());
        assert_eq!(stall.turn(true, at(1)), Turn::Tell);
        assert!(stall.patience().is_some());
        // Each pending write of the guest reports the full disk again.
        assert_eq!(stall.turn(true, at(1)), Turn::Nothing);
        assert_eq!(stall.turn(false, at(2)), Turn::Retry);
        assert_eq!(stall.turn(true, at(2)), Turn::Nothing);
        assert_eq!(stall.turn(false, at(3)), Turn::Retry);
        assert_eq!(stall.turn(false, at(3)), Turn::Nothing);
        assert_eq!(stall.turn(false, at(4)), Turn::Over);
        assert_eq!(stall.turn(false, at(9)), Turn::Nothing);
        assert_eq!(stall.turn(true, at(10)), Turn::Tell);
    }
}
