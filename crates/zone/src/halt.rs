//! `zoneadm halt`: kills all processes of a zone and takes its virtual platform down.

use std::time::Duration;

use model::{Verb, ZoneName};

use crate::executor::Outcome;
use control::client;
use host::{Error, Host};
use subject::{Start, Subject};

/// Halts a zone.
///
/// # Errors
/// Fails with [`Error::Daemon`] if the zone does not halt. The zone may then be in the state
/// shutting_down; halt it again.
pub fn halt(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    if dry_run {
        // A dry run must not interrupt a reboot, so the zone is admitted without this.
        return Ok(match Subject::admit(host, zone, Verb::Halt)? {
            Start::Already(notice) => Outcome::Already(notice),
            Start::Go(subject) => Outcome::Planned(plan(&subject)),
        });
    }
    let (start, was_cut) = Subject::admit_cutting(host, zone, Verb::Halt)?;
    match start {
        // The zone was about to boot again. This command has stopped that.
        Start::Already(_) if was_cut => Ok(Outcome::Done),
        Start::Already(notice) => {
            // The zone may have died together with its zoneadmd.
            platform::views::vanish(host, zone)?;
            Ok(Outcome::Already(notice))
        }
        Start::Go(subject) => halt_locked(host, &subject).map(|()| Outcome::Done),
    }
}

/// Halts a zone within the time `patience`.
///
/// # Errors
/// Fails as [`halt`] does.
pub fn halt_within(host: &Host, zone: &ZoneName, patience: Duration) -> Result<Outcome, Error> {
    let (start, was_cut) = Subject::admit_cutting(host, zone, Verb::Halt)?;
    match start {
        Start::Already(_) if was_cut => Ok(Outcome::Done),
        Start::Already(notice) => {
            // The zone may have died together with its zoneadmd.
            platform::views::vanish(host, zone)?;
            Ok(Outcome::Already(notice))
        }
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

/// Halts a zone whose lock the caller holds.
pub fn halt_locked(host: &Host, subject: &Subject) -> Result<(), Error> {
    halting(host, subject, client::HALT_TIMEOUT)
}

fn halting(host: &Host, subject: &Subject, patience: Duration) -> Result<(), Error> {
    let zone = &subject.entry.name;
    let socket = match client::connect_or_adopt(host, zone) {
        Ok(socket) => socket,
        // If no zoneadmd can take the zone over, its processes are killed through its control
        // groups.
        Err(_) => return crate::settle::settle(host, zone),
    };
    // If the time runs out, zoneadmd may wait for a process that does not end, so the remaining
    // processes are killed.
    match client::halt_within(&socket, patience, || kill_remains(host, zone))? {
        Some(()) => Ok(()),
        // If zoneadmd died during the halt, its remains are removed as after any other death.
        None => {
            kill_remains(host, zone)?;
            crate::settle::settle(host, zone)
        }
    }
}

/// Kills the remaining processes of a zone whose zoneadmd died during the halt or does not answer.
fn kill_remains(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    let Some(runtime) = store::runtime::load_any(&host.root, zone)? else {
        return Ok(());
    };
    if let Some(cgroups) = limits::ZoneCgroups::from_paths(&runtime.cgroups) {
        cgroups.kill()?;
    }
    Ok(())
}
