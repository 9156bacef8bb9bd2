//! `zoneadm migrate`: a zone goes to another host, over ssh.
//!
//! First it sends the layers that the other host lacks, then the top, while the zone still runs;
//! then it halts the zone, and sends the later changes of the top. A kernel zone that runs is
//! suspended instead, and goes on over there from the image of its memory; the files of its disks
//! go while it runs, as the top does. Both sides compare the digest of the top before anything
//! counts. The zone is the source's until the target has said that it runs there:
//!
//! | what | a cut after it leaves |
//! |---|---|
//! | layers and top are sent | the zone as it was; the target removes the received files |
//! | the zone is halted, the rest is sent, digests are compared | the same, halted |
//! | **the source marks the zone as on its way** | it is not booted here before the target is asked |
//! | the target is told that the zone is its own: it stores and boots it | the target has it: asked again, it says so |
//! | the source removes it, and is configured | - |
//!
//! To give the command again is the way on from everywhere.

mod channels;
mod guest;
mod live_source;
mod live_target;
mod options;
mod other_host;
mod receive_guest;
mod relay;
mod running;
mod source;
mod target;
mod top_listing;
mod waiting_guest;
mod wire;

use std::fs;
use std::path::Path;

use model::{State, Verb, ZoneName};
use storage::driver_at;
use store::index::Entry;

use host::{Error, Host, flatten};
use platform::kind;
use subject::arrived::{self, ARRIVED};
use subject::away::{self, Away, come_back, is_away};
use subject::network::Records;
use subject::{Start, Subject};
use zone::boot::{BootOptions, start_locked};
use zone::executor::{self, Outcome};
use zone::halt::halt_locked;
use zone::{environments, suspend};

pub use crate::options::{Kind, Options};
use crate::other_host::ask;
use crate::running::Sent;
use crate::source::Trip;
pub use target::{receive, status};
use wire::Fate;
pub use wire::frames_again;

/// Migrates a zone. On the target it has the same state as here.
///
/// # Errors
/// When it cannot be there, or the connection ended; the message says where the zone is.
pub fn migrate(
    host: &Host,
    zone: &ZoneName,
    options: &Options,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let mut subject = match admit(host, zone)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let path = subject.zonepath.clone();
    if !driver_at(&path)?.has_layers() {
        return Err(Error::Refused(
            "its root has no layers: use zoneadm export and import.".to_owned(),
        ));
    }
    if let Some(away) = Away::of(&path)? {
        away.refuse_other(&options.host)?;
        if dry_run {
            return Ok(Outcome::Planned(format!(
                "migrate zone {zone}:\n  ask {} whether it has the zone\n",
                options.host
            )));
        }
        if let Some(over) = settle_interrupted(host, &subject, options, &away, progress)? {
            return Ok(over);
        }
    }
    let mut trip = Trip::begin(host, &subject, options, dry_run)?;
    if dry_run {
        // The steps of Solaris: the other host has looked at the configuration and would take it.
        for step in [
            "Importing zone configuration.",
            "Attaching zone.",
            "Dry-run migration successful.",
            "Cleaning up.",
        ] {
            progress(step);
        }
        return Ok(Outcome::Planned(trip.plan(zone, options)));
    }
    warn(&trip, &path, progress)?;
    trip.send_layers(progress)?;
    let runs = subject.state == State::Running || subject.state == State::Ready;
    if options.kind == Kind::Live && !trip.goes_on {
        return Err(Error::Refused(
            "is no machine that runs: only such a zone migrates live.".to_owned(),
        ));
    }
    let mut stands_since = None;
    if runs {
        match running::send(host, &subject, &mut trip, options, progress)? {
            Sent::Whole => {
                subject.state = State::Installed;
                subject.runtime = None;
                subject::settle(host, zone)?;
                return give_up(host, &subject, progress);
            }
            Sent::Halted => {}
            Sent::Suspended { since } => stands_since = Some(since),
        }
        subject.state = State::Installed;
        subject.runtime = None;
    }
    let sent = send_rest(host, &subject, &mut trip, progress);
    match sent.and_then(|()| trip.commit(&path, runs)) {
        Ok(()) => {
            if let Some(since) = stands_since {
                let seconds = since.elapsed().as_secs_f64();
                progress(&format!(
                    "The guest goes on over there; it stood still for {seconds:.1} s."
                ));
            }
            give_up(host, &subject, progress)
        }
        Err(error) => {
            drop(trip);
            stay(host, &subject, options, runs, error, progress)
        }
    }
}

/// Finds out how an interrupted migration ended, and completes it or takes it back. Returns the
/// outcome of the command if the zone is the target's; otherwise the zone is to be sent again.
fn settle_interrupted(
    host: &Host,
    subject: &Subject,
    options: &Options,
    away: &Away,
    progress: &mut dyn FnMut(&str),
) -> Result<Option<Outcome>, Error> {
    let zone = &subject.entry.name;
    progress("Asking the target how the interrupted migration ended.");
    let stands = subject.state == State::Running;
    match ask(zone, options, &away.id)? {
        Fate::Arrived => {
            // A machine that went live stands still here.
            if stands {
                halt_locked(host, subject)?;
                subject::settle(host, zone)?;
            }
            give_up(host, subject, progress).map(Some)
        }
        // Its removal began when the other host had said that it has the zone.
        Fate::Unknown if subject.state == State::Incomplete => Err(Error::Refused(format!(
            "{} does not have it, and half of it was removed here: uninstall it.",
            options.host
        ))),
        Fate::Unknown => {
            come_back(&subject.zonepath)?;
            if stands {
                live_source::run_on(host, subject)?;
            }
            Ok(None)
        }
    }
}

/// Warns of differences between the hosts, and of snapshots that stay here.
fn warn(trip: &Trip, zonepath: &Path, progress: &mut dyn FnMut(&str)) -> Result<(), Error> {
    if let Some(warning) = &trip.warning {
        progress(&format!("WARNING: {warning}"));
    }
    let snapshots = driver_at(zonepath)?.snapshots(zonepath)?.len();
    if snapshots > 0 {
        progress(&format!("Its {snapshots} snapshots do not go along."));
    }
    Ok(())
}

/// Sends the changes of a halted zone since its top was sent, and the parts beside its root.
fn send_rest(
    host: &Host,
    subject: &Subject,
    trip: &mut Trip,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    subject::settle(host, &subject.entry.name)?;
    progress("Sending the changes since.");
    trip.send_top()?;
    trip.compare()?;
    trip.send_machine(host, subject, progress)
}

/// A zone that may go, or whose removal was cut off after it went.
fn admit(host: &Host, zone: &ZoneName) -> Result<Start, Error> {
    if subject::forget_gone(host, zone)? {
        return Ok(Start::Already("is on the other host already."));
    }
    match Subject::admit(host, zone, Verb::Migrate) {
        Err(error) if error.is_refusal() => match Subject::admit_leaving(host, zone, is_away)? {
            Some(subject) => Ok(Start::Go(Box::new(subject))),
            None => Err(error),
        },
        other => other,
    }
}

/// Finds out whose a zone is when its migration failed.
fn stay(
    host: &Host,
    subject: &Subject,
    options: &Options,
    runs: bool,
    error: Error,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let zone = &subject.entry.name;
    if let Some(away) = Away::of(&subject.zonepath)? {
        match ask(zone, options, &away.id) {
            Ok(Fate::Arrived) => return give_up(host, subject, progress),
            Ok(Fate::Unknown) => come_back(&subject.zonepath)?,
            Err(_) => {
                return Err(Error::Refused(format!(
                    "{}: it may already be on {}: give the same command again when that host can be reached.",
                    flatten(&error),
                    options.host
                )));
            }
        }
    }
    if runs {
        let config = subject.config(host)?;
        match suspend::is_suspended(host, &subject.entry, &config) {
            true => progress("The zone goes on here."),
            false => progress("Booting the zone here again."),
        }
        start_locked(host, subject, Verb::Boot, &BootOptions::default(), false)?;
    }
    Err(error)
}

/// Removes the zone of the source: it is the target's.
fn give_up(
    host: &Host,
    subject: &Subject,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    progress("Cleaning up.");
    let path = &subject.zonepath;
    arrived::remember(&host.root, path)?;
    let entry = Entry {
        state: State::Incomplete,
        ..subject.entry.clone()
    };
    executor::record_now(host, entry)?;
    environments::forget(path)?;
    driver_at(path)?.destroy(path)?;
    Records::of(&host.root).let_go(&subject.entry.name)?;
    let config = subject.config(host)?;
    kind::of(&config).remove_beside_root(host, &config, path)?;
    zone::patch_files::forget_history(&host.root, &subject.entry)?;
    for file in [ARRIVED, subject::identity::FILE] {
        let _ = fs::remove_file(path.join(file));
    }
    let entry = Entry {
        state: State::Configured,
        uuid: None,
        slot: None,
        ..subject.entry.clone()
    };
    executor::record_now(host, entry)?;
    // Last: until the index says that the zone is gone, the same command goes on by the mark.
    away::remove_zonepath(path)?;
    Ok(Outcome::Done)
}
