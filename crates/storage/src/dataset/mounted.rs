//! Layers that a running zone has mounted, while its dataset stands on others.
//!
//! ```text
//! <zonepath>/mounted/dataset   link to the reference on the topmost of them, as a
//!                              dataset's own
//! ```
//!
//! An overlay goes on reading the layers that it was mounted from, so a chain that is
//! merged while the zone runs keeps its former layers until the zone is halted.

use std::path::PathBuf;

use super::{Bond, Dataset, ref_target};
use crate::collect::{Lost, collect_around};
use crate::error::Result;
use crate::id::Id;
use crate::layers::{LayerPath, Layers, dataset_ref};
use crate::layout::{LINK, MOUNTED};
use crate::{crash, remove};

impl Dataset {
    /// Returns the number of layers that a running zone has mounted until its next boot, when they
    /// are not the dataset's layers any more.
    pub fn mounted_depth(&self) -> Result<Option<usize>> {
        let Some(mounted) = self.mounted()? else {
            return Ok(None);
        };
        match (mounted.bond()?, self.bond()?) {
            // A kill in `let_go` may have left the link without the layer.
            (Some(held), Some(bond)) if held.layer != bond.layer && held.layer.path().exists() => {
                Ok(Some(held.layer.chain()?.len()))
            }
            // A merge that was cut off before it counted.
            _ => Ok(None),
        }
    }

    /// Returns whether there is something to let go.
    pub fn keeps_mounted(&self) -> Result<bool> {
        self.zonepath.is_folder(MOUNTED)
    }

    /// Gives up layers that were only kept for the zone that had them mounted. For
    /// halted zones; whatever makes or removes layers of one begins with it.
    pub fn let_go(&self) -> Result<()> {
        // Mostly there is nothing, and then nobody needs to wait.
        if !self.keeps_mounted()? {
            return Ok(());
        }
        let _lock = self.lock()?;
        self.let_go_locked()
    }

    /// [`Dataset::let_go`] for a caller that holds the lock.
    pub(crate) fn let_go_locked(&self) -> Result<()> {
        if !self.keeps_mounted()? {
            return Ok(());
        }
        // First: once nothing is held nobody looks for it again.
        self.clear_killed_merge()?;
        let graves = {
            let (_, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
            self.drop_mounted()?
        };
        graves.iter().try_for_each(|grave| remove::bury(grave))
    }

    /// Keeps a layer, which the dataset stands on, for as long as it is mounted.
    pub(super) fn hold(&self, layer: &LayerPath) -> Result<()> {
        self.zonepath.make(MOUNTED)?;
        crash::point();
        let mounted = Self::at(self.zonepath.open_child(MOUNTED)?);
        // A merge that was cut off may have begun it.
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

    /// Removes the leftovers of a killed merge beside the zone. For a caller that holds the lock.
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
            collect_around(&home, Lost::Keep, Some(self.zonepath.path()))?;
        }
        Ok(())
    }

    /// Removes the files of [`Dataset::hold`]. Returns the trees to remove.
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

    /// Returns the other users of layers beside the top: snapshots, and mounted stacks. Each is a
    /// dataset without a top.
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
