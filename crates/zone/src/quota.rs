//! `zoneadm quota`: limits the space of the files that a zone writes into its root.

use model::{Verb, ZoneName};
use storage::driver_at;

use crate::executor::Outcome;
use host::{Error, Host};
use subject::{Start, Subject};

/// Sets the limit of a zone in bytes, or lifts it. It holds at once.
///
/// # Errors
/// [`Error::Storage`] says why where the file system cannot do it.
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
