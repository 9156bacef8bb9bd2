//! Watches the zone's resource controls for zoneadmd.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use limits::{Hit, Watch, ZoneCgroups};

/// Minimum interval between reports: a zone at a limit reaches it again and again.
const MIN_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The watch over a zone's limits.
#[derive(Debug)]
pub(super) struct Rctls {
    watch: Watch,
    /// Something has happened since the last look.
    woken: bool,
    /// When to look next.
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

    /// Becomes readable when something happens; none while that is known already.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.descriptor().filter(|_| !self.woken)
    }

    /// Returns the maximum time to wait.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.due
            .map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// The limits are other ones now.
    pub(super) fn review(&mut self) {
        if !self.woken {
            self.due = self.watch.period().map(|period| Instant::now() + period);
        }
    }

    /// Something has happened.
    pub(super) fn wake(&mut self) {
        self.woken = true;
        self.due = Some(Instant::now() + MIN_REPORT_INTERVAL);
    }

    /// Returns the hits when it is time to report them.
    pub(super) fn hits(&mut self) -> Vec<Hit> {
        if self.due.is_none_or(|due| due > Instant::now()) {
            return Vec::new();
        }
        self.woken = false;
        self.due = self.watch.period().map(|period| Instant::now() + period);
        self.watch.hits()
    }

    /// Returns the hits at once: soon the group is gone.
    pub(super) fn last_hits(mut self) -> Vec<Hit> {
        self.watch.hits()
    }
}
