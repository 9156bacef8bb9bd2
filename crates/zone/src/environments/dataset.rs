//! The dataset of a zone whose snapshots are its boot environments.

use std::path::Path;
use std::time::SystemTime;

use host::Error;
use storage::{Dataset, Name, driver_at};

/// Returns the time at which a zone was installed, 0 where the file system does not know it.
/// The standard library does not ask for it where it stands on musl.
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
/// [`Error::Refused`] for a root that has no layers.
pub(super) fn open(zonepath: &Path) -> Result<Dataset, Error> {
    if !driver_at(zonepath)?.has_layers() {
        return Err(Error::Refused(
            "boot environments are made of layers, and its root has none.".to_owned(),
        ));
    }
    Ok(Dataset::open(zonepath)?)
}

/// Fails if the zone has no such boot environment besides the active one.
pub(super) fn find(dataset: &Dataset, name: &Name) -> Result<(), Error> {
    match dataset.snapshots()?.iter().any(|one| one.name == *name) {
        true => Ok(()),
        false => Err(Error::Refused(format!("has no boot environment {name}."))),
    }
}
