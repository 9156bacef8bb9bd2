//! `zoneadm reboot`: halts a zone and boots it with its present configuration.

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
/// Fails with [`Error::Refused`] if the boot would find its disk full. The zone then continues to
/// run. Also fails as halt and boot do; if the boot fails, the zone is installed.
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
        // This check comes before the halt, so that a zone that could not boot again continues to
        // run.
        room::check(host, &subject)?;
        halt_locked(host, &subject)?;
    }
    subject.state = model::State::Installed;
    subject.runtime = None;
    start_locked(host, &subject, Verb::Boot, options, dry_run)
}
