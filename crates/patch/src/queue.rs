//! Chooses the next zone to patch. Of zones with the same packages, two are patched, and the others
//! wait for the result.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::Host;
use model::{State, ZoneName};
use storage::{Dataset, driver_at};
use store::index::Index;
use zone::job;

use crate::inventory;
use crate::share::{Seen, Shared};

/// Minimum number of zones with the same packages for which two are patched for the rest of the
/// group.
const MIN_SHARING_ZONES: usize = 3;

/// The layers and the packages of a zone that may use a shared result.
#[derive(Debug)]
struct Facts {
    lowers: Vec<PathBuf>,
    fingerprint: String,
}

/// A group of zones with the same layers and packages.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) base: PathBuf,
    pub(crate) before: String,
    pub(crate) waiting: VecDeque<ZoneName>,
    pub(crate) at_work: usize,
    pub(crate) unchanged: usize,
    pub(crate) fit: Vec<Seen>,
    pub(crate) verdict: Verdict,
}

#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Two zones of the group are being patched.
    Open,
    /// The results of the two patched zones are being compared.
    Judging,
    /// All other zones of the group can use this result.
    Shared(Arc<Shared>),
    /// No package manager can carry out the order.
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
pub(crate) fn queue(host: &Host, zones: Vec<ZoneName>, options: Options) -> Queue {
    let mut queue = Queue::default();
    if !options.share || zones.len() < MIN_SHARING_ZONES {
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
            let common = |tree: &&PathBuf| users.get(tree).is_some_and(|n| *n >= MIN_SHARING_ZONES);
            let base = one.lowers.iter().find(common)?;
            Some((base.clone(), one.fingerprint.clone()))
        });
        match key {
            Some(key) => groups.entry(key).or_default().push_back(zone.clone()),
            None => alone.push(zone.clone()),
        }
    }
    for ((base, before), waiting) in groups {
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
