//! `zoneadm suspend`: saves the memory of a kernel zone in an image and ends the zone. The next
//! boot resumes from this image.

mod image_place;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use model::{Config, Verb, ZoneName};
use serde_json::Value;
use storage::driver_at;

use crate::boot::{BootOptions, Linked, plan_on};
use crate::executor::Outcome;
use control::client;
use control::protocol::{Request, Suspend};
use host::{Error, Host, flatten};
use kernelzone::disks::{self, Added};
use kernelzone::facts;
use kernelzone::image;
use kernelzone::record::Record;
use platform::kind;
use subject::{Start, Subject};

pub use image_place::{is_suspended, place};

/// Timeout of a suspend or resume for which the caller sets no time limit: one hour, enough for a
/// zone with very much memory on a slow disk.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(3600);

/// Suspends a zone.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone cannot be suspended; the message names the
/// alternative. Fails with [`Error::Daemon`] if the memory cannot be saved. The zone then continues
/// to run.
pub fn suspend(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    act(host, zone, SUSPEND_TIMEOUT, dry_run)
}

/// Suspends a zone within the time `patience`. If the time is over, the zone continues to run.
///
/// # Errors
/// Fails as [`suspend()`] does.
pub(crate) fn suspend_within(
    host: &Host,
    zone: &ZoneName,
    patience: Duration,
) -> Result<Outcome, Error> {
    act(host, zone, patience, false)
}

fn act(host: &Host, zone: &ZoneName, patience: Duration, dry_run: bool) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Suspend)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let (path, running) = place(host, &subject)?;
    if dry_run {
        return Ok(Outcome::Planned(format!(
            "suspend zone {zone}:\n  stop its machine\n  save its memory and devices to {}\n  halt it\n",
            path.display()
        )));
    }
    suspending(host, &subject, path, &running, patience)?;
    Ok(Outcome::Done)
}

/// Suspends a zone whose lock the caller holds.
pub fn suspend_locked(host: &Host, subject: &Subject) -> Result<(), Error> {
    let (path, running) = place(host, subject)?;
    suspending(host, subject, path, &running, SUSPEND_TIMEOUT)
}

fn suspending(
    host: &Host,
    subject: &Subject,
    path: PathBuf,
    running: &Config,
    patience: Duration,
) -> Result<(), Error> {
    let zone = &subject.entry.name;
    let config = subject.config(host)?;
    // A running zone has no image, so this file is not the zone's image.
    if image::exists(&path) {
        return Err(Error::Refused(format!(
            "{} is there already, and no image of this zone: move it away.",
            path.display()
        )));
    }
    // The key comes from the present configuration, because the next boot reads the key from there.
    let key = image::key_source(&config, &subject.zonepath);
    image::make_key(&key)?;
    image::read_key(&key).map_err(unusable)?;
    let record = Record::load(&subject.zonepath)?;
    let places = disks::places(host, running);
    let mut disks = written(disks::files(
        &places,
        &record,
        &subject.zonepath,
        Added::Refused,
    )?);
    // The file with the firmware variables must also be unchanged when the zone resumes.
    let nvram = record.nvram.map(|nvram| subject.zonepath.join(nvram.file));
    disks.extend(nvram);
    let order = Suspend {
        image: path,
        key,
        disks,
        zonepath: subject.zonepath.clone(),
        seconds: patience.as_secs().max(1),
    };
    let socket = client::connect_or_adopt(host, zone)?;
    // zoneadmd keeps the time limit itself. This timeout is longer, so that zoneadmd has time to
    // let the zone run again.
    let patience = patience.saturating_add(Duration::from_secs(20));
    client::ask_within(&socket, &Request::Suspend(Box::new(order)), patience)?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}

/// Returns the description of a running guest without its disks. A host on which the guest resumes
/// must have the same description.
///
/// # Errors
/// Fails with [`Error::Refused`] if the guest cannot resume on any host.
pub fn machine_of(host: &Host, subject: &Subject) -> Result<Value, Error> {
    let refused = |why: String| Error::Refused(format!("{why}."));
    let runtime = subject.runtime.as_ref();
    let pid = runtime.map(|runtime| runtime.init.pid);
    let pid = pid.ok_or_else(|| refused("does not run".to_owned()))?;
    let words = image::words_of(pid).map_err(unusable)?;
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    let program = program.map_err(Error::io("look at its QEMU"))?;
    if program.to_string_lossy().ends_with(" (deleted)") {
        return Err(refused(
            "its QEMU was replaced on this host since it booted, and the new one could not resume it: reboot the zone first"
                .to_owned(),
        ));
    }
    let qemu = facts::qemu(host).map_err(|error| Error::Refused(format!("{error}.")))?;
    image::identity(
        &qemu.version.to_string(),
        words.iter().map(String::as_str),
        &[],
        &subject.zonepath,
        0,
    )
    .map_err(unusable)
}

/// Converts an error of an image to a refusal.
#[expect(clippy::needless_pass_by_value, reason = "an argument of map_err")]
fn unusable(error: image::ImageError) -> Error {
    Error::Refused(format!("{}.", flatten(&error)))
}

/// Returns the description that the guest of a zone would have on this host, in the form of
/// [`machine_of`].
///
/// # Errors
/// Fails with the reason why the guest cannot start on this host.
pub fn machine_here(host: &Host, subject: &Subject, config: &Config) -> Result<Value, Error> {
    let facts = kind::of(config).boot_facts(host, subject, config, Added::Refused)?;
    let plan = plan_on(
        host,
        subject,
        config,
        &driver_at(&subject.zonepath)?.stack(&subject.zonepath)?,
        &facts,
        Verb::Boot,
        &BootOptions::default(),
        Linked::Yes,
    )?;
    let words = plan.init.arguments.iter().map(String::as_str);
    let machine = facts.machine.as_ref();
    let machine = machine.ok_or_else(|| Error::Refused("has no machine.".to_owned()))?;
    let version = machine.qemu.version.to_string();
    image::identity(&version, words, &[], &subject.zonepath, 0).map_err(unusable)
}

/// Returns the file of each disk to which the guest writes.
fn written(disks: Vec<disks::Files>) -> Vec<PathBuf> {
    disks
        .into_iter()
        .filter_map(|files| files.paths.into_iter().next())
        .collect()
}
