//! Watches the zone's resource controls for zoneadmd.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use limits::{Hit, Watch, ZoneCgroups};

/// Minimum interval between reports: a zone at a limit reaches the limit many times.
const MIN_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The watch over a zone's limits.
#[derive(Debug)]
pub(super) struct Rctls {
    watch: Watch,
    /// True if the zone has reached a limit since the last check.
    woken: bool,
    /// The time of the next check; `None` if no check is due.
    due: Option<Instant>,
}

impl Rctls {
    pub(super) fn new(cgroups: &ZoneCgroups) -> Self {
        let watch = Watch::new(cgroups);
        Self {
            woken: false,
            due: watch.period().map(|period| Instant::now() + period),
            watch,
        }
    }

    /// Returns a descriptor that becomes readable when the zone reaches a limit. Returns `None` if
    /// an event is already waiting to be reported.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.descriptor().filter(|_| !self.woken)
    }

    /// Returns the time until the next check.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.due
            .map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Sets the time of the next check after the zone's limits have changed.
    pub(super) fn review(&mut self) {
        if !self.woken {
            self.due = self.watch.period().map(|period| Instant::now() + period);
        }
    }

    /// Records that the zone reached a limit, and plans the next report.
    pub(super) fn wake(&mut self) {
        self.woken = true;
        self.due = Some(Instant::now() + MIN_REPORT_INTERVAL);
    }

    /// Returns the limits that the zone reached, if a report is due.
    pub(super) fn hits(&mut self) -> Vec<Hit> {
        if self.due.is_none_or(|due| due > Instant::now()) {
            return Vec::new();
        }
        self.woken = false;
        self.due = self.watch.period().map(|period| Instant::now() + period);
        self.watch.hits()
    }

    /// Returns the limits that the zone reached, without delay, because the control group will soon
    /// be removed.
    pub(super) fn last_hits(mut self) -> Vec<Hit> {
        self.watch.hits()
    }
}
