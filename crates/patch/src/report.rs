//! The results of zones, and the messages while they are patched.

use std::collections::HashMap;
use std::path::PathBuf;

use model::ZoneName;
use serde::Serialize;

use crate::record::{Change, How};
use crate::stale::Stale;

/// The result of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is patched.
    Patched,
    /// There was nothing to do.
    Unchanged,
    /// It has no root that could be patched.
    Skipped,
    /// It could not be patched and is as it was.
    Failed,
}

impl Outcome {
    /// The word for people.
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

/// The report of a zone.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The zone.
    pub zone: String,
    /// The result.
    pub outcome: Outcome,
    /// The way it was carried out.
    pub how: Option<How>,
    /// Why it failed or was skipped, or why it was patched for real where others share.
    pub reason: Option<String>,
    /// The changed packages, or those that would change.
    pub packages: Vec<Change>,
    /// Services that the packages wanted to be restarted.
    pub services: Vec<String>,
    /// The duration in seconds.
    pub seconds: f64,
    /// The snapshot before it.
    pub snapshot: Option<String>,
    /// The output of the package manager.
    pub log: Option<PathBuf>,
    /// The result of the health command, if it has one.
    pub health: Option<Checked>,
    /// Processes that still use files that a patch in place replaced.
    pub stale: Vec<Stale>,
}

/// The result of a zone's health command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// It succeeded.
    Passed,
    /// It was not run, as the zone does not run with its patch.
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

/// The events while zones are patched.
#[derive(Debug)]
pub enum Event<'a> {
    /// Work on a zone begins.
    Begin(&'a ZoneName),
    /// A zone is through.
    End(&'a Report),
}

/// Takes events, from several threads.
pub type Teller<'a> = &'a (dyn Fn(&Event<'_>) + Sync);

/// As the zones were given.
pub(crate) fn in_order(mut reports: Vec<Report>, zones: &[ZoneName]) -> Vec<Report> {
    let place: HashMap<&str, usize> = (0..)
        .zip(zones)
        .map(|(number, zone)| (zone.as_str(), number))
        .collect();
    reports.sort_by_key(|report| place.get(report.zone.as_str()).copied());
    reports
}
