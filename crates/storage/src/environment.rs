//! Snapshots used as boot environments: copy, rename, read and change them.
//!
//! To change a snapshot, a command clones it into a separate dataset
//! ([`Dataset::clone_snapshot_to`]) and writes there. After the changes, the top of the clone is
//! sealed, and the result replaces the former snapshot in one step:
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | copy | make `.half`, with its reference on the same layer | `.half`, removed when opened |
//! | | **rename `.half` to `snapshots/<new>`** | - |
//! | rename | copy | both names |
//! | | destroy the former | - |
//! | add | seal the other dataset's top | as for a seal |
//! | | make `.half`, with its reference on that layer | `.half`, removed when opened |
//! | | **rename `.half` to `snapshots/<new>`** | - |
//! | take | seal the other dataset's top | as for a seal |
//! | | make `.half`, with its reference on that layer | `.half`, removed when opened |
//! | | **exchange `.half` and `snapshots/<name>`** | the former as `.half`, removed when opened |
//! | | drop the former's reference, remove `.half` | - |

use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::RenameFlags;

use crate::dataset::Dataset;
use crate::error::Result;
use crate::folder::Folder;
use crate::id::Id;
use crate::layers::{LayerPath, dataset_ref};
use crate::layout::{HALF, SNAPSHOTS};
use crate::name::Name;
use crate::stack::Stack;
use crate::{crash, remove};

impl Dataset {
    /// Copies a snapshot of this dataset to a new snapshot.
    pub fn copy_snapshot(&self, from: &Name, to: &Name) -> Result<()> {
        let _lock = self.lock()?;
        self.copy_locked(from, to, None)
    }

    /// Renames a snapshot and keeps its creation time.
    pub fn rename_snapshot(&self, from: &Name, to: &Name) -> Result<()> {
        {
            let _lock = self.lock()?;
            let created = self.snapshot_created(from)?;
            self.copy_locked(from, to, Some(created))?;
        }
        self.destroy_snapshot(from)
    }

    fn copy_locked(&self, from: &Name, to: &Name, created: Option<SystemTime>) -> Result<()> {
        self.refuse_snapshot(to)?;
        let layer = self.find_snapshot(from)?.layer;
        self.half_on(&layer, to, created)?;
        self.keep(to)
    }

    /// Replaces the content of `name`, a snapshot of this dataset, with the current content of
    /// `other`, a dataset that is not mounted. `other` is not needed after this call.
    ///
    /// If the top of `other` is sealed already, no layers are merged: a journal may name one of them.
    pub fn take_as_snapshot(&self, name: &Name, other: &Self) -> Result<()> {
        let graves = {
            let layer = {
                let _theirs = other.lock()?;
                let sealed = match other.keeps_mounted()? {
                    true => None,
                    false => other.untouched()?,
                };
                match sealed {
                    Some(bond) => bond.layer,
                    None => other.seal_short()?.layer,
                }
            };
            let _lock = self.lock()?;
            let created = self.snapshot_created(name)?;
            self.half_on(&layer, name, Some(created))?;
            let folder = self.zonepath.open_child(SNAPSHOTS)?;
            rustix::fs::renameat_with(&folder, HALF, &folder, name.as_str(), RenameFlags::EXCHANGE)
                .map_err(|e| folder.fail("rename", name, e))?;
            crash::point();
            self.drop_half()?
        };
        graves.iter().try_for_each(|grave| remove::bury(grave))
    }

    /// Makes a new snapshot of this dataset from the current content of `other`, a dataset that is
    /// not mounted. `other` is not needed after this call.
    pub fn add_as_snapshot(&self, name: &Name, other: &Self) -> Result<()> {
        let layer = {
            let _theirs = other.lock()?;
            other.seal_short()?.layer
        };
        let _lock = self.lock()?;
        self.refuse_snapshot(name)?;
        self.half_on(&layer, name, None)?;
        self.keep(name)
    }

    /// Returns the layers of a snapshot as a stack for reading, with the topmost layer in the
    /// position of the top.
    pub fn snapshot_stack(&self, name: &Name) -> Result<Stack> {
        let chain = self.find_snapshot(name)?.layer.chain()?;
        let mut trees = chain
            .iter()
            .map(LayerPath::tree)
            .collect::<Result<Vec<PathBuf>>>()?;
        let top = trees.remove(0);
        let (_, work) = self.top_paths()?;
        Ok(Stack {
            volatile: false,
            zonepath: self.zonepath.path().to_owned(),
            top,
            work,
            lowers: trees,
        })
    }

    /// Makes a snapshot on a layer, with its reference. The snapshot is not valid until the caller
    /// completes it.
    fn half_on(&self, layer: &LayerPath, name: &Name, created: Option<SystemTime>) -> Result<()> {
        let id = Id::random()?;
        self.make_half_at(layer, id, created.unwrap_or_else(SystemTime::now))?;
        Folder::open(&layer.refs())?.link(dataset_ref(id), self.snapshot_place(layer, name))?;
        crash::point();
        Ok(())
    }
}
