//! Restores a moment as a whole zone: as a new zone, or as a new boot environment of a zone that has
//! a root. The present root of a zone never changes.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use model::{State, Verb, ZoneName};
use storage::{Dataset, Name, driver_at};
use store::index::Index;
use store::xml::{self, manifest::DETACHED, manifest::Manifest};

use super::moments::Moment;
use super::repository::Backups;
use super::settings::Repository;
use super::stage;
use crate::attach::{self, Update};
use crate::executor::Outcome;
use crate::{import, job, label};
use host::{Error, Host};
use platform::kind;
use subject::{Start, Subject};

/// The options of a restoration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The moment, as the user names it; `None` for the newest.
    pub moment: Option<String>,
    /// True if a configuration is accepted that gives the zone parts of this host.
    pub trust: bool,
    /// True if packages are not compared, as for attach.
    pub force: bool,
    /// The packages to update, as for attach.
    pub update: Update,
}

/// Restores a whole zone. A zone that has a root gets a new boot environment; other zones are made
/// as by import.
///
/// # Errors
/// Fails as import does, or if the moment cannot be read completely. Nothing has changed then.
pub fn restore(
    host: &Host,
    backups: &Backups,
    zone: &ZoneName,
    options: &Options,
    dry_run: bool,
    updater: attach::Updater<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let moment = backups.find(host, zone, options.moment.as_deref())?;
    let manifest = backups.manifest(&moment)?;
    let has_root = Index::load(&host.root)?
        .find(zone)
        .is_some_and(|entry| entry.state == State::Installed);
    match has_root {
        true => beside(
            host, backups, zone, &moment, &manifest, options, dry_run, progress,
        ),
        false => anew(
            host, backups, zone, &moment, &manifest, options, dry_run, updater, progress,
        ),
    }
}

impl Backups {
    /// Returns the manifest of a moment.
    ///
    /// # Errors
    /// Fails with [`Error::Refused`] if the moment has none, or the manifest of another zone.
    pub(super) fn manifest(&self, moment: &Moment) -> Result<Manifest, Error> {
        let path = format!("/{DETACHED}");
        let text = self.answer(&["dump", &moment.id, &path])?;
        let name = format!("{DETACHED} of backup {}", moment.short_id());
        let manifest = Manifest::from_stream(text.as_slice(), Path::new(&name))?;
        let found = manifest.config.name();
        if found.as_str() != moment.zone {
            return Err(Error::Refused(format!(
                "backup {} is refused: the list of backups says zone {}, but its configuration says zone {found}",
                moment.short_id(),
                moment.zone
            )));
        }
        Ok(manifest)
    }

    /// Writes files of a moment into the folder `target`, and screens them. Without patterns,
    /// writes the whole root.
    ///
    /// # Errors
    /// Fails if a file cannot be read or written, or if a zone may not have it. The folder then has
    /// an unfinished tree.
    pub(super) fn fetch(
        &self,
        host: &Host,
        moment: &Moment,
        target: &Path,
        patterns: &[String],
        progress: &mut dyn FnMut(&str),
    ) -> Result<brand::Screened, Error> {
        let engine = &self.engine;
        fs::create_dir_all(&engine.cache)
            .map_err(Error::io(format!("make {}", engine.cache.display())))?;
        let mut writable = vec![engine.cache.as_path()];
        if let Repository::Folder(path) = &engine.settings().repository {
            writable.push(path);
        }
        let mut words: Vec<&OsStr> = ["restore", &moment.id, "--target", "."]
            .map(OsStr::new)
            .into();
        for pattern in patterns {
            words.extend([OsStr::new("--include"), OsStr::new(pattern)]);
        }
        stage::fill(host, target, &writable, |folder| {
            let ran = engine.run(&words, folder, &mut |_| {});
            ran.map_err(|failure| engine.error(failure))
        })?;
        let origin = format!("backup {}", moment.short_id());
        let screened = brand::screen(target, Path::new(&origin))?;
        if screened.removed > 0 {
            progress(&format!(
                "Left out {} device nodes and sockets.",
                screened.removed
            ));
        }
        Ok(screened)
    }
}

/// Makes a zone without a root from a moment.
#[expect(clippy::too_many_arguments, reason = "the parts of one request")]
fn anew(
    host: &Host,
    backups: &Backups,
    zone: &ZoneName,
    moment: &Moment,
    manifest: &Manifest,
    options: &Options,
    dry_run: bool,
    updater: attach::Updater<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let (config, known) = import::accepted(host, zone, manifest, options.trust, "restore")?;
    if dry_run {
        let text = format!(
            "restore zone {zone}:\n  {}write backup {} of {} into {}/root\n  attach it\n",
            if known { "" } else { "configure it\n  " },
            moment.short_id(),
            moment.time,
            config.zonepath().display()
        );
        return Ok(Outcome::Planned(text));
    }
    if !known {
        import::configure(host, &config)?;
    }
    let attaching = attach::Options {
        take_over: false,
        force: options.force,
        update: options.update,
        source: None,
    };
    let mut lines = Vec::new();
    let fill = &mut |root: &Path| {
        let written = backups.fetch(host, moment, root, &[], &mut |line| {
            lines.push(line.to_owned());
        })?;
        if let Some(zonepath) = root.parent() {
            manifest.save(zonepath)?;
        }
        lines.push(said(&written, moment));
        Ok(())
    };
    let attached = attach::attach_filled(host, zone, &attaching, fill, updater, progress);
    if attached.is_err() && !known && !attach::is_stored(host, zone) {
        // An error of this removal is ignored, because the first error is reported.
        let _ = import::forget(host, zone);
    }
    lines.iter().for_each(|line| progress(line));
    attached
}

/// Makes a boot environment from a moment.
#[expect(clippy::too_many_arguments, reason = "the parts of one request")]
fn beside(
    host: &Host,
    backups: &Backups,
    zone: &ZoneName,
    moment: &Moment,
    manifest: &Manifest,
    options: &Options,
    dry_run: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let subject = match Subject::admit(host, zone, Verb::Beadm)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    kind::admit(host, &subject, Verb::Beadm)?;
    if !driver_at(&subject.zonepath)?.has_layers() {
        return Err(Error::Refused(
            "has a root without layers, which has no boot environments: uninstall the zone first, or restore to a zone of another name with -s.".to_owned(),
        ));
    }
    let config = xml::load(&host.root, zone)?;
    if config.family() != manifest.config.family() {
        return Err(Error::Refused(format!(
            "backup {} is of a zone of brand {}, and this zone is of brand {}.",
            moment.short_id(),
            manifest.config.brand(),
            config.brand()
        )));
    }
    label::admit_copy(&manifest.config, &config)?;
    if !options.force {
        attach::check(manifest)?;
    }
    let name: Name = format!("restored-{}", moment.short_id())
        .parse()
        .map_err(|error: storage::BadName| Error::Refused(error.to_string()))?;
    let dataset = Dataset::open(&subject.zonepath)?;
    if dataset.snapshots()?.iter().any(|one| one.name == name) {
        return Err(Error::Refused(format!(
            "has a boot environment {name} already: activate it, or destroy it first."
        )));
    }
    if dry_run {
        return Ok(Outcome::Planned(format!(
            "restore zone {zone}:\n  write backup {} of {} into boot environment {name}\n",
            moment.short_id(),
            moment.time
        )));
    }
    with_copy(&subject, |copy, root| {
        let written = backups.fetch(host, moment, root, &[], progress)?;
        copy.sync()?;
        dataset.add_as_snapshot(&name, copy)?;
        progress(&said(&written, moment));
        Ok(())
    })?;
    control::log::note(host, zone, &format!("boot environment {name} restored"));
    progress(&format!(
        "Made boot environment {name}; use it with: zoneadm -z {zone} beadm activate {name}"
    ));
    Ok(Outcome::Done)
}

/// Calls `work` with an empty dataset beside the zonepath, and removes the dataset afterwards. The
/// next call, and `zoneadm check -r`, remove the dataset of a killed process.
pub(super) fn with_copy<T>(
    subject: &Subject,
    work: impl FnOnce(&Dataset, &Path) -> Result<T, Error>,
) -> Result<T, Error> {
    let name = format!(".attach-{}", subject.entry.name);
    let place = job::place_beside(&subject.zonepath, &name)?;
    job::remove_copy(&place)?;
    let copy = Dataset::create(&place)?;
    let done = work(&copy, &place.join(storage::ROOT));
    drop(copy);
    let removed = job::remove_copy(&place);
    let done = done?;
    removed?;
    Ok(done)
}

fn said(written: &brand::Screened, moment: &Moment) -> String {
    format!(
        "Restored {} files, folders and links of {}.",
        written.members, moment.time
    )
}
