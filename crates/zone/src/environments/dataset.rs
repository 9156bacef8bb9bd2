//! The dataset of a zone. The dataset's snapshots are the boot environments of the zone.

use std::path::Path;
use std::time::SystemTime;

use host::Error;
use storage::{Dataset, Name, driver_at};

/// Returns the time at which a zonepath was created, or 0 if the file system does not store this
/// time. Uses statx(2) directly, because the standard library cannot read this time with musl.
pub(super) fn made(zonepath: &Path) -> u64 {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let found = statx(CWD, zonepath, AtFlags::empty(), StatxFlags::BTIME);
    let known = found
        .ok()
        .filter(|stat| stat.stx_mask & StatxFlags::BTIME.bits() != 0);
    let seconds = known.and_then(|stat| u64::try_from(stat.stx_btime.tv_sec).ok());
    seconds.unwrap_or_default()
}

/// Returns a time in seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

/// Opens the dataset of a zone.
///
/// # Errors
/// Fails with [`Error::Refused`] if the root has no layers.
pub(super) fn open(zonepath: &Path) -> Result<Dataset, Error> {
    if !driver_at(zonepath)?.has_layers() {
        return Err(Error::Refused(
            "boot environments are made of layers, and its root has none.".to_owned(),
        ));
    }
    Ok(Dataset::open(zonepath)?)
}

/// Fails if the zone has no boot environment of this name, apart from the active one.
pub(super) fn find(dataset: &Dataset, name: &Name) -> Result<(), Error> {
    match dataset.snapshots()?.iter().any(|one| one.name == *name) {
        true => Ok(()),
        false => Err(Error::Refused(format!("has no boot environment {name}."))),
    }
}
