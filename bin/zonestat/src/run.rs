//! Takes samples at their times.

use std::os::fd::AsFd;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::time::Timespec;
use stat::{Interval, Report, Sample, Sampler, Wants};
use sys::signals::Taken;

use crate::args::{Common, Dashboard, Form, Reports};
use crate::metrics::{self, Format};
use crate::solaris::{Heading, Printer};
use crate::zones::Zones;
use crate::{dashboard, json};

/// Number of open files that stay free for other uses than samples.
const RESERVED_FILES: u64 = 64;

/// Maximum number of files that samples keep open: twenty files of each of 5,000 zones with one
/// control group each. A zone with more groups keeps at most 64 more files open.
const MAX_SAMPLE_FILES: u64 = 100_000;

/// The signals that end zonestat after it has printed the reports that are due.
pub const ENDS: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Returns a sampler of the zones that the caller can see.
///
/// # Errors
/// Fails if the root is invalid.
pub fn sampler(common: &Common, wants: Wants) -> Result<Sampler, String> {
    if let Some(zone) = cli::current_zone() {
        return Sampler::inside(&zone.name, zone.id.unwrap_or_default(), wants)
            .ok_or_else(|| "this zone does not see its control group".to_owned());
    }
    let root = cli::root(common.root.as_deref()).map_err(|error| error.to_string())?;
    Ok(Sampler::new(root, wants, files()))
}

/// Returns the selected zones, after a warning about names that no zone has: a zone may be
/// configured while zonestat runs.
fn chosen(common: &Common) -> Result<Zones, String> {
    let zones = Zones::new(&common.zones)?;
    // A process in a zone sees no other zone, and no index.
    if cli::current_zone().is_none() {
        let root = cli::root(common.root.as_deref()).map_err(|error| error.to_string())?;
        for name in zones.unknown(&root)? {
            eprintln!("zonestat: WARNING: {name}: No such zone configured");
        }
    }
    Ok(zones)
}

/// Raises the limit on open files to its maximum. Returns the number of files that samples may keep
/// open.
fn files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit
        .maximum
        .unwrap_or(MAX_SAMPLE_FILES)
        .min(MAX_SAMPLE_FILES);
    let raised = Rlimit {
        current: Some(most.max(limit.current.unwrap_or(most))),
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => raised.current,
        Err(_) => limit.current,
    };
    let files = current
        .unwrap_or(MAX_SAMPLE_FILES)
        .saturating_sub(RESERVED_FILES);
    usize::try_from(files.min(MAX_SAMPLE_FILES)).unwrap_or_default()
}

/// The reason why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The time has come.
    Time,
    /// A signal asks zonestat to end.
    End,
}

/// Waits until `until`, and meanwhile records zones that start and end.
pub fn wait(sampler: &mut Sampler, signals: &Taken, until: Instant) -> Woken {
    loop {
        if signals.next().is_some() {
            return Woken::End;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Woken::Time;
        }
        let patience = Timespec::try_from(left).ok();
        let news = {
            let mut watched = vec![PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
            watched.extend(
                sampler
                    .descriptor()
                    .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            );
            // An error means a signal that is not handled, or no event: the clock decides.
            let _ = poll(&mut watched, patience.as_ref());
            watched.get(1).is_some_and(|fd| !fd.revents().is_empty())
        };
        if news {
            sampler.notice();
        }
    }
}

/// Blocks the signals that end zonestat and returns a descriptor for them. The process must have
/// one thread only.
///
/// # Errors
/// Fails with the error of the kernel.
pub fn take_signals() -> Result<Taken, String> {
    Taken::take(&ENDS.map(Signal::as_raw)).map_err(|error| format!("cannot take signals: {error}"))
}

fn unix() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

fn write(text: &str) -> Result<(), String> {
    cli::output::write(text.as_bytes())
        .map_err(|errno| format!("could not write to standard output: {errno}"))
}

/// Prints reports of Solaris 11, or JSON.
///
/// # Errors
/// Fails with the problem of the options, the root or the output.
pub fn reports(options: &Reports) -> Result<(), String> {
    let zones = chosen(&options.common)?;
    let printer = Printer {
        reports: options,
        zones: &zones,
    };
    let print = |heading: &Heading, interval: &Interval| match options.form {
        Form::Json => json::line(options, heading, interval, &zones),
        Form::Human | Form::Parseable => Ok(printer.print(heading, interval)),
    };
    let signals = take_signals()?;
    let mut sampler = sampler(&options.common, options.wants())?;
    let timing = options.timing;
    let every = Duration::from_secs(timing.interval);
    let mut last = sampler.sample();
    let (start, first_start) = (Instant::now(), unix());
    let mut report = Report::default();
    let mut report_start = first_start;
    let mut next_report = timing.report;
    let mut count = 0;
    let mut heading = Heading {
        kind: None,
        count,
        seconds: 0,
        start: first_start,
        end: first_start,
    };
    let print_reports = |report: &Report, heading: Heading| -> Result<(), String> {
        for kind in &options.kinds {
            if let Some(interval) = report.compute(*kind) {
                let heading = Heading {
                    kind: Some(*kind),
                    count: report.count(),
                    ..heading
                };
                write(&print(&heading, &interval)?)?;
            }
        }
        Ok(())
    };
    if options.form == Form::Human && !options.quiet {
        write("Collecting data for first interval...\n")?;
    }
    loop {
        count += 1;
        // Intervals that are over already were missed and are skipped.
        while start.elapsed() >= multiple(every, count + 1) {
            count += 1;
        }
        if wait(&mut sampler, &signals, start + multiple(every, count)) == Woken::End {
            break;
        }
        let sample = sampler.sample();
        let interval = Interval::between(&last, &sample);
        last = sample;
        heading = Heading {
            kind: None,
            count,
            seconds: start.elapsed().as_secs(),
            start: report_start,
            end: unix(),
        };
        if !options.quiet {
            write(&print(&heading, &interval)?)?;
        }
        if !options.kinds.is_empty() {
            report.add(&interval);
        }
        if next_report.is_some_and(|at| heading.seconds >= at) {
            print_reports(&report, heading)?;
            report = Report::default();
            report_start = heading.end;
            while next_report.is_some_and(|at| heading.seconds >= at) {
                next_report = next_report.zip(timing.report).map(|(at, more)| at + more);
            }
        }
        if timing
            .duration
            .is_some_and(|duration| heading.seconds >= duration)
        {
            break;
        }
    }
    print_reports(&report, heading)
}

fn multiple(every: Duration, count: u64) -> Duration {
    every.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Prints the dashboard of the zonestat of 2009.
///
/// # Errors
/// Fails with the problem of the options, the root or the output.
pub fn dashboard(options: &Dashboard) -> Result<(), String> {
    let zones = chosen(&options.common)?;
    let mut printer = dashboard::Printer::new(options, &zones);
    let wants = Wants {
        locked: true,
        ipc: true,
        ..Wants::default()
    };
    let signals = take_signals()?;
    let mut sampler = sampler(&options.common, wants)?;
    let mut last: Sample = sampler.sample();
    let start = Instant::now();
    // The first sample comes after one second, and then one in each interval.
    let mut due = Duration::from_secs(1);
    let mut count = 0;
    while options.count.is_none_or(|most| count < most) {
        if wait(&mut sampler, &signals, start + due) == Woken::End {
            break;
        }
        let sample = sampler.sample();
        write(&printer.print(&Interval::between(&last, &sample)))?;
        last = sample;
        count += 1;
        due += Duration::from_secs(options.interval);
    }
    Ok(())
}

/// Prints the metrics for Prometheus, once.
///
/// # Errors
/// Fails with the problem of the root or the output.
pub fn openmetrics(common: &Common) -> Result<(), String> {
    let zones = chosen(common)?;
    let sample = sampler(common, Wants::ALL)?.sample();
    let wanted = |zone: &stat::ZoneSample| zones.has(&zone.name);
    write(&metrics::text(&sample, Format::Both, wanted))
}
