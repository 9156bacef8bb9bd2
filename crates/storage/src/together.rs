//! The space that several snapshots of a zone occupy together.
//!
//! A file that two snapshots share counts for neither of them alone, so the sum of their own sizes
//! says little. This figure counts each file once.

use std::collections::BTreeSet;

use crate::dataset::Dataset;
use crate::error::Result;
use crate::folder::Folder;
use crate::layers::{LayerPath, dataset_ref, layer_ref};
use crate::name::Name;
use crate::size;

impl Dataset {
    /// Returns the bytes that the removal of all snapshots with these names frees. Reads all files of
    /// the layers that only these snapshots need. On btrfs this is the size of the files that changed
    /// from one snapshot to the next, also if they changed in part.
    pub fn bytes_together(&self, names: &BTreeSet<Name>) -> Result<u64> {
        let mut gone = BTreeSet::new();
        for folder in self.snapshot_folders()? {
            let name = folder.zonepath().file_name().and_then(Name::parse);
            if let (true, Some(bond)) = (
                name.is_some_and(|name| names.contains(&name)),
                folder.bond()?,
            ) {
                gone.insert(dataset_ref(bond.id));
            }
        }
        let known = self.snapshots_on_layers()?.into_iter();
        let wanted = known.filter(|(snapshot, _)| names.contains(&snapshot.name));
        let mut chains = Vec::new();
        for (_, layer) in wanted {
            chains.push(layer.chain()?);
        }
        let mut freed: Vec<LayerPath> = Vec::new();
        // A layer is freed with the last layer above it, so each pass may free more.
        loop {
            let before = freed.len();
            for layer in chains.iter().flatten() {
                if !freed.contains(layer) && is_free(layer, &gone)? {
                    gone.insert(layer_ref(layer.id));
                    freed.push(layer.clone());
                }
            }
            if freed.len() == before {
                return size::together(&freed);
            }
        }
    }
}

/// Returns true if all users of a layer are among those that go.
fn is_free(layer: &LayerPath, gone: &BTreeSet<String>) -> Result<bool> {
    let users = Folder::open(&layer.refs())?.entries()?;
    let goes = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| gone.contains(name));
    Ok(users.iter().all(|(name, _)| goes(name)))
}
