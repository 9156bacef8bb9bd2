//! The files in which zonepatch records its changes of a zone.

use std::path::PathBuf;

use store::Root;
use store::index::Entry;

use host::Error;

/// Returns the path of the journal of a patch. A patch changes the root of a zone by a copy. While
/// the journal exists, the root may be between its old and its new state, and only zonepatch can
/// complete or undo the patch. The file name contains the zone's uuid, which does not change when
/// the zone is renamed.
#[must_use]
pub fn journal_of(root: &Root, zone: &Entry) -> PathBuf {
    root.lib()
        .join("patch")
        .join(format!("{}.journal", stem(zone)))
}

/// Removes the history of the patches of a zone that has left this host.
///
/// # Errors
/// Fails if the file cannot be removed.
pub fn forget_history(root: &Root, zone: &Entry) -> Result<(), Error> {
    let path = journal_of(root, zone).with_extension("history");
    Ok(store::atomic::remove(&path)?)
}

/// Returns the common prefix of the names of a zone's patch files.
#[must_use]
pub fn stem(zone: &Entry) -> String {
    match &zone.uuid {
        Some(uuid) => uuid.to_string(),
        None => format!("zone-{}", zone.name),
    }
}
