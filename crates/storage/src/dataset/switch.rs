//! Replaces the root of a dataset with a root that was prepared beside it.
//!
//! A command that changes the whole root of a halted zone works in a copy (a clone of a snapshot of
//! the zone). The zone takes over the copy when the copy is complete, so at every moment the zone
//! has its complete old root or its complete new root. The steps are those of a rollback, but to a
//! layer of another dataset.

use std::path::{Path, PathBuf};

use super::{Bond, Dataset};
use crate::attributes::Attributes;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::id::Id;
use crate::layers::{LayerPath, Layers, dataset_ref};
use crate::layout::{BACK, TOPS};
use crate::merge::Below;
use crate::name::Name;
use crate::{crash, project, remove};

impl Dataset {
    /// Seals the top, and returns the tree of the topmost layer. A caller uses this tree to check
    /// whether another dataset is based on this layer.
    pub fn seal_tree(&self) -> Result<PathBuf> {
        let _lock = self.lock()?;
        self.seal_locked()?.layer.tree()
    }

    /// Makes this dataset use the layers of `other`, whose top is sealed. Removes the files of this
    /// dataset's own top, and keeps its snapshots. This is for halted zones.
    pub fn take_over(&self, other: &Self) -> Result<()> {
        remove::refuse_mounts(self.zonepath.path(), TOPS)?;
        let _prepared = other.lock_shared()?;
        let Some(target) = other.bond()? else {
            return Err(Error::NoDataset(other.zonepath.path().to_owned()));
        };
        let graves = {
            let _lock = self.lock()?;
            let layer = target.layer;
            self.let_go_locked()?;
            self.make_next(&Attributes::of(&layer.open_tree()?)?)?;
            crash::point();
            let id = self.bond()?.map_or_else(Id::random, |bond| Ok(bond.id))?;
            self.zonepath
                .relink(BACK, layer.refs().join(dataset_ref(id)))?;
            crash::point();
            self.go_back_locked()?
        };
        graves.iter().try_for_each(|grave| remove::bury(grave))
    }

    /// Creates a dataset at `zonepath` on the layer of this dataset whose tree is `base`. The new
    /// dataset gets one sealed layer on top, with the content of this dataset's topmost layer,
    /// except the files and links whose paths are in `drop`.
    pub fn extract(
        &self,
        base: &Path,
        zonepath: &Path,
        drop: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        let _lock = self.lock()?;
        let layer = self.bond()?.map(|bond| bond.layer);
        self.extract_locked(layer.as_ref(), base, zonepath, drop)
    }

    /// Runs [`Dataset::extract`] with the layers of a snapshot instead of the dataset's own.
    pub fn extract_of_snapshot(
        &self,
        name: &Name,
        base: &Path,
        zonepath: &Path,
        drop: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        let _lock = self.lock()?;
        let layer = self.find_snapshot(name)?.layer;
        self.extract_locked(Some(&layer), base, zonepath, drop)
    }

    fn extract_locked(
        &self,
        layer: Option<&LayerPath>,
        base: &Path,
        zonepath: &Path,
        drop: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        let (own, rest) = self.split_at(layer, base)?;
        let (Some((topmost, own)), Some(base)) = (own.split_first(), rest.first()) else {
            return Err(self.not_below(base));
        };
        let trees = |layers: &[LayerPath]| layers.iter().map(LayerPath::tree).collect();
        let (own, below): (Result<Vec<_>>, Result<Vec<_>>) = (trees(own), trees(&rest));
        let (own, below) = (own?, below?);
        let made = Self::make_on(base, zonepath)?;
        let filled = made.fill_from(topmost, |top| crate::patch::strip(top, drop, &own, &below));
        if let Err(error) = filled {
            let _ = Self::destroy(zonepath);
            return Err(error);
        }
        Ok(made)
    }

    /// Creates a dataset at `zonepath` with the content that a snapshot has without its topmost
    /// layer, whose tree is `topmost`.
    pub fn clone_below(&self, name: &Name, topmost: &Path, zonepath: &Path) -> Result<Self> {
        let _lock = self.lock()?;
        let layer = self.find_snapshot(name)?.layer;
        match (layer.tree()? == topmost, layer.parent()?) {
            (true, Some(below)) => Self::make_on(&below, zonepath),
            _ => Err(self.not_below(topmost)),
        }
    }

    /// Adds a sealed layer to this dataset, whose top must be unchanged. The layer contains the
    /// files and links of the topmost layer of `other` that `keep` selects. It hides no other file.
    pub fn add_part(&self, other: &Self, keep: &dyn Fn(&Path) -> bool) -> Result<()> {
        let _other = other.lock_shared()?;
        let Some(bond) = other.bond()? else {
            return Err(Error::NoDataset(other.zonepath.path().to_owned()));
        };
        self.fill_from(&bond.layer, |top| crate::patch::retain(top, keep))
    }

    /// Runs [`Dataset::add_part`] with the topmost layer of a snapshot of `other`.
    pub fn add_part_of_snapshot(
        &self,
        other: &Self,
        name: &Name,
        keep: &dyn Fn(&Path) -> bool,
    ) -> Result<()> {
        let _other = other.lock_shared()?;
        let layer = other.find_snapshot(name)?.layer;
        self.fill_from(&layer, |top| crate::patch::retain(top, keep))
    }

    /// Returns true if the top is unchanged.
    pub fn is_untouched(&self) -> Result<bool> {
        let _lock = self.lock_shared()?;
        Ok(self.untouched()?.is_some())
    }

    fn fill_from(
        &self,
        layer: &LayerPath,
        choose: impl FnOnce(&Folder) -> Result<()>,
    ) -> Result<()> {
        layer.note_links()?;
        let tree = layer.tree()?;
        let top = self.open_top()?;
        // The files of the other layer cannot be linked into a project. The seal gives the next top
        // a project again.
        project::leave(&top)?;
        let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
        let garbage = layers.copy_into(&tree, top.path())?;
        garbage.iter().try_for_each(|grave| remove::bury(grave))?;
        choose(&top)?;
        self.seal().map(|_| ())
    }

    /// Inserts the topmost layer of `patch` below those layers of this dataset that are above the
    /// layer with the tree `base`. The layer of `patch` must itself be on `base`. The top must be
    /// unchanged, as after a snapshot. [`crate::misfit`] checks whether the layer of `patch` fits
    /// the layers above.
    pub fn put_below(&self, patch: &Self, base: &Path) -> Result<()> {
        let _patch = patch.lock_shared()?;
        let Some(patch) = patch.bond()?.map(|bond| bond.layer) else {
            return Err(Error::NoDataset(patch.zonepath.path().to_owned()));
        };
        let graves = {
            let _lock = self.lock()?;
            self.let_go_locked()?;
            let Some(former) = self.bond()? else {
                return Err(Error::NoDataset(self.zonepath.path().to_owned()));
            };
            let (own, rest) = self.split_at(Some(&former.layer), base)?;
            if patch.parent()?.as_ref() != rest.first() || !self.open_top()?.is_empty()? {
                return Err(self.not_below(base));
            }
            let name = dataset_ref(former.id);
            let mut graves = Vec::new();
            // Held until the dataset names the layer: until then, `collect` would remove the reference.
            let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
            let folders = vec![patch.layers.clone(), former.layer.layers.clone()];
            let _others = Layers::enter_each(folders)?;
            let layer = if own.is_empty() {
                patch.add_ref(&name, &self.ref_place(&patch))?;
                crash::point();
                patch
            } else {
                let (tree, garbage) = match own.as_slice() {
                    [one] => {
                        one.note_links()?;
                        layers.copy_of(&one.tree()?)?
                    }
                    several => layers.merge(several, true)?,
                };
                graves.extend(garbage);
                let layer = layers.make(Some(&patch), &name, self.zonepath.path())?;
                layers.take_up(&tree, &layer, Form::Folder)?;
                layer
            };
            crash::point();
            self.write_bond(&Bond {
                layer,
                id: former.id,
            })?;
            crash::point();
            graves.extend(former.layer.drop_ref(&name)?);
            graves
        };
        graves.iter().try_for_each(|grave| remove::bury(grave))
    }

    /// Splits the layer `layer` and all layers below it: returns the layers above the layer with the
    /// tree `base`, and the other layers.
    fn split_at(
        &self,
        layer: Option<&LayerPath>,
        base: &Path,
    ) -> Result<(Vec<LayerPath>, Vec<LayerPath>)> {
        let chain = layer.map_or(Ok(Vec::new()), LayerPath::chain)?;
        for (n, layer) in chain.iter().enumerate() {
            if layer.tree()? == base {
                let (own, rest) = chain.split_at(n);
                return Ok((own.to_vec(), rest.to_vec()));
            }
        }
        Err(self.not_below(base))
    }

    fn not_below(&self, tree: &Path) -> Error {
        Error::NotBelow {
            zonepath: self.zonepath.path().to_owned(),
            tree: tree.to_owned(),
        }
    }
}

impl Layers {
    /// Copies a layer into a new tree in `.dead` by hard links. Returns the new tree and the trees
    /// to remove.
    fn copy_of(&self, tree: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
        let dead = self.graves()?;
        let name = Id::random()?.to_string();
        dead.make(&name)?;
        let out = dead.path().join(name);
        let garbage = self.copy_into(tree, &out)?;
        Ok((out, garbage))
    }

    /// Fills the empty folder `out` with the files of a layer, by hard links. Returns the trees to
    /// remove.
    fn copy_into(&self, tree: &Path, out: &Path) -> Result<Vec<PathBuf>> {
        let dead = self.graves()?;
        let (nothing, links) = (Id::random()?.to_string(), Id::random()?.to_string());
        dead.make(&nothing)?;
        dead.make(&links)?;
        let garbage = vec![dead.path().join(&nothing), dead.path().join(&links)];
        let lower = dead.path().join(nothing);
        let copied = crate::merge::merge(tree, &lower, Below::More, out, dead.open_child(&links)?);
        // Copied files must be on disk before their originals are removed.
        let done = copied.and_then(|copied| match copied.copied_bytes {
            0 => Ok(()),
            _ => rustix::fs::syncfs(&dead).map_err(|e| dead.fail("syncfs", "", e)),
        });
        match done {
            Ok(()) => Ok(garbage),
            Err(error) => {
                garbage.iter().for_each(|grave| drop(remove::bury(grave)));
                Err(error)
            }
        }
    }
}
