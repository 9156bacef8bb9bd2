//! The bond of a dataset with its layer: a link in the zonepath to the layer, and a reference on
//! the layer to the zonepath.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::Dataset;
use crate::crash;
use crate::error::Result;
use crate::folder::{Folder, must_be_known_at, read_link_at};
use crate::id::Id;
use crate::layers::{
    LayerPath, Layers, User, bad_link, dataset_ref, parse_layer, relative, resolve, same_path,
};
use crate::layout::{LINK, REFS};

/// The layer and the id that the link of a dataset names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bond {
    pub(crate) layer: LayerPath,
    pub(crate) id: Id,
}

impl Dataset {
    pub(crate) fn bond(&self) -> Result<Option<Bond>> {
        self.read_bond(LINK)
    }

    pub(crate) fn read_bond(&self, name: &str) -> Result<Option<Bond>> {
        let Some(text) = self.zonepath.read_link(name)? else {
            return Ok(None);
        };
        let bond = parse_bond(self.zonepath.path(), Path::new(&text))
            .ok_or_else(|| bad_link(self.zonepath.path().join(name), &text))?;
        // A missing layer is no error here: a caller that needs the layer reports the error.
        must_be_known_at(&bond.layer.layers)?;
        must_be_known_at(&bond.layer.path())?;
        Ok(Some(bond))
    }

    /// Returns the layer below this dataset and the id of the dataset, without a check that the
    /// layer exists.
    pub(crate) fn names(&self) -> Result<Option<(LayerPath, Id)>> {
        Ok(self.bond()?.map(|bond| (bond.layer, bond.id)))
    }

    pub(crate) fn write_bond(&self, bond: &Bond) -> Result<()> {
        let target = bond.layer.refs().join(dataset_ref(bond.id));
        let text = relative(self.zonepath.path(), &target, &common(&bond.layer));
        self.zonepath.relink(LINK, text)
    }

    pub(super) fn link_absolutely(&self) -> Result<()> {
        match self.bond()? {
            Some(bond) => {
                let target = bond.layer.refs().join(dataset_ref(bond.id));
                self.zonepath.relink(LINK, target)
            }
            None => Ok(()),
        }
    }

    pub(crate) fn ref_place(&self, layer: &LayerPath) -> PathBuf {
        relative(&layer.refs(), self.zonepath.path(), &common(layer))
    }

    /// Removes the reference on the parent layer that an interrupted seal left.
    pub(super) fn drop_former_ref(&self, bond: &Bond) -> Result<()> {
        if !bond.layer.path().exists() {
            return Ok(());
        }
        if let Some(parent) = bond.layer.parent()? {
            match Folder::open(&parent.refs()) {
                // The layer has no references, because its removal was interrupted.
                Err(e) if e.is_missing() => {}
                // This reference is never the last one, because the layer above the parent layer
                // holds a reference, too.
                refs => {
                    refs?.unlink(dataset_ref(bond.id))?;
                }
            }
        }
        Ok(())
    }

    /// Removes the references to this dataset from layers that the dataset does not use. Such a
    /// reference remains if an operation was interrupted after it made a layer and before it used
    /// this layer, or before a return to another layer.
    pub(super) fn drop_all_refs(&self, home: &Layers) -> Result<Vec<PathBuf>> {
        let mut graves = Vec::new();
        let Some(bond) = self.bond()? else {
            return Ok(graves);
        };
        let name = dataset_ref(bond.id);
        for layer in home.list()? {
            // The path is checked without opening the layer: a host may have thousands of layers,
            // and most have no reference to this dataset.
            let link = layer.refs().join(&name);
            if layer == bond.layer || rustix::fs::lstat(&link).is_err() {
                continue;
            }
            let place = ref_target(&layer, name.as_ref())?;
            // A zonepath that was copied by hand has the same id, so the path must match, too.
            if place.is_some_and(|place| same_path(&place, self.zonepath.path())) {
                graves.extend(layer.drop_ref(&name)?);
                crash::point();
            }
        }
        Ok(graves)
    }

    /// Removes the bond of this dataset with its layer. Returns the trees to remove.
    pub(crate) fn drop_bond(&self) -> Result<Vec<PathBuf>> {
        let mut graves = Vec::new();
        if let Some(bond) = self.bond()? {
            // A dataset that was copied by hand and never opened holds no reference. A layer
            // without any reference is one whose removal was interrupted.
            if self.holds_ref(&bond)? || !bond.layer.refs().exists() {
                self.drop_former_ref(&bond)?;
                graves.extend(bond.layer.drop_ref(&dataset_ref(bond.id))?);
            }
            crash::point();
            self.zonepath.unlink(LINK)?;
        }
        Ok(graves)
    }
}

/// Returns the common parent folder of a layer and its users. The links between them are relative
/// within this folder.
pub(super) fn common(layer: &LayerPath) -> PathBuf {
    layer.layers.parent().unwrap_or(&layer.layers).to_owned()
}

fn parse_bond(zonepath: &Path, text: &Path) -> Option<Bond> {
    let Some(User::Dataset(id)) = User::parse(text.file_name()?) else {
        return None;
    };
    let refs = text.parent()?;
    if refs.file_name()? != REFS {
        return None;
    }
    let layer = parse_layer(zonepath, refs.parent()?)?;
    Some(Bond { layer, id })
}

pub(crate) fn has_tree(layer: &LayerPath) -> Result<bool> {
    Ok(layer.form()?.is_some())
}

/// Returns the target path of a reference, or `None` if the reference does not exist.
pub(crate) fn ref_target(layer: &LayerPath, name: &OsStr) -> Result<Option<PathBuf>> {
    let refs = layer.refs();
    let text = read_link_at(&refs.join(name))?;
    Ok(text.and_then(|text| resolve(&refs, Path::new(&text))))
}
