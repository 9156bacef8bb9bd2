//! `beadm mount` and `unmount`: mount a boot environment on the host, where the administrator can
//! read and change it while the zone runs.
//!
//! A mounted boot environment is the root of a separate dataset beside the zonepath, whose layers
//! are the snapshot's layers. After the unmount the snapshot gets the content of this dataset.

use std::fs;
use std::path::{Path, PathBuf};

use model::ZoneName;
use storage::{Dataset, Name};

use crate::environments::admission::{Admitted, admit};
use crate::environments::dataset::find;
use crate::environments::marks::{Marks, Mounted};
use crate::executor::Outcome;
use crate::root_view;
use host::{Error, Host};

/// Mounts a boot environment at `at`, or at a folder in the zonepath, and reports the mount point.
///
/// # Errors
/// Fails if the boot environment does not exist, is mounted already, or is the active one.
pub fn mount(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    at: Option<&Path>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let (subject, dataset, marks) = match admit(host, zone)? {
        Admitted::Go(subject, dataset, marks) => (subject, dataset, marks),
        Admitted::Over(outcome) => return Ok(outcome),
    };
    if *name == marks.active()?.name {
        return Err(Error::Refused(format!(
            "boot environment {name} is the active one; zoneadm mount shows the root of a halted zone."
        )));
    }
    find(&dataset, name)?;
    let place = place(&subject.zonepath, name);
    if let Some(known) = marks.mounted(name)? {
        if subject::is_mount(&known.path) {
            return Err(Error::Refused(format!(
                "boot environment {name} is mounted on {} already.",
                known.path.display()
            )));
        }
        // The mount was lost when the host was booted again, but the written files still exist.
        put_back(&dataset, &marks, name, &place)?;
    }
    marks.make()?;
    let path = match at {
        Some(at) => at.to_owned(),
        None => marks.place(name),
    };
    let mounted = Mounted {
        made: !path.exists(),
        path,
    };
    // These are files of an earlier mount that was interrupted before its mark was written.
    Dataset::destroy(&place)?;
    marks.set_mounted(name, Some(&mounted))?;
    let shown = dataset
        .clone_snapshot_to(name, &place)
        .map_err(Error::from)
        .and_then(|_| root_view::show(&place, &mounted.path));
    if let Err(error) = shown {
        let _ = throw_away(&place);
        let _ = marks.set_mounted(name, None);
        return Err(error);
    }
    progress(&mounted.shown());
    Ok(Outcome::Done)
}

/// Unmounts a boot environment, and keeps the files that were written to it.
///
/// # Errors
/// Fails if the boot environment is not mounted, or if a process uses the mount.
pub fn unmount(host: &Host, zone: &ZoneName, name: &Name) -> Result<Outcome, Error> {
    let (subject, dataset, marks) = match admit(host, zone)? {
        Admitted::Go(subject, dataset, marks) => (subject, dataset, marks),
        Admitted::Over(outcome) => return Ok(outcome),
    };
    let Some(mounted) = marks.mounted(name)? else {
        return Err(Error::Refused(format!(
            "boot environment {name} is not mounted."
        )));
    };
    root_view::uncover(&mounted.path)?;
    put_back(&dataset, &marks, name, &place(&subject.zonepath, name))?;
    if mounted.made {
        let _ = fs::remove_dir(&mounted.path);
    }
    Ok(Outcome::Done)
}

/// Replaces the content of the snapshot with the files of the dataset at `place`.
fn put_back(dataset: &Dataset, marks: &Marks, name: &Name, place: &Path) -> Result<(), Error> {
    if place.join(storage::ROOT).exists() {
        let copy = Dataset::open(place)?;
        copy.sync()?;
        dataset.take_as_snapshot(name, &copy)?;
    }
    throw_away(place)?;
    marks.set_mounted(name, None)
}

fn throw_away(place: &Path) -> Result<(), Error> {
    Dataset::destroy(place)?;
    // The folder contained only the dataset.
    let _ = fs::remove_dir(place);
    Ok(())
}

/// Returns the path of the dataset that holds the writes to a mounted boot environment. The path is
/// beside the zonepath, on the same file system.
fn place(zonepath: &Path, name: &Name) -> PathBuf {
    let zone = zonepath.file_name().unwrap_or_default().to_string_lossy();
    zonepath.with_file_name(format!(".{zone}.be.{name}"))
}

/// Returns the datasets beside a zonepath that an interrupted mount has made. No mark says that
/// they are mounted.
pub fn unmarked(zonepath: &Path) -> Vec<PathBuf> {
    let marks = Marks::at(zonepath);
    let beside = zonepath.parent().into_iter().flat_map(fs::read_dir);
    let paths = beside.flatten().flatten().map(|entry| entry.path());
    let is_unmarked = |path: &PathBuf| {
        let start = format!(
            ".{}.be.",
            zonepath.file_name().unwrap_or_default().to_string_lossy()
        );
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.and_then(|name| name.strip_prefix(&start)?.parse().ok());
        name.is_some_and(|name| matches!(marks.mounted(&name), Ok(None)))
    };
    paths.filter(is_unmarked).collect()
}

/// Refuses a zone of which a boot environment is mounted.
///
/// # Errors
/// Fails with [`Error::Refused`] and the mount point.
pub fn refuse_any_mounted(zonepath: &Path) -> Result<(), Error> {
    let marks = Marks::at(zonepath);
    let mut names = marks.all_mounted()?.into_iter();
    match names.next() {
        None => Ok(()),
        Some(name) => refuse_mounted(&marks, &name),
    }
}

/// Removes the marks and datasets of boot environments, but not the snapshots. The caller then
/// removes the zone's dataset.
///
/// # Errors
/// Fails if a boot environment is mounted.
pub fn forget(zonepath: &Path) -> Result<(), Error> {
    let marks = Marks::at(zonepath);
    for name in marks.all_mounted()? {
        if let Some(mounted) = marks.mounted(&name)? {
            if subject::is_mount(&mounted.path) {
                return Err(Error::Refused(format!(
                    "boot environment {name} is mounted on {}: unmount it first",
                    mounted.path.display()
                )));
            }
            if mounted.made {
                let _ = fs::remove_dir(&mounted.path);
            }
        }
        throw_away(&place(zonepath, &name))?;
        marks.set_mounted(&name, None)?;
    }
    marks.remove_all()
}

pub(super) fn refuse_mounted(marks: &Marks, name: &Name) -> Result<(), Error> {
    match marks.mounted(name)? {
        None => Ok(()),
        Some(at) => Err(Error::Refused(format!(
            "boot environment {name} is mounted on {}; unmount it first.",
            at.path.display()
        ))),
    }
}
