//! The measured figures, in the form of the JSON file. Times are milliseconds per zone, sizes KiB
//! per zone, unless the name says otherwise.

use serde::Serialize;

#[derive(Debug, Default, Serialize)]
pub struct Results {
    pub host: String,
    pub fleets: Vec<FleetRow>,
    pub shared: Vec<SharedRow>,
    pub copy_up: Vec<CopyUpRow>,
    pub skipped: Vec<Skipped>,
}

/// The figures of one fleet.
#[derive(Debug, Serialize)]
pub struct FleetRow {
    pub tool: String,
    pub zones: usize,
    /// A description of the commands of the steps.
    pub given: String,
    /// Elapsed time of the whole fleet, divided by the number of its zones; `None` if the tool has
    /// no such step.
    pub clone: Option<f64>,
    pub boot: Option<f64>,
    pub halt: Option<f64>,
    pub remove: Option<f64>,
    pub disk: f64,
    pub disk_after_boots: f64,
    /// The memory of a running zone's processes and of those that run with it (PSS).
    pub processes: f64,
    pub slab: f64,
    pub stacks: f64,
    pub page_tables: f64,
    pub percpu: f64,
    /// Files in memory below /run.
    pub files: f64,
    /// Idle processor time of all zones together, in percent of one core.
    pub idle_cpu_percent: f64,
    pub singles: Option<Singles>,
}

impl FleetRow {
    pub fn kernel(&self) -> f64 {
        self.slab + self.stacks + self.page_tables + self.percpu + self.files
    }

    pub fn memory(&self) -> f64 {
        self.processes + self.kernel()
    }
}

/// Medians of single commands for the first and the last hundred zones of a fleet.
#[derive(Debug, Default, Serialize)]
pub struct Singles {
    pub clone: [f64; 2],
    pub boot: [f64; 2],
    pub halt: [f64; 2],
    pub remove: [f64; 2],
}

/// The memory of a program of 20 MB that runs in many zones.
#[derive(Debug, Serialize)]
pub struct SharedRow {
    pub tool: String,
    pub zones: usize,
    /// The sum over all zones.
    pub rss_mib: f64,
    /// The sum over all zones.
    pub pss_mib: f64,
}

/// A synchronous write of 4 KiB to a big file.
#[derive(Debug, Serialize)]
pub struct CopyUpRow {
    pub filesystem: String,
    pub file_mib: u64,
    pub before_snapshot_ms: f64,
    pub first_after_ms: f64,
    pub second_after_ms: f64,
    pub disk_mib: f64,
}

/// A measurement that could not be made on this machine.
#[derive(Debug, Serialize)]
pub struct Skipped {
    pub what: String,
    pub why: String,
}
