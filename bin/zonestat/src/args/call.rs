//! The request that a command line makes.

use std::path::PathBuf;

use stat::report::Kind;
use stat::{Resource, Wants};

use crate::time::Stamp;

/// The request of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Show the help.
    Help,
    /// The reports of Solaris 11, as text for people, as text for programs, or as JSON.
    Reports(Box<Reports>),
    /// The dashboard of the zonestat of 2009.
    Dashboard(Dashboard),
    /// The full-screen view.
    Tui(Tui),
    /// All counters and figures, printed once.
    OpenMetrics(Common),
    /// The HTTP service, and its address.
    Serve(Common, String),
}

/// The options that every form has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// `--root`.
    pub root: Option<PathBuf>,
    /// `-z`; empty for all zones.
    pub zones: Vec<String>,
}

/// The sections of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// CPUs and memory, with a line for each zone.
    Summary,
    /// A single resource.
    One(Resource),
    /// All sets of CPUs.
    Psets,
    /// The default set of CPUs.
    DefaultPset,
    /// Bytes received and sent.
    Network,
    /// Bytes read and written.
    Disk,
    /// The part of the time in which processes waited for a resource.
    Pressure,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// The name of the zone.
    Name,
    /// The use.
    Used,
    /// The limit.
    Cap,
    /// The used part of the limit.
    PercentOfCap,
    /// The shares.
    Shares,
    /// The use in percent of the CPU time that the shares are worth.
    PercentOfShares,
}

/// The form of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for people.
    Human,
    /// Text for programs (-p).
    Parseable,
    /// A line of JSON for each interval (-j).
    Json,
}

/// The lines of the text for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is chosen by itself")]
pub struct Lines {
    pub resource: bool,
    pub total: bool,
    pub system: bool,
    pub zones: bool,
    pub header: bool,
    pub footer: bool,
}

impl Lines {
    pub(super) const fn all(chosen: bool) -> Self {
        Self {
            resource: chosen,
            total: chosen,
            system: chosen,
            zones: chosen,
            header: chosen,
            footer: chosen,
        }
    }
}

/// The options of the reports of Solaris 11.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    /// The options that every form has.
    pub common: Common,
    /// The sections, in the order in which they are printed.
    pub sections: Vec<Section>,
    /// `-n`; empty for all.
    pub names: Vec<String>,
    /// `-T`.
    pub stamp: Option<Stamp>,
    /// `-R`.
    pub kinds: Vec<Kind>,
    /// True if intervals are not printed.
    pub quiet: bool,
    /// The form of the output.
    pub form: Form,
    /// The lines of the text for programs.
    pub lines: Lines,
    /// The keys by which rows are sorted, the most important first.
    pub sort: Vec<Sort>,
    /// The resource by which the summary is sorted.
    pub summary_by: Resource,
    /// The times of samples and reports.
    pub timing: Timing,
}

/// The interval, the duration and the report interval, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Seconds between two samples.
    pub interval: u64,
    /// Seconds until the end; `None` to run until a signal.
    pub duration: Option<u64>,
    /// Seconds between two reports; `None` for one report at the end.
    pub report: Option<u64>,
}

/// The options of the dashboard of the zonestat of 2009.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dashboard {
    /// The options that every form has.
    pub common: Common,
    /// `-l`.
    pub limits: bool,
    /// `-P`.
    pub parseable: bool,
    /// `-N`.
    pub full_names: bool,
    /// Seconds between two samples.
    pub interval: u64,
    /// The number of reports; `None` to run until a signal.
    pub count: Option<u64>,
}

/// The options of the full-screen view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tui {
    /// The options that every form has.
    pub common: Common,
    /// Seconds between two samples.
    pub interval: u64,
}

/// The section with which JSON has the number of times that a zone reached its limits.
const LIMITS_HIT: Section = Section::One(Resource::Lwps);

impl Reports {
    /// Returns true if JSON has the figures of this resource. `summary` has those of CPUs and memory.
    pub fn has(&self, resource: Resource) -> bool {
        let sections = &self.sections;
        let is_of_summary = matches!(
            resource,
            Resource::Cpu | Resource::Physical | Resource::Virtual | Resource::Locked
        );
        sections.contains(&Section::One(resource))
            || (resource == Resource::Cpu
                && (sections.contains(&Section::Psets) || sections.contains(&Section::DefaultPset)))
            || (is_of_summary && sections.contains(&Section::Summary))
    }

    /// Returns the counters that must be read for the reports.
    pub fn wants(&self) -> Wants {
        let mut wants = Wants {
            hits: self.form == Form::Json && self.sections.contains(&LIMITS_HIT),
            ..Wants::default()
        };
        for section in &self.sections {
            match section {
                Section::Summary
                | Section::Psets
                | Section::DefaultPset
                | Section::One(Resource::Cpu | Resource::Physical | Resource::Virtual) => {}
                Section::One(Resource::Locked) => wants.locked = true,
                Section::One(Resource::Processes | Resource::Lwps | Resource::Lofi) => {
                    wants.counts = true;
                }
                Section::One(
                    Resource::ShmMemory | Resource::ShmIds | Resource::SemIds | Resource::MsgIds,
                ) => wants.ipc = true,
                Section::Network => wants.network = true,
                Section::Disk => wants.disk = true,
                Section::Pressure => wants.pressure = true,
            }
        }
        wants
    }
}
