//! Seals the top of a dataset, which becomes a layer, and merges layers.

use super::{Bond, Dataset};
use crate::attributes::Attributes;
use crate::error::{Error, Result};
use crate::form::Form;
use crate::id::Id;
use crate::layers::{Layers, MAX_LAYERS, dataset_ref};
use crate::{crash, project, remove};

/// Maximum number of layers below a top. An operation that would add more layers merges layers
/// first. A file's first lookup takes 7 us on one layer, 15 us on eight layers and 217 us on 200
/// layers.
pub const MERGE_DEPTH: usize = 8;

/// Number of layers that remain after a merge. This is less than [`MERGE_DEPTH`], so that not every
/// seal has to merge layers.
pub const LAYERS_AFTER_MERGE: usize = 4;

/// The treatment of the former layers after a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Former {
    /// The dataset no longer needs the former layers.
    GiveUp,
    /// The former layers may be mounted, so they stay until [`Dataset::let_go`].
    Keep,
}

impl Dataset {
    /// Turns the top into a layer and gives the dataset a new, empty top.
    ///
    /// No file system may be mounted on the dataset, because a mounted overlay would continue to
    /// write into the layer. The duration does not depend on the number of files. If the top is
    /// unchanged and has a layer below, the top stays and this call returns the layer below.
    pub fn seal(&self) -> Result<Id> {
        let _lock = self.lock()?;
        self.seal_locked().map(|bond| bond.layer.id)
    }

    /// Merges the topmost layers until at most `most` layers remain. Returns the number of layers
    /// after the merge. The content of the dataset and of the other users of the layers does not
    /// change.
    ///
    /// Like [`Dataset::seal`], this is for halted zones. The merge makes a hard link for each file
    /// of the merged layers and copies no data.
    pub fn shorten(&self, most: usize) -> Result<usize> {
        let _lock = self.lock()?;
        self.shorten_locked(most, Former::GiveUp)
    }

    /// Runs [`Dataset::shorten`] for a running zone: the zone keeps its mounted layers, and uses
    /// the merged layers from its next boot on. Only the first call between two boots merges
    /// layers; later calls change nothing.
    pub fn shorten_beside(&self, most: usize) -> Result<usize> {
        let _lock = self.lock()?;
        self.shorten_locked(most, Former::Keep)
    }

    /// Returns the number of layers below the top.
    pub fn depth(&self) -> Result<usize> {
        Ok(match self.bond()? {
            Some(bond) => bond.layer.chain()?.len(),
            None => 0,
        })
    }

    /// Runs [`Dataset::shorten`] with [`LAYERS_AFTER_MERGE`], the number of layers that a seal
    /// leaves when it merges.
    pub fn tend(&self) -> Result<usize> {
        self.shorten(LAYERS_AFTER_MERGE)
    }

    /// Seals the top, and then merges layers if the chain has [`MERGE_DEPTH`] layers, because a
    /// snapshot of the running zone may add one more layer.
    pub(crate) fn seal_short(&self) -> Result<Bond> {
        let bond = self.seal_locked()?;
        if bond.layer.chain()?.len() < MERGE_DEPTH {
            return Ok(bond);
        }
        self.shorten_locked(LAYERS_AFTER_MERGE, Former::GiveUp)?;
        self.bond()?
            .ok_or_else(|| Error::NoDataset(self.zonepath.path().to_owned()))
    }

    /// Returns the bond that [`Dataset::seal_short`] would return, if it would change nothing.
    /// Otherwise returns `None`.
    pub(super) fn short_seal(&self) -> Result<Option<Bond>> {
        let bond = match self.keeps_mounted()? {
            true => None,
            false => self.untouched()?,
        };
        match bond {
            Some(bond) if bond.layer.chain()?.len() < MERGE_DEPTH => Ok(Some(bond)),
            _ => Ok(None),
        }
    }

    /// Returns the bond with the layer below the top if the top is unchanged. Otherwise returns
    /// `None`.
    pub(crate) fn untouched(&self) -> Result<Option<Bond>> {
        let root = self.open_top()?;
        let Some(bond) = self.bond()? else {
            return Ok(None);
        };
        let tree = bond.layer.open_tree()?;
        let same = root.is_empty()? && Attributes::of(&root)? == Attributes::of(&tree)?;
        Ok(same.then_some(bond))
    }

    /// Runs [`Dataset::shorten`] for a caller that holds the lock.
    fn shorten_locked(&self, most: usize, what: Former) -> Result<usize> {
        match what {
            Former::GiveUp => self.let_go_locked()?,
            Former::Keep => self.clear_killed_merge()?,
        }
        let Some(former) = self.bond()? else {
            return Ok(0);
        };
        let chain = former.layer.chain()?;
        let most = most.max(1);
        // A former merge kept the mounted layers, and this merge would have to keep all of its own
        // former layers, too. Therefore it waits for the next boot.
        let waits = what == Former::Keep && self.mounted_depth()?.is_some();
        if chain.len() <= most || waits {
            return Ok(chain.len());
        }
        let (merged, kept) = chain.split_at(chain.len() - most + 1);
        let graves = {
            let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
            let (tree, mut graves) = layers.merge(merged, !kept.is_empty())?;
            if what == Former::Keep {
                self.hold(&former.layer)?;
            }
            let name = dataset_ref(former.id);
            let layer = layers.make(kept.first(), &name, self.zonepath.path())?;
            layers.take_up(&tree, &layer, Form::Folder)?;
            crash::point();
            self.write_bond(&Bond {
                layer,
                id: former.id,
            })?;
            crash::point();
            graves.extend(former.layer.drop_ref(&name)?);
            graves
        };
        for grave in graves {
            remove::bury(&grave)?;
        }
        Ok(most)
    }

    pub(crate) fn seal_locked(&self) -> Result<Bond> {
        self.let_go_locked()?;
        if let Some(bond) = self.untouched()? {
            return Ok(bond);
        }
        let attributes = Attributes::of(&self.open_top()?)?;
        let below = self.bond()?;
        if let Some(bond) = &below {
            if bond.layer.chain()?.len() >= MAX_LAYERS {
                return Err(Error::TooManyLayers(self.zonepath.path().to_owned()));
            }
        }

        let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
        let id = match &below {
            Some(bond) => bond.id,
            None => Id::random()?,
        };
        // The next top is created before the layer takes effect. A missing `root` therefore means
        // an interrupted seal if the next top exists, and an interrupted removal otherwise.
        self.make_next(&attributes)?;
        crash::point();
        let parent = below.as_ref().map(|bond| &bond.layer);
        let layer = layers.make(parent, &dataset_ref(id), self.zonepath.path())?;
        let bond = Bond { layer, id };
        self.write_bond(&bond)?;
        crash::point();
        // From this rename on, the layer is part of the dataset.
        let form = self.form()?;
        let sealed = self.open_top()?;
        self.zonepath
            .rename(form.name(), &bond.layer.open()?, form.sealed())?;
        crash::point();
        self.take_next()?;
        project::forget(&sealed);
        crash::point();
        self.drop_former_ref(&bond)?;
        Ok(bond)
    }
}
