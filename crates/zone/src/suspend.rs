//! `zoneadm suspend`: keeps a zone's memory and ends it; the next boot goes on there.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::brands::Family;
use model::plan::{BootPlan, PlatformStep, Resume};
use model::{Config, Verb, ZoneName};
use serde_json::Value;
use storage::driver_at;
use store::index::Entry;

use crate::boot::{BootOptions, Linked, plan_on};
use crate::executor::Outcome;
use control::client;
use control::protocol::{Request, Suspend};
use host::{Error, Host};
use kernelzone::disks::{self, Added};
use kernelzone::facts::{self, Facts};
use kernelzone::image;
use kernelzone::record::Record;
use subject::{Start, Subject};

/// Timeout for a suspend or resume without a time limit of its own: an hour, for a zone with very
/// much memory on a slow disk.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(3600);

/// Suspends a zone.
///
/// # Errors
/// [`Error::Refused`] for a zone whose memory cannot be kept, with what can be done
/// instead; [`Error::Daemon`] when it could not be kept: the zone then runs on.
pub fn suspend(host: &Host, zone: &ZoneName, dry_run: bool) -> Result<Outcome, Error> {
    act(host, zone, SUSPEND_TIMEOUT, dry_run)
}

/// [`suspend`], in no more than this time. After that the zone runs on.
///
/// # Errors
/// See [`suspend`].
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

/// Suspends a zone whose lock is held already.
pub fn suspend_locked(host: &Host, subject: &Subject) -> Result<(), Error> {
    let (path, running) = place(host, subject)?;
    suspending(host, subject, path, &running, SUSPEND_TIMEOUT)
}

/// Returns the path of a running zone's image, and the configuration that it runs with.
///
/// # Errors
/// [`Error::Refused`] when there is no such place.
pub fn place(host: &Host, subject: &Subject) -> Result<(PathBuf, Config), Error> {
    let config = subject.config(host)?;
    may_suspend(&config)?;
    // What counts is what it runs with: there it will be looked for.
    let running = store::xml::load_running(&host.root, &subject.entry.name)?;
    let (Some(path), Some(next)) = (image::path(host, &running), image::path(host, &config)) else {
        return Err(Error::Refused(
            "it has no place for an image: add the resource suspend, with zonecfg, and boot it again."
                .to_owned(),
        ));
    };
    if path != next {
        return Err(Error::Refused(format!(
            "it would be suspended to {} and looked for at {}: boot it again first.",
            path.display(),
            next.display()
        )));
    }
    must_be_there(&path)?;
    Ok((path, running))
}

/// Refuses an image whose folder is not there, before anything happens to the zone.
fn must_be_there(image: &Path) -> Result<(), Error> {
    match image.parent() {
        Some(folder) if !folder.is_dir() => Err(Error::Refused(format!(
            "the folder {} of its image is not there: make it, or change the path of suspend with zonecfg and boot it again.",
            folder.display()
        ))),
        _ => Ok(()),
    }
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
    // Its own is used up while it runs.
    if image::exists(&path) {
        return Err(Error::Refused(format!(
            "{} is there already, and no image of this zone: move it away.",
            path.display()
        )));
    }
    // What is configured now: it will be looked for with that.
    let key = image::key_source(&config, &subject.zonepath);
    image::make_key(&key)?;
    image::read_key(&key).map_err(|why| Error::Refused(format!("{why}.")))?;
    let record = Record::load(&subject.zonepath)?;
    let places = disks::places(host, running);
    let mut disks = written(disks::files(
        &places,
        &record,
        &subject.zonepath,
        Added::Refused,
    )?);
    // What its firmware keeps must be what it was, too.
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
    // It keeps the time itself, and has a little more to bring the zone back.
    let patience = patience.saturating_add(Duration::from_secs(20));
    client::ask_within(&socket, &Request::Suspend(Box::new(order)), patience)?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}

/// Returns the description of a running machine without its disks: it must be the same on the host
/// where it resumes.
///
/// # Errors
/// [`Error::Refused`] for one that goes on nowhere.
pub fn machine_of(host: &Host, subject: &Subject) -> Result<Value, Error> {
    let refused = |why: String| Error::Refused(format!("{why}."));
    let runtime = subject.runtime.as_ref();
    let pid = runtime.map(|runtime| runtime.init.pid);
    let pid = pid.ok_or_else(|| refused("does not run".to_owned()))?;
    let words = image::words_of(pid).map_err(refused)?;
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
    .map_err(refused)
}

/// Returns the description that the machine of a zone would have here, as [`machine_of`] for a
/// running one.
///
/// # Errors
/// Fails with the reason why it cannot be started.
pub fn machine_here(host: &Host, subject: &Subject, config: &Config) -> Result<Value, Error> {
    let facts = facts::find(host, subject, config, Added::Refused)?;
    let plan = plan_on(
        host,
        subject,
        config,
        &driver_at(&subject.zonepath)?.stack(&subject.zonepath)?,
        &facts.nodes,
        Some(&facts),
        Verb::Boot,
        &BootOptions::default(),
        Linked::Yes,
    )?;
    let words = plan.init.arguments.iter().map(String::as_str);
    let version = facts.qemu.version.to_string();
    image::identity(&version, words, &[], &subject.zonepath, 0)
        .map_err(|why| Error::Refused(format!("{why}.")))
}

/// The file of each disk that is written to.
fn written(disks: Vec<disks::Files>) -> Vec<PathBuf> {
    disks
        .into_iter()
        .filter_map(|files| files.paths.into_iter().next())
        .collect()
}

/// Returns why the configured path of a zone's image cannot be used: another file exists there, or
/// the image of another suspended zone.
pub(crate) fn why_no_place(
    host: &Host,
    subject: &Subject,
    config: &Config,
) -> Result<Option<String>, Error> {
    let Some(path) = image::path(host, config).filter(|_| config.family() == Family::Kz) else {
        return Ok(None);
    };
    let shown = path.display();
    if let Some(why) = image::why_not_there(&path) {
        return Ok(Some(format!("could not verify suspend {shown}: {why}")));
    }
    let place = resolved(&path);
    for other in subject.index.entries() {
        if other.name == subject.entry.name {
            continue;
        }
        // One that is damaged has no image that it could use.
        let Ok(theirs) = store::xml::load(&host.root, &other.name) else {
            continue;
        };
        let theirs = image::path(host, &theirs).filter(|_| theirs.family() == Family::Kz);
        if theirs.is_some_and(|theirs| resolved(&theirs) == place) {
            return Ok(Some(format!(
                "could not verify suspend {shown}: zone {} is suspended to there",
                other.name
            )));
        }
    }
    Ok(None)
}

/// A path as it is whatever links lead to its folder.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

/// Returns whether a zone that is not active has an image of its memory.
pub fn is_suspended(host: &Host, entry: &Entry, config: &Config) -> bool {
    entry.state == model::State::Installed
        && config.family() == Family::Kz
        && image::path(host, config).is_some_and(|path| image::exists(&path))
}

fn may_suspend(config: &Config) -> Result<(), Error> {
    if config.family() == Family::Kz {
        return Ok(());
    }
    // Processes of the host's own kernel cannot be written down whole: what they hold
    // of it (connections, locks, files that have no name) stays behind.
    Err(Error::Refused(format!(
        "zones of brand {} cannot be suspended: their processes are the host's. Use shutdown \
         to stop it in order, snapshot to keep its files, or a zone of brand kz, which has a \
         kernel of its own.",
        config.brand()
    )))
}

/// Makes the boot of a zone that is suspended go on from its image, or throws that away.
/// Returns the messages for the user.
///
/// # Errors
/// [`Error::Refused`] with what keeps the image from being used; it stays.
pub(crate) fn prepare(
    host: &Host,
    subject: &Subject,
    config: &Config,
    facts: &Facts,
    plan: &mut BootPlan,
    options: &BootOptions,
    dry_run: bool,
) -> Result<Vec<String>, Error> {
    let Some(path) = image::path(host, config).filter(|path| image::exists(path)) else {
        return Ok(Vec::new());
    };
    if plan.ready_only {
        return Err(Error::Refused(format!(
            "zone is suspended: boot goes on from {}; {}.",
            path.display(),
            image::DISCARD
        )));
    }
    if options.discard {
        if !dry_run {
            image::remove(&path).map_err(Error::Refused)?;
        }
        return Ok(vec![format!(
            "the image {} was thrown away",
            path.display()
        )]);
    }
    let key = image::key_source(config, &subject.zonepath);
    let disks: Vec<PathBuf> = plan
        .platform
        .iter()
        .filter_map(writable)
        .flatten()
        .collect();
    let words = plan.init.arguments.iter().map(String::as_str);
    let now = image::identity(
        &facts.qemu.version.to_string(),
        words,
        &disks,
        &subject.zonepath,
        facts.record.boots,
    );
    let fits = now.and_then(|now| image::open(&path, &key, &now));
    if let Err(why) = fits {
        return Err(Error::Refused(format!(
            "cannot go on from where it was suspended: {why}; {}.",
            image::DISCARD
        )));
    }
    let wait = ["-incoming", "defer"].map(str::to_owned);
    plan.init.arguments.extend(wait);
    for step in &mut plan.platform {
        if let PlatformStep::Machine(parts) = step {
            parts.faults = !options.eager;
        }
    }
    plan.resume = Some(Resume {
        image: path,
        key,
        zonepath: subject.zonepath.clone(),
        disks,
        lazy: !options.eager,
    });
    Ok(Vec::new())
}

/// The files of disks that a step opens to be written to.
fn writable(step: &PlatformStep) -> Option<Vec<PathBuf>> {
    let PlatformStep::Machine(parts) = step else {
        return None;
    };
    let files = parts.files.iter().filter(|file| !file.read_only);
    Some(files.map(|file| file.path.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_whose_folder_is_missing_is_refused_first() {
        let folder = tempfile::tempdir().unwrap();
        must_be_there(&folder.path().join("image")).unwrap();
        let error = must_be_there(&folder.path().join("none/image")).unwrap_err();
        assert!(
            error.to_string().contains("none of its image is not there"),
            "{error}"
        );
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(must_be_there(&folder.path().join("file/image")).is_err());
    }
}
