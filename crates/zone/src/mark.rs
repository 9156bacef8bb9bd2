//! `zoneadm mark incomplete`: marks a zone as one that must be uninstalled.

use model::{State, Verb, ZoneName};

use crate::executor::{self, Outcome};
use host::{Error, Host};
use subject::{Start, Subject, arrived};

/// Marks a zone as incomplete. Only uninstall ends this state.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone is active.
pub fn incomplete(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Mark)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    if dry_run {
        return Ok(Outcome::Planned(format!(
            "mark zone {zone}:\n  store state incomplete\n"
        )));
    }
    // The source of a migration would take an incomplete zone for one that never arrived.
    arrived::remember(&host.root, &subject.zonepath)?;
    let mut entry = subject.entry.clone();
    entry.state = State::Incomplete;
    executor::record_now(host, entry)?;
    Ok(Outcome::Done)
}
