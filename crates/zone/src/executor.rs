//! Carrying out a [`ZonePlan`], with an undo for each step.

mod steps;

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use brand::{Brand, Place};
use model::plan::{Step, ZonePlan};
use model::{Config, State};
use rustix::fs::{Mode, OFlags};
use storage::{Dataset, Stack, driver_at};
use store::index::{self, Entry};
use store::xml::manifest;

use crate::attach::update;
use crate::{patch_files, root_view};
use host::error::is_full;
use host::fault::Fault;
use host::flatten;
use host::outcome::AnyError;
use host::undo::UndoStack;
use host::{Error, Host};
use subject::{FORCED, UNFINISHED, UNPACKING};
use subject::{arrived, away};

use steps::{clone_dataset, mark_unpacking};

pub use host::outcome::Outcome;
pub use host::uuid::new_uuid;

/// Takes the zone's entry when it is time to store it.
pub(crate) type Recorder<'a> = &'a mut dyn FnMut(Entry) -> Result<(), store::Error>;

/// Everything the steps of one zone work with.
pub(crate) struct Work<'a> {
    pub host: &'a Host,
    pub config: &'a Config,
    /// The entry as it is now, changed by the steps.
    pub entry: Entry,
    /// Stores the entry: at once, or with those of other zones.
    pub record: Recorder<'a>,
    /// Takes lines for the user.
    pub progress: &'a mut dyn FnMut(&str),
    /// The image to import.
    pub import: Option<crate::images::Request>,
    /// The image that the root stands on.
    pub image: Option<storage::Digest>,
}

/// Stores an entry at once, with an id range if it has none and needs one.
pub fn record_now(host: &Host, entry: Entry) -> Result<(), store::Error> {
    record_all(host, vec![entry])
}

/// Stores an entry with an id range, which a zone that is not installed does not need
/// otherwise; it keeps that.
pub fn record_with_ids(host: &Host, entry: &mut Entry) -> Result<(), store::Error> {
    index::update(&host.root, |index| {
        if entry.slot.is_none() {
            entry.slot = index.free_slots(1)?.into_iter().next();
        }
        index.put(entry.clone());
        Ok(())
    })
}

/// Stores many entries in one write of the index.
pub(crate) fn record_all(host: &Host, entries: Vec<Entry>) -> Result<(), store::Error> {
    index::update(&host.root, |index| {
        let needs_ids = |entry: &Entry| entry.state == State::Installed && entry.slot.is_none();
        let wanted = entries.iter().filter(|entry| needs_ids(entry)).count();
        let mut slots = index.free_slots(wanted)?.into_iter();
        for mut entry in entries {
            if needs_ids(&entry) {
                entry.slot = slots.next();
            }
            index.put(entry);
        }
        Ok(())
    })
}

/// Carries out the plan. When a step fails, those before it are undone.
pub(crate) fn run(work: &mut Work<'_>, plan: &ZonePlan, fault: &mut Fault) -> Result<(), Error> {
    let mut undo = UndoStack::default();
    let verb = plan.verb.as_str();
    for step in &plan.steps {
        sys::crash::point();
        let done = if fault.strikes(verb) {
            Err(Fault::error())
        } else {
            work.carry_out(step, &mut undo)
        };
        if let Err(error) = done {
            let (why, usage) = explain(&error);
            let left = undo.run();
            let left = (!left.is_empty()).then(|| {
                format!(
                    "{}; the zone may be incomplete: uninstall it and try again",
                    left.join("; ")
                )
            });
            let step = step.to_string();
            return Err(if usage {
                Error::Usage(why)
            } else if is_full(error.as_ref()) {
                Error::Full { step, why, left }
            } else {
                Error::Step { step, why, left }
            });
        }
    }
    undo.disarm();
    sys::crash::point();
    // One more moment at which a crash must do no harm: all done, nothing said.
    let _ = fault.strikes(verb);
    Ok(())
}

/// The text of an error, and whether the command line is to blame.
fn explain(error: &AnyError) -> (String, bool) {
    let usage = error
        .downcast_ref::<brand::Error>()
        .is_some_and(brand::Error::is_usage);
    (flatten(error.as_ref()), usage)
}

impl Work<'_> {
    fn brand(&self) -> Result<&'static dyn Brand, AnyError> {
        Ok(brand::by_name(self.config.brand()).ok_or("the brand is unknown")?)
    }

    fn place<'a>(&'a self, stack: &'a Stack) -> Place<'a> {
        Place {
            config: self.config,
            zonepath: &stack.zonepath,
            top: &stack.top,
            layers: &stack.lowers,
        }
    }

    fn carry_out(&mut self, step: &Step, undo: &mut UndoStack) -> Result<(), AnyError> {
        match step {
            Step::Begin { uuid } => self.begin(*uuid, step.to_string(), undo),
            Step::MakeZonepath { path } => {
                if let Some(mode) = make_zonepath(path, undo)? {
                    (self.progress)(&format!(
                        "Changed the mode of {} from {mode:04o} to 0700.",
                        self.host.root.shown(path).display()
                    ));
                }
                Ok(())
            }
            Step::MarkUnpacking { path } => mark_unpacking(path, step.to_string(), undo),
            Step::EndUnpacking { path } => Ok(store::atomic::remove(&path.join(UNPACKING))?),
            Step::MakeDataset { path } => self.make_dataset(path, undo),
            Step::Bootstrap { recipe } => {
                let zone = &self.entry.name;
                Ok(crate::images::bootstrap(
                    self.host,
                    zone,
                    recipe,
                    self.progress,
                )?)
            }
            Step::ImportImage { .. } => {
                let request = self.import.as_ref().ok_or("nothing to import")?;
                let image = crate::images::import(self.host, request, self.progress)?;
                self.image = Some(image.digest);
                Ok(())
            }
            Step::LayImageInit { path } => self.lay_image_init(path),
            Step::StandOnImage { image, path } => self.stand_on_image(image, path, undo),
            Step::Populate { root, options, .. } => self.populate(root, options),
            Step::CloneDataset {
                from, to, snapshot, ..
            } => clone_dataset(from, to, snapshot.as_deref(), undo),
            Step::MakeMachine { path, options } => self.make_machine(path, options, undo),
            Step::CloneMachine { from, to } => {
                kernelzone::install::refuse_there(self.host, self.config, to)?;
                kernelzone::install::undo(self.host, self.config, to, undo);
                Ok(kernelzone::clone::make(self.host, self.config, from, to)?)
            }
            Step::DestroyMachine { path } => {
                Ok(kernelzone::install::remove(self.host, self.config, path)?)
            }
            Step::Identify { path, uuid } => self.identify(path, *uuid),
            Step::LayProfile { path, profile } => {
                let stack = driver_at(path)?.stack(path)?;
                Ok(brand::identity::lay(&stack.top, &stack.lowers, profile)?)
            }
            Step::Sync { path } => {
                let folder = fs::File::open(path)?;
                Ok(rustix::fs::syncfs(&folder)?)
            }
            Step::DestroyDataset { path } => self.destroy_dataset(path),
            Step::RemoveZonepath { path } => {
                remove_zonepath(path, self.progress);
                Ok(patch_files::forget_history(&self.host.root, &self.entry)?)
            }
            Step::Record { state, uuid } => self.store_state(*state, *uuid),
            // Those of running zones are carried out by the verb itself.
            Step::Snapshot { path, name } => Ok(driver_at(path)?.snapshot(path, &name.parse()?)?),
            Step::MergeLayers { path, most } => {
                Dataset::open(path)?.shorten(*most)?;
                Ok(())
            }
            Step::MergeBeside { path, most } => {
                Dataset::open(path)?.shorten_beside(*most)?;
                Ok(())
            }
            Step::Rollback { path, name } => Ok(driver_at(path)?.rollback(path, &name.parse()?)?),
            Step::DestroySnapshot { path, name } => {
                Ok(driver_at(path)?.destroy_snapshot(path, &name.parse()?)?)
            }
            Step::Freeze | Step::CopyTop { .. } | Step::Thaw => {
                Err("only for running zones".into())
            }
            Step::Unpack { root, options } => self.unpack(root, options),
            Step::WriteManifest { path } => self.write_manifest(path, step.to_string(), undo),
            Step::RemoveManifest { path } => Ok(manifest::remove(path)?),
            Step::MarkForced { path } => Ok(fs::write(path.join(FORCED), FORCED_TEXT)?),
            Step::FollowHost { path } => Ok(update::follow(
                self.host,
                path,
                self.config,
                &mut *self.progress,
            )?),
            Step::ShowRoot { path, at } => Ok(root_view::show(path, at)?),
            Step::HideRoot { at } => Ok(root_view::hide(at)?),
        }
    }
}

/// The content of [`FORCED`].
const FORCED_TEXT: &str = "<!-- This zone was attached without a check (attach -F). -->\n";

/// Files that say something of a zone, in its zonepath.
const MARKS: [&str; 8] = [
    subject::identity::FILE,
    UNFINISHED,
    UNPACKING,
    FORCED,
    manifest::DETACHED,
    arrived::INCOMING,
    arrived::ARRIVED,
    away::AWAY,
];

fn make_zonepath(path: &Path, undo: &mut UndoStack) -> Result<Option<u32>, AnyError> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    match fs::create_dir(parent) {
        Err(error) if error.kind() == ErrorKind::NotFound => fs::create_dir_all(parent)?,
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            let made = path.to_owned();
            undo.push(format!("make {}", path.display()), move || {
                fs::remove_dir(&made).map_err(|error| error.to_string())
            });
            Ok(None)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            // A folder of root's (verified before); only the mode may be too open. Opened
            // without following a link that somebody may have put there since.
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let folder = rustix::fs::open(path, flags, Mode::empty())?;
            close_zonepath(path, folder, undo)
        }
        Err(error) => Err(error.into()),
    }
}

/// Closes a folder of root's to all others, if it is the zone's to close: `/usr` must
/// not be, whoever wrote it into a configuration. Returns the former mode if it was another one.
fn close_zonepath(
    path: &Path,
    folder: OwnedFd,
    undo: &mut UndoStack,
) -> Result<Option<u32>, AnyError> {
    let stat = rustix::fs::fstat(&folder)?;
    let before = Mode::from_raw_mode(stat.st_mode);
    if stat.st_uid != 0 {
        return Err(format!("{} is not root's", path.display()).into());
    }
    if before == Mode::RWXU {
        return Ok(None);
    }
    if !is_zonepath(path)? {
        return Err(format!(
            "{0} has other files in it and would be closed to all but root; if it is meant for the zone: chmod 700 {0}",
            path.display()
        )
        .into());
    }
    rustix::fs::fchmod(&folder, Mode::RWXU)?;
    undo.push(format!("close {}", path.display()), move || {
        rustix::fs::fchmod(&folder, before).map_err(|errno| errno.to_string())
    });
    Ok(Some(before.as_raw_mode()))
}

/// Returns true if a folder holds only files of a zonepath.
fn is_zonepath(path: &Path) -> std::io::Result<bool> {
    if path.parent().is_some() && path.join(storage::ROOT).symlink_metadata().is_ok() {
        return Ok(true);
    }
    // A file system of its own has something to begin with.
    let ours = ["lost+found", ".zfs", ".layers"];
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !MARKS.iter().chain(&ours).any(|ours| name == *ours) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Refuses a root that exists already: it is not ours, and an undo must not delete it.
fn refuse_root(zonepath: &Path) -> Result<(), AnyError> {
    // A dangling link is the leftover of a clone that was killed early.
    match zonepath.join(storage::ROOT).metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => Err(format!("{} has a root already", zonepath.display()).into()),
    }
}

fn undo_dataset(path: &Path, undo: &mut UndoStack) {
    let made = path.to_owned();
    undo.push(format!("make a root at {}", path.display()), move || {
        driver_at(&made)
            .and_then(|driver| driver.destroy(&made))
            .map_err(|error| flatten(&error))
    });
}

/// Marks the zonepath as that of an unfinished clone, until the clone is stored: after a crash the
/// next clone may remove its files.
fn mark_unfinished(path: &Path, undo: &mut UndoStack) -> Result<(), AnyError> {
    let mark = path.join(UNFINISHED);
    // It becomes the file of the zone's identity, which is for root alone.
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&mark)?;
    undo.push(format!("make {}", mark.display()), move || {
        fs::remove_file(&mark).map_err(|error| error.to_string())
    });
    Ok(())
}

/// Removes the zonepath if it is empty; anything of the user's stays and is named.
fn remove_zonepath(path: &Path, progress: &mut dyn FnMut(&str)) {
    let found = fs::read_dir(path).into_iter().flatten().flatten();
    let found: Vec<_> = found.map(|entry| entry.path()).collect();
    // In this order: the mark of a migration says until the end that the zone is elsewhere.
    for ours in MARKS.map(|mark| path.join(mark)) {
        // A command left it that was killed while it wrote.
        if found
            .iter()
            .any(|file| store::atomic::target_of(file).as_ref() == Some(&ours))
        {
            store::atomic::remove_aside(&ours);
        }
        // A clone that was stored and could not take its mark away any more leaves it.
        if found.contains(&ours) {
            let _ = fs::remove_file(&ours);
        }
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            progress(&format!(
                "WARNING: unable to completely remove {} because it contains additional user data.",
                path.display()
            ));
        }
        // Not there, or a mount point of the user's: nothing of ours is left in it.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn install_changes_the_mode_of_the_zonepath_only() {
        if !rustix::process::getuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let folder = |name: &str, file: &str| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join(file), "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let system = folder("usr", "bin");
        let mut undo = UndoStack::default();
        let refused = make_zonepath(&system, &mut undo).unwrap_err().to_string();
        assert!(refused.contains("has other files"), "{refused}");
        assert_eq!(mode(&system), 0o755);
        // A folder that an administrator closed is meant as a zonepath.
        fs::set_permissions(&system, fs::Permissions::from_mode(0o700)).unwrap();
        make_zonepath(&system, &mut undo).unwrap();
        for file in [UNFINISHED, "lost+found", storage::ROOT] {
            let zonepath = folder(&format!("with-{file}"), file);
            let mut undo = UndoStack::default();
            make_zonepath(&zonepath, &mut undo).unwrap();
            assert_eq!(mode(&zonepath), 0o700, "{file}");
            assert!(undo.run().is_empty());
            assert_eq!(mode(&zonepath), 0o755, "{file}");
        }
    }

    #[test]
    fn a_zonepath_goes_with_all_marks_and_with_what_killed_writers_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web");
        let make = |names: &[&str]| {
            fs::create_dir(&path).unwrap();
            for name in names {
                fs::write(path.join(name), "").unwrap();
            }
        };
        make(&MARKS);
        fs::write(path.join("..identity.new"), "").unwrap();
        let mut told = Vec::new();
        remove_zonepath(&path, &mut |line| told.push(line.to_owned()));
        assert!(!path.exists() && told.is_empty(), "{told:?}");
        make(&[UNFINISHED, "notes", ".notes.new"]);
        remove_zonepath(&path, &mut |line| told.push(line.to_owned()));
        assert!(!path.join(UNFINISHED).exists() && told.len() == 1);
        assert!(path.join("notes").exists() && path.join(".notes.new").exists());
    }
}
