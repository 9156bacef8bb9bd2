//! Acts on many zones in parallel, with few writes of the index and with progress reports.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cli::progress;
use host::{Error, Host, parallel};
use model::ZoneName;
use zone::clone::{Origin, Prepared, Unknown, prepare, store_all};
use zone::delete;
use zone::executor::Outcome;
use zone::snapshot::Name;
use zone::uninstall::{self, Admitted};

use crate::options::Options;
use crate::outcome::show;
use crate::report;

/// Maximum number of zones that are stored in one write of the index. Until this write each zone's
/// lock is held with a descriptor, so the number is well below the usual limit of 1024 descriptors.
const ZONES_PER_INDEX_WRITE: usize = 250;

/// Interval between progress reports of a run of many zones.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// The progress of a run.
struct Progress<'a> {
    verb: &'a str,
    all: usize,
    done: AtomicUsize,
    told: Mutex<Instant>,
}

impl<'a> Progress<'a> {
    fn of(verb: &'a str, all: usize) -> Self {
        Self {
            verb,
            all,
            done: AtomicUsize::new(0),
            told: Mutex::new(Instant::now()),
        }
    }

    /// Counts a finished zone, and prints the progress at intervals if the run takes seconds.
    /// Prints to standard output, as install does, because progress is no error. In JSON each zone
    /// has its line.
    fn one_more(&self, zone: &ZoneName) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let (count, all) = (done as u64, self.all as u64);
        if progress::amount(Some(zone.as_str()), "ended", count, Some(all), "zones") {
            return;
        }
        let Ok(mut told) = self.told.lock() else {
            return;
        };
        if told.elapsed() >= PROGRESS_INTERVAL {
            *told = Instant::now();
            println!("zoneadm: {}: {done} of {} zones", self.verb, self.all);
        }
    }
}

/// Prints a line about the work on a zone.
fn say(zone: &ZoneName, line: &str) {
    if !progress::step(zone.as_str(), line) {
        println!("{line}");
    }
}

type Act<'a> = dyn Fn(&ZoneName, &mut dyn FnMut(&str)) -> Result<Outcome, Error> + Sync + 'a;

/// Acts on several zones at a time until all are done. An error with one zone does not stop the
/// others.
pub fn for_each(
    verb: &str,
    zones: &[ZoneName],
    act: impl Fn(&ZoneName, &mut dyn FnMut(&str)) -> Result<Outcome, Error> + Sync,
) -> u8 {
    let act: &Act<'_> = &act;
    if let [zone] = zones {
        // For a single zone, all messages of the verb are printed.
        return show(zone, &act(zone, &mut |line| say(zone, line)));
    }
    let (status, count) = (
        AtomicU8::new(cli::status::OK),
        Progress::of(verb, zones.len()),
    );
    parallel::for_each(zones, |zone| {
        let result = act(zone, &mut |line| {
            // Plain lines of many zones would not tell which zone they are about.
            let _ = progress::step(zone.as_str(), line);
        });
        status.fetch_max(show(zone, &result), Ordering::Relaxed);
        count.one_more(zone);
    });
    status.into_inner()
}

/// Returns the results of `act` for each item, in their order.
fn map_in_parallel<T: Sync, R: Send>(
    items: &[T],
    act: impl Fn(&T) -> Option<R> + Sync,
) -> Vec<Option<R>> {
    let slots: Vec<(&T, Mutex<Option<R>>)> =
        items.iter().map(|item| (item, Mutex::new(None))).collect();
    parallel::for_each(&slots, |(item, slot)| {
        let made = act(item);
        if let Ok(mut slot) = slot.lock() {
            *slot = made;
        }
    });
    slots
        .into_iter()
        .map(|(_, slot)| slot.into_inner().unwrap_or_default())
        .collect()
}

/// The zone or snapshot that is cloned.
pub struct Source<'a> {
    /// The zone.
    pub zone: &'a str,
    /// The snapshot to clone; `None` for the present state of the zone.
    pub snapshot: Option<Name>,
    /// A folder of files that each clone gets.
    pub profile: Option<PathBuf>,
}

/// Clones a zone or its snapshot. The clones share one origin and one write of the index. A full
/// disk ends the run; clones made before stay valid.
pub fn clone(
    host: &Host,
    zones: &[ZoneName],
    source: Source<'_>,
    unknown: Unknown,
    dry_run: bool,
) -> u8 {
    let Ok(name) = source.zone.parse::<ZoneName>() else {
        eprintln!("zoneadm: {}: No such zone configured", source.zone);
        return cli::status::ERROR;
    };
    let origin = Origin::open(host, &name, source.snapshot);
    let origin = origin.and_then(|origin| match source.profile {
        Some(profile) => origin.with_profile(profile),
        None => Ok(origin),
    });
    let origin = match origin {
        Ok(origin) => origin,
        Err(error) => {
            let zone = zones.first().map_or(source.zone, |zone| zone.as_str());
            return report::error(zone, &error);
        }
    };
    let mut status = cli::status::OK;
    let count = Progress::of("clone", zones.len());
    let mut tried = 0;
    for batch in zones.chunks(ZONES_PER_INDEX_WRITE) {
        let full = AtomicBool::new(false);
        let prepared = map_in_parallel(batch, |zone| {
            // After one clone has found the disk full, no further clone is started.
            if full.load(Ordering::Relaxed) {
                return None;
            }
            let say = &mut |line: &str| say(zone, line);
            let prepared = prepare(host, &origin, zone, unknown, dry_run, say);
            if matches!(&prepared, Err(error) if error.is_full()) {
                full.store(true, Ordering::Relaxed);
            }
            count.one_more(zone);
            Some(prepared)
        });
        let (mut whole, mut no_space) = (Vec::new(), Vec::new());
        for (zone, prepared) in batch.iter().zip(prepared) {
            tried += usize::from(prepared.is_some());
            match prepared {
                Some(Ok(Prepared::Cloned(clone))) => whole.push(clone),
                Some(Ok(Prepared::Planned(plan))) => {
                    status = status.max(show(zone, &Ok(Outcome::Planned(plan))));
                }
                Some(Ok(Prepared::Already(notice))) => {
                    status = status.max(show(zone, &Ok(Outcome::Already(notice))));
                }
                Some(Err(error)) if error.is_full() => no_space.push((zone, error)),
                Some(Err(error)) => status = status.max(report::error(zone.as_str(), &error)),
                None => {}
            }
        }
        let mut ended = full.into_inner();
        // The first that failed is named first: it may be one that could not be stored.
        if let Err(unstored) = store_all(host, whole) {
            status = status.max(report::error(unstored.zone.as_str(), &unstored.error));
            ended |= unstored.error.is_full();
        }
        for (zone, error) in no_space {
            status = status.max(report::error(zone.as_str(), &error));
        }
        if ended {
            if tried < zones.len() {
                eprintln!(
                    "zoneadm: clone: {} more zones not tried",
                    zones.len() - tried
                );
            }
            break;
        }
    }
    status
}

/// Uninstalls zones in batches, with two writes of the index for each batch, and deletes their
/// configurations in the second write if the options say so.
pub fn uninstall(host: &Host, zones: &[ZoneName], options: &Options) -> u8 {
    let status = AtomicU8::new(cli::status::OK);
    let failed = |zone: &ZoneName, error: &Error| {
        status.fetch_max(report::error(zone.as_str(), error), Ordering::Relaxed);
    };
    let count = Progress::of("uninstall", zones.len());
    let is_single = zones.len() == 1;
    for batch in zones.chunks(ZONES_PER_INDEX_WRITE) {
        let mut subjects = Vec::new();
        for zone in batch {
            match uninstall::admit(host, zone, options.configuration(zone), options.dry_run) {
                Ok(Admitted::Go(subject)) => subjects.push(subject),
                Ok(Admitted::Over(outcome)) => {
                    status.fetch_max(show(zone, &Ok(outcome)), Ordering::Relaxed);
                }
                Err(error) => failed(zone, &error),
            }
        }
        let Some(first) = subjects.first().map(|subject| subject.zone().clone()) else {
            continue;
        };
        if let Err(error) = uninstall::mark_all(host, &subjects) {
            failed(&first, &error);
            continue;
        }
        let removed = map_in_parallel(&subjects, |subject| {
            let zone = subject.zone();
            let done = uninstall::remove(host, subject, &mut |line| {
                // Plain lines of many zones would not tell which zone they are about.
                if is_single {
                    say(zone, line);
                }
            });
            if !is_single {
                count.one_more(zone);
            }
            done.inspect_err(|error| failed(zone, error)).ok()
        });
        let stored = if options.delete {
            let gone = subjects.iter().zip(&removed);
            let gone = gone.filter(|(_, removed)| removed.is_some());
            let gone: Vec<_> = gone.map(|(one, _)| (one.zone(), one.lock())).collect();
            delete::all(&host.root, &gone).map_err(Error::from)
        } else {
            let entries = removed.into_iter().flatten().flatten();
            uninstall::store_all(host, entries.collect())
        };
        if let Err(error) = stored {
            failed(&first, &error);
        }
    }
    status.into_inner()
}
