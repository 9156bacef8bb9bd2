//! `zoneadm migrate`: moves a zone to another host over ssh.
//!
//! The source first sends the layers that the target lacks, and then the top, while the zone still
//! runs. Then it halts the zone and sends the later changes of the top. A running kernel zone is
//! not halted but suspended, and resumes on the target from the image of its memory. The files of
//! its disks are also sent while it runs. Both sides compare the digest of the top before the
//! target accepts the zone. The zone belongs to the source until the target has reported that the
//! zone runs there:
//!
//! | what | a cut after it leaves |
//! |---|---|
//! | layers and top are sent | the zone as it was; the target removes the received files |
//! | the zone is halted, the rest is sent, digests are compared | the same, halted |
//! | **the source marks the zone as on its way** | it is not booted here before the target is asked |
//! | the target is told that the zone is its own: it stores and boots it | the target has it: asked again, it says so |
//! | the source removes it, and is configured | - |
//!
//! After any interruption the user can continue by giving the same command again.

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
use zone::{environments, exported, suspend};

pub use crate::options::{Kind, Options};
use crate::other_host::ask;
use crate::running::Sent;
use crate::source::Trip;
pub use target::{receive, status};
use wire::Fate;
pub use wire::frames_again;

/// Refuses a guest that runs or is suspended with a disk for cloud-init. The disk does not migrate,
/// and the guest could not continue without it.
fn refuse_seed(host: &Host, subject: &Subject) -> Result<(), Error> {
    if !subject.zonepath.join(kernelzone::seed::FILE).exists() {
        return Ok(());
    }
    let config = subject.config(host)?;
    let halted =
        subject.state == State::Installed && !suspend::is_suspended(host, &subject.entry, &config);
    match halted {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "{} has the seed of cloud-init and does not migrate: shut the zone down, and migrate it or remove the file.",
            kernelzone::seed::FILE
        ))),
    }
}

/// Migrates a zone to another host, where it gets the state that it has here.
///
/// # Errors
/// Fails if the zone cannot run on the target, or if the connection ended. The message names the
/// host that has the zone.
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
    refuse_seed(host, &subject)?;
    exported::refuse_migration(host, &subject.zonepath)?;
    let mut trip = Trip::begin(host, &subject, options, dry_run)?;
    if dry_run {
        // On Solaris a dry run prints these steps. The other host has already checked the
        // configuration and would accept the zone.
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
                zone::settle::settle(host, zone)?;
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
        Ok(broken) => {
            if let Some(why) = broken {
                progress(&not_going_on(&why));
            } else if let Some(since) = stands_since {
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

/// Returns the message about a zone that belongs to the target but does not run there.
fn not_going_on(why: &str) -> String {
    format!("The zone is over there, but its machine did not go on: {why}. Boot it there.")
}

/// Finds out how an interrupted migration ended, and completes or cancels it. Returns the outcome
/// of the command if the zone belongs to the target. Returns `None` if the zone must be sent again.
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
            // A guest that migrated live is still paused on this host.
            if stands {
                halt_locked(host, subject)?;
                zone::settle::settle(host, zone)?;
            }
            give_up(host, subject, progress).map(Some)
        }
        // The removal of a zone begins only after the other host has reported that it has the zone.
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

/// Warns of differences between the hosts, and of snapshots that are not sent.
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

/// Sends the changes of a halted zone's top since the top was sent, and the parts of the zone
/// outside its root.
fn send_rest(
    host: &Host,
    subject: &Subject,
    trip: &mut Trip,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    zone::settle::settle(host, &subject.entry.name)?;
    // A running zone may have written files meanwhile.
    exported::refuse_migration(host, &subject.zonepath)?;
    progress("Sending the changes since.");
    trip.send_top()?;
    trip.compare()?;
    trip.send_machine(host, subject, progress)
}

/// Admits a zone that may migrate, or a zone whose removal was interrupted after its migration.
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

/// Finds out which host has a zone whose migration failed. If this host has it and the zone ran
/// before, boots the zone again.
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

/// Removes the zone from the source, because it belongs to the target.
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
    let marks = [
        ARRIVED,
        subject::FORCED,
        subject::assembled::ASSEMBLED,
        subject::identity::FILE,
        subject::identity::LOCK,
    ];
    for file in marks {
        let _ = fs::remove_file(path.join(file));
    }
    let entry = Entry {
        state: State::Configured,
        uuid: None,
        slot: None,
        ..subject.entry.clone()
    };
    executor::record_now(host, entry)?;
    // The zonepath with the mark of the migration is removed last. Until then the same command can
    // continue an interrupted removal.
    away::remove_zonepath(path)?;
    Ok(Outcome::Done)
}
