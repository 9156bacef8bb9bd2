//! Clones: new datasets that use the layers of an existing dataset.

use std::path::Path;

use super::bond::common;
use super::{Bond, Dataset, check_path};
use crate::attributes::Attributes;
use crate::error::Result;
use crate::folder::Folder;
use crate::id::Id;
use crate::layers::{LayerPath, Layers, dataset_ref, relative};
use crate::layout::LINK;
use crate::{crash, remove};

impl Dataset {
    /// Creates a dataset at `zonepath` with the same content as this dataset. Both datasets share
    /// the layers. This dataset is sealed first, see [`Dataset::seal`].
    ///
    /// The clone is not certain to be on disk before a call of [`Dataset::settle`].
    pub fn clone_to(&self, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        // While this dataset needs no change, several threads may clone it at the same time.
        let shared = self.lock_shared()?;
        if let Some(bond) = self.short_seal()? {
            return Self::make_on(&bond.layer, zonepath);
        }
        drop(shared);
        let _lock = self.lock()?;
        let bond = self.seal_short()?;
        Self::make_on(&bond.layer, zonepath)
    }

    /// Creates a dataset at `zonepath` on top of a layer. The caller holds the lock of a dataset
    /// that uses the layer.
    pub(crate) fn make_on(layer: &LayerPath, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        let (folder, made) = Folder::open_or_make(zonepath)?;
        let clone = Self { zonepath: folder };
        // This check also runs before the lock is taken, because a clone onto the dataset itself
        // would wait for its own lock.
        clone.refuse_existing()?;
        let _clone_lock = clone.lock()?;
        clone.refuse_existing()?;
        crash::point();
        let done = clone.stand_on(layer);
        if done.is_err() {
            // The first error is the one to return. [`crate::collect`] removes what this attempt to
            // clean up leaves.
            let graves = Layers::home(&clone.zonepath)
                .and_then(|home| Layers::enter(&home))
                .and_then(|(home, mut shared)| clone.destroy_locked(&home, &mut shared));
            for grave in graves.unwrap_or_default() {
                let _ = remove::bury(&grave);
            }
            if made {
                let _ = std::fs::remove_dir(zonepath);
            }
        }
        done.map(|()| clone)
    }

    /// Creates the parts of a clone. The link is written before the reference. A crash after the
    /// link leaves a dataset without its reference, which opening the dataset repairs. In the
    /// opposite order, a crash would leave a reference without a dataset, which would keep the
    /// layer forever.
    fn stand_on(&self, layer: &LayerPath) -> Result<()> {
        let tree = layer.open_tree()?;
        self.choose_form()?;
        crash::point();
        self.make_next(&Attributes::of(&tree)?)?;
        crash::point();
        let bond = Bond {
            layer: layer.clone(),
            id: Id::random()?,
        };
        let target = bond.layer.refs().join(dataset_ref(bond.id));
        self.zonepath.link(
            LINK,
            relative(self.zonepath.path(), &target, &common(layer)),
        )?;
        crash::point();
        let refs = Folder::open(&layer.refs())?;
        refs.link(dataset_ref(bond.id), self.ref_place(layer))?;
        crash::point();
        self.take_next()
    }
}
