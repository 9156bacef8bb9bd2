//! Layers that a running zone has mounted, although its dataset uses other layers now.
//!
//! ```text
//! <zonepath>/mounted/dataset   link to the reference on the topmost of them, as a
//!                              dataset's own
//! ```
//!
//! A mounted overlay continues to read the layers that it was mounted from. If layers are merged
//! while the zone runs, the dataset therefore keeps the former layers until the zone is halted.

use std::path::PathBuf;

use super::{Bond, Dataset, ref_target};
use crate::collect::{Lost, Wait, collect_around};
use crate::error::Result;
use crate::id::Id;
use crate::layers::{LayerPath, Layers, dataset_ref};
use crate::layout::{LINK, MOUNTED};
use crate::{crash, remove};

impl Dataset {
    /// Returns the number of layers that a running zone has mounted until its next boot, if the
    /// dataset does not use these layers any more.
    pub fn mounted_depth(&self) -> Result<Option<usize>> {
        let Some(mounted) = self.mounted()? else {
            return Ok(None);
        };
        match (mounted.bond()?, self.bond()?) {
            // A kill during `let_go` may have left the link without its layer.
            (Some(held), Some(bond)) if held.layer != bond.layer && held.layer.path().exists() => {
                Ok(Some(held.layer.chain()?.len()))
            }
            // The link may come from a merge that was interrupted before it took effect.
            _ => Ok(None),
        }
    }

    /// Returns true if the dataset keeps layers that [`Dataset::let_go`] can release.
    pub fn keeps_mounted(&self) -> Result<bool> {
        self.zonepath.is_folder(MOUNTED)
    }

    /// Releases layers that the dataset kept only because the running zone had them mounted. This
    /// is for halted zones. Every operation that makes or removes layers of a halted zone begins
    /// with this call.
    pub fn let_go(&self) -> Result<()> {
        // Usually the dataset keeps no mounted layers, and then this call need not wait for the
        // lock.
        if !self.keeps_mounted()? {
            return Ok(());
        }
        let _lock = self.lock()?;
        self.let_go_locked()
    }

    /// Runs [`Dataset::let_go`] for a caller that holds the lock.
    pub(crate) fn let_go_locked(&self) -> Result<()> {
        if !self.keeps_mounted()? {
            return Ok(());
        }
        // The leftovers of a killed merge are removed first, because no later call looks for them
        // once the dataset keeps no mounted layers.
        self.clear_killed_merge()?;
        let graves = {
            let (_, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
            self.drop_mounted()?
        };
        graves.iter().try_for_each(|grave| remove::bury(grave))
    }

    /// Keeps a layer of this dataset while the layer is mounted.
    pub(super) fn hold(&self, layer: &LayerPath) -> Result<()> {
        self.zonepath.make(MOUNTED)?;
        crash::point();
        let mounted = Self::at(self.zonepath.open_child(MOUNTED)?);
        // An interrupted merge may have created the link already.
        let id = match mounted.bond()? {
            Some(held) => held.id,
            None => Id::random()?,
        };
        let held = Bond {
            layer: layer.clone(),
            id,
        };
        mounted.write_bond(&held)?;
        crash::point();
        layer.add_ref(&dataset_ref(id), &mounted.ref_place(layer))?;
        crash::point();
        Ok(())
    }

    /// Removes the files that a killed merge of a running zone's layers left. The caller holds the
    /// lock.
    pub(super) fn clear_killed_merge(&self) -> Result<()> {
        let held = match self.mounted()? {
            Some(mounted) => mounted.bond()?,
            None => return Ok(()),
        };
        let was_killed = match (held, self.bond()?) {
            (Some(held), Some(bond)) => {
                let former = ref_target(&held.layer, dataset_ref(bond.id).as_ref())?;
                former.is_some()
            }
            (None, _) => true,
            (_, None) => false,
        };
        if was_killed {
            let home = Layers::home(&self.zonepath)?;
            collect_around(&home, Lost::Keep, Some(self.zonepath.path()), Wait::Yes)?;
        }
        Ok(())
    }

    /// Removes the files that [`Dataset::hold`] created. Returns the trees to remove.
    pub(crate) fn drop_mounted(&self) -> Result<Vec<PathBuf>> {
        let Some(mounted) = self.mounted()? else {
            return Ok(Vec::new());
        };
        let graves = mounted.drop_bond()?;
        crash::point();
        for name in [LINK, "dataset.new"] {
            mounted.zonepath.unlink(name)?;
        }
        self.zonepath
            .rmdir(MOUNTED)
            .map_err(|e| self.zonepath.fail("rmdir", MOUNTED, e))?;
        Ok(graves)
    }

    /// Returns the users of layers beside the top: the snapshots and the mounted stack. Each of
    /// these is a dataset without a top.
    pub(crate) fn others(&self) -> Result<Vec<Self>> {
        let mut all = self.snapshot_folders()?;
        all.extend(self.mounted()?);
        Ok(all)
    }

    fn mounted(&self) -> Result<Option<Self>> {
        if !self.keeps_mounted()? {
            return Ok(None);
        }
        Ok(Some(Self::at(self.zonepath.open_child(MOUNTED)?)))
    }
}
