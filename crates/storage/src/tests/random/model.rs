//! A model of the expected state of the zones, beside the real zones on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::super::{Zones, name};
use super::{FILES, SNAPSHOTS};
use crate::collect::tidy;
use crate::crash;
use crate::dataset::Dataset;
use crate::error::Error;
use crate::stack::Stack;

/// An operation of a verb, with the names of the zone, the snapshot and the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Create(&'static str),
    Clone(&'static str, &'static str),
    CloneSnapshot(&'static str, &'static str, &'static str),
    Write(&'static str, &'static str),
    Seal(&'static str),
    Snapshot(&'static str, &'static str),
    SnapshotRunning(&'static str, &'static str),
    DestroySnapshot(&'static str, &'static str),
    Rollback(&'static str, &'static str),
    Shorten(&'static str),
    ShortenBeside(&'static str),
    /// A patch: makes a snapshot, changes a copy of the zone, and lets the zone take over the copy.
    Patch(&'static str, &'static str),
    /// A patch that another zone has already: its layer is inserted below the layers of a copy of
    /// the zone.
    Share(&'static str, &'static str),
    Destroy(&'static str),
    /// The zone starts to run, and a folder of the host is mounted below its root.
    Boot(&'static str),
    Halt(&'static str),
}

/// The names of files and their texts.
type Content = BTreeMap<&'static str, String>;

/// A zone: its content, and the content of its snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Zone {
    content: Content,
    snapshots: BTreeMap<String, Content>,
}

/// The name of the snapshot that a patch makes first.
const BEFORE: &str = "before";

/// The dataset from which zones take the layer of a patch.
const SHARED: &str = ".patch-shared";

/// Folder below a zone's root at which a folder of the host is mounted.
const MOUNTED: &str = "root/usr";

/// The name of the host's file in the mounted folder.
const OF_HOST: &str = "of-the-host";

pub(super) struct Model {
    disk: Zones,
    names: &'static [&'static str],
    known: BTreeMap<&'static str, Zone>,
    /// The zones that run.
    runs: BTreeSet<&'static str>,
    /// The number of writes, which makes each text different.
    written: u32,
}

impl Model {
    pub(super) fn new(names: &'static [&'static str]) -> Self {
        Self {
            disk: Zones::quick(),
            names,
            known: BTreeMap::new(),
            runs: BTreeSet::new(),
            written: 0,
        }
    }

    fn open(&self, zone: &str) -> Result<Dataset, String> {
        Dataset::open(&self.disk.zone(zone)).map_err(text)
    }

    fn copy_of(zone: &str) -> String {
        format!(".patch-{zone}")
    }

    fn points(&self) -> Vec<PathBuf> {
        let points = self.runs.iter();
        points
            .map(|zone| self.disk.zone(zone).join(MOUNTED))
            .collect()
    }

    /// Returns true if the verbs would permit the operation.
    fn is_legal(&self, act: &Act) -> bool {
        let has = |zone: &str| self.known.contains_key(zone);
        let has_snapshot = |zone: &str, name: &str| {
            let zone = self.known.get(zone);
            zone.is_some_and(|zone| zone.snapshots.contains_key(name))
        };
        let is_halted = |zone: &str| has(zone) && !self.runs.contains(zone);
        match *act {
            Act::Create(zone) => !has(zone),
            Act::Clone(from, to) => is_halted(from) && !has(to),
            Act::CloneSnapshot(from, name, to) => has_snapshot(from, name) && !has(to),
            Act::Write(zone, _) | Act::Destroy(zone) => has(zone),
            Act::Seal(zone) | Act::Shorten(zone) | Act::Boot(zone) => is_halted(zone),
            Act::Patch(zone, _) => is_halted(zone),
            Act::Snapshot(zone, name) => is_halted(zone) && !has_snapshot(zone, name),
            Act::SnapshotRunning(zone, name) => {
                self.runs.contains(zone) && !has_snapshot(zone, name)
            }
            Act::DestroySnapshot(zone, name) => has_snapshot(zone, name),
            Act::Rollback(zone, name) => is_halted(zone) && has_snapshot(zone, name),

            Act::Share(zone, patch) => is_halted(zone) && has(patch) && zone != patch,
            Act::ShortenBeside(zone) | Act::Halt(zone) => self.runs.contains(zone),
        }
    }

    /// Carries an operation out, up to the effect before which it is killed, then looks at all
    /// zones as the next command does. Returns true if the operation ended by itself. Fails with
    /// the first invariant that does not hold.
    pub(super) fn carry_out(&mut self, act: &Act, killed_at: Option<u32>) -> Result<bool, String> {
        if !self.is_legal(act) {
            return Ok(true);
        }
        let before = self.known.clone();
        self.written += 1;
        let points = self.points();
        let done = sys::mountinfo::fake::mounted(&points, || {
            match crash::run(killed_at.unwrap_or(u32::MAX), || self.act(act)) {
                Ok(done) => done.map(|()| true),
                Err(_) => Ok(false),
            }
        });
        let is_through = done.map_err(|why| format!("failed: {why}"))?;
        match *act {
            Act::Boot(zone) if is_through => drop(self.runs.insert(zone)),
            Act::Halt(zone) => drop(self.runs.remove(zone)),
            _ => {}
        }
        let points = self.points();
        sys::mountinfo::fake::mounted(&points, || {
            self.recover()?;
            self.compare(&before, is_through)?;
            self.nothing_is_left()
        })?;
        Ok(is_through)
    }

    /// Removes all zones, and checks that no file of them is left.
    pub(super) fn end(mut self) -> Result<(), String> {
        for zone in std::mem::take(&mut self.runs) {
            self.unmount(zone)?;
        }
        for zone in self.names {
            Dataset::destroy(&self.disk.zone(zone)).map_err(text)?;
        }
        let zonepaths: Vec<PathBuf> = self.names.iter().map(|zone| self.disk.zone(zone)).collect();
        let mut left = self.disk.files();
        left.retain(|path| !zonepaths.contains(path));
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("left after all zones have gone: {left:?}")),
        }
    }

    /// Applies the operation to the model and to the zones.
    fn act(&mut self, act: &Act) -> Result<(), String> {
        match *act {
            Act::Create(zone) => {
                self.known.insert(zone, Zone::default());
                Dataset::create(&self.disk.zone(zone))
                    .map(drop)
                    .map_err(text)
            }
            Act::Clone(from, to) => {
                let content = self.known[from].content.clone();
                self.make(to, content);
                let to = self.disk.zone(to);
                self.open(from)?.clone_to(&to).map(drop).map_err(text)
            }
            Act::CloneSnapshot(from, snapshot, to) => {
                let content = self.known[from].snapshots[snapshot].clone();
                self.make(to, content);
                let (snapshot, to) = (name(snapshot), self.disk.zone(to));
                let made = self.open(from)?.clone_snapshot_to(&snapshot, &to);
                made.map(drop).map_err(text)
            }
            Act::Write(zone, file) => self.write(zone, zone, file),
            Act::Seal(zone) => self.open(zone)?.seal().map(drop).map_err(text),
            Act::Snapshot(zone, snapshot) => {
                self.keep(zone, snapshot);
                self.open(zone)?.snapshot(&name(snapshot)).map_err(text)
            }
            Act::SnapshotRunning(zone, snapshot) => {
                self.keep(zone, snapshot);
                let dataset = self.open(zone)?;
                let copy = dataset.copy_top().map_err(text)?;
                let made = dataset.snapshot_of_copy(&name(snapshot), copy);
                made.map_err(text)
            }
            Act::DestroySnapshot(zone, snapshot) => {
                self.zone(zone).snapshots.remove(snapshot);
                let dataset = self.open(zone)?;
                dataset.destroy_snapshot(&name(snapshot)).map_err(text)
            }
            Act::Rollback(zone, snapshot) => {
                let zone_now = self.zone(zone);
                zone_now.content = zone_now.snapshots[snapshot].clone();
                self.open(zone)?.rollback(&name(snapshot)).map_err(text)
            }
            Act::Shorten(zone) => self.open(zone)?.shorten(1).map(drop).map_err(text),
            Act::ShortenBeside(zone) => {
                let dataset = self.open(zone)?;
                dataset.shorten_beside(1).map(drop).map_err(text)
            }
            Act::Patch(zone, file) => self.patch(zone, file),
            Act::Share(zone, patch) => self.share(zone, patch),
            Act::Destroy(zone) => self.destroy(zone),
            Act::Boot(zone) => {
                self.open(zone)?.let_go().map_err(text)?;
                let at = self.disk.zone(zone).join(MOUNTED);
                fs::create_dir_all(&at).map_err(text)?;
                fs::write(at.join(OF_HOST), "the host's").map_err(text)
            }
            Act::Halt(zone) => self.unmount(zone),
        }
    }

    fn zone(&mut self, zone: &'static str) -> &mut Zone {
        self.known.entry(zone).or_default()
    }

    fn make(&mut self, zone: &'static str, content: Content) {
        self.zone(zone).content = content;
    }

    fn keep(&mut self, zone: &'static str, snapshot: &str) {
        let zone = self.zone(zone);
        let content = zone.content.clone();
        zone.snapshots.insert(snapshot.to_owned(), content);
    }

    /// Writes a new text into a dataset, as a program of `zone` does.
    fn write(&mut self, zone: &'static str, at: &str, file: &'static str) -> Result<(), String> {
        let new = format!("{}", self.written);
        let top = self.open(at)?.stack().map_err(text)?.top;
        self.zone(zone).content.insert(file, new.clone());
        fs::write(top.join(file), new).map_err(text)
    }

    /// Runs the steps of a transaction of zonepatch, except for its journal.
    fn patch(&mut self, zone: &'static str, file: &'static str) -> Result<(), String> {
        let copy = Self::copy_of(zone);
        let dataset = self.open(zone)?;
        dataset.snapshot(&name(BEFORE)).map_err(text)?;
        let copied = dataset
            .clone_snapshot_to(&name(BEFORE), &self.disk.zone(&copy))
            .map_err(text)?;
        self.write(zone, &copy, file)?;
        copied.seal_tree().map_err(text)?;
        dataset.take_over(&copied).map_err(text)
        // A completed transaction ends with the same steps as a killed transaction: those of
        // recover().
    }

    /// Runs the steps with which zonepatch gives a zone the layer of a patch that another zone has.
    fn share(&mut self, zone: &'static str, from: &'static str) -> Result<(), String> {
        let (dataset, patched) = (self.open(zone)?, self.open(from)?);
        let theirs = patched.stack().map_err(text)?.lowers;
        dataset.snapshot(&name(BEFORE)).map_err(text)?;
        let lowers = dataset.stack().map_err(text)?.lowers;
        let is_base = |tree: &&PathBuf| lowers.contains(*tree);
        let (Some(tree), Some(base)) = (theirs.first(), theirs.iter().skip(1).find(is_base)) else {
            return Ok(());
        };
        let shared = patched.extract(base, &self.disk.zone(SHARED), &|_| false);
        let shared = shared.map_err(text)?;
        let copied = dataset
            .clone_snapshot_to(&name(BEFORE), &self.disk.zone(&Self::copy_of(zone)))
            .map_err(text)?;
        let at = lowers.iter().position(|lower| lower == base);
        let (own, rest) = lowers.split_at(at.unwrap_or_default());
        let layers: Vec<PathBuf> = own.iter().chain([tree]).chain(rest).cloned().collect();
        self.zone(zone).content = content_of(&layers);
        copied.put_below(&shared, base).map_err(text)?;
        dataset.take_over(&copied).map_err(text)
    }

    fn destroy(&mut self, zone: &'static str) -> Result<(), String> {
        let is_mounted = self.runs.contains(zone);
        if !is_mounted {
            self.known.remove(zone);
        }
        match (Dataset::destroy(&self.disk.zone(zone)), is_mounted) {
            (Err(Error::Busy { .. }), true) => Ok(()),
            (done, true) => Err(format!("destroyed below a mount: {done:?}")),
            (done, false) => done.map_err(text),
        }
    }

    fn unmount(&self, zone: &str) -> Result<(), String> {
        fs::remove_dir_all(self.disk.zone(zone).join(MOUNTED)).map_err(text)
    }

    /// Acts as the next command for each zone: completes or undoes interrupted operations.
    fn recover(&self) -> Result<(), String> {
        for zone in self.names {
            let path = self.disk.zone(zone);
            let opened = match Dataset::open(&path) {
                Ok(dataset) => Some(dataset),
                // The zone is incomplete, so it is uninstalled.
                Err(Error::NoDataset(_) | Error::LayerMissing { .. }) => None,
                Err(error) => return Err(format!("open zone {zone}: {error}")),
            };
            // As at the end of a transaction of zonepatch, the copy is removed when the zone is
            // complete.
            for copy in [&Self::copy_of(zone), SHARED] {
                let copy = self.disk.zone(copy);
                Dataset::destroy(&copy).map_err(text)?;
                let _ = fs::remove_dir(copy);
            }
            match opened {
                Some(dataset) => {
                    let all = dataset.snapshots().map_err(text)?;
                    if all.iter().any(|one| one.name.as_str() == BEFORE) {
                        dataset.destroy_snapshot(&name(BEFORE)).map_err(text)?;
                    }
                }
                None => Dataset::destroy(&path).map_err(text)?,
            }
            tidy(&path).map_err(text)?;
        }
        Ok(())
    }

    /// Checks that every zone is in its old or its new state, and records the found state in the
    /// model.
    fn compare(&mut self, before: &BTreeMap<&'static str, Zone>, done: bool) -> Result<(), String> {
        for &zone in self.names {
            let found = match Dataset::open(&self.disk.zone(zone)) {
                Ok(dataset) => Some(zone_of(&dataset)?),
                Err(Error::NoDataset(_)) => None,
                Err(error) => return Err(text(error)),
            };
            let (old, new) = (before.get(zone), self.known.get(zone));
            let is_right = found.as_ref() == new || !done && found.as_ref() == old;
            if !is_right {
                return Err(format!(
                    "zone {zone} was {old:?}, should be {new:?}, is {found:?}"
                ));
            }
            match found {
                Some(found) => drop(self.known.insert(zone, found)),
                None => drop(self.known.remove(zone)),
            }
        }
        for zone in &self.runs {
            if !self.disk.zone(zone).join(MOUNTED).join(OF_HOST).exists() {
                return Err(format!("deleted through the mount below zone {zone}"));
            }
        }
        Ok(())
    }

    /// Checks that each layer belongs to the chain of a zone, and that each reference has its user.
    fn nothing_is_left(&self) -> Result<(), String> {
        let (mut reached, mut users) = (BTreeSet::new(), 0);
        for zone in self.known.keys() {
            let zone = self.open(zone)?;
            let all = zone.others().map_err(text)?;
            for dataset in all.iter().chain([&zone]) {
                let Some(bond) = dataset.bond().map_err(text)? else {
                    continue;
                };
                // A layer that was kept for a running zone may lack its reference until the zone
                // boots.
                let is_kept = dataset.zonepath().ends_with("mounted");
                if is_kept && !dataset.holds_ref(&bond).map_err(text)? {
                    continue;
                }
                users += 1;
                for layer in bond.layer.chain().map_err(text)? {
                    reached.insert(layer.path());
                }
            }
        }
        let mut found = entries(&self.disk.layers());
        let dead = entries(&self.disk.layers().join(".dead"));
        found.retain(|path| !path.ends_with(".dead"));
        let orphans: Vec<_> = found.difference(&reached).collect();
        if !orphans.is_empty() || !dead.is_empty() {
            return Err(format!(
                "layers of nobody: {orphans:?}, dead trees: {dead:?}"
            ));
        }
        let references = reached
            .iter()
            .map(|layer| entries(&layer.join("refs")).len());
        let is_above = |layer: &&PathBuf| fs::read_link(layer.join("parent")).is_ok();
        let needed = users + reached.iter().filter(is_above).count();
        match references.sum::<usize>() {
            found if found == needed => Ok(()),
            found => Err(format!("{found} references where {needed} are needed")),
        }
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn entries(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns the files in a list of layers, the topmost layer first.
fn content_of(layers: &[PathBuf]) -> Content {
    let text = |file: &&'static str| {
        let mut layers = layers.iter();
        let found = layers.find_map(|layer| fs::read_to_string(layer.join(file)).ok());
        Some((*file, found?))
    };
    FILES.iter().filter_map(text).collect()
}

fn zone_of(dataset: &Dataset) -> Result<Zone, String> {
    let layers =
        |stack: Stack| -> Vec<PathBuf> { [stack.top].into_iter().chain(stack.lowers).collect() };
    let mut zone = Zone {
        content: content_of(&layers(dataset.stack().map_err(text)?)),
        ..Zone::default()
    };
    for one in dataset.snapshots().map_err(text)? {
        let layers = layers(dataset.snapshot_stack(&one.name).map_err(text)?);
        zone.snapshots
            .insert(one.name.to_string(), content_of(&layers));
    }
    debug_assert!(zone.snapshots.len() <= SNAPSHOTS.len() + 1);
    Ok(zone)
}
