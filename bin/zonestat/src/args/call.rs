//! The requests of the command line.

use std::path::PathBuf;

use stat::report::Kind;
use stat::{Resource, Wants};

use crate::time::Stamp;

/// The request of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Help.
    Help,
    /// Reports of Solaris 11, for people or programs, or as JSON.
    Reports(Box<Reports>),
    /// The dashboard of 2009.
    Dashboard(Dashboard),
    /// The full screen.
    Tui(Tui),
    /// Counters and figures once.
    OpenMetrics(Common),
    /// The service.
    Serve(Common, String),
}

/// The options of every form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// `--root`.
    pub root: Option<PathBuf>,
    /// `-z`; empty for all.
    pub zones: Vec<String>,
}

/// The sections of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// CPUs and memory, a line per zone.
    Summary,
    /// A resource.
    One(Resource),
    /// Sets of CPUs, or the default one only.
    Psets,
    /// The default set of CPUs.
    DefaultPset,
    /// Bytes received and sent.
    Network,
    /// Bytes read and written.
    Disk,
    /// Time in which work waited.
    Pressure,
}

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// By name.
    Name,
    /// The use.
    Used,
    /// The limit.
    Cap,
    /// The used part of the limit.
    PercentOfCap,
    /// Shares.
    Shares,
    /// The use relative to the worth of the shares.
    PercentOfShares,
}

/// The form of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Human,
    /// For programs (-p).
    Parseable,
    /// A line of JSON (-j).
    Json,
}

/// Lines of the form for programs.
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

/// Reports of Solaris 11.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    /// The options of every form.
    pub common: Common,
    /// The sections, in the order of printing.
    pub sections: Vec<Section>,
    /// `-n`; empty for all.
    pub names: Vec<String>,
    /// `-T`.
    pub stamp: Option<Stamp>,
    /// `-R`.
    pub kinds: Vec<Kind>,
    /// True if intervals are not printed.
    pub quiet: bool,
    /// The form.
    pub form: Form,
    /// Lines of the form for programs.
    pub lines: Lines,
    /// The keys by which rows are sorted, the most important first.
    pub sort: Vec<Sort>,
    /// By which resource the summary is sorted.
    pub summary_by: Resource,
    /// When.
    pub timing: Timing,
}

/// Seconds between samples, until the end, and between reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between samples.
    pub interval: u64,
    /// Until the end; none for no end.
    pub duration: Option<u64>,
    /// Between reports; none for one at the end.
    pub report: Option<u64>,
}

/// The dashboard of 2009.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dashboard {
    /// The options of every form.
    pub common: Common,
    /// `-l`.
    pub limits: bool,
    /// `-P`.
    pub parseable: bool,
    /// `-N`.
    pub full_names: bool,
    /// Seconds between samples.
    pub interval: u64,
    /// The number of reports; none for no end.
    pub count: Option<u64>,
}

/// The full screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tui {
    /// The options of every form.
    pub common: Common,
    /// Seconds between samples.
    pub interval: u64,
}

impl Reports {
    /// Returns the counters that must be read for the reports.
    pub fn wants(&self) -> Wants {
        if self.form == Form::Json {
            return Wants::ALL;
        }
        let mut wants = Wants::default();
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
