//! `zoneadm merge`: reduces the number of layers below the root of a zone.
//!
//! A running zone continues to read the layers from which its root was mounted. These layers stay
//! until the zone halts. The next boot uses the merged layers.

use model::plan::{Step, ZonePlan};
use model::{State, Verb, ZoneName};
use storage::{Dataset, LAYERS_AFTER_MERGE, MERGE_DEPTH, driver_at};

use crate::executor::{self, Outcome};
use crate::{disk_merge, kept_disks};
use host::{Error, Host};
use subject::{Start, Subject};

/// Merges layers until [`LAYERS_AFTER_MERGE`] are left, or the files below the disks of a running
/// kernel zone. Tells of the latter the bytes that are done and the bytes in all.
///
/// # Errors
/// Fails with [`Error::Step`] if a step failed. The zone then keeps its former layers.
pub fn merge(
    host: &Host,
    zone: &ZoneName,
    dry_run: bool,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Merge)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let path = subject.zonepath.clone();
    if kept_disks::is_at(&path) {
        return disk_merge::merge(host, &subject, dry_run, tell);
    }
    if !driver_at(&path)?.has_layers() {
        return Ok(Outcome::Already("zone has no layers to merge"));
    }
    if Dataset::open(&path)?.depth()? <= LAYERS_AFTER_MERGE {
        return Ok(Outcome::Already("zone has few layers already"));
    }
    let running = subject.state != State::Installed;
    let step = match running {
        true => Step::MergeBeside {
            path,
            most: LAYERS_AFTER_MERGE,
        },
        false => Step::MergeLayers {
            path,
            most: LAYERS_AFTER_MERGE,
        },
    };
    let plan = ZonePlan {
        zone: zone.clone(),
        verb: Verb::Merge,
        steps: vec![step],
    };
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    if !running {
        // Mounts of the old layers must be unmounted first.
        crate::settle::settle(host, zone)?;
    }
    let config = subject.config(host)?;
    executor::run_now(host, &config, &subject.entry, &plan, &mut |_| {})?;
    Ok(Outcome::Done)
}

/// Returns the step that merges layers of a running zone before a snapshot adds a layer; `None` if
/// the zone has few layers.
///
/// # Errors
/// Fails if the zone's layers cannot be read.
pub(crate) fn before_snapshot(subject: &Subject) -> Result<Option<Step>, Error> {
    let path = subject.zonepath.clone();
    let deep = Dataset::open(&path)?.depth()? + 1 >= MERGE_DEPTH;
    Ok(deep.then_some(Step::MergeBeside {
        path,
        most: LAYERS_AFTER_MERGE,
    }))
}
