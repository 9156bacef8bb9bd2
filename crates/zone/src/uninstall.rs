//! `zoneadm uninstall`: removes the root that install or clone made.

use std::path::PathBuf;

use limits::{Base, ZoneCgroups};
use model::plan::{Step, ZonePlan};
use model::{Config, State, Verb, ZoneName};
use store::index::Entry;
use store::lock::ZoneLock;

use crate::executor::{self, Outcome, Work};
use host::error::is_full;
use host::{Error, Host};
use platform::kind;
use subject::network::Records;
use subject::{Start, Subject};

/// A zone that is about to be uninstalled, locked.
#[derive(Debug)]
pub struct Subjected {
    entry: Entry,
    config: Config,
    was: State,
    zonepath: PathBuf,
    _lock: ZoneLock,
}

impl Subjected {
    /// The zone's name.
    #[must_use]
    pub const fn zone(&self) -> &ZoneName {
        &self.entry.name
    }
}

/// The ways to begin an uninstall.
#[derive(Debug)]
pub enum Admitted {
    /// With this zone.
    Go(Box<Subjected>),
    /// Not at all: this is all there is to say.
    Over(Outcome),
}

/// Uninstalls a zone.
///
/// # Errors
/// [`Error::Step`]: the zone is then incomplete and can be uninstalled again.
pub fn uninstall(
    host: &Host,
    zone: &ZoneName,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match admit(host, zone, dry_run)? {
        Admitted::Go(subject) => subject,
        Admitted::Over(outcome) => return Ok(outcome),
    };
    let plan = plan(&subject);
    carry_out(host, &subject, &plan, progress, &mut |entry| {
        let is_mark = entry.state == State::Incomplete;
        match executor::record_now(host, entry) {
            // Removing the zone makes the room for the last record. A kill meanwhile leaves an
            // installed zone without root, and every command says so.
            Err(error) if is_mark && is_full(&error) => Ok(()),
            other => other,
        }
    })?;
    Ok(Outcome::Done)
}

/// The first part for one of many zones; then [`mark_all`], [`remove`], [`store_all`].
///
/// # Errors
/// [`Error::Refused`]; no such zone; its lock is held.
pub fn admit(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Admitted, Error> {
    let subject = match Subject::admit(host, zone, Verb::Uninstall)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Admitted::Over(Outcome::Already(notice))),
    };
    let subject = Subjected {
        config: subject.config(host)?,
        entry: subject.entry.clone(),
        was: subject.state,
        zonepath: subject.zonepath.clone(),
        _lock: subject.into_lock(),
    };
    if dry_run {
        let plan = plan(&subject).to_string();
        return Ok(Admitted::Over(Outcome::Planned(plan)));
    }
    Ok(Admitted::Go(Box::new(subject)))
}

/// Stores many zones as incomplete, in one write.
///
/// # Errors
/// [`Error::Store`]: nothing has happened then.
pub fn mark_all(host: &Host, subjects: &[Box<Subjected>]) -> Result<(), Error> {
    let marked = subjects.iter().map(|subject| Entry {
        state: State::Incomplete,
        ..subject.entry.clone()
    });
    match executor::record_all(host, marked.collect()) {
        Err(error) if is_full(&error) => Ok(()),
        other => Ok(other?),
    }
}

/// Removes the files of a marked zone, and returns the entry for [`store_all`].
///
/// # Errors
/// [`Error::Step`]: the zone stays incomplete and can be uninstalled again.
pub fn remove(
    host: &Host,
    subject: &Subjected,
    progress: &mut dyn FnMut(&str),
) -> Result<Entry, Error> {
    let mut plan = plan(subject);
    // The mark is set.
    plan.steps.remove(0);
    let mut after = subject.entry.clone();
    carry_out(host, subject, &plan, progress, &mut |entry| {
        after = entry;
        Ok(())
    })?;
    Ok(after)
}

/// Stores the removed zones as configured, in one write.
///
/// # Errors
/// [`Error::Store`]: they stay incomplete.
pub fn store_all(host: &Host, removed: Vec<Entry>) -> Result<(), Error> {
    Ok(executor::record_all(host, removed)?)
}

fn carry_out(
    host: &Host,
    subject: &Subjected,
    plan: &ZonePlan,
    progress: &mut dyn FnMut(&str),
    record: &mut dyn FnMut(Entry) -> Result<(), store::Error>,
) -> Result<(), Error> {
    let zone = &subject.entry.name;
    subject::settle(host, zone)?;
    // Also without a record: zoneadmd may have died before it wrote one.
    let base = Base::find(&host.cgroup)?;
    subject::clear(&ZoneCgroups::of(&base, zone))?;
    Records::of(&host.root).let_go(zone)?;
    let entry = subject.entry.clone();
    let mut work = Work::new(host, &subject.config, entry, record, progress);
    executor::run(&mut work, plan, &mut host.fault.clone())?;
    if subject.was == State::Incomplete {
        // An install or clone that was killed here may have left more files beside it than a
        // complete zone. That nobody looks for it now loses no more than space: the next command
        // finds it, too.
        let layers = subject.zonepath.with_file_name(".layers");
        let _ = storage::collect(&layers, storage::Lost::Keep);
    }
    // The last zone to go takes the control groups of all along.
    limits::hierarchy::tidy(&base);
    Ok(())
}

fn plan(subject: &Subjected) -> ZonePlan {
    let path = subject.zonepath.clone();
    ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Uninstall,
        steps: {
            let mut steps = vec![
                Step::Record {
                    state: State::Incomplete,
                    uuid: subject.entry.uuid,
                },
                Step::DestroyDataset { path: path.clone() },
            ];
            steps.extend(kind::of(&subject.config).steps_beside_root(path.clone()));
            steps.extend([
                Step::RemoveZonepath { path },
                Step::Record {
                    state: State::Configured,
                    uuid: None,
                },
            ]);
            steps
        },
    }
}
