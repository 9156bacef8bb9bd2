//! Snapshots of the disks of a kernel zone: `zoneadm snapshot`, `rollback`,
//! `destroy-snapshot` and `snapshots`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use model::plan::ZonePlan;
use model::{Config, State, Verb};
use storage::{Name, Snapshot, SnapshotUsage};

use crate::executor::Outcome;
use crate::snapshot::note;
use crate::suspend;
use control::client;
use control::protocol::Taken;
use host::{Error, Fault, Host, flatten};
use kernelzone::kept;
use subject::Subject;

/// Makes or removes a snapshot of the disks, or returns the disks to it.
///
/// # Errors
/// Fails with [`Error::Refused`] and the remedy, and with [`Error::Step`] if the step failed. The
/// disks and the other snapshots are then as before.
pub(crate) fn carry_out(
    host: &Host,
    subject: &Subject,
    config: &Config,
    plan: &ZonePlan,
    name: &Name,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let (zonepath, verb) = (subject.zonepath.as_path(), plan.verb);
    let is_live = verb == Verb::Snapshot && subject.state == State::Running;
    let changes_disks = verb != Verb::DestroySnapshot && !is_live;
    if changes_disks && subject.state != State::Installed {
        return Err(Error::Refused(format!(
            "is {}: a {verb} of a kernel zone needs a zone that is halted{}: shut the zone down first (zoneadm shutdown).",
            subject.state,
            if verb == Verb::Snapshot {
                " or runs"
            } else {
                ""
            }
        )));
    }
    if changes_disks && suspend::is_suspended(host, &subject.entry, config) {
        return Err(Error::Refused(format!(
            "is suspended, and its image fits its present disks only: boot it and shut it down, or throw its image away, before {verb}."
        )));
    }
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    if changes_disks {
        crate::settle::settle(host, &subject.entry.name)?;
    }
    let known = kept::names(zonepath)?.contains(name);
    match verb {
        Verb::Snapshot if known => {
            return Err(Error::Refused(format!("has a snapshot {name} already.")));
        }
        Verb::Rollback | Verb::DestroySnapshot if !known => {
            return Err(Error::Refused(format!("has no snapshot {name}.")));
        }
        _ => {}
    }
    let mut remark = None;
    let mut fault = host.fault.clone();
    let done = match fault.strikes(verb.as_str()) {
        true => Err(Error::Refused(Fault::error().to_string())),
        false => match verb {
            Verb::Snapshot if is_live => {
                let taken = client::connect_or_adopt(host, &subject.entry.name)
                    .and_then(|socket| client::snapshot(&socket, name.as_str()));
                taken.map(|taken| remark = tell(&taken, progress))
            }
            Verb::Snapshot => {
                let taking = kept::begin(host, config, zonepath, name)?;
                let copied = kept::copy(&taking);
                // This is one more point at which a crash must do no harm.
                let struck = copied.is_ok() && fault.strikes(verb.as_str());
                match copied {
                    Ok(()) if !struck => kept::complete(taking, name),
                    other => {
                        kept::abandon(&taking);
                        other.and(Err(Error::Refused(Fault::error().to_string())))
                    }
                }
            }
            Verb::Rollback => kept::rollback(host, config, zonepath, name),
            _ => kept::destroy(zonepath, name),
        },
    };
    done.map_err(|error| Error::Step {
        step: plan
            .steps
            .first()
            .map(ToString::to_string)
            .unwrap_or_default(),
        why: flatten(&error),
        left: None,
    })?;
    let outcome = note(host, subject, verb, name);
    Ok(remark.map_or(outcome, |text| Outcome::Remarks(vec![text])))
}

/// Tells how long the guest stood still. Returns a remark if its file systems were not frozen.
fn tell(taken: &Taken, progress: &mut dyn FnMut(&str)) -> Option<String> {
    let millis = taken.paused / 1000;
    let micros = taken.paused % 1000 / 100;
    progress(&format!("The guest stood still for {millis}.{micros} ms."));
    let why = taken.unfrozen.as_ref()?;
    Some(format!(
        "the file systems of the guest were not frozen ({why}): the snapshot has its disks as after a power failure"
    ))
}

/// Returns the snapshots of the disks of a kernel zone, the oldest first, with their sizes if
/// `sized` is true. The number of layers is the largest number of files of a disk.
pub(crate) fn list(
    zonepath: &Path,
    sized: bool,
) -> Result<Vec<(Snapshot, Option<SnapshotUsage>)>, Error> {
    let mut found = Vec::new();
    for one in kept::list(zonepath)? {
        let usage = match sized {
            true => Some(kept::usage(zonepath, &one.name)?),
            false => None,
        };
        let usage = usage.map(|usage| SnapshotUsage {
            own_bytes: usage.own,
            all_bytes: usage.all,
        });
        let snapshot = Snapshot {
            created: SystemTime::UNIX_EPOCH + Duration::from_secs(one.created),
            depth: one.files,
            name: one.name,
        };
        found.push((snapshot, usage));
    }
    Ok(found)
}

/// Returns true if a kernel zone is at a zonepath.
pub(crate) fn is_at(zonepath: &Path) -> bool {
    zonepath.join(kernelzone::record::FILE).exists()
}

/// Returns the reason for which a schedule takes no snapshot of the disks now.
pub(crate) fn why_not_by_schedule(
    host: &Host,
    subject: &Subject,
    config: &Config,
) -> Option<String> {
    match subject.state {
        State::Installed if suspend::is_suspended(host, &subject.entry, config) => {
            Some("is suspended.".to_owned())
        }
        State::Running | State::Installed => None,
        state => Some(format!("is {state}.")),
    }
}

/// Returns a snapshot with the present disks of a zone, or `None` if the disks may have changed.
pub(crate) fn unchanged_since(zonepath: &Path, state: State) -> Result<Option<Name>, Error> {
    match state {
        State::Installed => kept::unchanged_since(zonepath),
        _ => Ok(None),
    }
}

/// Returns the number of snapshots of the disks; `None` if the zone is no kernel zone.
pub(crate) fn count(zonepath: &Path) -> Result<Option<usize>, Error> {
    match is_at(zonepath) {
        true => kept::names(zonepath).map(|names| Some(names.len())),
        false => Ok(None),
    }
}
