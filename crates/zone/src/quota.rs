//! `zoneadm quota`: limits the space for files that a zone writes to its root.

use model::{State, Verb, ZoneName};
use storage::driver_at;

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
