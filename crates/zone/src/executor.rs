//! Carries out a [`ZonePlan`], with an undo for each step.

mod moves;
mod steps;
mod zonepath;

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use brand::{Brand, Place};
use model::plan::{Step, ZonePlan};
use model::{Config, State};
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
use subject::{FORCED, UNPACKING, identity};

use steps::{clone_dataset, mark_unpacking};
use zonepath::{make_zonepath, remove_zonepath};

pub use host::outcome::Outcome;
pub use host::uuid::new_uuid;

/// A function that stores the zone's entry when a step requires it.
pub(crate) type Recorder<'a> = &'a mut dyn FnMut(Entry) -> Result<(), store::Error>;

/// The data with which the steps of one zone work.
pub(crate) struct Work<'a> {
    pub host: &'a Host,
    pub config: &'a Config,
    /// The zone's entry, which the steps change.
    pub entry: Entry,
    /// Stores the entry at once, or together with the entries of other zones.
    pub record: Recorder<'a>,
    /// Receives progress messages for the user.
    pub progress: &'a mut dyn FnMut(&str),
    /// The request for the image to import; `None` if no image is imported.
    pub import: Option<crate::images::Request>,
    /// The image whose layers are below the root.
    pub image: Option<storage::Digest>,
}

impl<'a> Work<'a> {
    /// Returns the work on a zone that imports no image and has no image yet.
    pub fn new(
        host: &'a Host,
        config: &'a Config,
        entry: Entry,
        record: Recorder<'a>,
        progress: &'a mut dyn FnMut(&str),
    ) -> Self {
        Self {
            host,
            config,
            entry,
            record,
            progress,
            import: None,
            image: None,
        }
    }
}

/// Stores an entry at once. If an installed zone has no range of ids, the entry gets one.
pub fn record_now(host: &Host, entry: Entry) -> Result<(), store::Error> {
    record_all(host, vec![entry])
}

/// Stores an entry with a range of ids, also if the zone is not installed. The zone keeps this
/// range.
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
            // An attach asks for the range that the zone had on another host.
            let slot = entry.slot;
            let is_new =
                slot.is_some() && index.find(&entry.name).is_none_or(|own| own.slot != slot);
            let is_taken = is_new && index.entries().iter().any(|other| other.slot == slot);
            if is_taken {
                entry.slot = index.free_slots(1)?.into_iter().next();
            }
            if needs_ids(&entry) {
                entry.slot = slots.next();
            }
            index.put(entry);
        }
        Ok(())
    })
}

/// Carries out the plan of one zone whose entry is stored at once.
pub(crate) fn run_now(
    host: &Host,
    config: &Config,
    entry: &Entry,
    plan: &ZonePlan,
    progress: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let record = &mut |entry| record_now(host, entry);
    let mut work = Work::new(host, config, entry.clone(), record, progress);
    run(&mut work, plan, &mut host.fault.clone())
}

/// Carries out the plan. If a step fails, the steps before it are undone.
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
    // This is one more point at which a crash must do no harm: the work is complete, but the user
    // has no message yet.
    let _ = fault.strikes(verb);
    Ok(())
}

/// Returns the text of an error, and true if the command line is the cause.
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

    // This function is long because it has one match arm for each step.
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
            Step::LimitSpace { path, bytes } => {
                if let Some(why) = crate::quota::limit_new(path, *bytes) {
                    (self.progress)(&format!(
                        "The files of the zone have no limit, though default-quota is set: {why}"
                    ));
                }
                Ok(())
            }
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
            Step::ApplyProfile { path, profile } => self.apply_profile(path, profile),
            Step::LaySeed { path, seed, uuid } => {
                let seed = crate::first_boot::read_seed(seed, &self.entry.name, *uuid)?;
                let stack = driver_at(path)?.stack(path)?;
                Ok(brand::first_boot::seed::write(
                    &seed,
                    &stack.top,
                    &stack.lowers,
                )?)
            }
            Step::MakeSeedDisk { path, seed, uuid } => {
                let seed = crate::first_boot::read_seed_of_guest(seed, self.config, *uuid)?;
                Ok(kernelzone::seed::make(path, &seed)?)
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
            // If a zone must be frozen for its snapshot, the verb itself makes the snapshot.
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
            Step::ShareSnapshot { path, from, name } => {
                Ok(Dataset::open(path)?.copy_snapshot(&from.parse()?, &name.parse()?)?)
            }
            Step::Freeze | Step::BeginCopy { .. } | Step::CompleteCopy { .. } | Step::Thaw => {
                Err("only for running zones".into())
            }
            // The zones of a command are deleted together, in one write of the index.
            Step::DeleteConfiguration => Err("only for the zones of a command together".into()),
            Step::Unpack { root, options } => self.unpack(root, options),
            Step::WriteManifest { path } => self.write_manifest(path, step.to_string(), undo),
            Step::ReleaseZonepath { path } => {
                let former = identity::release(&self.host.root, &self.entry, path)?;
                undo.push(step.to_string(), move || Ok(former.restore()?));
                Ok(())
            }
            Step::RemoveManifest { path } => Ok(manifest::remove(path)?),
            Step::MarkForced { path } => Ok(fs::write(path.join(FORCED), FORCED_TEXT)?),
            Step::FollowHost { path } => Ok(update::follow(
                self.host,
                path,
                self.config,
                &mut *self.progress,
            )?),
            Step::BeginMove { to, copy } => moves::begin(self, to, *copy, undo),
            Step::RenameZonepath { from, to } => moves::rename(from, to, undo),
            Step::CopyZonepath { from, to } => moves::copy(self, from, to, undo),
            Step::StoreZonepath { to } => moves::store(self, to, undo),
            Step::EndMove { .. } => moves::end(self),
            Step::ShowRoot { path, at } => Ok(root_view::show(path, at)?),
            Step::HideRoot { at } => Ok(root_view::hide(at)?),
        }
    }
}

/// The content of the file [`FORCED`].
const FORCED_TEXT: &str = "<!-- This zone was attached without a check (attach -F). -->\n";

/// Refuses a root that exists already: this command did not make it, and an undo must not delete
/// it.
fn refuse_root(zonepath: &Path) -> Result<(), AnyError> {
    // A dangling link is accepted, because a clone that was killed early leaves it.
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
            .map_err(Into::into)
    });
}
