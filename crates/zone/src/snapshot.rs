//! `zoneadm snapshot` and `destroy-snapshot`: keep the root of a zone under a name, and remove such
//! a snapshot.
//!
//! The top of a halted zone is turned into a layer, and nothing is copied. This is impossible for a
//! running zone, because a mounted overlay continues to write to its top even after the top is
//! renamed. So the top of a running zone is copied: first while the zone runs, and then, while the
//! zone is frozen, the files that have changed meanwhile. The copy becomes the layer. If no file has
//! changed since the last snapshot, the new one gets the layer of that one, and the zone is not
//! frozen.

use limits::ZoneCgroups;
use model::plan::{Step, ZonePlan};
use model::{State, Verb, ZoneName};
pub use storage::{BadName, Name};
use storage::{Dataset, Method, TopCopy, driver_at};

use crate::executor::{self, Outcome};
use crate::{kept_disks, merge};
use host::{Error, Fault, Host, flatten};
use platform::kind;
use subject::freeze::Frozen;
use subject::{Start, Subject};

/// Makes a snapshot of a halted or running zone.
///
/// # Errors
/// Fails with [`Error::Step`] if a step failed. No snapshot exists then, and a running zone
/// continues to run.
pub fn snapshot(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    act(host, zone, Verb::Snapshot, name, dry_run, progress)
}

/// The result of a request for a snapshot of a zone that may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// The snapshot was made.
    Kept,
    /// This snapshot has the present content of the root already, so none was made.
    Nothing(Name),
    /// The caller refused the snapshot for this reason.
    Refused(String),
}

/// Makes a snapshot of a halted or running zone, unless one with the present content of its root
/// exists. Before the snapshot, `ready` is called under the zone's lock; it may return a reason for
/// which none is made.
///
/// # Errors
/// Fails as [`snapshot`] does, and with the errors of `ready`.
pub fn of_changes(
    host: &Host,
    zone: &ZoneName,
    name: &Name,
    ready: impl FnOnce(&Subject) -> Result<Option<String>, Error>,
) -> Result<Changes, Error> {
    let subject = match Subject::admit(host, zone, Verb::Snapshot)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Changes::Refused(notice.to_owned())),
    };
    let same = match kept_disks::is_at(&subject.zonepath) {
        true => {
            let config = subject.config(host)?;
            if let Some(why) = kept_disks::why_not_by_schedule(host, &subject, &config) {
                return Ok(Changes::Refused(why));
            }
            kept_disks::unchanged_since(&subject.zonepath, subject.state)?
        }
        false => driver_at(&subject.zonepath)?.unchanged_since(&subject.zonepath)?,
    };
    if let Some(same) = same {
        return Ok(Changes::Nothing(same));
    }
    if let Some(why) = ready(&subject)? {
        return Ok(Changes::Refused(why));
    }
    of_locked(host, &subject, name).map(|()| Changes::Kept)
}

/// Removes a snapshot, and the layers that only this snapshot needs.
///
/// # Errors
/// Fails with [`Error::Refused`] if the snapshot does not exist, and with [`Error::Step`] if a step
/// failed.
pub fn destroy(host: &Host, zone: &ZoneName, name: &Name, dry_run: bool) -> Result<Outcome, Error> {
    act(
        host,
        zone,
        Verb::DestroySnapshot,
        name,
        dry_run,
        &mut |_| {},
    )
}

pub(crate) fn act(
    host: &Host,
    zone: &ZoneName,
    verb: Verb,
    name: &Name,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, verb)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    carry_out(host, &subject, verb, name, dry_run, progress)
}

/// Makes a snapshot of a halted or running zone whose lock the caller holds.
///
/// # Errors
/// Fails as [`snapshot`] does.
pub fn of_locked(host: &Host, subject: &Subject, name: &Name) -> Result<(), Error> {
    carry_out(host, subject, Verb::Snapshot, name, false, &mut |_| {}).map(drop)
}

fn carry_out(
    host: &Host,
    subject: &Subject,
    verb: Verb,
    name: &Name,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    kind::admit(host, subject, verb)?;
    let config = subject.config(host)?;
    if kind::of(&config).keeps_disks() {
        let plan = plan(subject, verb, name, false, None);
        return kept_disks::carry_out(host, subject, &config, &plan, name, dry_run, progress);
    }
    let driver = driver_at(&subject.zonepath)?;
    let running = subject.state != State::Installed;
    let stops = running && driver.stops_for_snapshots();
    let stops = stops && verb == Verb::Snapshot;
    let same = match stops {
        true => driver.unchanged_since(&subject.zonepath)?,
        false => None,
    };
    let copies = stops && same.is_none();
    let mut plan = plan(subject, verb, name, copies, same.as_ref());
    if copies {
        // Many layers are merged first. For a halted zone the sealing of the top does this.
        plan.steps.splice(0..0, merge::before_snapshot(subject)?);
    }
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    let known = driver.snapshots(&subject.zonepath)?;
    // This check comes before the zone is frozen, so that no zone is frozen without need.
    match known.iter().any(|one| one.name == *name) {
        true if verb == Verb::Snapshot => {
            return Err(Error::Refused(format!("has a snapshot {name} already.")));
        }
        false if verb != Verb::Snapshot => {
            return Err(Error::Refused(format!("has no snapshot {name}.")));
        }
        _ => {}
    }
    let note = || note(host, subject, verb, name);
    if copies {
        return of_running(host, subject, &plan, name, progress).map(|()| note());
    }
    if !running {
        crate::settle::settle(host, &subject.entry.name)?;
    }
    executor::run_now(host, &config, &subject.entry, &plan, progress)?;
    if let Some(same) = same {
        progress(&format!(
            "No file has changed since snapshot {same}, so nothing was copied."
        ));
    }
    Ok(note())
}

/// Writes a change of a snapshot to the log of the zone.
pub(crate) fn note(host: &Host, subject: &Subject, verb: Verb, name: &Name) -> Outcome {
    let what = match verb {
        Verb::Snapshot => "taken",
        Verb::Rollback => "rolled back to",
        _ => "destroyed",
    };
    let zone = &subject.entry.name;
    control::log::note(host, zone, &format!("snapshot {name} {what}"));
    Outcome::Done
}

/// Returns the plan. `copies` is true if the top of a running zone is copied. `same` is a snapshot
/// with the present content of the root.
fn plan(subject: &Subject, verb: Verb, name: &Name, copies: bool, same: Option<&Name>) -> ZonePlan {
    let (path, name) = (subject.zonepath.clone(), name.to_string());
    let steps = match verb {
        Verb::DestroySnapshot => vec![Step::DestroySnapshot { path, name }],
        Verb::Rollback => vec![Step::Rollback { path, name }],
        _ if copies => vec![
            Step::BeginCopy { path: path.clone() },
            Step::Freeze,
            Step::CompleteCopy { path: path.clone() },
            Step::Thaw,
            Step::Snapshot { path, name },
        ],
        _ => vec![match same {
            Some(from) => Step::ShareSnapshot {
                path,
                from: from.to_string(),
                name,
            },
            None => Step::Snapshot { path, name },
        }],
    };
    ZonePlan {
        zone: subject.entry.name.clone(),
        verb,
        steps,
    }
}

/// A running zone of which a snapshot is being made. Dropping this value thaws the zone.
struct Taking<'a> {
    host: &'a Host,
    subject: &'a Subject,
    dataset: Dataset,
    name: &'a Name,
    frozen: Option<Frozen>,
    copy: Option<TopCopy>,
    progress: &'a mut dyn FnMut(&str),
}

fn of_running(
    host: &Host,
    subject: &Subject,
    plan: &ZonePlan,
    name: &Name,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut taking = Taking {
        host,
        subject,
        dataset: Dataset::open(&subject.zonepath)?,
        name,
        frozen: None,
        copy: None,
        progress,
    };
    let mut fault = host.fault.clone();
    for step in &plan.steps {
        let done = match fault.strikes(plan.verb.as_str()) {
            true => Err(Error::Refused(Fault::error().to_string())),
            false => taking.carry_out(step),
        };
        if let Err(error) = done {
            drop(taking.frozen.take());
            taking.copy.take().into_iter().for_each(TopCopy::discard);
            return Err(Error::Step {
                step: step.to_string(),
                why: flatten(&error),
                left: None,
            });
        }
    }
    // This is one more point at which a crash must do no harm: the work is complete, but the user
    // has no message yet.
    let _ = fault.strikes(plan.verb.as_str());
    Ok(())
}

impl Taking<'_> {
    fn carry_out(&mut self, step: &Step) -> Result<(), Error> {
        match step {
            Step::Freeze => {
                let paths = self
                    .subject
                    .runtime
                    .as_ref()
                    .map(|one| one.cgroups.as_slice());
                let cgroups = ZoneCgroups::from_paths(paths.unwrap_or_default())
                    .ok_or_else(|| Error::Refused("has no control groups.".to_owned()))?;
                let zone = &self.subject.entry.name;
                self.frozen = Some(Frozen::new(self.host, zone, cgroups)?);
            }
            Step::MergeBeside { most, .. } => {
                self.dataset.shorten_beside(*most)?;
            }
            Step::BeginCopy { .. } => self.copy = Some(self.dataset.begin_copy()?),
            Step::CompleteCopy { .. } => {
                if let Some(copy) = &mut self.copy {
                    self.dataset.complete_copy(copy)?;
                }
            }
            Step::Thaw => {
                let stood = self
                    .frozen
                    .take()
                    .map_or(Ok(None), |one| one.thaw().map(Some))?;
                if let (Some(copy), Some(stood)) = (&self.copy, stood) {
                    (self.progress)(&said(copy, stood));
                }
            }
            _ => {
                if let Some(copy) = self.copy.take() {
                    self.dataset.snapshot_of_copy(self.name, copy)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns a message with the number of copied files and the time for which the zone was frozen.
fn said(copy: &TopCopy, stood: std::time::Duration) -> String {
    let copied = copy.copied;
    let linked = match copied.linked {
        0 => String::new(),
        linked => format!("; {linked} unchanged ones are those of an older snapshot"),
    };
    let how = match copy.method {
        Method::Subvolume => "Made a snapshot of its subvolume".to_owned(),
        Method::Reflink => format!(
            "Copied {} entries, sharing {} bytes in files{linked}",
            copied.entries, copied.shared_bytes
        ),
        Method::Plain => format!(
            "Copied {} entries with {} bytes in files{linked}",
            copied.entries, copied.copied_bytes
        ),
    };
    let stood = stood.as_secs_f64() * 1000.0;
    format!("{how}. The zone stood still for {stood:.1} ms.")
}
