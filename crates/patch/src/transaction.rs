//! Patches one zone: makes a snapshot, works in a copy, checks the result, and switches the zone to
//! it.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | journal: working | nothing of the zone has changed |
//! | snapshot, and a clone of that beside the zone | the old zone; the clone and the snapshot go |
//! | the package manager works in the clone, nothing synced | the same |
//! | verify; one sync; the clone's top is sealed | the same |
//! | journal: switching, with the sealed layer | the same |
//! | **the zone takes over the clone's layers** | the new zone |
//! | history; the clone goes; the journal goes | the same |
//!
//! | file | holds |
//! |---|---|
//! | `ready` | a zone that is taken in hand |
//! | `work` | the package manager at work in the clone |
//! | `said` | its output |
//! | `well` | whether it is well with its patch |
//! | `kept` | which snapshots stay |

mod kept;
mod ready;
mod said;
mod well;
mod work;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use host::{Error, Host, flatten};
use model::{State, ZoneName};
use storage::{Dataset, Name};
use subject::Subject;
use zone::environments::{self, When};
use zone::job;

use crate::ending::{End, name};
use crate::health::Health;
use crate::inventory::Inventory;
use crate::manager::{Mood, Work};
use crate::order::Order;
use crate::record::{self, Change, Entry, How, Journal, Phase, Standing};
use crate::{ending, environment, follow, inventory, recover};

pub(crate) use ready::wait_for_own_reboot;
pub use ready::{Ready, admit, prepare};
pub(crate) use said::Said;

/// The parameters that all zones of a command have in common.
#[derive(Debug)]
pub struct Patch<'a> {
    /// The host of the zones.
    pub host: &'a Host,
    /// The name of the patch, unique on this host.
    pub name: String,
    /// The order for the package manager.
    pub order: Order,
    /// The folder with the package files of the order.
    pub files: Option<PathBuf>,
    /// Number of snapshots of former patches that a zone keeps.
    pub keep: usize,
    /// The treatment of running zones.
    pub running: Running,
    /// The health commands that test zones after the patch.
    pub health: Health,
    /// Timeout for the package manager of a zone.
    pub within: Option<Duration>,
    /// True when the command is cancelled: no further zone is started, and zones in progress are
    /// undone.
    pub cancelled: &'a AtomicBool,
}

/// The way in which running zones are patched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Running {
    /// Running zones are not patched.
    #[default]
    Refused,
    /// Running zones are patched in a new boot environment, which a boot at this time uses.
    Environment(When),
    /// Running zones are patched in place.
    Live,
}

/// The result of the patch of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The zone is patched.
    Patched(Box<Entry>, Box<Witness>),
    /// The order changed nothing in the zone.
    Unchanged,
}

/// The parts of a patched zone that other zones may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// The tree of the layer with the changes.
    pub tree: PathBuf,
    /// The trees between the common layer of the group and that layer, the topmost first.
    pub above: Vec<PathBuf>,
    /// The tree of the common layer and those below it, the topmost first.
    pub below: Vec<PathBuf>,
    /// The fingerprint of the zone after the patch.
    pub fingerprint: String,
    /// The reason why no other zone can use the result.
    pub unfit: Option<String>,
    /// A problem that occurred after the zone got its patch.
    pub warning: Option<String>,
}

impl Done {
    /// Returns the result for a zone that has its patch, although a later step failed.
    pub(crate) fn late(entry: Box<Entry>, error: &Error) -> Self {
        let witness = Witness {
            unfit: Some("a step failed after it had its patch".to_owned()),
            warning: Some(not_cleared(error)),
            ..Witness::default()
        };
        Self::Patched(entry, Box::new(witness))
    }
}

fn not_cleared(error: &Error) -> String {
    format!(
        "the zone is patched, but temporary files of the patch could not be removed: {}",
        flatten(error)
    )
}

impl<'a> Patch<'a> {
    /// Returns the time limit, and the cancel flag, of a package manager.
    pub(crate) fn bounds(&self) -> job::Bounds<'a> {
        job::Bounds {
            option: Some("--time-limit"),
            within: self.within,
            cancelled: Some(self.cancelled),
        }
    }

    /// Fails if the command is cancelled, so that no further zone is started.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        match self.bounds().is_cancelled() {
            true => Err(Error::Refused("was not begun: cancelled.".to_owned())),
            false => Ok(()),
        }
    }

    /// Returns the name of the snapshot from before this patch.
    ///
    /// # Errors
    /// Does not fail for a name that zonepatch itself has made.
    pub fn snapshot(&self) -> Result<Name, Error> {
        format!("patch-{}", self.name)
            .parse()
            .map_err(|error: storage::BadName| Error::Refused(error.to_string()))
    }

    /// Returns the name of the boot environment for a running zone.
    pub(crate) fn environment(&self) -> Result<Name, Error> {
        name(&format!("patched-{}", self.name))
    }

    /// Returns the name of the copy in which the package manager works.
    fn start_of(&self, subject: &Subject) -> Result<Name, Error> {
        match subject.state {
            State::Installed => self.snapshot(),
            _ => self.environment(),
        }
    }

    /// Starts a transaction. From here on [`recover`] can clean up after it.
    pub(crate) fn begin(
        &self,
        subject: &Subject,
        snapshot: &str,
        phase: Phase,
    ) -> Result<Journal, Error> {
        let zone = &subject.entry.name;
        let journal = Journal {
            patch: self.name.clone(),
            zone: Some(zone.to_string()),
            snapshot: snapshot.to_owned(),
            copy: job::place_beside(&subject.zonepath, &format!(".patch-{zone}"))?,
            phase,
        };
        record::save(
            &record::journal_of(&self.host.root, &subject.entry),
            &journal,
        )?;
        Ok(journal)
    }

    /// Patches a zone: a halted zone at once, a running zone for its next boot. `base` is the tree
    /// of the layer that the zone and its group have in common.
    ///
    /// # Errors
    /// Fails with the reason why the zone could not be patched. The zone is then unchanged.
    pub fn zone(&self, ready: &Ready, base: Option<&Path>) -> Result<Done, Error> {
        let Ready {
            subject, dataset, ..
        } = ready;
        self.admit(ready)?;
        let work = match ready.is_sparse()? {
            true => {
                follow::refuse_order(&self.order)?;
                // A sparse zone that lacks no package of the host needs no copy.
                if follow::lacks(&ready.before)?.is_empty() {
                    return Ok(Done::Unchanged);
                }
                None
            }
            false => Some(ready.manager.work(&self.order, Mood::Do)?),
        };
        let name = self.start_of(subject)?;
        let journal = self.begin(subject, name.as_str(), Phase::Working)?;
        match self.work(ready, &journal, work.as_ref(), base) {
            Ok(Done::Unchanged) => {
                ending::finish(self.host, subject, dataset, &journal, &End::Old)?;
                Ok(Done::Unchanged)
            }
            Ok(Done::Patched(entry, mut witness)) => {
                let end = End::New(entry.clone());
                witness.warning = self.leave(ready, &journal, &end);
                Ok(Done::Patched(entry, witness))
            }
            Err(error) => self.undo(subject, error),
        }
    }

    /// Undoes the transaction of a zone after an error. If a step fails, the next call tries it
    /// again. Returns the result of a zone that has its patch in spite of the error.
    pub(crate) fn undo(&self, subject: &Subject, error: Error) -> Result<Done, Error> {
        match recover::zone(self.host, subject) {
            Ok(Some(End::New(entry))) => Ok(Done::late(entry, &error)),
            Ok(_) => Err(error),
            Err(also) => Err(Error::Refused(format!(
                "{}; and could not clear up: {}",
                flatten(&error),
                flatten(&also)
            ))),
        }
    }

    /// Fails if a zone in its state cannot be patched in a copy.
    pub(crate) fn admit(&self, ready: &Ready) -> Result<(), Error> {
        match (ready.subject.state, self.running) {
            (State::Installed, _) | (State::Running, Running::Environment(_)) => Ok(()),
            (State::Running, _) => {
                let in_place = match ready.is_sparse()? {
                    true => "",
                    false => ", or patch it in place (--live)",
                };
                Err(Error::Refused(format!(
                    "is running; halt it first, or patch a boot environment of it, for the next boot (--activate=next) or with a reboot (--activate=now){in_place}."
                )))
            }
            (state, _) => Err(Error::Refused(format!("is {state}; halt it first."))),
        }
    }

    /// Cleans up after a zone got its patch. A failed step is a warning, and the next call tries it
    /// again.
    pub(crate) fn leave(&self, ready: &Ready, journal: &Journal, end: &End) -> Option<String> {
        let Ready {
            subject, dataset, ..
        } = ready;
        let left = ending::finish(self.host, subject, dataset, journal, end)
            .and_then(|()| self.thin_out(dataset, ready));
        left.err().map(|error| not_cleared(&error))
    }

    fn work(
        &self,
        ready: &Ready,
        journal: &Journal,
        work: Option<&Work>,
        base: Option<&Path>,
    ) -> Result<Done, Error> {
        let (subject, dataset) = (&ready.subject, &ready.dataset);
        let (name, host) = (self.start_of(subject)?, self.host);
        let halted = subject.state == State::Installed;
        self.start(ready, &name)?;
        let trees = match halted {
            true => dataset.stack()?.lowers,
            false => dataset.snapshot_stack(&name)?.trees(),
        };
        let sides = split(&trees, base);
        let copy = dataset.clone_snapshot_to(&name, &journal.copy)?;
        let said = match work {
            Some(work) => self.run(ready, &copy, work)?,
            None => {
                let log = job::open_log(&self.log(&subject.entry.name))?;
                follow::carry_out(host, ready, &copy, &log)?;
                Said::default()
            }
        };
        let tells = ready.manager.tells();
        let (after, changes) = self.compare(ready, &copy, work.is_some(), &said)?;
        if !after.broken.is_empty() {
            return Err(Error::Refused(after.broken.join(", ")));
        }
        // Some package managers change their database when they read it, so equal packages count,
        // too.
        if changes.is_empty() && (tells || after.fingerprint == ready.before.fingerprint) {
            dataset.destroy_snapshot(&name)?;
            return Ok(Done::Unchanged);
        }
        // No file of the copy was synced to disk during the work. All files are synced now.
        copy.sync()?;
        let tree = copy.seal_tree()?;
        let how = match work {
            Some(_) => How::Real,
            None => How::Host,
        };
        let mut entry = self.entry(&subject.entry.name, how, changes, said.services);
        if !halted {
            entry.how = How::Environment;
            self.set_pending(&mut entry, subject, &name)?;
        }
        let switching = Journal {
            phase: switch_to(halted, tree.clone(), Box::new(entry.clone())),
            ..journal.clone()
        };
        record::save(&record::journal_of(&host.root, &subject.entry), &switching)?;
        if halted {
            dataset.take_over(&copy)?;
        } else {
            dataset.take_as_snapshot(&name, &copy)?;
            environments::choose(subject, Some(&name))?;
        }
        let unfit = match () {
            () if sides.is_none() => Some("its layers were merged"),
            () if tells => Some("its package manager's results are not compared"),
            () if said.identity_changed => {
                Some("the patch changes the identity of the zone (host name, keys, machine id)")
            }
            () => None,
        };
        let (above, below) = sides.unwrap_or_default();
        let witness = Witness {
            tree,
            above,
            below,
            fingerprint: after.fingerprint,
            unfit: unfit.map(str::to_owned),
            warning: None,
        };
        Ok(Done::Patched(Box::new(entry), Box::new(witness)))
    }

    /// Returns the packages of the patched copy and their changes. The changes are checked against
    /// the files, unless the package manager itself lists its packages.
    fn compare(
        &self,
        ready: &Ready,
        copy: &Dataset,
        has_worked: bool,
        said: &Said,
    ) -> Result<(Inventory, Vec<Change>), Error> {
        let tells = ready.manager.tells();
        let look = |root: &Path| {
            let after = inventory::read(root)?;
            if tells {
                return Ok((after, said.changes()));
            }
            let changes = inventory::changes(&ready.before, &after);
            inventory::verify(root, &changes)?;
            Ok((after, changes))
        };
        match has_worked {
            true => job::look(self.host, &ready.config, &copy.stack()?, look),
            // Only the zone's own files count, not those that it inherits from the host.
            false => job::look_at_own(self.host, &copy.stack()?, look),
        }
    }

    /// Changes an entry for the history to that of a boot environment, which the next boot of the
    /// zone uses.
    pub(crate) fn set_pending(
        &self,
        entry: &mut Entry,
        subject: &Subject,
        name: &Name,
    ) -> Result<(), Error> {
        let (active, _) = environments::marked(&subject.zonepath)?;
        entry.standing = Standing::Pending;
        entry.snapshot = Some(active.to_string());
        entry.environment = Some(name.to_string());
        environment::remember(self.host, &subject.entry)
    }

    /// Makes the layers of the copy.
    pub(crate) fn start(&self, ready: &Ready, name: &Name) -> Result<(), Error> {
        match ready.subject.state {
            State::Installed => Ok(ready.dataset.snapshot(name)?),
            // The running zone writes into its root in the meantime.
            _ => zone::snapshot::of_locked(self.host, &ready.subject, name),
        }
    }

    /// Returns an entry for the history.
    #[must_use]
    pub fn entry(
        &self,
        zone: &ZoneName,
        how: How,
        packages: Vec<Change>,
        services: Vec<String>,
    ) -> Entry {
        Entry {
            patch: self.name.clone(),
            at: record::now(),
            order: self.order.clone(),
            how,
            standing: Standing::Applied,
            snapshot: Some(format!("patch-{}", self.name)),
            environment: None,
            packages,
            services,
            log: self.host.root.shown(&self.log(zone)),
        }
    }
}

/// Returns the phase in which the zone gets the layers of the copy: as its root if the zone is
/// halted, or as a new boot environment if it runs.
fn switch_to(halted: bool, tree: PathBuf, entry: Box<Entry>) -> Phase {
    match halted {
        true => Phase::Switching { tree, entry },
        false => Phase::Environment { tree, entry },
    }
}

/// Splits trees, the topmost first: returns those above `base`, and `base` with those below it.
/// Returns `None` if `base` is not one of them.
pub(crate) fn split(
    trees: &[PathBuf],
    base: Option<&Path>,
) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
    let base = base?;
    let at = trees.iter().position(|tree| tree == base)?;
    let (above, below) = trees.split_at(at);
    Some((above.to_vec(), below.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_that_is_gone_has_nothing_above() {
        let lowers: Vec<PathBuf> = ["c", "b", "a"].iter().map(PathBuf::from).collect();
        let of = |base: &str| {
            let (above, below) = split(&lowers, Some(Path::new(base)))?;
            Some((above.len(), below.len()))
        };
        assert_eq!(of("a"), Some((2, 1)));
        assert_eq!(of("c"), Some((0, 3)));
        assert_eq!(of("x"), None);
        assert_eq!(split(&lowers, None), None);
    }
}
