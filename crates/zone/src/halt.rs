//! `zoneadm halt`: ends every process and takes the virtual platform down.

use std::time::Duration;

use model::{Verb, ZoneName};

use crate::executor::Outcome;
use control::client;
use host::{Error, Host};
use subject::{Start, Subject};

/// Halts a zone.
///
/// # Errors
/// [`Error::Daemon`]: the zone may be stuck in shutting_down; halt it again.
pub fn halt(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    if dry_run {
        // That cuts nothing short.
        return Ok(match Subject::admit(host, zone, Verb::Halt)? {
            Start::Already(notice) => Outcome::Already(notice),
            Start::Go(subject) => Outcome::Planned(plan(&subject)),
        });
    }
    let (start, was_cut) = Subject::admit_cutting(host, zone, Verb::Halt)?;
    match start {
        // It was to boot again, and does not now.
        Start::Already(_) if was_cut => Ok(Outcome::Done),
        Start::Already(notice) => Ok(Outcome::Already(notice)),
        Start::Go(subject) => halt_locked(host, &subject).map(|()| Outcome::Done),
    }
}

/// Halts a zone in no more than this time.
///
/// # Errors
/// As [`halt`].
pub fn halt_within(host: &Host, zone: &ZoneName, patience: Duration) -> Result<Outcome, Error> {
    let (start, was_cut) = Subject::admit_cutting(host, zone, Verb::Halt)?;
    match start {
        Start::Already(_) if was_cut => Ok(Outcome::Done),
        Start::Already(notice) => Ok(Outcome::Already(notice)),
        Start::Go(subject) => halting(host, &subject, patience).map(|()| Outcome::Done),
    }
}

fn plan(subject: &Subject) -> String {
    let mut text = format!(
        "halt zone {}:\n  kill every process of it\n",
        subject.entry.name
    );
    for path in subject.runtime.iter().flat_map(|runtime| &runtime.cgroups) {
        text.push_str(&format!("  remove control group {}\n", path.display()));
    }
    text.push_str("  end its zoneadmd\n");
    text
}

/// Halts a zone whose lock is held already.
pub fn halt_locked(host: &Host, subject: &Subject) -> Result<(), Error> {
    halting(host, subject, client::HALT_TIMEOUT)
}

fn halting(host: &Host, subject: &Subject, patience: Duration) -> Result<(), Error> {
    let zone = &subject.entry.name;
    let socket = match client::connect_or_adopt(host, zone) {
        Ok(socket) => socket,
        // Nobody can take it over: then the groups are enough to end it.
        Err(_) => return subject::settle(host, zone),
    };
    // It may wait for a machine that does not let it go.
    match client::halt_within(&socket, patience, || kill_remains(host, zone))? {
        Some(()) => Ok(()),
        // It died during the halt: its remains are removed as after any death.
        None => {
            kill_remains(host, zone)?;
            subject::settle(host, zone)
        }
    }
}

/// Kills the remaining processes of a zone whose zoneadmd died during the halt, or hangs.
fn kill_remains(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    let Some(runtime) = store::runtime::load_any(&host.root, zone)? else {
        return Ok(());
    };
    if let Some(cgroups) = limits::ZoneCgroups::from_paths(&runtime.cgroups) {
        cgroups.kill()?;
    }
    Ok(())
}
