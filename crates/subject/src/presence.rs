//! Tells whether a zonepath holds a zone.

use std::path::Path;

/// Returns true if a zonepath holds no part of an installed zone: its file system is not mounted,
/// or an administrator removed the files by hand.
pub fn lacks_root(zonepath: &Path) -> bool {
    let is_missing = |name: &str| {
        let found = zonepath.join(name).symlink_metadata();
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    // During a seal or a rollback, one of these exists, too.
    [
        storage::ROOT,
        storage::LINK,
        "root.new",
        "zfs",
        "vol",
        "back",
    ]
    .iter()
    .all(|name| is_missing(name))
}
