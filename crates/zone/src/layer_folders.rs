//! The folders that hold layers of zones.

use std::collections::BTreeSet;
use std::path::PathBuf;

use store::index::Index;

use host::Host;
use subject::layer_folders;

/// Returns the folders in which zones have layers, also zones that are only configured: with the
/// last zone that was installed something may have been left.
pub(crate) fn of_zones(host: &Host) -> BTreeSet<PathBuf> {
    let Ok(index) = Index::load(&host.root) else {
        // A zone that could not boot because of it has reported this.
        return BTreeSet::new();
    };
    let entries = index.entries().iter();
    let places = entries.flat_map(|entry| layer_folders(&host.root.path(&entry.zonepath)));
    places.filter(|folder| folder.is_dir()).collect()
}
