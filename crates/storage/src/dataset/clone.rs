//! Clones: a dataset that starts on the layers of another one.

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
    /// Makes a dataset at `zonepath` that starts as an equal of this one and
    /// shares its layers. This one is sealed first, see [`Dataset::seal`].
    ///
    /// Nothing of this is on disk for certain before [`Dataset::settle`].
    pub fn clone_to(&self, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        // Many may clone this one at a time while nothing in it has to change.
        let shared = self.lock_shared()?;
        if let Some(bond) = self.short_seal()? {
            return Self::make_on(&bond.layer, zonepath);
        }
        drop(shared);
        let _lock = self.lock()?;
        let bond = self.seal_short()?;
        Self::make_on(&bond.layer, zonepath)
    }

    /// Makes a dataset at `zonepath` that stands on a layer. The caller holds the lock of
    /// a user of the layer.
    pub(crate) fn make_on(layer: &LayerPath, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        let (folder, made) = Folder::open_or_make(zonepath)?;
        let clone = Self { zonepath: folder };
        // Before the lock, too: a dataset cannot be cloned onto itself.
        clone.refuse_existing()?;
        let _clone_lock = clone.lock()?;
        clone.refuse_existing()?;
        crash::point();
        let done = clone.stand_on(layer);
        if done.is_err() {
            // The error that counts is the first one; `collect` finds the rest.
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

    /// Makes the parts of a clone. The link comes before the reference: a crash
    /// between them leaves a user without reference, which opening mends, and
    /// never a reference from nowhere, which would keep the layer for ever.
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
