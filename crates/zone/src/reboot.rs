//! `zoneadm reboot`: halts and boots, with the configuration read again.

use model::{Verb, ZoneName};

use crate::boot::{BootOptions, start_locked};
use crate::executor::Outcome;
use crate::halt::halt_locked;
use crate::room;
use host::{Error, Host};
use subject::{Start, Subject};

/// Reboots an active zone.
///
/// # Errors
/// [`Error::Refused`] when a boot would find its disk full: the zone then goes on. As halt and
/// boot; when booting fails the zone is installed.
pub fn reboot(
    host: &Host,
    zone: &ZoneName,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let admitted = match dry_run {
        true => Subject::admit(host, zone, Verb::Reboot)?,
        false => Subject::admit_cutting(host, zone, Verb::Reboot)?.0,
    };
    let mut subject = match admitted {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    if !dry_run {
        // A zone that could not boot afterwards goes on.
        room::check(host, &subject)?;
        halt_locked(host, &subject)?;
    }
    subject.state = model::State::Installed;
    subject.runtime = None;
    start_locked(host, &subject, Verb::Boot, options, dry_run)
}
