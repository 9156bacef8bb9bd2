//! The dashboard of the zonestat of 2009: pools, CPUs and memory on one screen.
//!
//! Numbers are in units of 1000. A limit that is not set is printed as the largest number if the
//! Solaris kernel of 2009 had one for it, and as an empty field for CPUs and memory.

use std::fmt::Write as _;

use stat::pset::{Part, PsetUse};
use stat::sample::Pset;
use stat::{Interval, Resource, Row};

use crate::args::Dashboard;
use crate::number::thousands;
use crate::time::Stamp;
use crate::zones::Zones;

/// Width of a name in columns, unless -N makes it wider.
const NAME_COLUMNS: usize = 8;

/// Number of lines after which the header is printed again.
const HEADER_INTERVAL_LINES: usize = 25;

/// The text in place of a zone's name in the last row.
const TOTAL: &str = "==TOTAL=";

const MEMORY: [Resource; 4] = [
    Resource::Physical,
    Resource::ShmMemory,
    Resource::Locked,
    Resource::Virtual,
];

/// Prints samples one after another.
#[derive(Debug)]
pub struct Printer<'a> {
    options: &'a Dashboard,
    zones: &'a Zones,
    /// Lines since the last header; `None` before the first header.
    lines: Option<usize>,
}

/// The cells of a row before they are aligned.
#[derive(Debug, Default)]
struct Cells {
    name: String,
    /// The pool's number and its kind.
    pool: String,
    kind: String,
    most: String,
    size: String,
    cap: String,
    used: String,
    shares: String,
    percent: String,
    /// The cap and the use of each kind of memory.
    memory: [(String, String); 4],
}

impl<'a> Printer<'a> {
    /// Returns a dashboard without a printed line.
    pub const fn new(options: &'a Dashboard, zones: &'a Zones) -> Self {
        Self {
            options,
            zones,
            lines: None,
        }
    }

    /// Returns a sample as text.
    pub fn print(&mut self, interval: &Interval) -> String {
        let rows = self.rows(interval);
        let mut text = String::new();
        if self.options.parseable {
            if self.lines.is_none() {
                self.lines = Some(0);
                text.push_str(FIELDS);
            }
            let time = Stamp::Iso.show(interval.unix);
            for row in &rows {
                let _ = writeln!(text, "{}:{time}", row.fields().join(":"));
            }
            return text;
        }
        let names = rows.iter().map(|row| row.name.chars().count());
        let width = match self.options.full_names {
            true => names.max().unwrap_or_default().max(NAME_COLUMNS),
            false => NAME_COLUMNS,
        };
        let rule = |length: usize| "-".repeat(width + length) + "\n";
        match self.lines {
            Some(lines) if lines < HEADER_INTERVAL_LINES => text.push_str(&rule(0)),
            _ => {
                self.lines = Some(0);
                let (above, columns) = if self.options.limits {
                    (&LONG[..2], LONG[2])
                } else {
                    (&SHORT[..1], SHORT[1])
                };
                for groups in above {
                    let _ = writeln!(text, "{:width$}|{groups}", "");
                }
                let _ = writeln!(text, "{:>width$}|{columns}", "Zonename");
                text.push_str(&rule(columns.len()));
            }
        }
        for row in &rows {
            let line = if self.options.limits {
                row.long(width)
            } else {
                row.short(width)
            };
            text.push_str(line.trim_end());
            text.push('\n');
        }
        self.lines = self.lines.map(|lines| lines + rows.len() + 1);
        text
    }

    /// Returns a row for each zone, sorted by pool, and the totals.
    fn rows(&self, interval: &Interval) -> Vec<Cells> {
        let chosen = self.zones.choose(interval);
        let mut rows = Vec::new();
        for (number, set) in interval.psets().iter().enumerate() {
            for place in &set.rows {
                let row = &interval.rows[*place];
                if chosen.iter().any(|one| one.name == row.name) {
                    rows.push(cells(number, set, row));
                }
            }
        }
        rows.push(total(interval));
        rows
    }
}

const FIELDS: &str =
    "Zonename:I:T:Max:Cur:Cap:Used:Shr:S%:RAMCap:Used:ShmCap:Used:LkdCap:Used:VMCap:Used:Time\n";

const SHORT: [&str; 2] = [
    "--Pool--|Pset|-------Memory------|",
    " IT|Size|Used| RAM| Shm| Lkd|  VM|",
];

const LONG: [&str; 3] = [
    "----Pool-----|-------CPU-------|----------------Memory-----------------|",
    "   |--Size---|----Pset---------|---RAM---|---Shm---|---Lkd---|---VM----|",
    " IT| Max| Cur| Cap|Used|Shr|S%| Cap|Used| Cap|Used| Cap|Used| Cap|Used|",
];

/// Returns a number of CPUs with one decimal.
fn cpus(millionths: u64) -> String {
    let tenths = millionths.saturating_add(50_000) / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn cells(number: usize, set: &PsetUse<'_>, row: &Row) -> Cells {
    let kind = match set.pset {
        Pset::Default => "D",
        Pset::Dedicated { .. } => "P",
        Pset::Pool { .. } => "S",
    };
    let part: Part = set.part(row);
    let shown = |value: Option<u64>| value.map(thousands).unwrap_or_default();
    let memory = MEMORY.map(|resource| {
        let cap = match (resource, row.cap(resource)) {
            (_, Some(cap)) => thousands(cap),
            (Resource::Physical, None) => String::new(),
            (_, None) => thousands(u64::MAX),
        };
        (cap, shown(row.used.figures[resource]))
    });
    Cells {
        name: row.name.to_string(),
        pool: number.to_string(),
        kind: kind.to_owned(),
        most: thousands(set.most),
        size: thousands(set.cpus),
        cap: row.cap(Resource::Cpu).map(cpus).unwrap_or_default(),
        used: row.used.figures[Resource::Cpu]
            .map(cpus)
            .unwrap_or_default(),
        shares: match part.shares {
            Some(shares) if shares > 999 => ">1K".to_owned(),
            Some(shares) => shares.to_string(),
            None => String::new(),
        },
        percent: match part.percent_of_shares {
            Some(10_000..) => "HH".to_owned(),
            Some(percent) => (percent / 100).to_string(),
            None => String::new(),
        },
        memory,
    }
}

fn total(interval: &Interval) -> Cells {
    let used = |resource: Resource| interval.total.figures[resource];
    let memory = MEMORY.map(|resource| {
        let size = interval.size[resource].map(thousands).unwrap_or_default();
        (size, used(resource).map(thousands).unwrap_or_default())
    });
    Cells {
        name: TOTAL.to_owned(),
        size: thousands(interval.online),
        used: used(Resource::Cpu).map(cpus).unwrap_or_default(),
        memory,
        ..Cells::default()
    }
}

impl Cells {
    fn fields(&self) -> Vec<&str> {
        let mut fields: Vec<&str> = vec![
            &self.name,
            &self.pool,
            &self.kind,
            &self.most,
            &self.size,
            &self.cap,
            &self.used,
            &self.shares,
            &self.percent,
        ];
        for (cap, used) in &self.memory {
            fields.extend([cap.as_str(), used.as_str()]);
        }
        fields
    }

    fn name(&self, width: usize) -> String {
        let name: String = self.name.chars().take(width).collect();
        format!("{name:>width$}")
    }

    /// Returns the pool's number in two columns and its kind in one.
    fn pool(&self) -> String {
        format!("{:>2}{:1}", self.pool, self.kind)
    }

    fn short(&self, width: usize) -> String {
        let [ram, shm, lkd, vm] = &self.memory;
        format!(
            "{} {} {:>4} {:>4} {:>4} {:>4} {:>4} {:>4}",
            self.name(width),
            self.pool(),
            self.size,
            self.used,
            ram.1,
            shm.1,
            lkd.1,
            vm.1
        )
    }

    fn long(&self, width: usize) -> String {
        let mut line = format!(
            "{} {} {:>4} {:>4} {:>4} {:>4} {:>3} {:>2}",
            self.name(width),
            self.pool(),
            self.most,
            self.size,
            self.cap,
            self.used,
            self.shares,
            self.percent
        );
        for (cap, used) in &self.memory {
            let _ = write!(line, " {cap:>4} {used:>4}");
        }
        line
    }
}

#[cfg(test)]
mod tests;
