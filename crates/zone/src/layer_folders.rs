//! The folders that hold layers of zones.

use std::collections::BTreeSet;
use std::path::PathBuf;

use store::index::Index;

use host::Host;
use subject::layer_folders;

/// Returns the folders that contain layers of zones, including zones that are only configured: an
/// uninstall may have left layers there.
pub(crate) fn of_zones(host: &Host) -> BTreeSet<PathBuf> {
    let Ok(index) = Index::load(&host.root) else {
        // An index that cannot be read is ignored here: a boot that fails for this reason reports
        // it.
        return BTreeSet::new();
    };
    let entries = index.entries().iter();
    let places = entries.flat_map(|entry| layer_folders(&host.root.path(&entry.zonepath)));
    places.filter(|folder| folder.is_dir()).collect()
}
