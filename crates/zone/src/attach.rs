//! `zoneadm attach`: makes a detached zone installed if this host has the packages that the zone
//! needs.
//!
//! A sparse zone runs this host's programs, so all its packages must be the same on this host. For
//! a whole-root zone of the same distribution, only the packages that both have must be the same.
//! With `-u` a sparse zone gets the packages of this host, and a whole-root zone gets newer
//! packages. No package is ever downgraded.

mod compare;
mod label;
mod packages;
pub mod update;

use std::fs;
use std::path::{Path, PathBuf};

use model::plan::{Step, ZonePlan};
use model::{Config, State, Uuid, Verb, ZoneName};
use storage::{ROOT, Stack, driver_at};
use store::index::Index;
use store::xml::manifest::Manifest;

use crate::executor::{self, Outcome};
use crate::inventory::{self, System};
use crate::{exported, quota, verify};
use host::{Error, Host};
use platform::kind;
use subject::identity::{self, Claim, Identity};
use subject::{DETACHED, Start, Subject, UNPACKING};

use compare::Comparison;

/// The packages that an attach updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// No packages: a mismatch is refused.
    #[default]
    No,
    /// Packages that are too old (`-u`).
    Needed,
    /// All packages that can be updated (`-U`).
    All,
}

/// A script for the /bin/sh of a zone, and the arguments of the script.
pub type Script = (&'static str, Vec<String>);

/// An error of an [`Updater`].
pub type UpdaterError = Box<dyn std::error::Error + Send + Sync>;

/// Returns the script that updates packages in the whole root at a path, or the reason why they
/// cannot be updated. The packages are given as `name=version`; an empty list means all packages.
pub type Updater<'a> = &'a (dyn Fn(&Path, &[String]) -> Result<Script, UpdaterError> + Sync);

/// Fills the empty root at a path and writes the manifest into the zonepath that holds this root.
pub(crate) type Filler<'a> = &'a mut dyn FnMut(&Path) -> Result<(), Error>;

/// The options of an attach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// True if packages are not compared (`-F`).
    pub force: bool,
    /// True if the zonepath is taken from the host that owns it (`--take-over`).
    pub take_over: bool,
    /// The packages to update.
    pub update: Update,
    /// The source of the root if the root is not in the zonepath yet: `-a archive` or `-d
    /// directory`, as words for the brand.
    pub source: Option<[String; 2]>,
}

/// Compares the system that a manifest describes with this host. No zone needs to exist.
///
/// # Errors
/// Fails with [`Error::Mismatch`] if the zone cannot be attached on this host without an update.
pub fn check(manifest: &Manifest) -> Result<(), Error> {
    let family = verify::brand_of(&manifest.config)?;
    let facts = brand::HostFacts::default();
    let problems = family.verify(&manifest.config, &facts);
    if !problems.is_empty() {
        return Err(Error::Verify(problems));
    }
    let source = inventory::of_manifest(manifest);
    compared(&manifest.config, &source)?.refuse()
}

/// Like [`check`], but accepts mismatches of a sparse zone that an update to this host's packages
/// can repair. A whole-root zone cannot be updated by this host.
///
/// # Errors
/// Fails with [`Error::Mismatch`] for mismatches that an update cannot repair.
pub fn check_update(manifest: &Manifest) -> Result<(), Error> {
    let source = inventory::of_manifest(manifest);
    let comparison = compared(&manifest.config, &source)?;
    match comparison.is_sparse {
        true => comparison.refuse_update(),
        false => comparison.refuse(),
    }
}

/// Returns true if the packages of the sparse zone at `zonepath` differ from the host's packages.
///
/// # Errors
/// Fails if the packages of the zone or of the host cannot be read.
pub fn differs(host: &Host, zonepath: &Path, config: &Config) -> Result<bool, Error> {
    let source = inventory::of_zone(host, zonepath, config)?.known()?;
    let comparison = compared(config, &source)?;
    Ok(comparison.is_sparse && !comparison.is_same())
}

/// Updates the zone's own part of a sparse zone to the host's packages. Works in a copy of the
/// zone's root that no other process writes to. Returns remarks.
///
/// # Errors
/// Fails if the zone is not sparse or cannot be updated. After an error the copy may be half
/// changed.
pub fn follow(host: &Host, config: &Config, copy: &Stack) -> Result<Vec<String>, Error> {
    update::follow_in(host, config, copy)
}

/// Compares the packages of a zone with the packages of the host.
fn compared(config: &Config, source: &System) -> Result<Comparison, Error> {
    let here = inventory::of_host(Path::new("/"))?;
    Ok(Comparison::of(config, source, &here))
}

/// Attaches a zone. `updater` knows the zone's package manager.
///
/// # Errors
/// Fails with [`Error::Mismatch`] if packages do not match, and with [`Error::Step`] or another
/// error if a step failed. After an error the zone is configured as before.
pub fn attach(
    host: &Host,
    zone: &ZoneName,
    options: &Options,
    updater: Updater<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    attach_with(host, zone, options, None, updater, progress)
}

/// Attaches a zone whose root `filler` writes. The options have no source.
///
/// # Errors
/// Fails as [`attach`] does, or with the error of `filler`. The zonepath then has no root.
pub(crate) fn attach_filled(
    host: &Host,
    zone: &ZoneName,
    options: &Options,
    filler: Filler<'_>,
    updater: Updater<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    attach_with(host, zone, options, Some(filler), updater, progress)
}

fn attach_with(
    host: &Host,
    zone: &ZoneName,
    options: &Options,
    filler: Option<Filler<'_>>,
    updater: Updater<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let is_new = options.source.is_some() || filler.is_some();
    let mut subject = match admit(host, zone, options, is_new)? {
        Start::Go(subject) => subject,
        Start::Already(notice) => return Ok(Outcome::Already(notice)),
    };
    let config = subject.config(host)?;
    verify::before(host, &subject, &config, Verb::Attach)?;
    let path = subject.zonepath.clone();
    let had_folder = path.exists();
    let mut filled = Ok(());
    let mut adopts = false;
    if let Some(filler) = filler {
        fill(host, &subject, &config, None, progress)?;
        let root = path.join(ROOT);
        filled = filler(&root).and_then(|()| {
            let synced = fs::File::open(&root).and_then(|open| Ok(rustix::fs::syncfs(open)?));
            synced.map_err(Error::io(format!("sync {}", root.display())))
        });
    } else if let Some(source) = &options.source {
        fill(host, &subject, &config, Some(source), progress)?;
    } else if (path.join(UNPACKING).exists() || !path.join(ROOT).exists())
        && kind::of(&config).is_elsewhere(host, &config, &path)
    {
        // This also continues after an attach that was killed: nothing in its root is lost.
        refuse_unless_taken(&subject, options)?;
        adopts = true;
        filled = adopt(host, &subject, &config, progress);
    } else if path.join(UNPACKING).exists() {
        return Err(Error::Refused(format!(
            "{}/root is of a command that was cut off while it unpacked or checked it: give attach -a or import again, or uninstall it.",
            subject.entry.zonepath.display()
        )));
    } else if !path.join(ROOT).exists() {
        let disk = kind::of(&config).missing_disk(host, &config, &path);
        return Err(Error::Refused(format!(
            "{}/root: no such directory: there is nothing to attach.{}",
            subject.entry.zonepath.display(),
            disk.map_or_else(String::new, |disk| format!(" {disk}."))
        )));
    }
    let attached =
        filled.and_then(|()| attach_root(host, &mut subject, &config, options, updater, progress));
    if attached.is_err() && (is_new || adopts) && !is_stored(host, zone) {
        // The files that this command unpacked belong to no zone. An error of their removal is
        // ignored, because the first error is reported.
        let _ = driver_at(&path).and_then(|driver| driver.destroy(&path));
        if adopts {
            for file in [kernelzone::record::FILE, kernelzone::uefi::FILE] {
                let _ = store::atomic::remove(&path.join(file));
            }
        }
        let _ = store::xml::manifest::remove(&path);
        for mark in [UNPACKING, identity::FILE, identity::LOCK] {
            let _ = store::atomic::remove(&path.join(mark));
        }
        if !had_folder {
            let _ = fs::remove_dir(&path);
        }
    }
    attached
}

/// Refuses a kernel zone whose disks are all on shared storage, unless the user says that no other
/// host runs it.
fn refuse_unless_taken(subject: &Subject, options: &Options) -> Result<(), Error> {
    let zone = &subject.entry.name;
    match options.take_over {
        true => Ok(()),
        false => Err(Error::Owner(format!(
            "its disks are on shared storage, and another host may run it: 'zoneadm -z {zone} attach --take-over' takes it; do that only when it runs on no other host."
        ))),
    }
}

/// Makes the root, as an install does, and the record of a kernel zone whose disks are all on shared
/// storage.
fn adopt(
    host: &Host,
    subject: &Subject,
    config: &Config,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    fill(host, subject, config, None, progress)?;
    let kind = kind::of(config);
    let root = Step::Populate {
        brand: config.brand().to_owned(),
        root: subject.zonepath.join(ROOT),
        options: kind.install_options(&[])?.root,
    };
    let plan = ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Attach,
        steps: vec![root],
    };
    run(host, subject, config, &plan, progress)?;
    kind.adopt(host, config, &subject.zonepath)
}

/// Returns true if a zone is installed, or if its state is unknown. After an error the root may be
/// removed only if the zone is certainly not installed.
pub(crate) fn is_stored(host: &Host, zone: &ZoneName) -> bool {
    let Ok(index) = Index::load(&host.root) else {
        return true;
    };
    let entry = index.find(zone);
    entry.is_some_and(|entry| entry.state == State::Installed)
}

fn admit(host: &Host, zone: &ZoneName, options: &Options, is_new: bool) -> Result<Start, Error> {
    let without_manifest = options.force || options.take_over || is_new;
    match Subject::admit(host, zone, Verb::Attach) {
        // A root that the administrator put into the zonepath by hand has no manifest, so its zone
        // looks like an incomplete one.
        Err(error) if error.is_refusal() && without_manifest => {
            let Some(subject) = Subject::admit_forced(host, zone, Verb::Attach)? else {
                return Err(error);
            };
            let owner = identity::owner_against_attach(&host.root, &subject.zonepath)?;
            match owner.filter(|_| !options.take_over) {
                Some(owner) => {
                    let text = subject::identity::root_of_other(&subject.entry, &owner);
                    Err(Error::Owner(text))
                }
                None => Ok(Start::Go(Box::new(subject))),
            }
        }
        other => other,
    }
}

/// Makes the zone's root, and copies the content of an archive or a folder to it. Without a source
/// the root stays empty.
fn fill(
    host: &Host,
    subject: &Subject,
    config: &Config,
    source: Option<&[String; 2]>,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let path = subject.zonepath.clone();
    if path.join(UNPACKING).exists() {
        // These are files of an interrupted attach.
        driver_at(&path)?.destroy(&path)?;
        store::xml::manifest::remove(&path)?;
    } else if path.join(ROOT).exists() {
        return Err(Error::Refused(format!(
            "{}/root is there already: attach it{}, or move it away.",
            subject.entry.zonepath.display(),
            source.map_or_else(String::new, |source| format!(" without {}", source[0]))
        )));
    } else if let Some(problem) = exported::problem_of_new(host, &path) {
        return Err(Error::Refused(problem));
    }
    if let Some([_, from]) = source {
        crate::label::admit_source(host, config, Path::new(from))?;
    }
    let mut steps = vec![
        Step::MakeZonepath { path: path.clone() },
        Step::MarkUnpacking { path: path.clone() },
        Step::MakeDataset { path: path.clone() },
    ];
    if let Some(source) = source {
        let root = path.join(ROOT);
        let options = source.to_vec();
        steps.extend([Step::Unpack { root, options }, Step::Sync { path }]);
    }
    let plan = ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Attach,
        steps,
    };
    run(host, subject, config, &plan, progress)
}

/// Attaches the root in the zonepath. This host owns the zonepath before anything in it changes,
/// also if it is killed later: the same command then continues.
fn attach_root(
    host: &Host,
    subject: &mut Subject,
    config: &Config,
    options: &Options,
    updater: Updater<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let path = subject.zonepath.clone();
    let manifest = Manifest::load(&path.join(DETACHED))?;
    let file = identity::read(&path);
    label::keep(config, &path, manifest.as_ref(), &file)?;
    let uuid = uuid_for(subject, manifest.as_ref(), &file)?;
    let rule = match options.take_over {
        true => Claim::TakeOver,
        false => Claim::Free,
    };
    let former = identity::claim(&host.root, &subject.entry, &path, uuid, rule)?;
    // Addresses of the pool, and ids on storage without id maps, come from the slot.
    let slot = subject.entry.slot.or(file.slot);
    subject.entry.slot = slot.filter(|slot| {
        let mut others = subject.index.entries().iter();
        !others.any(|other| other.name != subject.entry.name && other.slot == Some(*slot))
    });
    let attached = attach_owned(
        host,
        subject,
        config,
        options,
        (manifest, uuid),
        updater,
        progress,
    );
    match attached {
        Ok(outcome) => {
            if let Some(warning) = identity::other_configuration(&subject.entry, &file, config) {
                progress(&warning);
            }
            Ok(outcome)
        }
        Err(error) => {
            if !is_stored(host, &subject.entry.name) {
                // The first error is reported. A file that stays says that this host is the owner,
                // and the same command accepts that.
                let _ = former.restore();
            }
            Err(error)
        }
    }
}

/// Attaches the root in a zonepath that this host owns.
fn attach_owned(
    host: &Host,
    subject: &mut Subject,
    config: &Config,
    options: &Options,
    (manifest, uuid): (Option<Manifest>, Uuid),
    updater: Updater<'_>,
    progress: &mut dyn FnMut(&str),
) -> Result<Outcome, Error> {
    let path = subject.zonepath.clone();
    packages::clear(host, subject)?;
    update::recover(&path)?;
    let stands = driver_at(&path)?.stack(&path)?;
    if let Some(missing) = stands.lowers.iter().find(|layer| !layer.exists()) {
        return Err(Error::Refused(format!(
            "{}, which its root stands on, is not here: bring it along, or use zoneadm export and import.",
            missing.display()
        )));
    }
    if options.force || (options.take_over && options.update == Update::No) {
        let steps = vec![Step::MarkForced { path: path.clone() }];
        finish(host, subject, config, steps, uuid, progress)?;
        return Ok(Outcome::Done);
    }
    if let Some(manifest) = &manifest {
        refuse_brand(config, &manifest.config)?;
    } else if options.source.is_none() && !options.take_over {
        return Err(Error::Refused(format!(
            "{}/{DETACHED}: no such file: the zone was not detached; attach -F takes it as it is.",
            subject.entry.zonepath.display()
        )));
    }
    // The packages in the root are compared, because the manifest may be out of date.
    let mut source = inventory::of_zone(host, &path, config)?;
    if options.update != Update::No {
        source = source.known()?;
    }
    let warning = source.warning();
    let comparison = compared(config, &source)?;
    match options.update {
        Update::No => {
            comparison.refuse()?;
            finish(host, subject, config, Vec::new(), uuid, progress)?;
        }
        // A sparse zone has no programs of its own, so the only possible update is to the host's
        // packages.
        _ if comparison.is_sparse => {
            comparison.refuse_update()?;
            let steps = match comparison.is_same() {
                true => Vec::new(),
                false => vec![Step::FollowHost { path }],
            };
            finish(host, subject, config, steps, uuid, progress)?;
        }
        update => {
            comparison.refuse_update()?;
            let work = packages::Work {
                host,
                config,
                updater,
                wanted: comparison.wanted(),
                all: update == Update::All,
            };
            if work.all || !work.wanted.is_empty() {
                work.carry_out(subject, progress)?;
            }
            finish(host, subject, config, Vec::new(), uuid, progress)?;
        }
    }
    Ok(Outcome::with_remarks(warning))
}

/// Carries out the last steps of an attach, which make a zone with a complete root installed.
fn finish(
    host: &Host,
    subject: &Subject,
    config: &Config,
    mut steps: Vec<Step>,
    uuid: Uuid,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let path = subject.zonepath.clone();
    steps.insert(0, Step::MakeZonepath { path: path.clone() });
    steps.extend(quota::default_step(
        quota::default_limit(host)?,
        config,
        &path,
    ));
    steps.extend([
        Step::Record {
            state: State::Installed,
            uuid: Some(uuid),
        },
        Step::RemoveManifest { path: path.clone() },
    ]);
    if path.join(UNPACKING).exists() {
        // Until the mark is removed, the root belongs to no zone, and the same command unpacks it
        // again.
        steps.push(Step::EndUnpacking { path });
    }
    let plan = ZonePlan {
        zone: subject.entry.name.clone(),
        verb: Verb::Attach,
        steps,
    };
    run(host, subject, config, &plan, progress)
}

fn run(
    host: &Host,
    subject: &Subject,
    config: &Config,
    plan: &ZonePlan,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    executor::run_now(host, config, &subject.entry, plan, progress)
}

/// Returns the uuid that the zone had before, or a new uuid if another zone of this host has it.
fn uuid_for(
    subject: &Subject,
    manifest: Option<&Manifest>,
    file: &Identity,
) -> Result<Uuid, Error> {
    let known = file
        .uuid
        .or(subject.entry.uuid)
        .or(manifest.and_then(|manifest| manifest.uuid));
    let taken = |uuid: Uuid| {
        let holder = subject.index.by_uuid(uuid);
        holder.is_some_and(|entry| entry.name != subject.entry.name)
    };
    match known.filter(|uuid| !taken(*uuid)) {
        Some(uuid) => Ok(uuid),
        None => executor::new_uuid(),
    }
}

fn refuse_brand(config: &Config, detached: &Config) -> Result<(), Error> {
    if config.family() == detached.family() {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "Trying to attach a '{}' zone to a '{}' configuration.",
        detached.brand(),
        config.brand()
    )))
}

/// Reads a manifest from the file at a path, or from standard input if the path is `-`.
///
/// # Errors
/// Fails if the manifest cannot be read or is not a manifest.
pub fn read_manifest(path: &Path, stream: &mut dyn std::io::Read) -> Result<Manifest, Error> {
    if path == Path::new("-") {
        return Ok(Manifest::from_stream(stream, Path::new("standard input"))?);
    }
    // The path of a zonepath stands for the manifest in this zonepath.
    let file: PathBuf = match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => path.join(DETACHED),
        _ => path.to_owned(),
    };
    let none = || Error::Source(format!("{}: no such manifest", path.display()));
    Manifest::load(&file)?.ok_or_else(none)
}
