//! The command line, with two faces: that of Solaris 11 and that of 2009.
//!
//! `-P` is the one option that both have, with different meanings: it names lines where
//! `-p` is given too, and otherwise it is the colon-separated dashboard. No other
//! option means two things. What asks for the dashboard is `-l`, `-N`, `-P` without
//! `-p`, `--dashboard`, or no interval and no option of Solaris 11.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use lexopt::prelude::*;
use stat::report::Kind;
use stat::{Resource, Wants};

use crate::time::{Span, Stamp, span};

/// How it is called.
pub const USAGE: &str = "\
usage: zonestat [-z zonelist] [-r reslist] [-n namelist] [-T u|d|i] [-R reports] [-q]
                [-p [-P lines]] [-S cols] interval [duration [report]]
       zonestat [-l] [-P] [-N] [-z zonelist] [interval [count]]
       zonestat -j [-z zonelist] [-R reports] [-q] [interval [duration [report]]]
       zonestat --tui [-z zonelist] [interval]
       zonestat --openmetrics | --serve [address] | --help
";

/// All there is to know.
pub const HELP: &str = "\
usage: zonestat [-z zonelist] [-r reslist] [-n namelist] [-T u|d|i] [-R reports] [-q]
                [-p [-P lines]] [-S cols] interval [duration [report]]
       zonestat [-l] [-P] [-N] [-z zonelist] [interval [count]]
       zonestat -j [-z zonelist] [-R reports] [-q] [interval [duration [report]]]
       zonestat --tui [-z zonelist] [interval]
       zonestat --openmetrics | --serve [address] | --help

Shows what zones use: CPUs, memory and what else there is a limit for.

As on Solaris 11:
    interval    seconds, or [nh][nm][ns] as in 1h30m, or 'default', which is 5 s
    duration    number of intervals, or a time, or 'inf'
    report      reports after so many intervals, or after a time; needs -R
    -z zones    these zones: names, globs ('web*') or ranges ('web[1-9]')
    -r what     summary (what is shown otherwise), physical-memory, virtual-memory,
                locked-memory, memory (these three), processor-set or psets,
                default-pset, processes, lwps, lofi, limits (these three), shm-memory,
                shm-ids, sem-ids, msg-ids, sysv (these four), all;
                and here: network, disk, pressure
    -n names    these only: mem_default, vm_default, system-limit, or a set of CPUs,
                by the name of its pool or of its zone
    -T u|d|i    with the time: seconds since 1970, as date(1), as 20251120T213257Z
    -R reports  total, average, high: over all intervals
    -q          only the reports
    -p          for programs: fields with colons between
    -P lines    with -p, only these: resource, total, system, zones, header, footer
    -S columns  sorted by name, used, cap, pcap, shr, pshru; the summary by these of
                cpu, physical-memory or virtual-memory

The dashboard of 2009:
    -l          with limits
    -P          colon-separated, with the time as last field
    -N          names in full
    --dashboard this, also without -l, -P and -N. Without an interval there is one
                sample, which takes a second

Also:
    -j, --json      everything, a line of JSON for each interval or report
    --tui           full screen; '?' there shows the keys
    --openmetrics   counters and figures of now, for Prometheus
    --serve         the same over HTTP, at 127.0.0.1:9781 or the given address,
                    and keeps a history
    --root dir      the zones below this directory (also ZONES_ROOT)

Exit status: 0 done, 1 error, 2 usage.

Examples:
    zonestat 5                        a summary every 5 seconds
    zonestat -r psets,memory -z web1 10 6
    zonestat -p -P zones -r psets 5 1
    zonestat -q -R total,high 10s 24h 1h
    zonestat -l 5                     the dashboard, with limits
    zonestat -j 1 | jq '.zones[].name'
";

/// Seconds of the interval `default`, and of `--tui`, -j and the dashboard without one.
pub const DEFAULT_INTERVAL: u64 = 5;
/// Where `--serve` listens unless told otherwise.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:9781";

/// What is asked for.
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

/// What every form has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// `--root`.
    pub root: Option<PathBuf>,
    /// `-z`; empty for all.
    pub zones: Vec<String>,
}

/// What is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// CPUs and memory, a line per zone.
    Summary,
    /// One resource.
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
    /// What is used.
    Used,
    /// The limit.
    Cap,
    /// What is used of the limit.
    PercentOfCap,
    /// Shares.
    Shares,
    /// What is used of what the shares are worth.
    PercentOfShares,
}

/// How reports look.
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
    const fn all(chosen: bool) -> Self {
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
    /// What every form has.
    pub common: Common,
    /// What is reported, in the order of printing.
    pub sections: Vec<Section>,
    /// `-n`; empty for all.
    pub names: Vec<String>,
    /// `-T`.
    pub stamp: Option<Stamp>,
    /// `-R`.
    pub kinds: Vec<Kind>,
    /// Whether intervals are not printed.
    pub quiet: bool,
    /// How they look.
    pub form: Form,
    /// Lines of the form for programs.
    pub lines: Lines,
    /// By what rows are sorted, the first first.
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
    /// What every form has.
    pub common: Common,
    /// `-l`.
    pub limits: bool,
    /// `-P`.
    pub parseable: bool,
    /// `-N`.
    pub full_names: bool,
    /// Seconds between samples.
    pub interval: u64,
    /// How many; none for no end.
    pub count: Option<u64>,
}

/// The full screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tui {
    /// What every form has.
    pub common: Common,
    /// Seconds between samples.
    pub interval: u64,
}

/// Why a command line is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<lexopt::Error> for Wrong {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

/// What an argument of -P is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OfP {
    Lines,
    Nothing,
}

/// Everything that was given, not yet understood.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each option")]
struct Given {
    common: Common,
    resources: Vec<String>,
    names: Vec<String>,
    stamp: Option<String>,
    reports: Vec<String>,
    quiet: bool,
    parseable: bool,
    lines: Vec<String>,
    sort: Vec<String>,
    operands: Vec<String>,
    limits: bool,
    full_names: bool,
    big_p: bool,
    dashboard: bool,
    json: bool,
    tui: bool,
    metrics: bool,
    serve: bool,
    help: bool,
}

/// Reads the command line; `words` are those behind the program's name.
///
/// # Errors
/// [`Wrong`] says what is not understood.
pub fn parse(words: &[OsString]) -> Result<Call, Wrong> {
    let mut given = match read(words, OfP::Lines) {
        Ok(given) if given.parseable || !given.big_p => given,
        // Without -p it has no argument, and what stands behind it is something else.
        Ok(_) | Err(_) => match read(words, OfP::Nothing) {
            Ok(given) if !given.parseable => given,
            Ok(_) => return Err(Wrong("-P lines: what lines?".to_owned())),
            Err(error) => return Err(error),
        },
    };
    if given.help {
        return Ok(Call::Help);
    }
    let ours = [given.json, given.tui, given.metrics, given.serve];
    if ours.into_iter().filter(|one| *one).count() > 1 {
        let text = "only one of -j, --tui, --openmetrics and --serve can be given";
        return Err(Wrong(text.to_owned()));
    }
    let of_2009 =
        given.limits || given.full_names || given.dashboard || { given.big_p && !given.parseable };
    if of_2009 || (given.operands.is_empty() && !given.is_of_solaris() && !ours.contains(&true)) {
        return given.dashboard();
    }
    if given.tui || given.metrics || given.serve {
        given.refuse_reports()?;
        if given.metrics {
            given.at_most(0)?;
            return Ok(Call::OpenMetrics(given.common));
        }
        given.at_most(1)?;
        if given.serve {
            let address = given.operands.pop();
            return Ok(Call::Serve(
                given.common,
                address.unwrap_or_else(|| DEFAULT_ADDRESS.to_owned()),
            ));
        }
        return Ok(Call::Tui(Tui {
            interval: given.interval()?.unwrap_or(2),
            common: given.common,
        }));
    }
    given.reports()
}

fn read(words: &[OsString], of_p: OfP) -> Result<Given, Wrong> {
    let mut given = Given::default();
    let mut words = lexopt::Parser::from_args(words);
    while let Some(word) = words.next()? {
        match word {
            Short('z') => given.common.zones.extend(list(&text(&mut words)?)?),
            Short('r') => given.resources.extend(list(&text(&mut words)?)?),
            Short('n') => given.names.extend(list(&text(&mut words)?)?),
            Short('T') => given.stamp = Some(text(&mut words)?),
            Short('R') => given.reports.extend(list(&text(&mut words)?)?),
            Short('q') => given.quiet = true,
            Short('p') => given.parseable = true,
            Short('P') => {
                given.big_p = true;
                if of_p == OfP::Lines {
                    given.lines.extend(list(&text(&mut words)?)?);
                }
            }
            Short('S') => given.sort.extend(list(&text(&mut words)?)?),
            Short('l') => given.limits = true,
            Short('N') => given.full_names = true,
            Long("dashboard") => given.dashboard = true,
            Short('j') | Long("json") => given.json = true,
            Long("tui") => given.tui = true,
            Long("openmetrics") => given.metrics = true,
            Long("serve") => given.serve = true,
            Long("root") => given.common.root = Some(words.value()?.into()),
            Short('?' | 'h') | Long("help") => given.help = true,
            Value(word) => given.operands.push(word.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(given)
}

fn text(words: &mut lexopt::Parser) -> Result<String, Wrong> {
    Ok(words.value()?.string()?)
}

/// `web1,db` taken apart; a comma inside brackets is of a range.
fn list(text: &str) -> Result<Vec<String>, Wrong> {
    let mut words = vec![String::new()];
    let mut in_range = false;
    for character in text.chars() {
        in_range = (in_range || character == '[') && character != ']';
        match words.last_mut() {
            Some(last) if in_range || character != ',' => last.push(character),
            _ => words.push(String::new()),
        }
    }
    if words.iter().any(String::is_empty) {
        return Err(Wrong(format!("Invalid list: \"{text}\"")));
    }
    Ok(words)
}

impl Given {
    /// Whether there is an option that only Solaris 11 has.
    fn is_of_solaris(&self) -> bool {
        !(self.resources.is_empty()
            && self.names.is_empty()
            && self.reports.is_empty()
            && self.sort.is_empty())
            || self.stamp.is_some()
            || self.quiet
            || self.parseable
    }

    /// Whether something narrows or orders what JSON has anyway.
    fn is_narrow(&self) -> bool {
        let lists = [&self.resources, &self.names, &self.sort];
        self.stamp.is_some() || lists.into_iter().any(|list| !list.is_empty())
    }

    fn refuse_reports(&self) -> Result<(), Wrong> {
        if self.is_of_solaris() {
            let text = "-r, -n, -T, -R, -q, -p and -S are for reports only";
            return Err(Wrong(text.to_owned()));
        }
        Ok(())
    }

    fn at_most(&self, operands: usize) -> Result<(), Wrong> {
        match self.operands.get(operands) {
            None => Ok(()),
            Some(word) => Err(Wrong(format!("Too many operands: \"{word}\""))),
        }
    }

    /// The interval in seconds, if there is one.
    fn interval(&self) -> Result<Option<u64>, Wrong> {
        let Some(word) = self.operands.first() else {
            return Ok(None);
        };
        match span(word) {
            Some(Span::Plain(seconds) | Span::Time(seconds)) => Ok(Some(seconds)),
            Some(Span::Default) => Ok(Some(DEFAULT_INTERVAL)),
            Some(Span::Endless) | None => Err(Wrong(format!("Invalid interval: \"{word}\""))),
        }
    }

    /// Another operand in seconds; none for no end. A plain number counts intervals.
    fn period(&self, place: usize, what: &str, interval: u64) -> Result<Option<u64>, Wrong> {
        let Some(word) = self.operands.get(place) else {
            return Ok(None);
        };
        match span(word) {
            Some(Span::Plain(count)) => Ok(Some(count.saturating_mul(interval))),
            Some(Span::Time(seconds)) => Ok(Some(seconds)),
            Some(Span::Endless) => Ok(None),
            Some(Span::Default) | None => Err(Wrong(format!("Invalid {what}: \"{word}\""))),
        }
    }

    fn dashboard(self) -> Result<Call, Wrong> {
        if self.json || self.tui || self.metrics || self.serve {
            let text = "-l, -N and -P without -p are for the dashboard only";
            return Err(Wrong(text.to_owned()));
        }
        if self.is_of_solaris() {
            let text = "-l, -N and -P without -p cannot go with -r, -n, -T, -R, -q and -S";
            return Err(Wrong(text.to_owned()));
        }
        if self.big_p
            && self
                .operands
                .first()
                .is_some_and(|word| lines(word).is_some())
        {
            return Err(Wrong("-P requires -p".to_owned()));
        }
        self.at_most(2)?;
        let interval = self.interval()?;
        let count = match (interval, self.operands.get(1)) {
            (None, _) => Some(1),
            (_, None) => None,
            (_, Some(word)) => match span(word) {
                Some(Span::Plain(count)) => Some(count),
                Some(Span::Endless) => None,
                _ => return Err(Wrong(format!("Invalid count: \"{word}\""))),
            },
        };
        Ok(Call::Dashboard(Dashboard {
            common: self.common,
            limits: self.limits,
            parseable: self.big_p,
            full_names: self.full_names,
            interval: interval.unwrap_or(1),
            count,
        }))
    }

    fn reports(self) -> Result<Call, Wrong> {
        let form = match (self.parseable, self.json) {
            (true, true) => return Err(Wrong("-p and -j are two forms".to_owned())),
            (false, true) if self.is_narrow() => {
                let text = "-r, -n, -T and -S cannot go with -j, which has everything";
                return Err(Wrong(text.to_owned()));
            }
            (true, false) => Form::Parseable,
            (false, true) => Form::Json,
            (false, false) => Form::Human,
        };
        let stamp = match self.stamp.as_deref() {
            None => None,
            Some("u") => Some(Stamp::Unix),
            Some("i") => Some(Stamp::Iso),
            Some("d") if form == Form::Human => Some(Stamp::Date),
            Some("d") => {
                let text = "-T d invalid with -p.  Use -T [u | i]";
                return Err(Wrong(text.to_owned()));
            }
            Some(other) => {
                return Err(Wrong(format!(
                    "Invalid -T arg \"{other}\". Must be 'u', 'i', or 'd'."
                )));
            }
        };
        self.at_most(3)?;
        let interval = match self.interval()? {
            Some(interval) => interval,
            // JSON without an interval is one sample.
            None if self.json && self.operands.is_empty() => 1,
            None => return Err(Wrong("Interval required.".to_owned())),
        };
        let once = self.operands.is_empty().then_some(interval);
        let timing = Timing {
            interval,
            duration: self.period(1, "duration", interval)?.or(once),
            report: self.period(2, "report period", interval)?,
        };
        let mut kinds = Vec::new();
        for word in &self.reports {
            let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == word);
            kinds.push(kind.ok_or_else(|| Wrong(format!("Unknown -R arg: {word}")))?);
        }
        kinds.sort_unstable();
        kinds.dedup();
        if self.quiet && kinds.is_empty() {
            return Err(Wrong("-q requires -R".to_owned()));
        }
        if self.operands.len() > 2 && kinds.is_empty() {
            return Err(Wrong("A report period requires -R".to_owned()));
        }
        let (sort, summary_by) = sorting(&self.sort)?;
        let mut chosen = Lines::all(self.lines.is_empty());
        for word in &self.lines {
            let line = lines(word).ok_or_else(|| Wrong(format!("Unknown -P arg: {word}")))?;
            *line(&mut chosen) = true;
        }
        Ok(Call::Reports(Box::new(Reports {
            common: self.common,
            sections: sections(&self.resources)?,
            names: self.names,
            stamp,
            kinds,
            quiet: self.quiet,
            form,
            lines: chosen,
            sort,
            summary_by,
            timing,
        })))
    }
}

type Line = fn(&mut Lines) -> &mut bool;

/// The lines of a word of -P.
fn lines(word: &str) -> Option<Line> {
    let line: Line = match word {
        "resource" => |lines| &mut lines.resource,
        "total" => |lines| &mut lines.total,
        "system" => |lines| &mut lines.system,
        "zones" => |lines| &mut lines.zones,
        "header" => |lines| &mut lines.header,
        "footer" => |lines| &mut lines.footer,
        _ => return None,
    };
    Some(line)
}

/// What the words of -r stand for, each once and in the order of reports.
fn sections(words: &[String]) -> Result<Vec<Section>, Wrong> {
    use Resource::{
        Locked, Lofi, Lwps, MsgIds, Physical, Processes, SemIds, ShmIds, ShmMemory, Virtual,
    };
    const ORDER: [Section; 16] = [
        Section::Summary,
        Section::One(Physical),
        Section::One(Virtual),
        Section::One(Locked),
        Section::Psets,
        Section::DefaultPset,
        Section::One(Processes),
        Section::One(Lwps),
        Section::One(Lofi),
        Section::One(ShmMemory),
        Section::One(ShmIds),
        Section::One(SemIds),
        Section::One(MsgIds),
        Section::Network,
        Section::Disk,
        Section::Pressure,
    ];
    let mut chosen = Vec::new();
    for word in words {
        let of: &[Section] = match word.as_str() {
            "summary" => &[Section::Summary],
            "memory" => &[
                Section::One(Physical),
                Section::One(Virtual),
                Section::One(Locked),
            ],
            "processor-set" | "psets" => &[Section::Psets],
            "default-pset" => &[Section::DefaultPset],
            "limits" => &[
                Section::One(Processes),
                Section::One(Lwps),
                Section::One(Lofi),
            ],
            "sysv" => &[
                Section::One(ShmMemory),
                Section::One(ShmIds),
                Section::One(SemIds),
                Section::One(MsgIds),
            ],
            "network" => &[Section::Network],
            "disk" => &[Section::Disk],
            "pressure" => &[Section::Pressure],
            "all" => &ORDER,
            word => {
                let mut all = Resource::ALL.into_iter();
                let one = all.find(|resource| resource.as_str() == word);
                let one = one.ok_or_else(|| Wrong(format!("Unknown resource: {word}")))?;
                chosen.push(Section::One(one));
                continue;
            }
        };
        chosen.extend_from_slice(of);
    }
    if chosen.is_empty() {
        chosen.push(Section::Summary);
    }
    // All sets of CPUs have the default one among them.
    if chosen.contains(&Section::Psets) {
        chosen.retain(|section| *section != Section::DefaultPset);
    }
    let order = ORDER.into_iter();
    Ok(order.filter(|section| chosen.contains(section)).collect())
}

/// What the words of -S stand for.
fn sorting(words: &[String]) -> Result<(Vec<Sort>, Resource), Wrong> {
    let (mut sort, mut by) = (Vec::new(), None);
    for word in words {
        let resource = match word.as_str() {
            "name" => {
                sort.push(Sort::Name);
                continue;
            }
            "used" => {
                sort.push(Sort::Used);
                continue;
            }
            "cap" => {
                sort.push(Sort::Cap);
                continue;
            }
            "pcap" => {
                sort.push(Sort::PercentOfCap);
                continue;
            }
            "shr" => {
                sort.push(Sort::Shares);
                continue;
            }
            "pshru" => {
                sort.push(Sort::PercentOfShares);
                continue;
            }
            "cpu" => Resource::Cpu,
            "physical-memory" => Resource::Physical,
            "virtual-memory" => Resource::Virtual,
            word => return Err(Wrong(format!("Unknown -S arg: {word}"))),
        };
        if by.replace(resource).is_some() {
            let text =
                "-S: only one of \"cpu\", \"physical-memory\", or \"virtual-memory\" permitted";
            return Err(Wrong(text.to_owned()));
        }
    }
    if sort.is_empty() {
        sort = vec![Sort::Used, Sort::Name];
    }
    Ok((sort, by.unwrap_or(Resource::Cpu)))
}

impl Reports {
    /// What must be read for them.
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

#[cfg(test)]
mod tests;
