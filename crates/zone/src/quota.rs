//! `zoneadm quota`: limits the space for files that a zone writes to its root.

use std::path::Path;

use model::brands::Family;
use model::plan::Step;
use model::{Config, State, Verb, ZoneName};
use storage::driver_at;
use store::xml;

use crate::executor::Outcome;
use host::{Error, Host};
use subject::{Start, Subject};

/// Sets the limit of a zone in bytes, or removes the limit if `bytes` is `None`. The change takes
/// effect at once.
///
/// # Errors
/// Fails with [`Error::Storage`] and the reason if the file system cannot limit the space, and with
/// [`Error::Refused`] if the zone must be halted for its first limit.
pub fn set(
    host: &Host,
    zone: &ZoneName,
    bytes: Option<u64>,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Quota)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    if dry_run {
        let limit = bytes.map_or_else(|| "lift the limit".to_owned(), |n| format!("{n} bytes"));
        return Ok(Outcome::Planned(format!(
            "quota of zone {zone}:\n  {limit}\n"
        )));
    }
    set_on(&subject, bytes)?;
    Ok(Outcome::Done)
}

/// Returns the limit of the property `default-quota` of the global zone in bytes, or `None` if no
/// limit is set.
///
/// # Errors
/// Fails if the configuration of the global zone cannot be read.
pub(crate) fn default_limit(host: &Host) -> Result<Option<u64>, Error> {
    match xml::load(&host.root, &ZoneName::global()) {
        Ok(global) => Ok(global.default_quota()),
        Err(store::Error::NoSuchZone(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the step that gives a new zone the limit `default`, which comes from [`default_limit`].
/// Kernel zones get none, because their disks have a size of their own.
pub(crate) fn default_step(default: Option<u64>, config: &Config, zonepath: &Path) -> Option<Step> {
    let bytes = default.filter(|_| config.family() != Family::Kz)?;
    Some(Step::LimitSpace {
        path: zonepath.to_owned(),
        bytes,
    })
}

/// Limits the space of a zone that has no limit. Returns the reason if that is impossible: a default
/// must not keep a zone from being installed.
pub(crate) fn limit_new(zonepath: &Path, bytes: u64) -> Option<String> {
    let limit = || {
        let driver = driver_at(zonepath)?;
        if let Some(why) = driver.why_no_quota(zonepath)? {
            return Ok(Some(why));
        }
        if driver.quota(zonepath)?.is_none() {
            driver.set_quota(zonepath, Some(bytes))?;
        }
        Ok(None)
    };
    limit().unwrap_or_else(|error: storage::Error| Some(host::flatten(&error)))
}

/// Limits the space of a zone whose lock is held. Fails with [`Error::Refused`] if the limit
/// concerns each file of a zone that is not halted.
pub(crate) fn set_on(subject: &Subject, bytes: Option<u64>) -> Result<(), Error> {
    let driver = driver_at(&subject.zonepath)?;
    let active = subject.state.is_active() || subject.state == State::Mounted;
    if bytes.is_some() && active && driver.why_no_quota(&subject.zonepath)?.is_none() {
        // A running zone would find files that it cannot rename while they are moved to a project.
        if driver.needs_halt_for_quota(&subject.zonepath)? {
            return Err(Error::Refused(
                "the first limit counts all files of the zone: halt the zone for it; later limits change while it runs."
                    .to_owned(),
            ));
        }
    }
    Ok(driver.set_quota(&subject.zonepath, bytes)?)
}
