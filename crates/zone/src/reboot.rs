//! `zoneadm reboot`: halts and boots, with the configuration read again.

use model::{Verb, ZoneName};

use crate::apply::Outcome;
use crate::boot::{BootOptions, start_locked};
use crate::halt::halt_locked;
use crate::subject::{Start, Subject};
use crate::{Error, Host};

/// Reboots an active zone.
///
/// # Errors
/// As halt and boot; when booting fails the zone is installed.
pub fn reboot(
    host: &Host,
    zone: &ZoneName,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let mut subject = match Subject::admit(host, zone, Verb::Reboot)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    if !dry_run {
        halt_locked(host, &subject)?;
    }
    subject.state = model::State::Installed;
    subject.runtime = None;
    start_locked(host, &subject, Verb::Boot, options, dry_run)
}
