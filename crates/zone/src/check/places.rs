//! Finds leftovers beside zonepaths: layers, copies, mounts, and temporary files of interrupted
//! writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use model::{State, ZoneName};
use serde_json::Value;
use storage::{Garbage, Lost};
use store::atomic;
use store::index::Index;
use store::lock::{self, Wait};

use crate::check::finding::{Finding, Kind, Life, Look};
use crate::{environments, images, job, layer_folders, root_view};
use host::{Error, Host, flatten};
use subject::away;

/// Maximum size in bytes of a journal that is read.
const MAX_JOURNAL: u64 = 1 << 20;

/// Returns the folders that contain layers of zones or of images.
fn all_layers(host: &Host) -> BTreeSet<PathBuf> {
    let mut all = layer_folders::of_zones(host);
    all.insert(images::layers(host));
    all
}

impl Look<'_> {
    /// Finds the leftovers of snapshots, clones and similar commands beside zonepaths.
    pub(super) fn layers(&mut self) -> Result<(), Error> {
        for folder in all_layers(self.host) {
            // While a command works in the folder, `survey` cannot tell which layers are leftovers.
            for garbage in storage::survey(&folder)?.unwrap_or_default() {
                let (kind, path, kept) = match &garbage {
                    Garbage::Layer(path) => (Kind::Layer, path, None),
                    Garbage::Reference(path) => (Kind::Reference, path, None),
                    Garbage::Dead(path) => (Kind::Dead, path, None),
                    Garbage::Unfinished(path) => (Kind::Unfinished, path, None),
                    Garbage::Lost { reference, place } => {
                        let place = self.host.root.shown(place);
                        let why = format!("{} is not there", place.display());
                        (Kind::Lost, reference, Some(why))
                    }
                };
                self.note(kind, None, path, kept);
            }
        }
        Ok(())
    }

    /// Finds images whose fetch or import was interrupted.
    pub(super) fn images(&mut self) -> Result<(), Error> {
        let Some(images) = images::open_existing(self.host)? else {
            return Ok(());
        };
        for path in images.cut_off()? {
            self.note(Kind::Image, None, &path, None);
        }
        Ok(())
    }

    /// Finds the journals of interrupted patches.
    pub(super) fn patches(&mut self) -> Result<(), Error> {
        if is_patching(self.host)? {
            return Ok(());
        }
        for path in journals(self.host) {
            let zone = journal(&path).and_then(|one| one["zone"].as_str().map(str::to_owned));
            self.note(Kind::Patch, zone.as_deref(), &path, None);
        }
        Ok(())
    }

    /// Finds copies of roots that no command works in.
    pub(super) fn copies(&mut self) -> Result<(), Error> {
        let patching = is_patching(self.host)?;
        let mut places = BTreeSet::new();
        for entry in self.index.entries() {
            let zonepath = self.host.root.path(&entry.zonepath);
            if self.life(&entry.name)? != Life::InUse {
                for path in environments::unmarked(&zonepath) {
                    self.note(Kind::Copy, Some(entry.name.as_str()), &path, None);
                }
            }
            places.extend(zonepath.parent().map(Path::to_owned));
            places.insert(zonepath);
        }
        let entries: Vec<_> = places
            .iter()
            .flat_map(fs::read_dir)
            .flatten()
            .flatten()
            .collect();
        // Read after the folders: a patch writes its journal before it makes its copy.
        let copies = copies_of_patches(self.host);
        for entry in entries {
            let path = entry.path();
            if let Some(zonepath) = away::was_zonepath(&path) {
                self.gone(&path, &zonepath)?;
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let zone = name.strip_prefix(".attach-").map(str::parse::<ZoneName>);
            if let Some(Ok(zone)) = zone {
                if self.life(&zone)? != Life::InUse {
                    self.note(Kind::Copy, Some(zone.as_str()), &path, None);
                }
            } else if name.starts_with(".patch-") && !patching && !copies.contains(&path) {
                self.note(Kind::Copy, None, &path, None);
            }
        }
        Ok(())
    }

    /// Records the rest of a zonepath whose zone has migrated to another host, unless a command
    /// works on this zone.
    fn gone(&mut self, path: &Path, zonepath: &Path) -> Result<(), Error> {
        let root = &self.host.root;
        let mut entries = self.index.entries().iter();
        let of = entries.find(|entry| root.path(&entry.zonepath) == zonepath);
        if let Some(entry) = of
            && self.life(&entry.name)? == Life::InUse
        {
            return Ok(());
        }
        let zone = of.map(|entry| entry.name.to_string());
        self.note(Kind::Dead, zone.as_deref(), path, None);
        Ok(())
    }

    /// Finds temporary files that killed processes left.
    pub(super) fn asides(&mut self) -> Result<(), Error> {
        let root = &self.host.root;
        let mut folders = vec![
            root.etc(),
            root.run(),
            root.network(),
            root.lib().join("patch"),
        ];
        folders.extend(images::by_name::folders(self.host));
        let entries = self.index.entries().iter();
        folders.extend(entries.map(|entry| root.path(&entry.zonepath)));
        for folder in folders {
            for path in atomic::left_aside(&folder)? {
                self.note(Kind::Aside, None, &path, None);
            }
        }
        Ok(())
    }

    /// Finds mounted views of roots in the zonepaths of zones without a root.
    pub(super) fn mounts(&mut self) -> Result<(), Error> {
        for entry in self.index.entries() {
            let shown = self.host.root.path(&entry.zonepath).join(subject::SHOWN);
            let has_root = entry.state == State::Installed;
            if has_root || !subject::is_mount(&shown) || self.life(&entry.name)? == Life::InUse {
                continue;
            }
            self.note(Kind::Mount, Some(entry.name.as_str()), &shown, None);
        }
        Ok(())
    }
}

/// Returns true if a zonepatch process runs, whose journals and copies are in use.
fn is_patching(host: &Host) -> Result<bool, Error> {
    Ok(lock::is_held(&host.root.lib().join("patch/lock"))?)
}

fn journals(host: &Host) -> Vec<PathBuf> {
    let entries = fs::read_dir(host.root.lib().join("patch"));
    let paths = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|one| one.path());
    paths
        .filter(|path| path.extension().is_some_and(|kind| kind == "journal"))
        .collect()
}

/// Reads a journal of zonepatch as JSON. Only zonepatch itself knows all its fields.
fn journal(path: &Path) -> Option<Value> {
    let about = fs::metadata(path).ok()?;
    let text = (about.len() <= MAX_JOURNAL).then(|| fs::read(path).ok())??;
    serde_json::from_slice(&text).ok()
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Removes a copy, unless a command works in it now: the search may have taken minutes, and a command
/// may have replaced the leftover copy by its own.
fn remove_copy(host: &Host, one: &Finding, path: &Path) -> Result<(), AnyError> {
    let Some(zone) = &one.zone else {
        let Some(_held) = lock::try_exclusive(&host.root.lib().join("patch/lock"))? else {
            return Ok(());
        };
        if !copies_of_patches(host).contains(path) {
            job::remove_copy(path)?;
        }
        return Ok(());
    };
    let zone: ZoneName = zone.parse()?;
    let held = match lock::zone(&host.root, &zone, Wait::No) {
        Err(store::Error::Locked(_)) => return Ok(()),
        other => other?,
    };
    let index = Index::load(&host.root)?;
    let Some(entry) = index.find(&zone) else {
        let removed = job::remove_copy(path);
        lock::forget(&host.root, &zone, &held)?;
        return Ok(removed?);
    };
    let is_environment = environments::unmarked(&host.root.path(&entry.zonepath));
    let is_attached = path
        .file_name()
        .is_some_and(|name| *name == *format!(".attach-{zone}"));
    if is_attached || is_environment.iter().any(|one| one == path) {
        job::remove_copy(path)?;
    }
    Ok(())
}

/// Returns the paths of the copies that the journals of interrupted patches name.
fn copies_of_patches(host: &Host) -> BTreeSet<PathBuf> {
    let journals = journals(host);
    let copies = journals
        .iter()
        .filter_map(|path| Some(journal(path)?["copy"].as_str()?.into()));
    copies.collect()
}

/// Removes the findings beside zonepaths.
pub(super) fn repair(host: &Host, found: &[Finding], failed: &mut Vec<String>) {
    let mut tell = |path: &Path, done: Result<(), AnyError>| {
        let why = done.err().map(|error| flatten(error.as_ref()));
        failed.extend(why.map(|why| format!("{}: {why}", path.display())));
    };
    for one in found.iter().filter(|one| one.kept.is_none()) {
        let path = host.root.path(&one.path);
        match one.kind {
            Kind::Mount => tell(&one.path, root_view::hide(&path).map_err(Into::into)),
            Kind::Copy => tell(&one.path, remove_copy(host, one, &path)),
            Kind::Dead => {
                if let Some(zonepath) = away::was_zonepath(&path) {
                    let cleared = away::clear_gone(&zonepath).map(drop);
                    tell(&one.path, cleared.map_err(Into::into));
                }
            }
            Kind::Aside => {
                if let Some(target) = atomic::target_of(&path) {
                    atomic::remove_aside(&target);
                }
            }
            _ => {}
        }
    }
    if let Some(one) = found.iter().find(|one| one.kind == Kind::Image) {
        let clear = || -> Result<(), AnyError> {
            match images::open_existing(host)? {
                Some(images) => Ok(images.clear_cut_off()?),
                None => Ok(()),
            }
        };
        tell(&one.path, clear());
    }
    // Layers are removed last, because the layers of the objects removed above are unused only now.
    for folder in all_layers(host) {
        let done = storage::collect(&folder, Lost::Keep).map(drop);
        tell(&host.root.shown(&folder), done.map_err(Into::into));
    }
}
