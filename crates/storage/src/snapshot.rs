//! Named snapshots: layers to which a dataset can return.
//!
//! ```text
//! <zonepath>/
//!   snapshots/<name>/dataset   link to the reference that the snapshot holds on its
//!                              layer, as a dataset's own
//!   snapshots/<name>/created   link whose text is the time in seconds since 1970,
//!                              with nine digits behind the point
//!   snapshots/.half/           one that is being made or removed: does not count
//!   back                       link to the reference on the layer that is gone back to
//! ```
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | snapshot | seal the top | as for a seal |
//! | | make `.half`, with its reference on the layer | `.half`, removed when opened |
//! | | **rename `.half` to `snapshots/<name>`** | - |
//! | of a running zone | see `running.rs` | |
//! | destroy | **rename `snapshots/<name>` to `.half`** | `.half`, removed when opened |
//! | | drop its reference, remove `.half` | the same |
//! | rollback | make `root.new` like the layer's root | `root.new`, removed when opened |
//! | | **link `back` to the layer** | opening goes on with the rest |
//! | | add the reference, rename `root` to `.dead` | the same |
//! | | drop the reference on the former layer | the same |
//! | | point `dataset` at the layer, rename `root.new` to `root` | the same |
//! | | remove `back` | - |

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::attributes::Attributes;
use crate::dataset::{Bond, Dataset};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::id::Id;
use crate::layers::{LayerPath, Layers, dataset_ref};
use crate::layout::{BACK, DEAD, HALF, HALF_PATH, LINK, SNAPSHOTS};
use crate::name::Name;
use crate::size::{Found, Neighbours};
use crate::{crash, project, remove};

/// The name of the link whose text is the creation time of a snapshot.
const CREATED: &str = "created";

/// A snapshot of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The name of the snapshot.
    pub name: Name,
    /// The time at which the snapshot was made.
    pub created: SystemTime,
    /// The number of layers of the snapshot.
    pub depth: usize,
}

/// The disk space that is allocated for a snapshot, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotUsage {
    /// Bytes that the removal of this snapshot frees: those in layers that only this snapshot needs,
    /// without files and blocks that these layers share with others.
    pub own_bytes: u64,
    /// Bytes in all layers of the snapshot.
    pub all_bytes: u64,
}

impl Dataset {
    /// Makes a snapshot of a halted zone's dataset: seals the top and keeps the layer.
    ///
    /// No file is copied. Each file of the top is looked at once, for the size of the snapshot. If
    /// the chain of layers then has more than [`crate::MERGE_DEPTH`] layers, layers are merged.
    pub fn snapshot(&self, name: &Name) -> Result<()> {
        self.snapshot_made(name, SystemTime::now())
    }

    /// Runs [`Dataset::snapshot`] with `created` as the creation time.
    pub fn snapshot_made(&self, name: &Name, created: SystemTime) -> Result<()> {
        let _lock = self.lock()?;
        self.refuse_snapshot(name)?;
        let layer = self.seal_short()?.layer;
        let id = Id::random()?;
        self.make_half_at(&layer, id, created)?;
        Folder::open(&layer.refs())?.link(dataset_ref(id), self.snapshot_place(&layer, name))?;
        crash::point();
        self.keep(name)?;
        crash::point();
        self.note_sizes();
        Ok(())
    }

    /// Returns the snapshots of the dataset, the oldest first.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        let all = self.snapshots_on_layers()?.into_iter();
        Ok(all.map(|(snapshot, _)| snapshot).collect())
    }

    /// Returns the snapshots of the dataset with their topmost layers, the oldest first.
    pub(crate) fn snapshots_on_layers(&self) -> Result<Vec<(Snapshot, LayerPath)>> {
        let mut all = Vec::new();
        for folder in self.snapshot_folders()? {
            let name = folder.zonepath().file_name().and_then(Name::parse);
            let (Some(name), Some(bond)) = (name, folder.bond()?) else {
                continue;
            };
            let snapshot = Snapshot {
                name,
                created: folder.created()?,
                depth: bond.layer.chain()?.len(),
            };
            all.push((snapshot, bond.layer));
        }
        all.sort_by(|(a, _), (b, _)| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(all)
    }

    /// Returns the space of a snapshot. Reads the files of those layers only whose sizes are not
    /// stored yet.
    pub fn snapshot_usage(&self, name: &Name) -> Result<SnapshotUsage> {
        let known = self.snapshots_on_layers()?;
        let at = known.iter().position(|(one, _)| one.name == *name);
        let at = at.ok_or_else(|| Error::NoSnapshot {
            name: name.to_string(),
        })?;
        usage_at(&known, at, Found::Return)
    }

    /// Returns the snapshots with their space, the oldest first, as [`Dataset::snapshot_usage`].
    pub fn snapshot_usages(&self) -> Result<Vec<(Snapshot, SnapshotUsage)>> {
        self.usages(Found::Return)
    }

    fn usages(&self, found: Found) -> Result<Vec<(Snapshot, SnapshotUsage)>> {
        let known = self.snapshots_on_layers()?;
        let all = (0..known.len()).map(|at| {
            let usage = usage_at(&known, at, found)?;
            Ok((known[at].0.clone(), usage))
        });
        all.collect()
    }

    /// Stores the sizes of the dataset's layers and snapshots, so that lists need not find them. A
    /// failure does no harm: the next list finds the sizes.
    pub fn note_sizes(&self) {
        let chain = self
            .bond()
            .and_then(|bond| bond.map_or(Ok(Vec::new()), |b| b.layer.chain()));
        for layer in chain.unwrap_or_default() {
            let _ = layer.bytes(Found::Store);
        }
        let _ = self.usages(Found::Store);
    }

    /// Removes a snapshot, and the layers that only this snapshot needs.
    pub fn destroy_snapshot(&self, name: &Name) -> Result<()> {
        let graves = {
            let _lock = self.lock()?;
            self.find_snapshot(name)?;
            let folder = self.zonepath.open_child(SNAPSHOTS)?;
            folder.rename(name, &folder, HALF)?;
            crash::point();
            self.drop_half()?
        };
        bury_all(&graves)?;
        self.note_sizes();
        Ok(())
    }

    /// Returns the dataset to the state of a snapshot and discards all later changes of the root.
    /// Other snapshots stay, even younger ones. This is for halted zones.
    pub fn rollback(&self, name: &Name) -> Result<()> {
        remove::refuse_mounts(self.zonepath.path(), crate::layout::TOPS)?;
        let graves = {
            let _lock = self.lock()?;
            let layer = self.find_snapshot(name)?.layer;
            self.let_go_locked()?;
            self.make_next(&Attributes::of(&layer.open_tree()?)?)?;
            crash::point();
            let id = self.bond()?.map_or_else(Id::random, |bond| Ok(bond.id))?;
            let target = layer.refs().join(dataset_ref(id));
            self.zonepath.relink(BACK, target)?;
            crash::point();
            self.go_back_locked()?
        };
        bury_all(&graves)
    }

    /// Creates a dataset at `zonepath` with the same content as a snapshot.
    pub fn clone_snapshot_to(&self, name: &Name, zonepath: &Path) -> Result<Self> {
        let _lock = self.lock()?;
        let layer = self.find_snapshot(name)?.layer;
        Self::make_on(&layer, zonepath)
    }

    /// Completes a rollback that a crash interrupted. The caller holds the lock.
    pub(crate) fn go_back(&self) -> Result<()> {
        self.go_back_locked().and_then(|graves| bury_all(&graves))
    }

    pub(crate) fn go_back_locked(&self) -> Result<Vec<PathBuf>> {
        let mut graves = Vec::new();
        let form = self.form()?;
        // If no next top exists, the rollback is complete except for the removal of its link.
        if self.zonepath.is_folder(form.next())? {
            let Some(target) = self.read_bond(BACK)? else {
                return Ok(graves);
            };
            let (home, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
            let former = self.bond()?.filter(|bond| bond.layer != target.layer);
            let both = [Some(&target), former.as_ref()].into_iter().flatten();
            let folders = both.map(|bond| bond.layer.layers.clone()).collect();
            let _others = Layers::enter_each(folders)?;
            let name = dataset_ref(target.id);
            target
                .layer
                .add_ref(&name, &self.ref_place(&target.layer))?;
            crash::point();
            let former_top = self.open_top().ok();
            graves.extend(home.put_aside(&self.zonepath, OsStr::new(form.name()))?);
            former_top.iter().for_each(project::forget);
            crash::point();
            if let Some(former) = &former {
                graves.extend(former.layer.drop_ref(&name)?);
            }
            crash::point();
            self.write_bond(&target)?;
            crash::point();
            self.take_next()?;
        }
        crash::point();
        self.zonepath.unlink(BACK)?;
        Ok(graves)
    }

    /// Returns each snapshot as a dataset without a top.
    pub(crate) fn snapshot_folders(&self) -> Result<Vec<Self>> {
        if !self.zonepath.is_folder(SNAPSHOTS)? {
            return Ok(Vec::new());
        }
        let folder = self.zonepath.open_child(SNAPSHOTS)?;
        let mut all = Vec::new();
        for (name, _) in folder.entries()? {
            if Name::parse(&name).is_some() && folder.is_folder(&name)? {
                all.push(Self::at(folder.open_child(&name)?));
            }
        }
        Ok(all)
    }

    /// Removes the leftovers of a snapshot whose creation or removal was interrupted.
    pub(crate) fn clear_half_snapshot(&self) -> Result<()> {
        self.drop_half().and_then(|graves| bury_all(&graves))
    }

    /// Removes all snapshots, as part of the removal of the dataset.
    pub(crate) fn drop_snapshots(&self, home: &Layers) -> Result<Vec<PathBuf>> {
        let mut graves = self.drop_half()?;
        for snapshot in self.snapshot_folders()? {
            let from = self.zonepath.open_child(SNAPSHOTS)?;
            let name = snapshot
                .zonepath()
                .file_name()
                .unwrap_or_default()
                .to_owned();
            from.rename(name, &from, HALF)?;
            crash::point();
            graves.extend(self.drop_half()?);
        }
        graves.extend(home.put_aside(&self.zonepath, OsStr::new(SNAPSHOTS))?);
        Ok(graves)
    }

    pub(crate) fn drop_half(&self) -> Result<Vec<PathBuf>> {
        if !self.zonepath.is_folder(HALF_PATH)? {
            return Ok(Vec::new());
        }
        let folder = self.zonepath.open_child(SNAPSHOTS)?;
        let half = Self::at(folder.open_child(HALF)?);
        let mut graves = Vec::new();
        if let Some(bond) = half.bond()? {
            if bond.layer.path().exists() {
                graves = bond.layer.drop_ref(&dataset_ref(bond.id))?;
            }
            crash::point();
        }
        for name in [LINK, "dataset.new", CREATED] {
            half.zonepath.unlink(name)?;
        }
        crash::point();
        match folder.rmdir(HALF) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(folder.fail("rmdir", HALF, e)),
        }
        // This succeeds only after the removal of the last snapshot, when the folder of snapshots
        // is empty.
        let _ = self.zonepath.rmdir(SNAPSHOTS);
        Ok(graves)
    }

    pub(crate) fn refuse_snapshot(&self, name: &Name) -> Result<()> {
        match self.find_snapshot(name) {
            Err(Error::NoSnapshot { .. }) => Ok(()),
            Err(e) => Err(e),
            Ok(_) => Err(Error::SnapshotExists {
                name: name.to_string(),
            }),
        }
    }

    pub(crate) fn find_snapshot(&self, name: &Name) -> Result<Bond> {
        let missing = || Error::NoSnapshot {
            name: name.to_string(),
        };
        let inner = || self.zonepath.open_child(SNAPSHOTS)?.open_child(name);
        match inner() {
            Ok(folder) => Self::at(folder).bond()?.ok_or_else(missing),
            Err(e) if e.is_missing() => Err(missing()),
            Err(e) => Err(e),
        }
    }

    /// Makes a snapshot with this creation time, which is not valid before [`Dataset::keep`].
    pub(crate) fn make_half_at(
        &self,
        layer: &LayerPath,
        id: Id,
        created: SystemTime,
    ) -> Result<()> {
        self.clear_half_snapshot()?;
        self.zonepath.make(SNAPSHOTS)?;
        let folder = self.zonepath.open_child(SNAPSHOTS)?;
        folder.make(HALF)?;
        crash::point();
        let half = Self::at(folder.open_child(HALF)?);
        let now = created
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        // The time has nanoseconds, so that snapshots are listed in the order in which they were
        // made.
        let text = format!("{}.{:09}", now.as_secs(), now.subsec_nanos());
        half.zonepath.link(CREATED, text)?;
        half.write_bond(&Bond {
            layer: layer.clone(),
            id,
        })?;
        crash::point();
        Ok(())
    }

    /// Completes a snapshot: its name makes it valid.
    pub(crate) fn keep(&self, name: &Name) -> Result<()> {
        let folder = self.zonepath.open_child(SNAPSHOTS)?;
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&folder, HALF, &folder, name.as_str(), flags)
            .map_err(|e| folder.fail("rename", name, e))
    }

    /// Returns the path from a layer's references to a snapshot of this dataset.
    pub(crate) fn snapshot_place(&self, layer: &LayerPath, name: &Name) -> PathBuf {
        self.ref_place(layer).join(SNAPSHOTS).join(name.as_str())
    }

    pub(crate) fn snapshot_created(&self, name: &Name) -> Result<SystemTime> {
        self.find_snapshot(name)?;
        let folder = self.zonepath.open_child(SNAPSHOTS)?.open_child(name)?;
        Self::at(folder).created()
    }

    fn created(&self) -> Result<SystemTime> {
        let text = self.zonepath.read_link(CREATED)?.unwrap_or_default();
        let since = text.to_str().and_then(|text| {
            let (seconds, nanoseconds) = text.split_once('.')?;
            let nanoseconds = nanoseconds.parse().ok().filter(|n| *n < 1_000_000_000)?;
            Some(Duration::new(seconds.parse().ok()?, nanoseconds))
        });
        since
            .and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since))
            .ok_or_else(|| Error::BadLink {
                path: self.zonepath.path().join(CREATED),
                text: text.to_string_lossy().into_owned(),
            })
    }
}

/// Returns the space of one of a zone's snapshots, which are sorted by time.
fn usage_at(known: &[(Snapshot, LayerPath)], at: usize, found: Found) -> Result<SnapshotUsage> {
    let topmost = &known[at].1;
    let other = |(_, layer): &&(Snapshot, LayerPath)| layer != topmost;
    let neighbours = Neighbours {
        before: known[..at].iter().rev().find(other).map(|(_, layer)| layer),
        after: known[at + 1..].iter().find(other).map(|(_, layer)| layer),
    };
    let mut usage = SnapshotUsage::default();
    let mut alone = true;
    for layer in topmost.chain()? {
        alone = alone && Folder::open(&layer.refs())?.entries()?.len() == 1;
        usage.all_bytes += layer.bytes(found)?;
        if alone {
            usage.own_bytes += layer.own_bytes(neighbours, found)?;
        }
    }
    Ok(usage)
}

fn bury_all(graves: &[PathBuf]) -> Result<()> {
    graves.iter().try_for_each(|grave| remove::bury(grave))
}

impl Layers {
    /// Opens the folder of graves.
    pub(crate) fn graves(&self) -> Result<Folder> {
        loop {
            self.folder.make(DEAD)?;
            match self.folder.open_child(DEAD) {
                // Another process removed the empty folder of graves in the meantime.
                Err(e) if e.is_missing() => {}
                other => return other,
            }
        }
    }
}
