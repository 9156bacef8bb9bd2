//! The reports of Solaris 11 and illumos, for people and for programs.

mod labels;

use std::fmt::Write as _;

use stat::interval::percent;
use stat::pset::PsetUse;
use stat::report::Kind;
use stat::sample::{Pset, Traffic};
use stat::{Interval, Resource, Row};

use crate::args::{Form, Lines, Reports, Section, Sort};
use crate::number::{NONE, Reader, amount, cpus, or_none, percent as show_percent};
use crate::time::{Stamp, clock, cpu_time};
use crate::zones::Zones;
use labels::Labels;

/// The names of the row for the whole use, and of the row for the use outside of zones.
const TOTAL: &str = "[total]";
const SYSTEM: &str = "[system]";
const RESOURCE: &str = "[resource]";

/// The heading of an interval or report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The kind of the report; `None` for an interval.
    pub kind: Option<Kind>,
    /// The number of the interval, or the number of intervals in the report.
    pub count: u64,
    /// Seconds since the first sample.
    pub seconds: u64,
    /// The begin of the interval or report, in seconds since 1970.
    pub start: u64,
    /// The end of the interval or report, in seconds since 1970.
    pub end: u64,
}

/// Prints intervals and reports.
#[derive(Clone, Copy, Debug)]
pub struct Printer<'a> {
    /// The requested reports.
    pub reports: &'a Reports,
    /// The zones to print.
    pub zones: &'a Zones,
}

/// The text of an interval or report while it is written.
struct Print<'a> {
    reports: &'a Reports,
    reader: Reader,
    lines: Lines,
    /// The text before each line for programs.
    prefix: String,
    interval: &'a Interval,
    rows: Vec<&'a Row>,
    psets: Vec<PsetUse<'a>>,
    labels: Labels<'a>,
    text: String,
}

impl Printer<'_> {
    /// Returns an interval or a report as text.
    pub fn print(&self, heading: &Heading, interval: &Interval) -> String {
        let reports = self.reports;
        let reader = match reports.form {
            Form::Parseable => Reader::Program,
            Form::Human | Form::Json => Reader::Human,
        };
        let label = match heading.kind {
            None => "interval".to_owned(),
            Some(kind) => format!("report-{}", kind.as_str()),
        };
        let stamp = reports.stamp.map(|stamp| stamp.show(heading.end) + ":");
        let rows = self.zones.choose(interval);
        let mut print = Print {
            reports,
            reader,
            lines: match reader {
                Reader::Program => reports.lines,
                Reader::Human => all_lines(),
            },
            prefix: format!("{}{label}:", stamp.unwrap_or_default()),
            interval,
            labels: Labels::of(&rows),
            rows,
            psets: interval.psets(),
            text: String::new(),
        };
        print.header(heading);
        for section in &reports.sections {
            print.section(*section);
        }
        print.footer(heading);
        print.text
    }
}

fn all_lines() -> Lines {
    Lines {
        resource: true,
        total: true,
        system: true,
        zones: true,
        header: true,
        footer: true,
    }
}

impl Print<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes a line for programs, after the kind of report.
    fn fields(&mut self, fields: &[&str]) {
        let line = format!("{}{}", self.prefix, fields.join(":"));
        self.line(&line);
    }

    fn is_for_programs(&self) -> bool {
        self.reader == Reader::Program
    }

    fn header(&mut self, heading: &Heading) {
        let stamp = self.reports.stamp;
        if self.is_for_programs() {
            if !self.lines.header {
                return;
            }
            // Also without -T, the times in headers have a form that programs can parse.
            let show = |unix| stamp.unwrap_or(Stamp::Iso).show(unix);
            let seconds = heading.seconds.to_string();
            if heading.kind.is_none() {
                let (end, count) = (show(heading.end), heading.count.to_string());
                self.fields(&["header", "since-last-interval", &end, &count, &seconds]);
            } else {
                let interval = self.reports.timing.interval.to_string();
                let (start, end) = (show(heading.start), show(heading.end));
                self.fields(&["header", &start, &end, &interval, &seconds]);
            }
            return;
        }
        let time = stamp.map(|stamp| stamp.show(heading.end) + ", ");
        let time = time.unwrap_or_default();
        let (count, duration) = (heading.count, clock(heading.seconds));
        let Some(kind) = heading.kind else {
            self.line(&format!("{time}Interval: {count}, Duration: {duration}"));
            return;
        };
        let name = match kind {
            Kind::Total => "Total",
            Kind::Average => "Average",
            Kind::High => "High",
        };
        let show = |unix| stamp.unwrap_or(Stamp::Date).show(unix);
        let (start, end) = (show(heading.start), show(heading.end));
        self.line(&format!("{time}Report: {name} Usage"));
        self.line(&format!("    Start: {start}"));
        self.line(&format!("      End: {end}"));
        self.line(&format!("    Intervals: {count}, Duration: {duration}"));
    }

    fn footer(&mut self, heading: &Heading) {
        if self.is_for_programs() && self.lines.footer {
            let end = self.reports.stamp.unwrap_or(Stamp::Iso).show(heading.end);
            let interval = self.reports.timing.interval.to_string();
            let seconds = heading.seconds.to_string();
            self.fields(&["footer", &end, &interval, &seconds]);
        }
    }

    fn section(&mut self, section: Section) {
        match section {
            Section::Summary => self.summary(),
            Section::One(Resource::Cpu) | Section::Psets => self.psets(true),
            Section::DefaultPset => self.psets(false),
            Section::One(resource) => self.resource(resource),
            Section::Network => {
                let columns = ["RECV", "SENT"];
                self.traffic("network", "net_default", columns, |row| row.network);
                self.links(columns);
            }
            Section::Disk => {
                self.traffic("disk", "disk_default", ["READ", "WRITE"], |row| row.disk);
            }
            Section::Pressure => self.pressure(),
        }
    }

    fn is_named(&self, names: &[&str]) -> bool {
        let wanted = &self.reports.names;
        wanted.is_empty() || wanted.iter().any(|name| names.contains(&name.as_str()))
    }

    fn widest(&self, least: usize) -> usize {
        let names = self.rows.iter().map(|row| row.name.chars().count());
        names.max().unwrap_or_default().max(least)
    }

    /// Returns the rows in the requested order.
    fn sorted(&self, resource: Resource) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let key = |sort: Sort, row: &Row| -> u64 {
            let key = match sort {
                Sort::Name => None,
                Sort::Used => row.used.figures[resource],
                Sort::Cap => row.cap(resource),
                Sort::PercentOfCap => row.percent_of_cap(resource),
                Sort::Shares => self.part(row).shares,
                Sort::PercentOfShares => self.part(row).percent_of_entitled,
            };
            key.unwrap_or_default()
        };
        order.sort_by(|one, two| {
            let (one, two) = (self.rows[*one], self.rows[*two]);
            let mut by = self.reports.sort.iter().map(|sort| match sort {
                Sort::Name => one.name.cmp(&two.name),
                // The largest value first.
                sort => key(*sort, two).cmp(&key(*sort, one)),
            });
            by.find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        order
    }

    /// Returns the zone's part of its set of CPUs.
    fn part(&self, row: &Row) -> stat::pset::Part {
        let set = self.psets.iter().find(|set| *set.pset == row.setting.pset);
        set.map(|set| set.part(row)).unwrap_or_default()
    }

    fn percent(&self, value: Option<u64>) -> String {
        or_none(value, |value| show_percent(value, self.reader))
    }

    fn amount(&self, value: Option<u64>) -> String {
        or_none(value, |value| amount(value, self.reader))
    }

    fn cpus(&self, value: Option<u64>) -> String {
        or_none(value, |value| cpus(value, self.reader))
    }

    fn summary(&mut self) {
        const CPU: &str = "----------CPU----------";
        const MEMORY: &str = "----PHYSICAL-----";
        const VIRTUAL: &str = "-----VIRTUAL-----";
        let interval = self.interval;
        let (all, online) = (interval.cpus, interval.online);
        let memory = self.amount(interval.size[Resource::Physical]);
        let virtual_ = self.amount(interval.size[Resource::Virtual]);
        let width = self.widest(19);
        if self.is_for_programs() {
            if self.lines.resource {
                let (all, online) = (all.to_string(), online.to_string());
                self.fields(&["summary", RESOURCE, &all, &online, &memory, &virtual_]);
            }
        } else {
            let cpus = format!("Cpus/Online: {all}/{online}");
            let (memory, virtual_) = (
                format!("Physical: {memory}"),
                format!("Virtual: {virtual_}"),
            );
            self.line(&format!(
                "{:width$} {cpus:>23} {memory:>17} {virtual_:>17}",
                "SUMMARY"
            ));
            self.line(&format!(
                "{:width$} {CPU:>23} {MEMORY:>17} {VIRTUAL:>17}",
                ""
            ));
            let names = [
                "USED", "%PART", "%CAP", "%SHRU", "USED", "PCT", "%CAP", "USED", "PCT", "%CAP",
            ];
            self.header_cells(width, "ZONE", &names);
        }
        for (is_shown, name, used) in [
            (self.lines.total, TOTAL, &interval.total),
            (self.lines.system, SYSTEM, &interval.system),
        ] {
            if is_shown {
                let figures = |resource| {
                    let used = used.figures[resource];
                    (used, part_of(used, interval.size[resource]), None)
                };
                self.summary_line(width, name, (None, figures));
            }
        }
        if !self.lines.zones {
            return self.end_of_section();
        }
        for place in self.sorted(self.reports.summary_by) {
            let row = self.rows[place];
            let part = self.part(row);
            let figures = |resource| {
                let used = row.used.figures[resource];
                let percent = match resource {
                    Resource::Cpu => part.percent,
                    _ => part_of(used, interval.size[resource]),
                };
                (used, percent, row.percent_of_cap(resource))
            };
            self.summary_line(width, &row.name, (part.percent_of_entitled, figures));
        }
        self.end_of_section();
    }

    /// Writes a line of the summary: the used part of the shares, and for each resource the use,
    /// its part of the total, and its part of the cap.
    fn summary_line(
        &mut self,
        width: usize,
        name: &str,
        (shares, figures): (
            Option<u64>,
            impl Fn(Resource) -> (Option<u64>, Option<u64>, Option<u64>),
        ),
    ) {
        let (used, percent, of_cap) = figures(Resource::Cpu);
        let mut cells = vec![
            self.cpus(used),
            self.percent(percent),
            self.percent(of_cap),
            self.percent(shares),
        ];
        for resource in [Resource::Physical, Resource::Virtual] {
            let (used, percent, of_cap) = figures(resource);
            cells.extend([
                self.amount(used),
                self.percent(percent),
                self.percent(of_cap),
            ]);
        }
        self.row(width, &["summary"], name, &cells);
    }

    /// Writes the line above cells of [`Print::cells`].
    fn header_cells(&mut self, width: usize, name: &str, cells: &[&str]) {
        let label = self.labels.header();
        self.cells(width, name, cells, &label);
    }

    /// Writes a line of cells with five characters each, after a name and before the label.
    fn cells(&mut self, width: usize, name: &str, cells: &[&str], label: &str) {
        let mut line = format!("{name:>width$}");
        for cell in cells {
            // Writing to a string cannot fail.
            let _ = write!(line, " {cell:>5}");
        }
        line.push_str(label);
        self.line(&line);
    }

    /// Writes a line of cells for people, or of fields for programs.
    fn row(&mut self, width: usize, before: &[&str], name: &str, cells: &[String]) {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        if self.is_for_programs() {
            self.fields(&[before, &[name], &cells].concat());
        } else {
            let label = self.labels.after(name);
            self.cells(width, name, &cells, &label);
        }
    }

    fn end_of_section(&mut self) {
        if !self.is_for_programs() {
            self.text.push('\n');
        }
    }

    /// Writes the section of a resource other than CPUs.
    fn resource(&mut self, resource: Resource) {
        let (name, of) = match resource {
            Resource::Physical | Resource::Locked => ("mem_default", "SYSTEM MEMORY"),
            Resource::Virtual => ("vm_default", "SYSTEM MEMORY"),
            _ => ("system-limit", "SYSTEM LIMIT"),
        };
        if !self.is_named(&[name]) {
            return;
        }
        let interval = self.interval;
        let size = interval.size[resource];
        let shown_size = self.amount(size);
        let word = resource.as_str();
        if self.is_for_programs() {
            if self.lines.resource {
                self.fields(&[word, name, RESOURCE, &shown_size]);
            }
        } else {
            let title = match resource {
                Resource::ShmMemory | Resource::ShmIds | Resource::SemIds | Resource::MsgIds => {
                    word.to_uppercase().replace('-', "_")
                }
                _ => word.to_uppercase(),
            };
            self.line(&format!("{title:28} {of:>13}"));
            self.line(&format!("{name:28} {shown_size:>13}"));
        }
        let width = self.widest(36);
        if !self.is_for_programs() {
            self.header_cells(width, "ZONE", &["USED", "PCT", "CAP", "%CAP"]);
        }
        for (is_shown, user, used) in [
            (self.lines.total, TOTAL, &interval.total),
            (self.lines.system, SYSTEM, &interval.system),
        ] {
            if is_shown {
                let used = used.figures[resource];
                let percent = self.percent(part_of(used, size));
                let cells = [self.amount(used), percent, NONE.to_owned(), NONE.to_owned()];
                self.row(width, &[word, name], user, &cells);
            }
        }
        if self.lines.zones {
            for place in self.sorted(resource) {
                let row = self.rows[place];
                let used = row.used.figures[resource];
                let cells = [
                    self.amount(used),
                    self.percent(part_of(used, size)),
                    self.amount(row.cap(resource)),
                    self.percent(row.percent_of_cap(resource)),
                ];
                self.row(width, &[word, name], &row.name, &cells);
            }
        }
        self.end_of_section();
    }

    /// Writes the section of all sets of CPUs, or of the default set only.
    fn psets(&mut self, all: bool) {
        let order = self.sorted(Resource::Cpu);
        for set in self.psets.clone() {
            let is_default = *set.pset == Pset::Default;
            let of_set = |place: &usize| self.rows[*place].setting.pset == *set.pset;
            let rows: Vec<usize> = order.iter().copied().filter(of_set).collect();
            // With -z, only the sets that these zones use.
            let is_wanted = rows.len() == set.rows.len() || !rows.is_empty();
            let is_named = self.is_named(&[set.pset.name(), &set.pset.solaris_name()]);
            if (all || is_default) && is_wanted && is_named {
                self.pset(&set, &rows);
            }
        }
    }

    fn pset(&mut self, set: &PsetUse<'_>, rows: &[usize]) {
        let (kind, name) = (set.pset.kind(), set.pset.solaris_name());
        let count = |value| amount(value, self.reader);
        let (online, all) = (count(set.cpus), count(set.cpus));
        let (least, most) = (count(set.least), count(set.most));
        let before = ["processor-set", kind, &name];
        if self.is_for_programs() {
            if self.lines.resource {
                let time = set.cpus.saturating_mul(self.elapsed_usec());
                let time = cpu_time(time);
                let size = [RESOURCE, &online, &all, &least, &most, &time];
                self.fields(&[&before[..], &size].concat());
            }
        } else {
            let width = name.chars().count().max(22);
            self.line(&format!(
                "{:width$} {:>13}  {:>11} {:>11}",
                "PROCESSOR_SET", "TYPE", "ONLINE/CPUS", "MIN/MAX"
            ));
            let (cpus, range) = (format!("{online}/{all}"), format!("{least}/{most}"));
            self.line(&format!("{name:width$} {kind:>13}  {cpus:>11} {range:>11}"));
        }
        let width = self.widest(36);
        if !self.is_for_programs() {
            let names = ["USED", "PCT", "CAP", "%CAP", " SHRS", "%SHR", "%SHRU"];
            let label = self.labels.header();
            self.cpu_cells(width, "ZONE", &names.map(str::to_owned), &label);
        }
        let none = || NONE.to_owned();
        for (is_shown, user, used, shares) in [
            (self.lines.total, TOTAL, &set.total, set.shares),
            (self.lines.system, SYSTEM, &set.system, None),
        ] {
            if is_shown {
                let cells = [
                    self.cpus(used.figures[Resource::Cpu].or(Some(0))),
                    self.percent(set.percent(used).or(Some(0))),
                    none(),
                    none(),
                    self.amount(shares),
                    none(),
                    none(),
                ];
                self.cpu_row(width, &before, user, &cells, used.cpu_usec);
            }
        }
        if self.lines.zones {
            for place in rows {
                let row = self.rows[*place];
                let part = set.part(row);
                let cells = [
                    self.cpus(row.used.figures[Resource::Cpu]),
                    self.percent(part.percent),
                    self.cpus(row.cap(Resource::Cpu)),
                    self.percent(row.percent_of_cap(Resource::Cpu)),
                    self.amount(part.shares),
                    self.percent(part.percent_of_shares),
                    self.percent(part.percent_of_entitled),
                ];
                self.cpu_row(width, &before, &row.name, &cells, row.used.cpu_usec);
            }
        }
        self.end_of_section();
    }

    fn elapsed_usec(&self) -> u64 {
        u64::try_from(self.interval.elapsed.as_micros()).unwrap_or(u64::MAX)
    }

    fn cpu_row(
        &mut self,
        width: usize,
        before: &[&str],
        name: &str,
        cells: &[String; 7],
        usec: u64,
    ) {
        if self.is_for_programs() {
            let mut cells = cells.to_vec();
            cells.push(cpu_time(usec));
            self.row(width, before, name, &cells);
        } else {
            let label = self.labels.after(name);
            self.cpu_cells(width, name, cells, &label);
        }
    }

    /// As [`Print::cells`], with six characters for shares.
    fn cpu_cells(&mut self, width: usize, name: &str, cells: &[String; 7], label: &str) {
        let [used, percent, cap, of_cap, shares, of_shares, of_entitled] = cells;
        self.line(&format!(
            "{name:>width$} {used:>5} {percent:>5} {cap:>5} {of_cap:>5} {shares:>6} {of_shares:>5} {of_entitled:>5}{label}"
        ));
    }

    /// Writes received and sent bytes per second.
    fn traffic(
        &mut self,
        word: &str,
        name: &str,
        columns: [&str; 2],
        read: impl Fn(&Row) -> Option<Traffic>,
    ) {
        if !self.is_named(&[name]) {
            return;
        }
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        let busy = |row: &Row| read(row).map_or(0, both_ways);
        order.sort_by_key(|place| std::cmp::Reverse(busy(self.rows[*place])));
        let width = self.widest(36);
        if !self.is_for_programs() {
            self.line(&format!("{:28} {:>13}", word.to_uppercase(), "BYTES/S"));
            self.header_cells(width, "ZONE", &columns);
        }
        if self.lines.zones {
            for place in order {
                let row = self.rows[place];
                let cells = self.rates(read(row));
                self.row(width, &[word, name], &row.name, &cells);
            }
        }
        self.end_of_section();
    }

    /// Returns received and sent bytes per second.
    fn rates(&self, traffic: Option<Traffic>) -> [String; 2] {
        let elapsed = self.elapsed_usec();
        let rate = |bytes: u64| {
            let rate = (u128::from(bytes) * 1_000_000).checked_div(u128::from(elapsed));
            u64::try_from(rate.unwrap_or_default()).unwrap_or(u64::MAX)
        };
        [
            self.amount(traffic.map(|traffic| rate(traffic.bytes_in))),
            self.amount(traffic.map(|traffic| rate(traffic.bytes_out))),
        ]
    }

    /// Writes the bytes per second of each link of each zone: the busiest zone first, its links
    /// sorted by name.
    fn links(&mut self, columns: [&str; 2]) {
        let mut order: Vec<&Row> = self.rows.clone();
        order.retain(|row| row.links.iter().any(|link| self.is_named(&[&link.name])));
        if order.is_empty() || !self.lines.zones {
            return;
        }
        order.sort_by_key(|row| std::cmp::Reverse(row.network.map_or(0, both_ways)));
        let width = self.widest(20);
        // The name of a link has up to 15 bytes.
        let both = |zone: &str, link: &str| format!("{zone:>width$} {link:>15}");
        if !self.is_for_programs() {
            self.line(&format!("{:28} {:>13}", "NETWORK LINKS", "BYTES/S"));
            self.header_cells(0, &both("ZONE", "LINK"), &columns);
        }
        for row in order {
            for link in &row.links {
                if !self.is_named(&[&link.name]) {
                    continue;
                }
                let cells = self.rates(Some(link.traffic));
                if self.is_for_programs() {
                    self.row(0, &["network-link", &link.name], &row.name, &cells);
                } else {
                    let label = self.labels.after(&row.name);
                    let cells = cells.each_ref().map(String::as_str);
                    self.cells(0, &both(&row.name, &link.name), &cells, &label);
                }
            }
        }
        self.end_of_section();
    }

    /// Writes the part of the time in which processes waited for a resource.
    fn pressure(&mut self) {
        if !self.is_named(&["psi_default"]) {
            return;
        }
        let elapsed = self.elapsed_usec();
        let width = self.widest(36);
        if !self.is_for_programs() {
            self.line(&format!("{:28} {:>13}", "PRESSURE", "TIME WAITED"));
            let names = ["CPU", "MEM", "ALL", "DISK", "ALL"];
            self.header_cells(width, "ZONE", &names);
        }
        if self.lines.zones {
            for place in self.sorted(Resource::Cpu) {
                let row = self.rows[place];
                let part = |usec: u64| percent(usec.min(elapsed), elapsed);
                let pressure = row.pressure.as_ref();
                let cells = [
                    pressure.and_then(|p| part(p.cpu.some_usec)),
                    pressure.and_then(|p| part(p.memory.some_usec)),
                    pressure.and_then(|p| part(p.memory.full_usec)),
                    pressure.and_then(|p| part(p.io.some_usec)),
                    pressure.and_then(|p| part(p.io.full_usec)),
                ];
                let cells = cells.map(|cell| self.percent(cell));
                self.row(width, &["pressure", "psi_default"], &row.name, &cells);
            }
        }
        self.end_of_section();
    }
}

const fn both_ways(traffic: Traffic) -> u64 {
    traffic.bytes_in.saturating_add(traffic.bytes_out)
}

/// Returns a part of a whole; `None` if the whole is not known.
fn part_of(used: Option<u64>, size: Option<u64>) -> Option<u64> {
    percent(used?, size?)
}

#[cfg(test)]
mod tests;
