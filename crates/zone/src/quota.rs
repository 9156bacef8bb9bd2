//! `zoneadm quota`: limits the space for files that a zone writes to its root.

use model::{Verb, ZoneName};
use storage::driver_at;

use crate::executor::Outcome;
use host::{Error, Host};
use subject::{Start, Subject};

/// Sets the limit of a zone in bytes, or removes the limit if `bytes` is `None`. The change takes
/// effect at once.
///
/// # Errors
/// Fails with [`Error::Storage`] and the reason if the file system cannot limit the space.
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
    driver_at(&subject.zonepath)?.set_quota(&subject.zonepath, bytes)?;
    Ok(Outcome::Done)
}
