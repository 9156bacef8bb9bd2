//! The results of patched zones, and the messages during the work.

use std::collections::HashMap;
use std::path::PathBuf;

use model::ZoneName;
use serde::Serialize;

use crate::record::{Change, How};
use crate::stale::Stale;

/// The result of a patch for one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The zone is patched.
    Patched,
    /// The order changed nothing in the zone.
    Unchanged,
    /// The zone has no root that can be patched.
    Skipped,
    /// The patch failed, and the zone is unchanged.
    Failed,
}

impl Outcome {
    /// Returns the word for messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Patched => "patched",
            Self::Unchanged => "unchanged",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// The report about one zone.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the zone.
    pub zone: String,
    /// The result of the patch.
    pub outcome: Outcome,
    /// The way in which the order was carried out.
    pub how: Option<How>,
    /// The reason why the zone failed or was skipped, or why it was patched by itself while others
    /// share a result.
    pub reason: Option<String>,
    /// The changed packages; with -n, the packages that would change.
    pub packages: Vec<Change>,
    /// Services that the packages wanted to restart.
    pub services: Vec<String>,
    /// The duration of the work on this zone, in seconds.
    pub seconds: f64,
    /// The snapshot from before the patch.
    pub snapshot: Option<String>,
    /// The output of the package manager.
    pub log: Option<PathBuf>,
    /// The result of the health command, if the zone has one.
    pub health: Option<Checked>,
    /// Processes that still use files that a patch in place replaced.
    pub stale: Vec<Stale>,
}

/// The result of a zone's health command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// The health command succeeded.
    Passed,
    /// The health command was not run, because the zone does not run with its patch yet.
    NotRun,
}

impl Report {
    pub(crate) fn of(zone: &ZoneName, outcome: Outcome, reason: Option<String>) -> Self {
        Self {
            zone: zone.to_string(),
            outcome,
            how: None,
            reason,
            packages: Vec::new(),
            services: Vec::new(),
            seconds: 0.0,
            snapshot: None,
            log: None,
            health: None,
            stale: Vec::new(),
        }
    }
}

/// The events during the work on zones.
#[derive(Debug)]
pub enum Event<'a> {
    /// The work on a zone has started.
    Begin(&'a ZoneName),
    /// The work on a zone has ended.
    End(&'a Report),
}

/// Receives events from several threads.
pub type Teller<'a> = &'a (dyn Fn(&Event<'_>) + Sync);

/// The zones, in the order of the command line.
pub(crate) fn in_order(mut reports: Vec<Report>, zones: &[ZoneName]) -> Vec<Report> {
    let place: HashMap<&str, usize> = (0..)
        .zip(zones)
        .map(|(number, zone)| (zone.as_str(), number))
        .collect();
    reports.sort_by_key(|report| place.get(report.zone.as_str()).copied());
    reports
}
