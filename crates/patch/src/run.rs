//! Patches many zones at a time.

mod witness;

use std::collections::VecDeque;
use std::fs;
use std::fs::File;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use host::{Error, Host, flatten};
use model::{State, ZoneName};
use store::index::Index;
use store::lock;
use zone::environments::When;

use crate::environment::Booted;
use crate::order::Order;
use crate::queue::{Options, Queue, Task, Verdict, lock_of, queue};
use crate::record::{self, Change, Standing};
use crate::report::{Checked, Event, Outcome, Report, Teller, in_order};
use crate::share::{Fared, Shared};
use crate::transaction::{self, Done, Patch, Ready, Running};
use crate::{environment, remains};

/// Time for which zonepatch retries to take a lock. A command that was killed while it started a
/// process holds its lock until that process executes its program.
const LOCK_RETRY_TIME: Duration = Duration::from_secs(5);

/// Takes the lock that only one zonepatch command has at a time, and cleans up after killed
/// commands. The lock ends when the returned file is closed. The returned list names the zones with
/// leftover files, see [`crate::remains::all`]. Other zones can be patched.
///
/// # Errors
/// Fails if another zonepatch command runs.
pub fn begin(host: &Host, wanted: Option<&[ZoneName]>) -> Result<(File, Vec<String>), Error> {
    let folder = record::folder(&host.root);
    std::fs::create_dir_all(&folder).map_err(Error::io(format!("make {}", folder.display())))?;
    let held = lock::exclusive_within(&folder.join("lock"), LOCK_RETRY_TIME)?;
    let held = held.ok_or_else(|| Error::Refused("another zonepatch is at work.".to_owned()))?;
    Ok((held, remains::all(host, wanted)))
}

/// Patches zones. If one zone fails, the others are still patched.
#[must_use]
pub fn apply(
    patch: &Patch<'_>,
    zones: &[ZoneName],
    options: Options,
    tell: Teller<'_>,
) -> Vec<Report> {
    let mut reports = Vec::new();
    let mut candidates = Vec::new();
    for (zone, refused) in zones.iter().zip(states(patch.host, zones)) {
        match refused {
            None => candidates.push(zone.clone()),
            Some(report) => {
                tell(&Event::End(&report));
                reports.push(report);
            }
        }
    }
    let run = Run {
        patch,
        tell,
        queue: Mutex::new(queue(patch.host, candidates, options, patch.running)),
        changed: Condvar::new(),
        reports: Mutex::new(reports),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.parallel {
            scope.spawn(|| run.work());
        }
    });
    for group in &lock_of(&run.queue).groups {
        if let Verdict::Shared(shared) = &group.verdict {
            // The next call finds the leftover files.
            let _ = shared.let_go();
        }
    }
    let reports = run.reports.into_inner();
    in_order(reports.unwrap_or_else(PoisonError::into_inner), zones)
}

/// Returns a report for each zone that cannot be patched because of its state.
fn states(host: &Host, zones: &[ZoneName]) -> Vec<Option<Report>> {
    let index = Index::load(&host.root);
    let look = |zone: &ZoneName| -> Option<Report> {
        let found = match &index {
            Ok(index) => index.find(zone),
            Err(error) => {
                return Some(Report::of(zone, Outcome::Failed, Some(flatten(error))));
            }
        };
        let failed = |text: &str| Some(Report::of(zone, Outcome::Failed, Some(text.to_owned())));
        let Some(entry) = found else {
            return failed("No such zone configured");
        };
        match subject::state(host, entry) {
            Err(error) => failed(&flatten(&error)),
            Ok((state @ (State::Configured | State::Incomplete), _)) => Some(Report::of(
                zone,
                Outcome::Skipped,
                Some(format!("is {state}")),
            )),
            Ok(_) => None,
        }
    };
    zones.iter().map(look).collect()
}

struct Run<'a> {
    patch: &'a Patch<'a>,
    tell: Teller<'a>,
    queue: Mutex<Queue>,
    changed: Condvar,
    reports: Mutex<Vec<Report>>,
}

impl Run<'_> {
    fn work(&self) {
        loop {
            let mut queue = lock_of(&self.queue);
            let task = loop {
                match queue.next() {
                    None => return,
                    Some(Some(task)) => break task,
                    Some(None) => {
                        queue = self
                            .changed
                            .wait(queue)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(queue);
            self.carry_out(task);
            self.changed.notify_all();
        }
    }

    fn carry_out(&self, task: Task) {
        let began = Instant::now();
        let report = match task {
            Task::Nothing(zone) => Report::of(
                &zone,
                Outcome::Unchanged,
                Some("as two zones like it".to_owned()),
            ),
            Task::Alone(zone, why) => {
                (self.tell)(&Event::Begin(&zone));
                self.real(&zone, why)
            }
            Task::Witness(zone, group) => {
                (self.tell)(&Event::Begin(&zone));
                return self.witness(&zone, group, began);
            }
            Task::Share(zone, shared) => {
                (self.tell)(&Event::Begin(&zone));
                self.share(&zone, &shared)
            }
        };
        self.end(report, began);
    }

    /// Prints and keeps the report of a zone whose patch began at this time.
    fn end(&self, mut report: Report, began: Instant) {
        report.seconds = began.elapsed().as_secs_f64();
        (self.tell)(&Event::End(&report));
        lock_of(&self.reports).push(report);
    }

    fn prepare(&self, zone: &ZoneName) -> Result<Ready, Error> {
        self.patch.go_on()?;
        transaction::prepare(self.patch.host, zone)
    }

    fn real(&self, zone: &ZoneName, why: Option<String>) -> Report {
        let ready = self.prepare(zone);
        let runs = ready
            .as_ref()
            .is_ok_and(|ready| ready.subject.state != State::Installed);
        let is_sparse = ready
            .as_ref()
            .is_ok_and(|ready| ready.is_sparse().unwrap_or(false));
        if runs && self.patch.running == Running::Live {
            return self.live(zone, ready);
        }
        // Other zones may share a result, but a sparse zone is never compared with them.
        let why = why.filter(|_| !is_sparse);
        let done = ready.and_then(|ready| self.patch.zone(&ready, None));
        // From here on this process no longer holds the lock of the zone.
        self.activate(zone, &done, why).0
    }

    /// Reboots a zone into the boot environment with its patch, if there is one and if the command
    /// asks for the reboot. Returns the report of the zone, and true if the zone runs with its patch;
    /// `why` is a reason for the report.
    fn activate(
        &self,
        zone: &ZoneName,
        done: &Result<Done, Error>,
        why: Option<String>,
    ) -> (Report, bool) {
        let names = match done {
            Ok(Done::Patched(entry, _)) => (entry.environment.clone(), entry.snapshot.clone()),
            _ => (None, None),
        };
        let (Some(own), Some(former)) = names else {
            return (self.report(zone, done, why), false);
        };
        let report = |text: &str| {
            let text = match &why {
                Some(why) => format!("{text}; {why}"),
                None => text.to_owned(),
            };
            self.report(zone, done, Some(text))
        };
        if self.patch.running != Running::Environment(When::Now) {
            return (report("for its next boot"), false);
        }
        if self.patch.go_on().is_err() {
            let text = "for its next boot, as the command was cancelled";
            return (report(text), false);
        }
        let mut checked = false;
        let check = || {
            checked = self.patch.check(zone)?;
            Ok(())
        };
        match environment::boot_into(self.patch.host, zone, (&own, &former), check) {
            Err(error) => (self.report(zone, &Err(error), None), false),
            Ok(Booted::Halted) => {
                let text = "for its next boot, as it was halted meanwhile";
                (report(text), false)
            }
            Ok(Booted::Changed) => {
                let text = format!(
                    "in boot environment {own}; another one was activated meanwhile, so it was not rebooted"
                );
                (report(&text), false)
            }
            Ok(Booted::Rebooted) => {
                let mut report = report("it was rebooted into it");
                if checked {
                    report.health = Some(Checked::Passed);
                }
                (report, true)
            }
        }
    }

    fn live(&self, zone: &ZoneName, ready: Result<Ready, Error>) -> Report {
        match ready.and_then(|ready| self.patch.live(ready)) {
            Err(error) => self.report(zone, &Err(error), None),
            Ok(lived) => {
                let mut report = self.report(zone, &Ok(lived.done), None);
                report.stale = lived.stale;
                report.health = lived.is_healthy.then_some(Checked::Passed);
                report
            }
        }
    }

    fn share(&self, zone: &ZoneName, shared: &Shared) -> Report {
        let fared = self
            .prepare(zone)
            .and_then(|ready| shared.give(self.patch, &ready));
        match fared {
            Ok(Fared::Patched(done)) => self.activate(zone, &Ok(*done), None).0,
            Ok(Fared::Unlike(why)) => self.real(zone, Some(why)),
            Err(error) => self.report(zone, &Err(error), None),
        }
    }

    fn report(&self, zone: &ZoneName, done: &Result<Done, Error>, why: Option<String>) -> Report {
        match done {
            Ok(Done::Unchanged) => Report::of(zone, Outcome::Unchanged, None),
            Ok(Done::Patched(entry, witness)) => Report {
                how: Some(entry.how),
                packages: entry.packages.clone(),
                services: entry.services.clone(),
                snapshot: entry.snapshot.clone(),
                log: Some(entry.log.clone()).filter(|log| !log.as_os_str().is_empty()),
                health: self.patch.has_health(zone).then_some(Checked::NotRun),
                ..Report::of(zone, Outcome::Patched, witness.warning.clone().or(why))
            },
            Err(error) => {
                let log = self.patch.log(zone);
                let shown = self.patch.host.root.shown(&log);
                Report {
                    log: log.exists().then_some(shown),
                    ..Report::of(zone, Outcome::Failed, Some(flatten(error)))
                }
            }
        }
    }
}

/// Patches zones that do not share results.
fn each(
    zones: &[ZoneName],
    parallel: usize,
    tell: Teller<'_>,
    act: impl Fn(&ZoneName) -> Report + Sync,
) -> Vec<Report> {
    let queue = Mutex::new(zones.iter().collect::<VecDeque<_>>());
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                loop {
                    let Some(zone) = lock_of(&queue).pop_front() else {
                        return;
                    };
                    tell(&Event::Begin(zone));
                    let began = Instant::now();
                    let mut report = act(zone);
                    report.seconds = began.elapsed().as_secs_f64();
                    tell(&Event::End(&report));
                    lock_of(&reports).push(report);
                }
            });
        }
    });
    let reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    in_order(reports, zones)
}

/// Shows the planned result of each zone.
#[must_use]
pub fn plan(
    patch: &Patch<'_>,
    zones: &[ZoneName],
    parallel: usize,
    tell: Teller<'_>,
) -> Vec<Report> {
    each(zones, parallel, tell, |zone| {
        if let Some(Some(refused)) = states(patch.host, std::slice::from_ref(zone)).pop() {
            return refused;
        }
        let ready = patch
            .go_on()
            .and_then(|()| transaction::prepare(patch.host, zone));
        let tried = ready.and_then(|ready| patch.try_out(&ready));
        match tried {
            Err(error) => Report::of(zone, Outcome::Failed, Some(flatten(&error))),
            Ok(packages) if packages.is_empty() => Report::of(zone, Outcome::Unchanged, None),
            Ok(packages) => Report {
                packages,
                ..Report::of(zone, Outcome::Patched, None)
            },
        }
    })
}

/// Undoes the package changes of one patch, whatever changed in the zones since then.
#[must_use]
pub fn remove(
    patch: &Patch<'_>,
    former: &str,
    zones: &[ZoneName],
    parallel: usize,
    tell: Teller<'_>,
) -> Vec<Report> {
    each(zones, parallel, tell, |zone| {
        let done = take_back(patch, former, zone);
        let run = Run {
            patch,
            tell,
            queue: Mutex::default(),
            changed: Condvar::new(),
            reports: Mutex::default(),
        };
        run.report(zone, &done, None)
    })
}

fn take_back(patch: &Patch<'_>, former: &str, zone: &ZoneName) -> Result<Done, Error> {
    let host = patch.host;
    patch.go_on()?;
    let ready = transaction::prepare(host, zone)?;
    if ready.subject.state != State::Installed {
        let state = ready.subject.state;
        return Err(Error::Refused(format!("is {state}; halt it first.")));
    }
    let history = environment::history(host, &ready.subject.entry)?;
    let found = history.entries.iter().find(|one| one.patch == former);
    let found = found.ok_or_else(|| Error::Refused(format!("has no patch {former}.")))?;
    if found.standing != Standing::Applied {
        return Err(Error::Refused(format!(
            "patch {former} is {} already.",
            found.standing.as_str()
        )));
    }
    let back = |change: &Change| {
        let name = match change.architecture.as_str() {
            "" | "all" => change.package.clone(),
            other => format!("{}:{other}", change.package),
        };
        match &change.from {
            Some(version) => format!("{name}={version}"),
            None => format!("{name}-"),
        }
    };
    let order = Order::Back {
        patch: former.to_owned(),
        packages: found.packages.iter().map(back).collect(),
    };
    let own = Patch {
        host,
        name: patch.name.clone(),
        order,
        files: None,
        keep: patch.keep,
        running: Running::Refused,
        health: patch.health.clone(),
        within: patch.within,
        cancelled: patch.cancelled,
    };
    let done = own.zone(&ready, None)?;
    record::change(&host.root, &ready.subject.entry, |history| {
        for entry in &mut history.entries {
            if entry.patch == former {
                entry.standing = Standing::TakenBack;
            }
        }
    })?;
    Ok(done)
}

/// Cleans up after the boot of the host, before zones boot. Returns the result of [`remains::all`].
/// Usually there is nothing to clean up.
///
/// # Errors
/// Fails if another zonepatch command runs already.
pub fn at_boot(host: &Host) -> Result<Vec<String>, Error> {
    let is_journal = |entry: fs::DirEntry| {
        let path = entry.path();
        path.extension().is_some_and(|kind| kind == "journal")
    };
    let mut files = fs::read_dir(record::folder(&host.root))
        .into_iter()
        .flatten()
        .flatten();
    match files.any(is_journal) {
        // `begin` also cleans up objects that a job still holds while it is being killed.
        true => begin(host, None).map(|(_, left)| left),
        false => Ok(Vec::new()),
    }
}
