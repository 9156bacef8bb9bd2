//! Carries out the plan: with the verbs `snapshot` and `destroy-snapshot`, one zone of a disk after
//! the other, and several disks at the same time.

use std::path::Path;
use std::time::{Duration, Instant};

use model::ZoneName;
use serde::Serialize;
use storage::{Fullness, Name, driver_at};
use store::lock;

use super::facts::{self, Disk, Place, Survey};
use super::moment::Auto;
use super::plan::{FULL_PERCENT, Known, Removal, Scheduled, Why, relief};
use crate::snapshot::{self, Changes};
use crate::{disk_merge, environments};
use host::{Error, Host, flatten, parallel};
use kernelzone::kept;
use subject::Subject;

/// Time for which btrfs and ZFS, which free the space of removed files in the background, are given
/// to free the space of one snapshot.
const FREE_TIMEOUT: Duration = Duration::from_secs(3);

/// Interval between two looks at the use of a disk in that time.
const FREE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Use of a disk in percent below which a copy of files on it cannot fill it: the copy is not
/// larger than all used space together.
const HALF_OF_FULL: u64 = FULL_PERCENT / 2;

/// Begin of each note in the log of a zone.
const NOTE: &str = "automatic snapshots: ";

/// Begin of the note that the log has of an automatic snapshot that was taken or removed.
const NOTE_OF_SNAPSHOT: &str = "snapshot auto-";

/// A change that a run would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Merges the files below the disks of a kernel zone.
    Merge(ZoneName),
    /// Takes a snapshot of a zone.
    Take(ZoneName, Name),
    /// Removes a snapshot of a zone.
    Remove(Removal),
}

/// The result of a run for one zone.
#[derive(Debug)]
pub struct End {
    /// The name of the zone.
    pub zone: ZoneName,
    /// The snapshot that was taken.
    pub taken: Option<Name>,
    /// The snapshots that were removed.
    pub removed: Vec<Removal>,
    /// The reason for which the zone was left out; the next run tries again.
    pub skipped: Option<String>,
    /// The error that ended the work on the zone.
    pub failed: Option<Error>,
}

/// The removal of a snapshot, for JSON.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The name of the snapshot.
    pub name: String,
    /// The reason for its removal.
    pub why: String,
}

impl From<&Removal> for Shown {
    fn from(removal: &Removal) -> Self {
        Self {
            name: removal.name.to_string(),
            why: removal.why.to_string(),
        }
    }
}

/// Returns the changes of a run at `now` in seconds since 1970, as far as they are known before it.
/// A removal of [`Why::Full`] takes place only while the disk is that full. Compares each zone that
/// is due with its last snapshot.
#[must_use]
pub fn planned(survey: &Survey, now: u64) -> Vec<Move> {
    let mut moves = Vec::new();
    for disk in &survey.disks {
        let percent = disk.fullness.percent();
        let zones: Vec<&Scheduled> = disk.zones.iter().map(|one| &one.plan).collect();
        let relief = relief(&zones, percent, now);
        let is_gone = |removal: &Removal| {
            let same = |one: &&Removal| one.zone == removal.zone && one.name == removal.name;
            relief.iter().find(same).is_some()
        };
        moves.extend(relief.iter().cloned().map(Move::Remove));
        for (zone, place) in zones.into_iter().zip(&disk.zones) {
            let due = zone.due(now).filter(|_| percent < FULL_PERCENT);
            let due = due.filter(|_| has_changed(place));
            let merged = due.filter(|_| place.to_merge);
            moves.extend(merged.map(|_| Move::Merge(zone.zone.clone())));
            moves.extend(due.map(|due| Move::Take(zone.zone.clone(), due.name())));
            let surplus = zone.surplus(now, due).into_iter();
            moves.extend(surplus.filter(|one| !is_gone(one)).map(Move::Remove));
        }
    }
    moves
}

/// Takes and removes snapshots for the time `now` in seconds since 1970. Reports each zone with
/// changes or problems, from any thread. Returns false if another run is under way.
///
/// # Errors
/// Fails if the lock of all runs cannot be taken, or the index cannot be read.
pub fn run(host: &Host, now: u64, tell: &(dyn Fn(End) + Sync)) -> Result<bool, Error> {
    let Some(_lock) = lock::try_exclusive(&host.root.slide_lock())? else {
        return Ok(false);
    };
    let survey = super::survey(host)?;
    for (zone, why) in survey.skipped {
        let mut end = End::of(zone);
        end.skip(host, why);
        tell(end);
    }
    for (zone, error) in survey.damaged {
        let mut end = End::of(zone);
        end.fail(host, error);
        tell(end);
    }
    parallel::for_each(&survey.disks, |disk| of_disk(host, disk, now, tell));
    Ok(true)
}

fn of_disk(host: &Host, disk: &Disk, now: u64, tell: &(dyn Fn(End) + Sync)) {
    let zones: Vec<&Scheduled> = disk.zones.iter().map(|one| &one.plan).collect();
    let mut ends: Vec<End> = zones.iter().map(|one| End::of(one.zone.clone())).collect();
    for removal in relief(&zones, disk.fullness.percent(), now) {
        let mut both = disk.zones.iter().zip(&mut ends);
        let Some((place, end)) = both.find(|(place, _)| place.plan.zone == removal.zone) else {
            continue;
        };
        if end.is_over() || !is_still_needed(place, &removal) {
            continue;
        }
        let before = use_of(&place.zonepath);
        if end.remove(host, removal) {
            wait_for_space(&place.zonepath, before.as_ref());
        }
    }
    for (place, mut end) in disk.zones.iter().zip(ends) {
        if !end.is_over() {
            of_zone(host, place, now, &mut end);
        }
        if end.taken.is_some() || !end.removed.is_empty() || end.is_over() {
            tell(end);
        }
    }
}

fn of_zone(host: &Host, place: &Place, now: u64, end: &mut End) {
    let mut plan = place.plan.clone();
    let is_left = |one: &Known| !end.removed.iter().any(|gone| gone.name == one.name);
    plan.known.retain(is_left);
    if let Err(error) = forget_marks(place, &plan) {
        return end.fail(host, error);
    }
    let due = plan.due(now);
    if let Some(due) = due {
        match take(host, place, due) {
            Ok(Changes::Kept) => end.taken = Some(due.name()),
            Ok(Changes::Nothing(_)) => {}
            Ok(Changes::Refused(why)) => end.skip(host, why),
            Err(error) => return end.stop(host, error),
        }
    }
    // If no snapshot was taken, the present ones are not surplus because of it.
    let taken = due.filter(|_| end.taken.is_some());
    for removal in plan.surplus(now, taken) {
        if is_still_needed(place, &removal) && !end.remove(host, removal) {
            return;
        }
    }
}

/// Takes a snapshot if the zone has changed since the last one.
fn take(host: &Host, place: &Place, due: Auto) -> Result<Changes, Error> {
    let (zonepath, name) = (&place.zonepath, due.name());
    let mut is_marked = false;
    let ready = |subject: &Subject| {
        let to_merge = match place.is_machine {
            true => {
                let config = subject.config(host)?;
                disk_merge::bytes_before_scheduled(&place.zonepath, &config, subject.state)?
            }
            false => None,
        };
        let mut why = why_no_room(place, to_merge)?;
        if why.is_none() && to_merge.is_some() {
            why = disk_merge::before_scheduled(host, &subject.entry.name)?;
        }
        if why.is_none() {
            // A snapshot without a mark would stay for ever, a mark without a snapshot does no harm.
            environments::set_scheduled(zonepath, &name, true)?;
            is_marked = true;
        }
        Ok(why)
    };
    let done = snapshot::of_changes(host, &place.plan.zone, &name, ready);
    if done.is_err() && is_marked {
        let known = facts::snapshots(zonepath)?;
        if !known.iter().any(|one| one.name == name) {
            environments::set_scheduled(zonepath, &name, false)?;
        }
    }
    done
}

/// Returns the reason if a disk has no room for a snapshot. Where the file system cannot share
/// blocks, a snapshot of a running zone, or of the disks of a halted kernel zone, copies files.
/// `to_merge` are the bytes that a merge copies before a snapshot of a running kernel zone.
fn why_no_room(place: &Place, to_merge: Option<u64>) -> Result<Option<String>, Error> {
    let driver = driver_at(&place.zonepath)?;
    let fullness = driver.fullness(&place.zonepath)?;
    let percent = fullness.percent();
    if percent >= FULL_PERCENT {
        return Ok(Some(format!(
            "its disk is {percent} % full; no automatic snapshot is taken from {FULL_PERCENT} %: remove files or snapshots."
        )));
    }
    if percent < HALF_OF_FULL {
        return Ok(None);
    }
    let bytes = match (place.is_machine, place.is_active) {
        (false, false) => return Ok(None),
        // The snapshot itself shares blocks, or puts an empty file on each disk.
        (true, true) => match to_merge {
            Some(bytes) => bytes,
            None => return Ok(None),
        },
        (false, true) => driver.bytes_to_copy(&place.zonepath)?,
        (true, false) => kept::bytes_to_copy(&place.zonepath)?,
    };
    let after = fullness.percent_with(bytes);
    Ok((after >= FULL_PERCENT).then(|| {
        let size = model::table::short_size(bytes);
        let what = match to_merge {
            Some(_) => format!("a merge of the files below its disks would copy up to {size} and"),
            None => format!("a copy of {size} would"),
        };
        format!(
            "{what} fill its disk to {after} %; no automatic snapshot is taken from {FULL_PERCENT} %: remove files or snapshots."
        )
    }))
}

/// Removes the marks of automatic snapshots that an administrator has removed or renamed.
fn forget_marks(place: &Place, plan: &Scheduled) -> Result<(), Error> {
    for name in environments::scheduled(&place.zonepath)? {
        if !plan.known.iter().any(|one| one.name == name) {
            environments::set_scheduled(&place.zonepath, &name, false)?;
        }
    }
    Ok(())
}

/// Returns false if a snapshot with the present content of the zone's root exists.
fn has_changed(place: &Place) -> bool {
    let zonepath = &place.zonepath;
    // The run itself reports errors.
    if !place.is_machine {
        let same = driver_at(zonepath).and_then(|it| it.unchanged_since(zonepath));
        return same.is_ok_and(|same| same.is_none());
    }
    place.is_active || kept::unchanged_since(zonepath).is_ok_and(|same| same.is_none())
}

fn use_of(zonepath: &Path) -> Option<Fullness> {
    driver_at(zonepath)
        .and_then(|driver| driver.fullness(zonepath))
        .ok()
}

/// Returns true if the reason of a removal still holds after the removals before it.
fn is_still_needed(place: &Place, removal: &Removal) -> bool {
    let zonepath = &place.zonepath;
    match removal.why {
        Why::Full(limit) => use_of(zonepath).is_some_and(|it| it.percent() >= limit),
        Why::Size(max) => facts::known(zonepath)
            .and_then(|known| facts::bytes(zonepath, &known))
            .is_ok_and(|bytes| bytes > max),
        Why::Schedule => true,
    }
}

/// Waits until a disk counts the space of a removed snapshot as free.
fn wait_for_space(zonepath: &Path, before: Option<&Fullness>) {
    // An error shows itself in the next look at the use of the disk.
    let _ = storage::settle_removals(zonepath);
    let frees_later = |name: &str| matches!(name, "btrfs" | "zfs");
    if !driver_at(zonepath).is_ok_and(|driver| frees_later(driver.name())) {
        return;
    }
    let end = Instant::now() + FREE_TIMEOUT;
    let used = before.map_or(0, |it| it.used);
    while Instant::now() < end && use_of(zonepath).is_some_and(|it| it.used >= used) {
        std::thread::sleep(FREE_POLL_INTERVAL);
    }
}

impl End {
    const fn of(zone: ZoneName) -> Self {
        Self {
            zone,
            taken: None,
            removed: Vec::new(),
            skipped: None,
            failed: None,
        }
    }

    /// Returns true if the work on the zone ended with a problem.
    const fn is_over(&self) -> bool {
        self.skipped.is_some() || self.failed.is_some()
    }

    fn note(&self, host: &Host, text: &str) {
        control::log::note(host, &self.zone, &format!("{NOTE}{text}"));
    }

    /// Notes the reason in the zone's log, unless it is that of the last run.
    fn skip(&mut self, host: &Host, why: String) {
        let text = format!("{NOTE}skipped: {why}");
        control::log::note_news(host, &self.zone, &text, &[NOTE, NOTE_OF_SNAPSHOT]);
        self.skipped = Some(why);
    }

    fn fail(&mut self, host: &Host, error: Error) {
        self.note(host, &format!("failed: {}", flatten(&error)));
        self.failed = Some(error);
    }

    /// Ends the work on the zone: skips a zone that is busy or has changed its state, and fails
    /// otherwise.
    fn stop(&mut self, host: &Host, error: Error) {
        match error {
            Error::Store(store::Error::Locked(_)) | Error::State(_) => {
                self.skip(host, flatten(&error));
            }
            error => self.fail(host, error),
        }
    }

    /// Removes a snapshot. Returns false if that ended the work on the zone.
    fn remove(&mut self, host: &Host, removal: Removal) -> bool {
        if let Err(error) = snapshot::destroy(host, &self.zone, &removal.name, false) {
            self.stop(host, error);
            return false;
        }
        self.note(host, &format!("{} removed: {}", removal.name, removal.why));
        self.removed.push(removal);
        true
    }
}
