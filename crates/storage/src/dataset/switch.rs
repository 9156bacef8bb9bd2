//! Replaces the root of a dataset by a root that was prepared beside it.
//!
//! A command that changes a whole halted zone works in a copy (a clone of a snapshot of
//! the zone), and the zone takes over the copy when it is complete: the zone is the old
//! one or the new one at every moment. The steps are those of a rollback, to a layer of
//! another dataset.

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
use crate::{crash, remove};

impl Dataset {
    /// Seals the top; the tree of the topmost layer then, which tells whether another
    /// dataset stands on it.
    pub fn seal_tree(&self) -> Result<PathBuf> {
        let _lock = self.lock()?;
        self.seal_locked()?.layer.tree()
    }

    /// Makes this dataset stand on the layers of `other`, whose top is sealed. The files
    /// of this dataset's own top are removed; snapshots stay. For halted zones.
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

    /// Makes a dataset at `zonepath` on the layer of this one whose tree is `base`, with
    /// a sealed layer on it that has the content of the topmost layer of this one,
    /// without the files and links in `drop` (by path).
    pub fn extract(
        &self,
        base: &Path,
        zonepath: &Path,
        drop: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        let _lock = self.lock()?;
        let (own, rest) = self.split_at(base)?;
        let (Some(topmost), Some(base)) = (own.first(), rest.first()) else {
            return Err(Error::NotBelow {
                zonepath: self.zonepath.path().to_owned(),
                tree: base.to_owned(),
            });
        };
        let made = Self::make_on(base, zonepath)?;
        let filled = made.fill_from(topmost, |top| crate::patch::strip(top, drop));
        if let Err(error) = filled {
            let _ = Self::destroy(zonepath);
            return Err(error);
        }
        Ok(made)
    }

    /// Puts a sealed layer on this dataset, whose top is untouched, that has of the topmost
    /// layer of `other` the files and links that `keep` names, and hides nothing else.
    pub fn add_part(&self, other: &Self, keep: &dyn Fn(&Path) -> bool) -> Result<()> {
        let _other = other.lock_shared()?;
        let Some(bond) = other.bond()? else {
            return Err(Error::NoDataset(other.zonepath.path().to_owned()));
        };
        self.fill_from(&bond.layer, |top| crate::patch::retain(top, keep))
    }

    /// Returns whether nobody has written into the top.
    pub fn is_untouched(&self) -> Result<bool> {
        let _lock = self.lock_shared()?;
        Ok(self.untouched()?.is_some())
    }

    fn fill_from(
        &self,
        layer: &LayerPath,
        choose: impl FnOnce(&Folder) -> Result<()>,
    ) -> Result<()> {
        let tree = layer.tree()?;
        let top = self.open_top()?;
        let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
        let garbage = layers.copy_into(&tree, top.path())?;
        garbage.iter().try_for_each(|grave| remove::bury(grave))?;
        choose(&top)?;
        self.seal().map(|_| ())
    }

    /// Puts the layer that `patch` stands on, itself on the layer with the tree `base`,
    /// below the layers of this dataset above `base`. The top must be untouched, as after
    /// a snapshot. Whether the two fit together is for [`crate::misfit`] to say.
    pub fn put_below(&self, patch: &Self, base: &Path) -> Result<()> {
        let _patch = patch.lock_shared()?;
        let Some(patch) = patch.bond()?.map(|bond| bond.layer) else {
            return Err(Error::NoDataset(patch.zonepath.path().to_owned()));
        };
        let graves = {
            let _lock = self.lock()?;
            self.let_go_locked()?;
            let (own, rest) = self.split_at(base)?;
            let Some(former) = self.bond()? else {
                return Err(Error::NoDataset(self.zonepath.path().to_owned()));
            };
            if patch.parent()?.as_ref() != rest.first() || !self.open_top()?.is_empty()? {
                return Err(Error::NotBelow {
                    zonepath: self.zonepath.path().to_owned(),
                    tree: base.to_owned(),
                });
            }
            let name = dataset_ref(former.id);
            let mut graves = Vec::new();
            let layer = if own.is_empty() {
                patch.add_ref(&name, &self.ref_place(&patch))?;
                patch
            } else {
                let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
                let (tree, garbage) = match own.as_slice() {
                    [one] => layers.copy_of(&one.tree()?)?,
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

    /// The layers above that with the tree `base`, and the others.
    fn split_at(&self, base: &Path) -> Result<(Vec<LayerPath>, Vec<LayerPath>)> {
        let chain = match self.bond()? {
            Some(bond) => bond.layer.chain()?,
            None => Vec::new(),
        };
        for (n, layer) in chain.iter().enumerate() {
            if layer.tree()? == base {
                let (own, rest) = chain.split_at(n);
                return Ok((own.to_vec(), rest.to_vec()));
            }
        }
        Err(Error::NotBelow {
            zonepath: self.zonepath.path().to_owned(),
            tree: base.to_owned(),
        })
    }
}

impl Layers {
    /// A tree in `.dead` that is a copy of the layer by hard links; and the trees to
    /// remove.
    fn copy_of(&self, tree: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
        let dead = self.graves()?;
        let name = Id::random()?.to_string();
        dead.make(&name)?;
        let out = dead.path().join(name);
        let garbage = self.copy_into(tree, &out)?;
        Ok((out, garbage))
    }

    /// Fills the empty folder `out` with a layer, by hard links. Returns garbage.
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
