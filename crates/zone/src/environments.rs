//! `zoneadm beadm`: the boot environments of a zone.
//!
//! The snapshots of a zone are its boot environments, in addition to the zone's present root.
//!
//! | file | holds |
//! |---|---|
//! | `marks` | which one is active, and which is next: links in `<zonepath>/be` |
//! | `dataset` | the dataset whose snapshots they are |
//! | `admission` | which operation may begin |
//! | `switch` | the change from one to the other |
//! | `mounts` | one that is shown on the host, and written into |
//! | `scheduled` | which ones are automatic snapshots |
//! | `inside` | the requests of `beadm` in a zone to zoneadmd |

mod admission;
mod dataset;
mod marks;
mod mounts;
mod scheduled;
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
pub use mounts::{forget, refuse_any_mounted, unmarked};
pub use mounts::{mount, unmount};
pub use scheduled::{is_needed, refuse_automatic, scheduled, set_scheduled};

/// Maximum number of boot environments of a zone that may exist when a process in the zone makes
/// another one. An administrator in the global zone can make more.
pub const MAX_INSIDE: usize = 32;

/// The caller of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The global zone.
    Host,
    /// The zone itself. A zone removes and renames only boot environments that it made.
    Zone,
}

/// Refuses a change that an immutable zone wants to make itself: another root would be another
/// content of its read-only files.
///
/// # Errors
/// Fails with [`Error::Refused`] if the root of the running zone is read-only.
pub fn refuse_immutable(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    let running = store::runtime::load(&host.root, zone)?;
    let immutable = running.and_then(|running| running.immutable);
    match immutable.filter(|immutable| immutable.is_sealed()) {
        None => Ok(()),
        Some(immutable) => Err(Error::Refused(format!(
            "the zone is immutable (file-mac-profile={}): its boot environments change from the global zone, or after boot -w.",
            immutable.profile
        ))),
    }
}

/// A line of `beadm list`: a boot environment of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The name of the zone.
    pub zone: String,
    /// The name of the boot environment.
    pub name: String,
    /// True if this boot environment is the zone's root now.
    pub active_now: bool,
    /// True if this boot environment will be the zone's root after the next boot.
    pub active_on_reboot: bool,
    /// The mount point. It is `/` for the active boot environment of a running zone.
    pub mountpoint: Option<String>,
    /// Bytes that the removal of this boot environment would free. For the active boot environment:
    /// bytes of the files in its writable top.
    pub space_bytes: u64,
    /// The policy of removal: `static`, which means only by hand.
    pub policy: &'static str,
    /// The time of creation, in seconds since 1970.
    pub created: u64,
}

/// Lists the boot environments of a zone, the oldest first.
///
/// # Errors
/// Fails with [`Error::Refused`] for a zone without a root, and for a zone whose root has no
/// layers.
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
    for (one, usage) in dataset.snapshot_usages()? {
        // During an interrupted switch, a snapshot may have the name of the active boot
        // environment, which is listed already.
        if one.name == active.name {
            continue;
        }
        rows.push(Row {
            zone: zone.to_string(),
            active_now: false,
            active_on_reboot: one.name == next,
            mountpoint: marks.mounted(&one.name)?.map(|at| at.shown()),
            space_bytes: usage.own_bytes,
            policy: "static",
            created: seconds(one.created),
            name: one.name.to_string(),
        });
    }
    // The sort is stable, so boot environments of the same second stay in the order of their
    // creation.
    rows.sort_by_key(|row| row.created);
    Ok(rows)
}

/// Makes a boot environment from the zone's present root or from another boot environment.
///
/// # Errors
/// Fails if the name exists, if the source does not exist, or if a zone asks that has its maximum
/// number of boot environments.
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
    // If a crash interrupts this command before the mark is written, only the host can remove the
    // boot environment.
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
    // The active boot environment is not among the snapshots, so it is counted in addition. The
    // schedule limits the number of automatic snapshots itself.
    let automatic = marks.all_scheduled()?;
    let is_counted = |one: &Snapshot| !automatic.contains(&one.name);
    let counted = dataset
        .snapshots()?
        .iter()
        .filter(|one| is_counted(one))
        .count();
    if by == By::Zone && counted + 1 >= MAX_INSIDE {
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
/// Fails if the boot environment is active now or after the next boot, if it is mounted, or if a
/// zone asks that did not make it.
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
    mounts::refuse_mounted(&marks, name)?;
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

/// Renames a boot environment.
///
/// # Errors
/// Fails if the boot environment does not exist, if the new name exists, or if a zone asks that did
/// not make it.
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
        mounts::refuse_mounted(&marks, from)?;
    }
    refuse_others(&dataset, &marks, from, by)?;
    if dry_run {
        let text = format!("beadm zone {zone}:\n  rename boot environment {from} to {to}\n");
        return Ok(Outcome::Planned(text));
    }
    // The mark of the new name is written first, because a mark without a boot environment does no
    // harm.
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

/// The time at which an activated boot environment becomes the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The change takes place at the next boot.
    NextBoot,
    /// The change takes place at once: a running zone is rebooted.
    Now,
}

/// Makes a boot environment the root from which the zone boots.
///
/// # Errors
/// Fails if the boot environment does not exist, and with [`When::Now`] also as reboot does.
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
        mounts::refuse_mounted(&marks, name)?;
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
            crate::settle::settle(host, zone)?;
            switch::take_next(&subject.zonepath, None)?;
            Ok(Outcome::Done)
        }
        // The boot environment is active already, so the zone continues to run.
        (When::Now, _) if *name == active => Ok(Outcome::Done),
        (When::Now, _) => {
            drop((dataset, subject));
            reboot::reboot(host, zone, &BootOptions::default(), false)
        }
    }
}

/// Returns the active boot environment of a zone, and the boot environment that the next boot
/// activates if it is another one.
///
/// # Errors
/// Fails if the marks are damaged.
pub fn marked(zonepath: &std::path::Path) -> Result<(Name, Option<Name>), Error> {
    let marks = Marks::at(zonepath);
    let active = marks.active()?.name;
    let next = marks.next()?.filter(|next| *next != active);
    Ok((active, next))
}

/// Selects the boot environment for the next boot of a zone. `None` selects the active one. The
/// caller must hold the zone's lock.
///
/// # Errors
/// Fails if the mark cannot be written.
pub fn choose(subject: &Subject, name: Option<&Name>) -> Result<(), Error> {
    Marks::at(&subject.zonepath).set_next(name)
}

/// Completes or undoes a switch of boot environments that a crash interrupted, if the zone is
/// halted. The caller must hold the zone's lock.
///
/// # Errors
/// Fails if the switch can be neither completed nor undone.
pub fn complete(subject: &Subject) -> Result<(), Error> {
    match subject.state {
        State::Installed => switch::complete(&subject.zonepath),
        _ => Ok(()),
    }
}

/// Returns true if a snapshot is mounted, or was made by the zone itself.
///
/// # Errors
/// Fails if the marks cannot be read.
pub fn is_in_use(subject: &Subject, snapshot: &Snapshot) -> Result<bool, Error> {
    let marks = Marks::at(&subject.zonepath);
    let own = marks.inside(&snapshot.name)? == Some(seconds(snapshot.created));
    Ok(own || marks.mounted(&snapshot.name)?.is_some())
}

/// Refuses the request of a zone to change a boot environment that the global zone made. The
/// administrator may need this boot environment to recover the zone from an attacker.
fn refuse_others(dataset: &Dataset, marks: &Marks, name: &Name, by: By) -> Result<(), Error> {
    if by == By::Host {
        return Ok(());
    }
    // The time of creation is compared too, because a newer boot environment may have the same
    // name.
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
