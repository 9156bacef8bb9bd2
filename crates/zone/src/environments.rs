//! `zoneadm beadm`: the boot environments of a zone.
//!
//! The snapshots of a zone are its boot environments, besides the one that it has now.
//! An activated boot environment becomes the root at the next boot, when the former root becomes a
//! snapshot: both are renames, so that takes no longer than a boot without it. The steps are in
//! [`switch`].
//!
//! | file | holds |
//! |---|---|
//! | `marks` | which one is active, and which is next: links in `<zonepath>/be` |
//! | `dataset` | the dataset whose snapshots they are |
//! | `admission` | which operation may begin |
//! | `switch` | the change from one to the other |
//! | `mounts` | one that is shown on the host, and written into |
//! | `inside` | the requests of `beadm` in a zone to zoneadmd |

mod admission;
mod dataset;
mod marks;
mod mounts;
pub(crate) mod switch;

use model::verb::Admission;
use model::{State, Verb, ZoneName};
use serde::Serialize;
use storage::{Dataset, Name, Snapshot};
use store::index::Index;

use crate::boot::BootOptions;
use crate::executor::Outcome;
use crate::{reboot, snapshot};
use host::{Error, Host};
use subject::Subject;

use admission::{Admitted, admit};
use dataset::{find, made, open, seconds};
use marks::{Active, Marks};
pub use mounts::{forget, unmarked};
pub use mounts::{mount, unmount};

/// Maximum number of boot environments with which a zone can make another one itself.
pub const MAX_INSIDE: usize = 32;

/// The caller of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The global zone.
    Host,
    /// The zone itself. It removes and renames only environments that it made.
    Zone,
}

/// A line of `beadm list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The zone.
    pub zone: String,
    /// The boot environment.
    pub name: String,
    /// The zone's root is this one now.
    pub active_now: bool,
    /// It will be after the next boot.
    pub active_on_reboot: bool,
    /// The mount point: `/` for that of a running zone. `/` for that of a running zone.
    pub mountpoint: Option<String>,
    /// The space that removing it would free; for the active one, the space of the files that the
    /// zone has written since.
    pub space_bytes: u64,
    /// The policy of its removal: always by hand.
    pub policy: &'static str,
    /// When it was made, in seconds since 1970.
    pub created: u64,
}

/// Lists the boot environments of a zone, the oldest first. Walks through their files.
///
/// # Errors
/// [`Error::Refused`] for a zone without a root, or with one that has no layers.
pub fn list(host: &Host, zone: &ZoneName) -> Result<Vec<Row>, Error> {
    let index = Index::load(&host.root)?;
    let entry = index.get(zone)?;
    let (state, _) = subject::state(host, entry)?;
    if let Admission::Refuse(text) = Verb::Beadm.admission(state) {
        return Err(Error::State(text));
    }
    let zonepath = host.root.path(&entry.zonepath);
    let dataset = open(&zonepath)?;
    let marks = Marks::at(&zonepath);
    let (active, next) = (marks.active()?, marks.next()?);
    let next = next.unwrap_or_else(|| active.name.clone());
    let mut rows = vec![Row {
        zone: zone.to_string(),
        active_on_reboot: active.name == next,
        active_now: true,
        mountpoint: state.is_active().then(|| "/".to_owned()),
        space_bytes: dataset.usage()?.own_bytes,
        policy: "static",
        created: active.created.unwrap_or_else(|| made(&zonepath)),
        name: active.name.to_string(),
    }];
    for one in dataset.snapshots()? {
        // A folder that is about to become the root, or was the root.
        if one.name == active.name {
            continue;
        }
        rows.push(Row {
            zone: zone.to_string(),
            active_now: false,
            active_on_reboot: one.name == next,
            mountpoint: marks.mounted(&one.name)?.map(|at| at.shown()),
            space_bytes: dataset.snapshot_usage(&one.name)?.own_bytes,
            policy: "static",
            created: seconds(one.created),
            name: one.name.to_string(),
        });
    }
    // Those of one second stay in the order in which they were made.
    rows.sort_by_key(|row| row.created);
    Ok(rows)
}

/// Makes a boot environment of the zone's root as it is now, or of another one.
///
/// # Errors
/// When there is one of that name, or none to copy; when a zone has as many as it may make
/// itself.
pub fn create(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    from: Option<&Name>,
    by: By,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    if by == By::Host {
        return make(host, zone, name, from, by, dry_run, progress);
    }
    let made = make(host, zone, name, from, by, dry_run, progress)?;
    // Cut off before this it is one that only the host removes.
    if let (Admitted::Go(_, dataset, marks), false) = (admit(host, zone)?, dry_run) {
        let known = dataset.snapshots()?;
        if let Some(one) = known.iter().find(|one| one.name == *name) {
            marks.set_inside(name, Some(seconds(one.created)))?;
        }
    }
    Ok(made)
}

fn make(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    from: Option<&Name>,
    by: By,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let (subject, dataset, marks) = match admit(host, zone)? {
        Admitted::Go(subject, dataset, marks) => (subject, dataset, marks),
        Admitted::Over(outcome) => return Ok(outcome),
    };
    let active = marks.active()?.name;
    if *name == active {
        return Err(exists(name));
    }
    // The active one is none of the snapshots.
    if by == By::Zone && dataset.snapshots()?.len() + 1 >= MAX_INSIDE {
        return Err(Error::Refused(format!(
            "has {MAX_INSIDE} boot environments, the most with which it makes another itself."
        )));
    }
    match from.filter(|from| **from != active) {
        None => {
            drop((dataset, subject));
            snapshot::snapshot(host, zone, name, dry_run, progress)
        }
        Some(from) => {
            find(&dataset, from)?;
            if dataset.snapshots()?.iter().any(|one| one.name == *name) {
                return Err(exists(name));
            }
            if dry_run {
                let text =
                    format!("beadm zone {zone}:\n  make boot environment {name} of {from}\n");
                return Ok(Outcome::Planned(text));
            }
            dataset.copy_snapshot(from, name)?;
            Ok(Outcome::Done)
        }
    }
}

fn exists(name: &Name) -> Error {
    Error::Refused(format!("has a boot environment {name} already."))
}

/// Removes a boot environment.
///
/// # Errors
/// When it is the active one, now or after the next boot, or mounted, or not that of who
/// asks.
pub fn destroy(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    by: By,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let (subject, dataset, marks) = match admit(host, zone)? {
        Admitted::Go(subject, dataset, marks) => (subject, dataset, marks),
        Admitted::Over(outcome) => return Ok(outcome),
    };
    if *name == marks.active()?.name {
        return Err(Error::Refused(format!(
            "boot environment {name} is the active one; boot another one first."
        )));
    }
    find(&dataset, name)?;
    if marks.next()?.as_ref() == Some(name) {
        return Err(Error::Refused(format!(
            "boot environment {name} is active on reboot; activate another one first."
        )));
    }
    refuse_mounted(&marks, name)?;
    refuse_others(&dataset, &marks, name, by)?;
    if dry_run {
        let text = format!("beadm zone {zone}:\n  remove boot environment {name}\n");
        return Ok(Outcome::Planned(text));
    }
    dataset.destroy_snapshot(name)?;
    marks.set_inside(name, None)?;
    drop(subject);
    Ok(Outcome::Done)
}

/// Gives a boot environment another name.
///
/// # Errors
/// When there is none, or one of the new name, or it is not that of who asks.
pub fn rename(
    host: &Host,
    zone: &ZoneName,
    from: &Name,
    to: &Name,
    by: By,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let (subject, dataset, marks) = match admit(host, zone)? {
        Admitted::Go(subject, dataset, marks) => (subject, dataset, marks),
        Admitted::Over(outcome) => return Ok(outcome),
    };
    let mut active = marks.active()?;
    let taken = dataset.snapshots()?.iter().any(|one| one.name == *to);
    if taken || *to == active.name {
        return Err(exists(to));
    }
    if *from != active.name {
        find(&dataset, from)?;
        refuse_mounted(&marks, from)?;
    }
    refuse_others(&dataset, &marks, from, by)?;
    if dry_run {
        let text = format!("beadm zone {zone}:\n  rename boot environment {from} to {to}\n");
        return Ok(Outcome::Planned(text));
    }
    // First: that nothing has this mark's name does no harm.
    marks.set_inside(to, marks.inside(from)?)?;
    if *from == active.name {
        active.name = to.clone();
        marks.set_active(&active)?;
    } else {
        dataset.rename_snapshot(from, to)?;
    }
    if marks.next()?.as_ref() == Some(from) {
        marks.set_next(Some(to))?;
    }
    marks.set_inside(from, None)?;
    drop(subject);
    Ok(Outcome::Done)
}

/// When a boot environment becomes the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the next boot.
    NextBoot,
    /// At once: a running zone is rebooted.
    Now,
}

/// Makes a boot environment the one that the zone boots.
///
/// # Errors
/// When there is none; with [`When::Now`] as for reboot.
pub fn activate(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    when: When,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let (subject, dataset, marks) = match admit(host, zone)? {
        Admitted::Go(subject, dataset, marks) => (subject, dataset, marks),
        Admitted::Over(outcome) => return Ok(outcome),
    };
    let active = marks.active()?.name;
    if *name != active {
        find(&dataset, name)?;
        refuse_mounted(&marks, name)?;
    }
    if dry_run {
        let when = match when {
            When::NextBoot => "at the next boot",
            When::Now => "now",
        };
        let text = format!("beadm zone {zone}:\n  take boot environment {name} {when}\n");
        return Ok(Outcome::Planned(text));
    }
    marks.set_next((*name != active).then_some(name))?;
    match (when, subject.state) {
        (When::NextBoot, _) => Ok(Outcome::Done),
        (When::Now, State::Installed) => {
            subject::settle(host, zone)?;
            switch::take_next(&subject.zonepath, None)?;
            Ok(Outcome::Done)
        }
        // Nothing to take: it goes on as it is.
        (When::Now, _) if *name == active => Ok(Outcome::Done),
        (When::Now, _) => {
            drop((dataset, subject));
            reboot::reboot(host, zone, &BootOptions::default(), false)
        }
    }
}

/// The boot environment that is the root of a zone, and the one that its next boot takes
/// where that is another one.
///
/// # Errors
/// When the marks are damaged.
pub fn marked(zonepath: &std::path::Path) -> Result<(Name, Option<Name>), Error> {
    let marks = Marks::at(zonepath);
    let active = marks.active()?.name;
    let next = marks.next()?.filter(|next| *next != active);
    Ok((active, next))
}

/// Lets the next boot of a zone whose lock is held take a boot environment that is there;
/// none: the active one.
///
/// # Errors
/// When the mark cannot be written.
pub fn choose(subject: &Subject, name: Option<&Name>) -> Result<(), Error> {
    Marks::at(&subject.zonepath).set_next(name)
}

/// Goes on with, or takes back, a change of boot environments of a halted zone that a crash
/// cut off; its lock is held.
///
/// # Errors
/// When it cannot be done.
pub fn complete(subject: &Subject) -> Result<(), Error> {
    match subject.state {
        State::Installed => switch::complete(&subject.zonepath),
        _ => Ok(()),
    }
}

/// Returns whether a snapshot is in somebody's use: mounted, or made by the zone itself.
///
/// # Errors
/// When the marks cannot be read.
pub fn is_in_use(subject: &Subject, snapshot: &Snapshot) -> Result<bool, Error> {
    let marks = Marks::at(&subject.zonepath);
    let own = marks.inside(&snapshot.name)? == Some(seconds(snapshot.created));
    Ok(own || marks.mounted(&snapshot.name)?.is_some())
}

/// A zone cannot change environments of the global zone: the administrator may need one to recover
/// the zone from an attacker.
fn refuse_others(dataset: &Dataset, marks: &Marks, name: &Name, by: By) -> Result<(), Error> {
    if by == By::Host {
        return Ok(());
    }
    // The time, too: another one may have got that name since.
    let made = match marks.active()? {
        Active {
            name: active,
            created,
        } if active == *name => created,
        _ => {
            let known = dataset.snapshots()?;
            let one = known.iter().find(|one| one.name == *name);
            one.map(|one| seconds(one.created))
        }
    };
    match marks.inside(name)? {
        Some(mark) if Some(mark) == made => Ok(()),
        _ => Err(Error::Refused(format!(
            "boot environment {name} was made in the global zone; only there can it be destroyed or renamed."
        ))),
    }
}

fn refuse_mounted(marks: &Marks, name: &Name) -> Result<(), Error> {
    match marks.mounted(name)? {
        None => Ok(()),
        Some(at) => Err(Error::Refused(format!(
            "boot environment {name} is mounted on {}; unmount it first.",
            at.path.display()
        ))),
    }
}
