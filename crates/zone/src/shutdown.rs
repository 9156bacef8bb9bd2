//! `zoneadm shutdown`: stops a zone in order through its init.

use std::time::Duration;

use model::{Verb, ZoneName};

use crate::boot::{BootOptions, start_locked};
use crate::executor::Outcome;
use control::client;
use control::protocol::Request;
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject};

/// Timeout of a zone's shutdown: the stop timeout of the zones service.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(100);

/// Shuts a running zone down. If `reboot` contains boot options, boots the zone again.
///
/// # Errors
/// Fails with [`Error::Daemon`] if the shutdown takes longer than [`SHUTDOWN_TIMEOUT`]. The zone
/// then continues to shut down.
pub fn shutdown(
    host: &Host,
    zone: &ZoneName,
    reboot: Option<&BootOptions>,
    dry_run: bool,
) -> Result<Outcome, Error> {
    let (start, was_cut) = match dry_run {
        true => (Subject::admit(host, zone, Verb::Shutdown)?, false),
        false => Subject::admit_cutting(host, zone, Verb::Shutdown)?,
    };
    let mut subject = match start {
        Start::Go(subject) => subject,
        // The zone rebooted itself. This command found the zone down before it could boot again.
        Start::Already(_) if was_cut => {
            return match reboot {
                Some(options) => crate::boot::boot(host, zone, options, false),
                None => Ok(Outcome::Done),
            };
        }
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
            SHUTDOWN_TIMEOUT.as_secs()
        )));
    }
    ask(host, zone, SHUTDOWN_TIMEOUT)?;
    let Some(options) = reboot else {
        return Ok(Outcome::Done);
    };
    subject.state = model::State::Installed;
    subject.runtime = None;
    start_locked(host, &subject, Verb::Boot, options, false)
}

/// Shuts a running zone down within the time `patience`.
///
/// # Errors
/// Fails as [`shutdown`] does.
pub fn shutdown_within(host: &Host, zone: &ZoneName, patience: Duration) -> Result<Outcome, Error> {
    let (start, was_cut) = Subject::admit_cutting(host, zone, Verb::Shutdown)?;
    match start {
        Start::Already(_) if was_cut => Ok(Outcome::Done),
        Start::Already(notice) => Ok(Outcome::Already(notice)),
        Start::Go(_locked) => ask(host, zone, patience).map(|()| Outcome::Done),
    }
}

/// Asks the zone's zoneadmd to shut the zone down, and waits for the end. The caller must hold the
/// zone's lock.
pub(crate) fn ask(host: &Host, zone: &ZoneName, patience: Duration) -> Result<(), Error> {
    let socket = client::connect_or_adopt(host, zone)?;
    let answer = client::ask_within(&socket, &Request::Shutdown, patience);
    if answer.is_err() {
        refuse_deaf_init(host, zone)?;
    }
    answer?.ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}

/// Fails if the init of a running zone neither catches nor blocks its shutdown signal.
fn refuse_deaf_init(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    let Some(known) = store::runtime::load(&host.root, zone)? else {
        return Ok(());
    };
    let config = store::xml::load_running(&host.root, zone)?;
    if kind::of(&config).hears_shutdown(&known) {
        return Ok(());
    }
    let signal = known.shutdown_signal;
    Err(Error::Daemon(format!(
        "its init takes no order to shut down (it neither catches nor blocks signal {signal}); halt the zone."
    )))
}
