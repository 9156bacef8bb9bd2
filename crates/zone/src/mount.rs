//! `zoneadm mount` and `unmount`: mount the whole root of a halted zone on the host.

use model::plan::{Step, ZonePlan};
use model::{Verb, ZoneName};

use crate::executor::{self, Outcome};
use host::{Error, Host};
use subject::{SHOWN, Start, Subject};

/// Mounts the root of an installed zone at `<zonepath>/lu`.
///
/// # Errors
/// Fails with [`Error::Step`] if a step failed. The root is then not mounted.
pub fn mount(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    act(host, zone, Verb::Mount, dry_run, |subject| Step::ShowRoot {
        path: subject.zonepath.clone(),
        at: subject.zonepath.join(SHOWN),
    })
}

/// Unmounts the root of a zone from `<zonepath>/lu`.
///
/// # Errors
/// Fails with [`Error::Step`] if a process uses the mount.
pub fn unmount(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    act(host, zone, Verb::Unmount, dry_run, |subject| {
        Step::HideRoot {
            at: subject.zonepath.join(SHOWN),
        }
    })
}

fn act(
    host: &Host,
    zone: &ZoneName,
    verb: Verb,
    dry_run: bool,
    step: impl FnOnce(&Subject) -> Step,
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, verb)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let plan = ZonePlan {
        zone: zone.clone(),
        verb,
        steps: vec![step(&subject)],
    };
    if dry_run {
        return Ok(Outcome::Planned(plan.to_string()));
    }
    crate::settle::settle(host, zone)?;
    let config = subject.config(host)?;
    executor::run_now(host, &config, &subject.entry, &plan, &mut |_| {})?;
    Ok(Outcome::Done)
}
