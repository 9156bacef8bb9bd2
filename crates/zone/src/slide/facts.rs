//! Reads the zones with schedules, their automatic snapshots, and the disks that hold them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use model::verb::Admission;
use model::{Config, State, Verb, ZoneName};
use storage::{Fullness, Name, Snapshot, driver_at};
use store::index::{Entry, Index};
use store::xml;

use super::moment::Auto;
use super::plan::{Known, Scheduled};
use crate::{disk_merge, environments, kept_disks};
use host::{Error, Host};
use kernelzone::kept;

/// A zone with a schedule, and its place on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The schedule and the snapshots of the zone.
    pub plan: Scheduled,
    /// The zonepath of the zone.
    pub zonepath: PathBuf,
    /// True if the zone has processes, so that a snapshot may have to copy its top.
    pub is_active: bool,
    /// True for a kernel zone, whose snapshots are those of its disks.
    pub is_machine: bool,
    /// True if the files below the disks of the zone are merged before its next snapshot.
    pub to_merge: bool,
}

/// A disk with the zones on it that have schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// The use of the disk when the zones were read.
    pub fullness: Fullness,
    /// The zones, in the order of the index.
    pub zones: Vec<Place>,
}

/// All zones with schedules.
#[derive(Debug, Default)]
pub struct Survey {
    /// The disks with zones of which snapshots can be made.
    pub disks: Vec<Disk>,
    /// The zones of which no snapshot can be made in their present state, with the reason.
    pub skipped: Vec<(ZoneName, String)>,
    /// The zones that could not be read, with the error.
    pub damaged: Vec<(ZoneName, Error)>,
}

/// The kind of a zone for the schedule.
enum Found {
    /// The zone has no schedule, or is not installed.
    Nothing,
    /// No snapshot of the zone can be made now, with the reason.
    Skipped(String),
    /// Snapshots of the zone can be made.
    Zone(Place, Fullness),
}

/// Reads all zones with schedules.
///
/// # Errors
/// Fails if the index cannot be read.
pub fn survey(host: &Host) -> Result<Survey, Error> {
    let mut survey = Survey::default();
    for entry in Index::load(&host.root)?.entries() {
        let zone = &entry.name;
        match look(host, entry) {
            Ok(Found::Nothing) => {}
            Ok(Found::Skipped(why)) => survey.skipped.push((zone.clone(), why)),
            Ok(Found::Zone(place, fullness)) => {
                let mut disks = survey.disks.iter_mut();
                match disks.find(|disk| disk.fullness.disk == fullness.disk) {
                    Some(disk) => disk.zones.push(place),
                    None => survey.disks.push(Disk {
                        fullness,
                        zones: vec![place],
                    }),
                }
            }
            // The zone has just been deleted.
            Err(Error::Store(store::Error::NoSuchZone(_))) => {}
            Err(error) => survey.damaged.push((zone.clone(), error)),
        }
    }
    Ok(survey)
}

fn look(host: &Host, entry: &Entry) -> Result<Found, Error> {
    let (state, _) = subject::state(host, entry)?;
    if matches!(state, State::Configured | State::Incomplete) {
        return Ok(Found::Nothing);
    }
    let config = config(host, entry, state)?;
    let Some(schedule) = config.schedule() else {
        return Ok(Found::Nothing);
    };
    if let Admission::Refuse(why) = Verb::Snapshot.admission(state) {
        return Ok(Found::Skipped(why));
    }
    let zonepath = host.root.path(&entry.zonepath);
    let is_machine = kept_disks::is_at(&zonepath);
    if !is_machine && subject::lacks_root(&zonepath) {
        let why = format!("{} holds no root.", entry.zonepath.display());
        return Ok(Found::Skipped(why));
    }
    let known = known(&zonepath)?;
    let bytes = match schedule.max_bytes {
        Some(_) => bytes(&zonepath, &known)?,
        None => 0,
    };
    let fullness = driver_at(&zonepath)?.fullness(&zonepath)?;
    let plan = Scheduled {
        zone: entry.name.clone(),
        schedule,
        known,
        bytes,
    };
    let is_active = state.is_active();
    let to_merge = match is_machine {
        true => disk_merge::bytes_before_scheduled(&zonepath, &config, state)?.is_some(),
        false => false,
    };
    let place = Place {
        plan,
        zonepath,
        is_active,
        is_machine,
        to_merge,
    };
    Ok(Found::Zone(place, fullness))
}

/// Returns the configuration that is in force: a running zone keeps the configuration with which it
/// was booted, and the changes that were applied since.
fn config(host: &Host, entry: &Entry, state: State) -> Result<Config, Error> {
    if state.is_active() {
        match xml::load_running(&host.root, &entry.name) {
            // A program without this file booted the zone.
            Err(store::Error::NoSuchZone(_)) => {}
            other => return Ok(other?),
        }
    }
    Ok(xml::load(&host.root, &entry.name)?)
}

/// Returns the bytes that automatic snapshots occupy together. Reads all their files.
pub(super) fn bytes(zonepath: &Path, known: &[Known]) -> Result<u64, Error> {
    if kept_disks::is_at(zonepath) {
        return kept::bytes_together(zonepath, known.iter().map(|one| &one.name));
    }
    let names: BTreeSet<Name> = known.iter().map(|one| one.name.clone()).collect();
    Ok(driver_at(zonepath)?.bytes_together(zonepath, &names)?)
}

/// Returns all snapshots at a zonepath.
pub(super) fn snapshots(zonepath: &Path) -> Result<Vec<Snapshot>, Error> {
    if !kept_disks::is_at(zonepath) {
        return Ok(driver_at(zonepath)?.snapshots(zonepath)?);
    }
    let all = kept_disks::list(zonepath, false)?;
    Ok(all.into_iter().map(|(one, _)| one).collect())
}

/// Returns the automatic snapshots at a zonepath, the oldest first.
pub(super) fn known(zonepath: &Path) -> Result<Vec<Known>, Error> {
    let marked = environments::scheduled(zonepath)?;
    if marked.is_empty() {
        return Ok(Vec::new());
    }
    let is_machine = kept_disks::is_at(zonepath);
    let mut known = Vec::new();
    for one in snapshots(zonepath)? {
        let auto = Auto::parse(&one.name).filter(|_| marked.contains(&one.name));
        let Some(auto) = auto else { continue };
        known.push(Known {
            auto,
            needed: environments::is_needed(zonepath, &one)?,
            parts: match is_machine {
                true => kept::parts(zonepath, &one.name)?,
                false => Vec::new(),
            },
            name: one.name,
        });
    }
    known.sort_by_key(|one| one.auto);
    Ok(known)
}
