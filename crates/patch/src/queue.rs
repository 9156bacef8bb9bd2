//! Chooses the next zone to patch. Of zones with the same packages, two are patched, and the others
//! wait for the result.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use host::Host;
use model::{State, ZoneName};
use storage::{Dataset, driver_at};
use store::index::Index;
use zone::job;

use crate::inventory;
use crate::share::{Seen, Shared};
use crate::transaction::{Done, Running};

/// Minimum number of zones with the same packages for which two are patched for the rest of the
/// group.
const MIN_SHARING_ZONES: usize = 3;

/// Number of patched zones of a group whose results no other zone can use, after which all zones of
/// the group are patched by themselves, as many at a time as the options say.
const MAX_UNFIT_ZONES: usize = 4;

/// The layers and the packages of a zone that may use a shared result.
#[derive(Debug)]
struct Facts {
    lowers: Vec<PathBuf>,
    fingerprint: String,
    runs: bool,
}

/// A zone that is patched also for the other zones of its group, and whose report waits for the
/// comparison.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) began: Instant,
    pub(crate) done: Done,
    pub(crate) seen: Seen,
}

/// The result of the work on a candidate.
#[derive(Debug)]
pub(crate) enum Tried {
    /// Other zones may use the result.
    Fit(Box<Candidate>),
    /// The order changed nothing.
    Unchanged,
    /// The zone is patched, and no other zone can use the result.
    Unfit,
    /// The zone was not patched.
    Failed,
}

/// A group of zones with the same layers and packages.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) base: PathBuf,
    pub(crate) before: String,
    pub(crate) waiting: VecDeque<ZoneName>,
    pub(crate) at_work: usize,
    pub(crate) unchanged: usize,
    pub(crate) unfit: usize,
    pub(crate) fit: Vec<Candidate>,
    pub(crate) verdict: Verdict,
}

/// The next step of a group after the work on one of its candidates.
#[derive(Debug)]
pub(crate) enum Step {
    /// Another candidate is at work, or will be.
    Wait,
    /// Compares these two candidates.
    Judge(Box<[Candidate; 2]>),
    /// Nothing will be compared any more: reports these candidates.
    Report(Vec<Candidate>),
}

impl Group {
    /// Enters the result of a candidate that is no longer at work, and returns the next step.
    pub(crate) fn enter(&mut self, tried: Tried) -> Step {
        self.at_work -= 1;
        match tried {
            Tried::Fit(candidate) => self.fit.push(*candidate),
            Tried::Unchanged => self.unchanged += 1,
            Tried::Unfit => self.unfit += 1,
            Tried::Failed => {}
        }
        if matches!(self.verdict, Verdict::Open) {
            if self.unchanged >= 2 {
                self.verdict = Verdict::Unchanged;
            } else if self.unchanged == 1 && !self.fit.is_empty() {
                let text = "zones like it came to different results".to_owned();
                self.verdict = Verdict::Refused(text);
            } else if self.unfit >= MAX_UNFIT_ZONES {
                let text =
                    format!("no zone could use the results of {MAX_UNFIT_ZONES} zones like it");
                self.verdict = Verdict::Refused(text);
            }
        }
        if !matches!(self.verdict, Verdict::Open) {
            return Step::Report(std::mem::take(&mut self.fit));
        }
        match <[Candidate; 2]>::try_from(std::mem::take(&mut self.fit)) {
            Ok(pair) => {
                self.verdict = Verdict::Judging;
                Step::Judge(Box::new(pair))
            }
            // No zone of the group is left that could become the second candidate.
            Err(fit) if self.at_work == 0 && self.waiting.is_empty() => Step::Report(fit),
            Err(fit) => {
                self.fit = fit;
                Step::Wait
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Two zones of the group are being patched.
    Open,
    /// The results of the two patched zones are being compared.
    Judging,
    /// All other zones of the group can use this result.
    Shared(Arc<Shared>),
    /// The zones share no result, for this reason: the package manager of each zone patches it.
    Refused(String),
    /// The order changes nothing in zones of this group.
    Unchanged,
}

/// The next task of a thread.
pub(crate) enum Task {
    /// Patches a zone by itself, with the reason if other zones of its group share a result.
    Alone(ZoneName, Option<String>),
    /// Patches a zone, also for the other zones of its group.
    Witness(ZoneName, usize),
    /// Gives a zone the result of other zones.
    Share(ZoneName, Arc<Shared>),
    /// Reports a zone for which the order changes nothing.
    Nothing(ZoneName),
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) alone: VecDeque<(ZoneName, Option<String>)>,
    pub(crate) groups: Vec<Group>,
}

impl Queue {
    /// Returns the next task. The inner value is `None` if the thread must wait until other zones
    /// are done.
    pub(crate) fn next(&mut self) -> Option<Option<Task>> {
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

/// Sorts zones into groups that may share a result.
pub(crate) fn queue(
    host: &Host,
    zones: Vec<ZoneName>,
    options: Options,
    running: Running,
) -> Queue {
    let mut queue = Queue::default();
    if !options.share || zones.len() < MIN_SHARING_ZONES {
        queue.alone = zones.into_iter().map(|zone| (zone, None)).collect();
        return queue;
    }
    let facts = survey(host, &zones, options.parallel, running);
    let mut users: HashMap<&PathBuf, usize> = HashMap::new();
    for one in facts.iter().flatten() {
        for tree in &one.lowers {
            *users.entry(tree).or_default() += 1;
        }
    }
    let mut groups: BTreeMap<(PathBuf, String), [VecDeque<ZoneName>; 2]> = BTreeMap::new();
    let mut shares = false;
    let mut alone = Vec::new();
    for (zone, one) in zones.iter().zip(&facts) {
        let key = one.as_ref().and_then(|one| {
            let common = |tree: &&PathBuf| users.get(tree).is_some_and(|n| *n >= MIN_SHARING_ZONES);
            let base = one.lowers.iter().find(common)?;
            Some((base.clone(), one.fingerprint.clone()))
        });
        let runs = one.as_ref().is_some_and(|one| one.runs);
        match key {
            // Running zones come first: a zone that boots with its patch is checked best.
            Some(key) if runs => groups.entry(key).or_default()[0].push_back(zone.clone()),
            Some(key) => groups.entry(key).or_default()[1].push_back(zone.clone()),
            None => alone.push(zone.clone()),
        }
    }
    for ((base, before), [mut waiting, mut halted]) in groups {
        waiting.append(&mut halted);
        if waiting.len() < MIN_SHARING_ZONES {
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
            unfit: 0,
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

/// Reads the layers and packages of zones; `None` for zones that cannot share.
fn survey(
    host: &Host,
    zones: &[ZoneName],
    parallel: usize,
    running: Running,
) -> Vec<Option<Facts>> {
    let index = Index::load(&host.root).unwrap_or_default();
    let slots: Vec<Mutex<Option<Facts>>> = zones.iter().map(|_| Mutex::new(None)).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let look = |zone: &ZoneName| -> Option<Facts> {
        let entry = index.find(zone)?;
        let (state, _) = subject::state(host, entry).ok()?;
        let runs = match (state, running) {
            (State::Installed, _) => false,
            (State::Running, Running::Environment(_)) => true,
            _ => return None,
        };
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
            runs,
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

/// Locks a mutex. A thread that panicked while it held the lock has left the data consistent.
pub(crate) fn lock_of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The options of a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of zones that are patched at a time.
    pub parallel: usize,
    /// True if zones with the same packages share a result.
    pub share: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Entry, How, Standing};
    use crate::transaction::Witness;

    fn group(waiting: usize, at_work: usize) -> Group {
        let name = |number: usize| format!("web{number}").parse::<ZoneName>().unwrap();
        Group {
            base: PathBuf::from("/base"),
            before: String::new(),
            waiting: (0..waiting).map(name).collect(),
            at_work,
            unchanged: 0,
            unfit: 0,
            fit: Vec::new(),
            verdict: Verdict::Open,
        }
    }

    fn fit() -> Tried {
        let entry = Entry {
            patch: "p".to_owned(),
            at: 0,
            order: crate::Order::Upgrade,
            how: How::Real,
            standing: Standing::Applied,
            snapshot: None,
            environment: None,
            packages: Vec::new(),
            services: Vec::new(),
            log: PathBuf::new(),
        };
        Tried::Fit(Box::new(Candidate {
            began: Instant::now(),
            done: Done::Patched(Box::new(entry), Box::default()),
            seen: Seen {
                zone: "web".parse().unwrap(),
                witness: Witness::default(),
                packages: Vec::new(),
                services: Vec::new(),
                environment: None,
            },
        }))
    }

    #[test]
    fn two_fit_zones_are_compared() {
        let mut group = group(3, 2);
        assert!(matches!(group.enter(fit()), Step::Wait));
        assert!(matches!(group.enter(fit()), Step::Judge(_)));
        assert!(matches!(group.verdict, Verdict::Judging));
    }

    #[test]
    fn every_held_candidate_is_reported_when_nothing_is_compared() {
        // The last zones of the group: the second of them fails.
        let mut last = group(0, 2);
        assert!(matches!(last.enter(fit()), Step::Wait));
        assert!(matches!(last.enter(Tried::Failed), Step::Report(fit) if fit.len() == 1));
        // One zone has changed and another one has not.
        let mut mixed = group(3, 2);
        assert!(matches!(mixed.enter(fit()), Step::Wait));
        assert!(matches!(mixed.enter(Tried::Unchanged), Step::Report(fit) if fit.len() == 1));
        assert!(matches!(mixed.verdict, Verdict::Refused(_)));
        // Too many zones are unfit while one is still at work.
        let mut unfit = group(3, 2);
        unfit.unfit = MAX_UNFIT_ZONES - 1;
        assert!(matches!(unfit.enter(Tried::Unfit), Step::Report(fit) if fit.is_empty()));
        assert!(matches!(unfit.enter(fit()), Step::Report(fit) if fit.len() == 1));
    }

    #[test]
    fn a_second_candidate_is_looked_for_while_zones_wait() {
        let mut group = group(1, 2);
        // Failures say nothing about the results of other zones.
        for _ in 0..MAX_UNFIT_ZONES {
            assert!(matches!(group.enter(Tried::Failed), Step::Wait));
            group.at_work += 1;
        }
        assert!(matches!(group.enter(fit()), Step::Wait));
        assert!(matches!(group.enter(Tried::Unfit), Step::Wait));
        let mut queue = Queue {
            alone: VecDeque::new(),
            groups: vec![group],
        };
        assert!(matches!(queue.next(), Some(Some(Task::Witness(_, 0)))));
        assert!(queue.next().is_none());
    }
}
