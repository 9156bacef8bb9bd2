//! Snapshots as boot environments: copied, renamed, looked into, written into.
//!
//! A snapshot is written into through a dataset of its own that stands on it
//! ([`Dataset::clone_snapshot_to`]). When that is done its top is sealed, and the
//! snapshot takes the place of the former one in one step:
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | copy | make `.half`, with its reference on the same layer | `.half`, removed when opened |
//! | | **rename `.half` to `snapshots/<new>`** | - |
//! | rename | copy | both names |
//! | | destroy the former | - |
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
    /// Makes a snapshot that is the same as another one of this dataset.
    pub fn copy_snapshot(&self, from: &Name, to: &Name) -> Result<()> {
        let _lock = self.lock()?;
        self.copy_locked(from, to, None)
    }

    /// Gives a snapshot another name; when it was made stays.
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

    /// Gives `name`, a snapshot of this dataset, the present content of `other`, a dataset that is
    /// not mounted. Nobody needs `other` afterwards.
    pub fn take_as_snapshot(&self, name: &Name, other: &Self) -> Result<()> {
        let graves = {
            let layer = {
                let _theirs = other.lock()?;
                other.seal_short()?.layer
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

    /// The layers of a snapshot, to be looked at: the topmost stands where a top would.
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

    /// A snapshot that does not count yet, on a layer, with its reference.
    fn half_on(&self, layer: &LayerPath, name: &Name, created: Option<SystemTime>) -> Result<()> {
        let id = Id::random()?;
        self.make_half_at(layer, id, created.unwrap_or_else(SystemTime::now))?;
        Folder::open(&layer.refs())?.link(dataset_ref(id), self.snapshot_place(layer, name))?;
        crash::point();
        Ok(())
    }
}
