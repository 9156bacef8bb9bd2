//! The files in which zonepatch records its changes of a zone.

use std::path::PathBuf;

use store::Root;
use store::index::Entry;

use host::Error;

/// Returns the journal of a patch, which changes the root of a zone by a copy: while it is there the zone
/// may be between old and new, and only zonepatch knows. It goes by the zone's uuid, which a
/// rename of the zone does not change.
#[must_use]
pub fn journal_of(root: &Root, zone: &Entry) -> PathBuf {
    root.lib()
        .join("patch")
        .join(format!("{}.journal", stem(zone)))
}

/// Removes the history of the patches of a zone that is not on this host any more.
///
/// # Errors
/// When the file cannot be removed.
pub fn forget_history(root: &Root, zone: &Entry) -> Result<(), Error> {
    let path = journal_of(root, zone).with_extension("history");
    Ok(store::atomic::remove(&path)?)
}

/// Returns the prefix of the names of a zone's patch files.
#[must_use]
pub fn stem(zone: &Entry) -> String {
    match &zone.uuid {
        Some(uuid) => uuid.to_string(),
        None => format!("zone-{}", zone.name),
    }
}
