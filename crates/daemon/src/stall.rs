//! When a machine that was stopped for want of room tries again, and when that is reported.

use std::time::{Duration, Instant};

/// Interval between attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of reports: a QEMU that a guest has taken over could cause them without end.
const MAX_REPORTS: u32 = 100;

/// Watches a machine whose disk is full.
#[derive(Debug, Default)]
pub(super) struct Stall {
    /// When to look next; none when nothing is wrong.
    due: Option<Instant>,
    /// It has been stopped since it was last made to try.
    again: bool,
    told: u32,
}

/// The action to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Nothing,
    /// To say that it stands.
    Tell,
    /// To let it try.
    Retry,
    /// To say that it got through.
    Over,
}

impl Stall {
    /// Returns the maximum time to wait.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.due
            .map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// `stopped` says whether it was stopped since the last call.
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

    /// Counts a report; false if the machine has caused too many.
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
        // Every write that was on its way says it.
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
