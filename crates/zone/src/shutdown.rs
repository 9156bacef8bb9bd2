//! `zoneadm shutdown`: init ends the zone in order.

use std::time::Duration;

use model::{Verb, ZoneName};

use crate::apply::Outcome;
use crate::boot::{BootOptions, start_locked};
use crate::daemon::client;
use crate::daemon::protocol::Request;
use crate::subject::{Start, Subject};
use crate::{Error, Host};

/// How long a zone may take: the stop timeout of the zones service.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// Shuts a running zone down, and boots it again if `reboot` says how.
///
/// # Errors
/// [`Error::Daemon`] when it takes longer than [`PATIENCE`]; it then goes on shutting down.
pub fn shutdown(
    host: &Host,
    zone: &ZoneName,
    reboot: Option<&BootOptions>,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let mut subject = match Subject::admit(host, zone, Verb::Shutdown)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    if dry_run {
        let again = if reboot.is_some() {
            "  boot it again\n"
        } else {
            ""
        };
        return Ok(Outcome::Planned(format!(
            "shutdown zone {zone}:\n  ask its init to stop everything and power off\n  wait at most {} s\n{again}",
            PATIENCE.as_secs()
        )));
    }
    ask(host, zone, PATIENCE)?;
    let Some(options) = reboot else {
        return Ok(Outcome::Done);
    };
    subject.state = model::State::Installed;
    subject.runtime = None;
    start_locked(host, &subject, Verb::Boot, options, false)
}

/// Shuts a running zone down in no more than this time.
///
/// # Errors
/// As [`shutdown`].
pub fn shutdown_within(host: &Host, zone: &ZoneName, patience: Duration) -> Result<Outcome, Error> {
    match Subject::admit(host, zone, Verb::Shutdown)? {
        Start::Already(notice) => Ok(Outcome::Already(notice)),
        Start::Go(_locked) => ask(host, zone, patience).map(|()| Outcome::Done),
    }
}

/// Asks a zone's zoneadmd for it, and waits. The zone's lock is held.
fn ask(host: &Host, zone: &ZoneName, patience: Duration) -> Result<(), Error> {
    let socket = client::connect_or_adopt(host, zone)?;
    client::ask_within(&socket, &Request::Shutdown, patience)?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}
