//! Repairs a dataset that a crash left between two steps, or that was moved or copied by hand.

use crate::dataset::{Bond, Dataset, has_tree, ref_target};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::id::Id;
use crate::layers::{Layers, dataset_ref, same_path};
use crate::layout::{BACK, HALF_PATH, LINK};
use crate::{crash, remove};

impl Dataset {
    /// Returns true if no rest of an interrupted seal or of a move needs repair.
    pub(crate) fn is_sound(&self) -> Result<bool> {
        let (form, has_top) = self.form_and_top()?;
        if !has_top {
            return Ok(false);
        }
        for name in [form.next(), BACK, HALF_PATH] {
            if self.zonepath.kind(name)?.is_some() {
                return Ok(false);
            }
        }
        match self.bond()? {
            None => Ok(true),
            Some(bond) => Ok(self.holds_ref(&bond)? && has_tree(&bond.layer)?),
        }
    }

    pub(crate) fn holds_ref(&self, bond: &Bond) -> Result<bool> {
        let place = ref_target(&bond.layer, dataset_ref(bond.id).as_ref())?;
        Ok(place.is_some_and(|place| same_path(&place, self.zonepath.path())))
    }

    /// Completes or undoes interrupted operations. The caller holds the lock of the dataset.
    pub(crate) fn repair(&self) -> Result<()> {
        let path = || self.zonepath.path().to_owned();
        crash::point();
        let bond = self.bond()?;
        // Keeps `collect` away, which would otherwise remove a reference that it found stale before
        // the repair returns the dataset to this layer.
        let mut folders = Vec::new();
        if let Some(bond) = &bond {
            folders.push(bond.layer.layers.clone());
            if bond.layer.path().exists() {
                folders.extend(bond.layer.parent()?.map(|parent| parent.layers));
            }
        }
        let _shared = Layers::enter_each(folders)?;
        // Without a link to a layer, a next top belongs to a clone that was interrupted early.
        let form = self.form()?;
        let next = self.zonepath.is_folder(form.next())? && bond.is_some();
        if !next && !self.has_top()? {
            return Err(Error::NoDataset(path()));
        }
        self.clear_half_snapshot()?;
        if self.zonepath.kind(BACK)?.is_some() {
            return self.go_back();
        }
        if let Some(bond) = bond {
            if has_tree(&bond.layer)? {
                self.adopt(&bond)?;
            } else if bond.layer.path().exists() {
                self.unseal(&bond)?;
            } else {
                return Err(Error::LayerMissing {
                    user: path(),
                    layer: bond.layer.path(),
                });
            }
        }
        crash::point();
        if self.has_top()? {
            form.unmake(&self.zonepath, form.next())
        } else {
            // The seal is valid, because the layer of the dataset has a tree.
            self.take_next()
        }
    }

    /// Undoes a seal that was interrupted before the rename of the top.
    fn unseal(&self, bond: &Bond) -> Result<()> {
        let name = dataset_ref(bond.id);
        match bond.layer.parent()? {
            Some(parent) => {
                // The seal kept this reference, but `collect` removes it as stale while the dataset
                // names the layer above.
                parent.add_ref(&name, &self.ref_place(&parent))?;
                crash::point();
                self.write_bond(&Bond {
                    layer: parent,
                    id: bond.id,
                })?;
            }
            None => {
                self.zonepath.unlink(LINK)?;
            }
        }
        crash::point();
        for grave in bond.layer.drop_ref(&name)? {
            remove::bury(&grave)?;
        }
        Ok(())
    }

    /// Makes sure that the layer's reference names this zonepath.
    fn adopt(&self, bond: &Bond) -> Result<()> {
        // The snapshots and the mounted stack were moved or copied with the dataset. They come first,
        // because the reference of the dataset itself says that the repair is complete.
        for other in self.others()? {
            // A kill may have left the folder `mounted` although its layer was removed.
            if let Some(bond) = other.bond()?.filter(|bond| bond.layer.path().exists()) {
                other.adopt_alone(&bond)?;
            }
        }
        crash::point();
        self.adopt_alone(bond)
    }

    fn adopt_alone(&self, bond: &Bond) -> Result<()> {
        let name = dataset_ref(bond.id);
        let former = ref_target(&bond.layer, name.as_ref())?;
        let other = match &former {
            Some(place) if same_path(place, self.zonepath.path()) => return Ok(()),
            Some(place) => match Folder::open(place) {
                Ok(folder) => Self::at(folder).bond()?.is_some_and(|b| b.id == bond.id),
                Err(_) => false,
            },
            None => false,
        };
        if !other {
            return bond.layer.add_ref(&name, &self.ref_place(&bond.layer));
        }
        // This dataset is a copy made by hand: the original is still at the path that the reference
        // names.
        let own = Bond {
            layer: bond.layer.clone(),
            id: Id::random()?,
        };
        own.layer
            .add_ref(&dataset_ref(own.id), &self.ref_place(&own.layer))?;
        crash::point();
        self.write_bond(&own)
    }
}
