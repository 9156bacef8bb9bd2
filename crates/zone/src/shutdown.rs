//! `zoneadm shutdown`: init ends the zone in order.

use std::time::Duration;

use model::{Verb, ZoneName};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

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
    let socket = client::connect_or_adopt(host, zone)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))
        .map_err(|errno| Error::Io("set a time limit".to_owned(), errno.into()))?;
    let answer = client::ask(&socket, &Request::Shutdown).map_err(|error| match error {
        Error::Io(_, source) if source.kind() == std::io::ErrorKind::WouldBlock => {
            Error::Daemon(format!(
                "shutdown takes longer than {} s; look at its console, or halt it.",
                PATIENCE.as_secs()
            ))
        }
        other => other,
    })?;
    answer.ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))?;
    let Some(options) = reboot else {
        return Ok(Outcome::Done);
    };
    subject.state = model::State::Installed;
    subject.runtime = None;
    start_locked(host, &subject, Verb::Boot, options, false)
}
