//! Many zones at a time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::{State, ZoneName};
use serde::Serialize;
use storage::{Dataset, driver_at};
use store::index::Index;
use store::lock;
use zone::environments::When;
use zone::subject;
use zone::{Error, Host, flatten, job};

use crate::environment;
use crate::inventory;
use crate::order::Order;
use crate::record::{self, Change, How, Standing};
use crate::recover;
use crate::share::{self, Fared, Seen, Shared};
use crate::stale::Stale;
use crate::transaction::{self, Done, Patch, Ready, Running};

/// As many zones as two of them are worth patching for the others.
const MIN_GROUP: usize = 3;

/// How zones are gone through.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Zones at a time.
    pub parallel: usize,
    /// Whether zones that are alike share a result.
    pub share: bool,
}

/// What became of a zone.
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

/// What is to be said of a zone.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The zone.
    pub zone: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How.
    pub how: Option<How>,
    /// Why it failed or was skipped, or why it was patched for real where others share.
    pub reason: Option<String>,
    /// What changed, or would.
    pub packages: Vec<Change>,
    /// Services that the packages wanted to be restarted.
    pub services: Vec<String>,
    /// How long it took.
    pub seconds: f64,
    /// The snapshot before it.
    pub snapshot: Option<String>,
    /// What the package manager said.
    pub log: Option<PathBuf>,
    /// What became of its health command, if it has one.
    pub health: Option<Checked>,
    /// Processes that go on with what a patch in place replaced.
    pub stale: Vec<Stale>,
}

/// What became of a zone's health command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Checked {
    /// It succeeded.
    Passed,
    /// Nobody ran it, as the zone does not run with its patch.
    NotRun,
}

impl Report {
    fn of(zone: &ZoneName, outcome: Outcome, reason: Option<String>) -> Self {
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

/// What is told while zones are patched.
#[derive(Debug)]
pub enum Event<'a> {
    /// Work on a zone begins.
    Begin(&'a ZoneName),
    /// A zone is through.
    End(&'a Report),
}

/// Takes events, from several threads.
pub type Teller<'a> = &'a (dyn Fn(&Event<'_>) + Sync);

/// How long the lock is tried: a command that was killed while it started a process holds
/// it until that process executes its program.
const MOMENT: Duration = Duration::from_secs(5);

/// Makes sure that no other command of ours is at work, and that nothing is left of one
/// that was killed. The lock ends with the file.
///
/// # Errors
/// When another one is at work, or something cannot be cleared up.
pub fn begin(host: &Host) -> Result<File, Error> {
    let folder = record::folder(&host.root);
    std::fs::create_dir_all(&folder).map_err(Error::io(format!("make {}", folder.display())))?;
    let held = lock::exclusive_within(&folder.join("lock"), MOMENT)?;
    let held = held.ok_or_else(|| Error::Refused("another zonepatch is at work.".to_owned()))?;
    recover::all(host)?;
    Ok(held)
}

/// The layers and the packages of a zone that could share.
#[derive(Debug)]
struct Facts {
    lowers: Vec<PathBuf>,
    fingerprint: String,
}

/// Zones that are alike.
#[derive(Debug)]
struct Group {
    base: PathBuf,
    before: String,
    waiting: VecDeque<ZoneName>,
    at_work: usize,
    unchanged: usize,
    fit: Vec<Seen>,
    verdict: Verdict,
}

#[derive(Clone, Debug)]
enum Verdict {
    /// Two zones are being patched.
    Open,
    /// Theirs are being compared.
    Judging,
    /// All others can have this.
    Shared(Arc<Shared>),
    /// Nobody can.
    Refused(String),
    /// There is nothing to do for any of them.
    Unchanged,
}

/// What one thread does next.
enum Task {
    /// A zone by itself, with the reason if others share.
    Alone(ZoneName, Option<String>),
    /// A zone for its group, too.
    Witness(ZoneName, usize),
    /// A zone that gets what others came to.
    Share(ZoneName, Arc<Shared>),
    /// A zone that has nothing to get.
    Nothing(ZoneName),
}

#[derive(Debug, Default)]
struct Queue {
    alone: VecDeque<(ZoneName, Option<String>)>,
    groups: Vec<Group>,
}

impl Queue {
    /// The next task; `None` in the inner place when others have to finish first.
    fn next(&mut self) -> Option<Option<Task>> {
        let mut pending = false;
        for (number, group) in self.groups.iter_mut().enumerate() {
            if group.waiting.is_empty() {
                continue;
            }
            match &group.verdict {
                Verdict::Open if group.at_work + group.fit.len() + group.unchanged < 2 => {
                    group.at_work += 1;
                    let zone = group.waiting.pop_front()?;
                    return Some(Some(Task::Witness(zone, number)));
                }
                Verdict::Open | Verdict::Judging => pending = true,
                Verdict::Shared(shared) => {
                    let shared = Arc::clone(shared);
                    let zone = group.waiting.pop_front()?;
                    return Some(Some(Task::Share(zone, shared)));
                }
                Verdict::Refused(why) => {
                    let why = Some(why.clone());
                    let zone = group.waiting.pop_front()?;
                    return Some(Some(Task::Alone(zone, why)));
                }
                Verdict::Unchanged => {
                    let zone = group.waiting.pop_front()?;
                    return Some(Some(Task::Nothing(zone)));
                }
            }
        }
        match self.alone.pop_front() {
            Some((zone, why)) => Some(Some(Task::Alone(zone, why))),
            None if pending => Some(None),
            None => None,
        }
    }
}

/// Patches zones. A zone's failure stops no other.
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
        queue: Mutex::new(queue(patch.host, candidates, options)),
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
            // What is left is found by the next call.
            let _ = shared.let_go();
        }
    }
    let reports = run.reports.into_inner();
    in_order(reports.unwrap_or_else(PoisonError::into_inner), zones)
}

fn in_order(mut reports: Vec<Report>, zones: &[ZoneName]) -> Vec<Report> {
    let place: HashMap<&str, usize> = (0..)
        .zip(zones)
        .map(|(number, zone)| (zone.as_str(), number))
        .collect();
    reports.sort_by_key(|report| place.get(report.zone.as_str()).copied());
    reports
}

/// Which of the zones cannot be patched because of their state.
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

/// Sorts zones into groups that may share.
fn queue(host: &Host, zones: Vec<ZoneName>, options: Options) -> Queue {
    let mut queue = Queue::default();
    if !options.share || zones.len() < MIN_GROUP {
        queue.alone = zones.into_iter().map(|zone| (zone, None)).collect();
        return queue;
    }
    let facts = survey(host, &zones, options.parallel);
    let mut users: HashMap<&PathBuf, usize> = HashMap::new();
    for one in facts.iter().flatten() {
        for tree in &one.lowers {
            *users.entry(tree).or_default() += 1;
        }
    }
    let mut groups: BTreeMap<(PathBuf, String), VecDeque<ZoneName>> = BTreeMap::new();
    let mut shares = false;
    let mut alone = Vec::new();
    for (zone, one) in zones.iter().zip(&facts) {
        let key = one.as_ref().and_then(|one| {
            let common = |tree: &&PathBuf| users.get(tree).is_some_and(|n| *n >= MIN_GROUP);
            let base = one.lowers.iter().find(common)?;
            Some((base.clone(), one.fingerprint.clone()))
        });
        match key {
            Some(key) => groups.entry(key).or_default().push_back(zone.clone()),
            None => alone.push(zone.clone()),
        }
    }
    for ((base, before), waiting) in groups {
        if waiting.len() < MIN_GROUP {
            let why = "fewer than three zones have the same packages".to_owned();
            let with = waiting.into_iter().map(|zone| (zone, Some(why.clone())));
            queue.alone.extend(with);
            continue;
        }
        shares = true;
        queue.groups.push(Group {
            base,
            before,
            waiting,
            at_work: 0,
            unchanged: 0,
            fit: Vec::new(),
            verdict: Verdict::Open,
        });
    }
    let why = shares.then(|| "it has no layer in common with them".to_owned());
    queue
        .alone
        .extend(alone.into_iter().map(|zone| (zone, why.clone())));
    if !shares {
        queue.alone.iter_mut().for_each(|(_, why)| *why = None);
    }
    queue
}

/// Looks into zones; nothing for those that cannot share.
fn survey(host: &Host, zones: &[ZoneName], parallel: usize) -> Vec<Option<Facts>> {
    let index = Index::load(&host.root).unwrap_or_default();
    let slots: Vec<Mutex<Option<Facts>>> = zones.iter().map(|_| Mutex::new(None)).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let look = |zone: &ZoneName| -> Option<Facts> {
        let entry = index.find(zone)?;
        let (state, _) = subject::state(host, entry).ok()?;
        if state != State::Installed {
            return None;
        }
        let zonepath = host.root.path(&entry.zonepath);
        if !driver_at(&zonepath).ok()?.has_layers() {
            return None;
        }
        let config = store::xml::load(&host.root, zone).ok()?;
        if job::is_sparse(&config).ok()? {
            return None;
        }
        let stack = Dataset::open(&zonepath).ok()?.stack().ok()?;
        let found = job::look(host, &config, &stack, inventory::read).ok()?;
        Some(Facts {
            lowers: stack.lowers,
            fingerprint: found.fingerprint,
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let (Some(zone), Some(slot)) = (zones.get(at), slots.get(at)) else {
                        return;
                    };
                    *lock_of(slot) = look(zone);
                }
            });
        }
    });
    slots
        .into_iter()
        .map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

fn lock_of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut report = match task {
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
                self.witness(&zone, group)
            }
            Task::Share(zone, shared) => {
                (self.tell)(&Event::Begin(&zone));
                self.share(&zone, &shared)
            }
        };
        report.seconds = began.elapsed().as_secs_f64();
        (self.tell)(&Event::End(&report));
        lock_of(&self.reports).push(report);
    }

    fn real(&self, zone: &ZoneName, why: Option<String>) -> Report {
        let ready = transaction::prepare(self.patch.host, zone);
        let runs = ready
            .as_ref()
            .is_ok_and(|ready| ready.subject.state != State::Installed);
        let is_sparse = ready
            .as_ref()
            .is_ok_and(|ready| ready.is_sparse().unwrap_or(false));
        if runs && self.patch.running == Running::Live {
            return self.live(zone, ready);
        }
        // Others may share; it is not compared with them.
        let why = why.filter(|_| !is_sparse);
        let mut done = ready.and_then(|ready| self.patch.zone(&ready, None));
        if !runs {
            return self.report(zone, &done, why);
        }
        let mut checked = false;
        // The lock of the zone is free again.
        if let (Running::Environment(When::Now), Ok(Done::Patched(entry, _))) =
            (self.patch.running, &done)
        {
            let former = entry.snapshot.as_deref().unwrap_or_default();
            let check = || {
                checked = self.patch.check(zone)?;
                Ok(())
            };
            if let Err(error) = environment::boot_into(self.patch.host, zone, former, check) {
                done = Err(error);
            }
        }
        let why = match self.patch.running {
            Running::Environment(When::Now) => "it was rebooted into it",
            _ => "for its next boot",
        };
        let mut report = self.report(zone, &done, Some(why.to_owned()));
        if checked && done.is_ok() {
            report.health = Some(Checked::Passed);
        }
        report
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
        let fared = transaction::prepare(self.patch.host, zone)
            .and_then(|ready| shared.give(self.patch, &ready));
        match fared {
            Ok(Fared::Patched(done)) => self.report(zone, &Ok(*done), None),
            Ok(Fared::Unlike(why)) => self.real(zone, Some(why)),
            Err(error) => self.report(zone, &Err(error), None),
        }
    }

    fn witness(&self, zone: &ZoneName, number: usize) -> Report {
        let base = lock_of(&self.queue).groups[number].base.clone();
        let done = transaction::prepare(self.patch.host, zone)
            .and_then(|ready| self.patch.zone(&ready, Some(&base)));
        let mut why = None;
        let mut fit = None;
        if let Ok(Done::Patched(entry, witness)) = &done {
            let seen = Seen {
                zone: zone.clone(),
                witness: (**witness).clone(),
                packages: entry.packages.clone(),
                services: entry.services.clone(),
            };
            match share::unfit(&seen) {
                Ok(None) => {
                    why = Some("the others are compared with it".to_owned());
                    fit = Some(seen);
                }
                Ok(Some(text)) => why = Some(text),
                Err(error) => why = Some(flatten(&error)),
            }
        }
        let mut queue = lock_of(&self.queue);
        let group = &mut queue.groups[number];
        group.at_work -= 1;
        group.fit.extend(fit);
        if matches!(done, Ok(Done::Unchanged)) {
            group.unchanged += 1;
        }
        if group.unchanged >= 2 {
            group.verdict = Verdict::Unchanged;
        } else if group.unchanged == 1 && !group.fit.is_empty() {
            let text = "zones like it came to different results".to_owned();
            group.verdict = Verdict::Refused(text);
        }
        let judged = match (group.fit.as_slice(), &group.verdict) {
            ([one, other], Verdict::Open) => {
                let pair = [one.clone(), other.clone()];
                group.verdict = Verdict::Judging;
                Some((pair, group.base.clone(), group.before.clone()))
            }
            _ => None,
        };
        drop(queue);
        if let Some(([one, other], base, before)) = judged {
            let verdict = match share::judge(self.patch, &base, &before, number, [&one, &other]) {
                Ok(shared) => Verdict::Shared(Arc::new(shared)),
                Err(text) => Verdict::Refused(text),
            };
            lock_of(&self.queue).groups[number].verdict = verdict;
        }
        self.report(zone, &done, why)
    }

    fn report(&self, zone: &ZoneName, done: &Result<Done, Error>, why: Option<String>) -> Report {
        match done {
            Ok(Done::Unchanged) => Report::of(zone, Outcome::Unchanged, None),
            Ok(Done::Patched(entry, _)) => Report {
                how: Some(entry.how),
                packages: entry.packages.clone(),
                services: entry.services.clone(),
                snapshot: entry.snapshot.clone(),
                log: Some(entry.log.clone()).filter(|log| !log.as_os_str().is_empty()),
                health: self.patch.has_health(zone).then_some(Checked::NotRun),
                ..Report::of(zone, Outcome::Patched, why)
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

/// Goes through zones that do not share.
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

/// Shows what zones would come to.
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
        let tried = transaction::prepare(patch.host, zone).and_then(|ready| patch.try_out(&ready));
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

/// Takes the packages of one patch back, whatever was done to the zones since.
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
