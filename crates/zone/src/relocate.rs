//! `zoneadm move`: moves the zonepath of a halted zone.
//!
//! On the same file system the folder is renamed, whatever its size, and the zone's layers stay
//! where they are. To another file system everything is copied: the zone then needs no layer of its
//! old place. [`subject::pending`] completes a move that was killed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::plan::{Step, ZonePlan};
use model::{Config, Verb, ZoneName};

use crate::executor::{self, Outcome};
use crate::{environments, patch_files, suspend, verify};
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject};

/// Moves the zonepath of a zone to `to`, an absolute path.
///
/// # Errors
/// Fails with [`Error::Verify`] if the zone cannot be at the new path, with [`Error::Refused`] if
/// it cannot be moved now, and with [`Error::Step`] if a step failed. The zone is then at its old
/// path.
pub fn relocate(
    host: &Host,
    zone: &ZoneName,
    to: &Path,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Move)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    kind::of(&config).admit(Verb::Move, &config)?;
    // The configuration decides which paths are legal, and how they are written.
    let mut moved = config.clone();
    let legal = moved.relocate(to);
    legal.map_err(|error| Error::Usage(error.to_string()))?;
    let to = moved.zonepath();
    if to == subject.entry.zonepath {
        return Ok(Outcome::Already("zone is already at this zonepath"));
    }
    refuse_now(host, &subject, &config)?;
    verify::new_zonepath(host, &subject, &to)?;
    let plan = plan(&subject, host.root.path(&to));
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    crate::settle::settle(host, zone)?;
    let (last, steps) = plan
        .steps
        .split_last()
        .ok_or(Error::Refused("the plan has no steps".to_owned()))?;
    let [before, after] = [steps.to_vec(), vec![last.clone()]].map(|steps| ZonePlan {
        steps,
        ..plan.clone()
    });
    executor::run_now(host, &config, &subject.entry, &before, progress)?;
    let done = format!(
        "zonepath moved from {} to {}",
        subject.entry.zonepath.display(),
        to.display()
    );
    control::log::note(host, zone, &done);
    // The zone is at its new path, so a failure of the last step takes nothing back.
    let ended = executor::run_now(host, &config, &subject.entry, &after, progress);
    let left = ended.err().map(|error| {
        format!(
            "WARNING: the zone is at {}, and the rest of {} stays: {}; zoneadm check -r tries again.",
            to.display(),
            subject.entry.zonepath.display(),
            host::flatten(&error)
        )
    });
    Ok(Outcome::with_remarks(left))
}

/// Refuses a zone whose files another program uses, or expects at their path.
fn refuse_now(host: &Host, subject: &Subject, config: &Config) -> Result<(), Error> {
    if suspend::is_suspended(host, &subject.entry, config) {
        return Err(Error::Refused(
            "is suspended: boot it and shut it down, or throw its image away, before it is moved."
                .to_owned(),
        ));
    }
    if patch_files::journal_of(&host.root, &subject.entry).exists() {
        return Err(Error::Refused(
            "has an interrupted patch: run zonepatch recover first.".to_owned(),
        ));
    }
    environments::refuse_any_mounted(&subject.zonepath)?;
    let real = subject.zonepath.canonicalize();
    let real = real.map_err(Error::io(format!("open {}", subject.zonepath.display())))?;
    let mounts = sys::mountinfo::own().map_err(Error::io("read the mounts of the host"))?;
    let below: Vec<String> = mounts
        .into_iter()
        .map(|mount| mount.point)
        .filter(|point| *point != real && point.starts_with(&real))
        .map(|point| host.root.shown(&point).display().to_string())
        .collect();
    match below.is_empty() {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "these file systems are mounted in its zonepath: {}; unmount them first.",
            below.join(", ")
        ))),
    }
}

/// Returns the steps of the move. The last of them removes the old zonepath.
fn plan(subject: &Subject, to: PathBuf) -> ZonePlan {
    let from = subject.zonepath.clone();
    let copy = !can_be_renamed(&from, &to);
    let begin = Step::BeginMove {
        to: to.clone(),
        copy,
    };
    let mut steps = vec![begin];
    match copy {
        true => steps.extend([
            Step::MakeZonepath { path: to.clone() },
            Step::CopyZonepath {
                from: from.clone(),
                to: to.clone(),
            },
        ]),
        false => steps.push(Step::RenameZonepath {
            from: from.clone(),
            to: to.clone(),
        }),
    }
    steps.extend([
        Step::Sync { path: to.clone() },
        Step::StoreZonepath { to },
        Step::EndMove {
            from: copy.then_some(from),
        },
    ]);
    ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Move,
        steps,
    }
}

/// Returns true if the folder `from` can be renamed to `to`: both are on one mount, and neither is
/// a mount point.
fn can_be_renamed(from: &Path, to: &Path) -> bool {
    let parents = (from.parent(), to.parent());
    let (Some(old), Some(new)) = parents else {
        return false;
    };
    let device = |path: &Path| path.metadata().map(|found| found.dev()).ok();
    let is_one_device = device(from).is_some() && device(from) == device(new);
    // Two mounts may show one file system.
    let is_one_mount = mount_id(old).is_some() && mount_id(old) == mount_id(new);
    is_one_device && is_one_mount && !subject::is_mount(from) && !subject::is_mount(to)
}

/// Returns the number of the mount on which a path is.
fn mount_id(path: &Path) -> Option<u64> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let asked = StatxFlags::MNT_ID;
    let found = statx(CWD, path, AtFlags::NO_AUTOMOUNT, asked).ok()?;
    (found.stx_mask & asked.bits() != 0).then_some(found.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_file_system_is_copied() {
        let (here, there) = (tempfile::tempdir().unwrap(), Path::new("/proc/self/web"));
        let from = here.path().join("web");
        std::fs::create_dir(&from).unwrap();
        assert!(can_be_renamed(&from, &here.path().join("db")));
        assert!(!can_be_renamed(&from, there));
        assert!(!can_be_renamed(&from, &here.path().join("none/db")));
        // A mount point cannot be renamed.
        assert!(!can_be_renamed(Path::new("/proc"), Path::new("/x")));
    }
}
