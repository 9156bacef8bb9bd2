//! `zoneadm storage`: shows how the root of a zone is stored, and the space that it occupies.

use model::verb::Admission;
use model::{Verb, ZoneName};
use serde::Serialize;
use storage::{Dataset, driver_at};
use store::index::Index;

use crate::kept_disks;
use host::{Error, Host};

/// A line of `zoneadm storage`: the storage of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The name of the zone.
    pub zone: String,
    /// The name of the storage driver.
    pub driver: String,
    /// The type of the zonepath's file system.
    pub fstype: String,
    /// Number of layers below the writable top.
    pub layers: usize,
    /// Number of layers that a running zone still has mounted, if its next boot will use other
    /// layers; `None` otherwise.
    pub mounted_layers: Option<usize>,
    /// Number of named snapshots.
    pub snapshots: usize,
    /// Number of bytes in the top, which contains the files of this zone alone.
    pub own_bytes: u64,
    /// Number of files, folders and links in the top.
    pub own_files: u64,
    /// Number of bytes in the layers below the top. Other zones may share these layers.
    pub shared_bytes: u64,
    /// The limit of the top in bytes; `None` if it has no limit.
    pub quota: Option<u64>,
}

/// Returns the storage of a zone. Reads the sizes of all its files.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone has no root.
pub fn of(host: &Host, zone: &ZoneName) -> Result<Row, Error> {
    let index = Index::load(&host.root)?;
    let entry = index.get(zone)?;
    let (state, _) = subject::state(host, entry)?;
    if let Admission::Refuse(text) = Verb::Storage.admission(state) {
        return Err(Error::State(text));
    }
    let zonepath = host.root.path(&entry.zonepath);
    let driver = driver_at(&zonepath)?;
    let usage = driver.usage(&zonepath)?;
    let mounted_layers = match driver.has_layers() {
        true => Dataset::open(&zonepath)?.mounted_depth()?,
        false => None,
    };
    Ok(Row {
        zone: zone.to_string(),
        driver: driver.name().to_owned(),
        fstype: storage::fstype_at(&zonepath)?,
        layers: usage.layers,
        mounted_layers,
        snapshots: match kept_disks::count(&zonepath)? {
            Some(count) => count,
            None => driver.snapshots(&zonepath)?.len(),
        },
        own_bytes: usage.own_bytes,
        own_files: usage.own_files,
        shared_bytes: usage.shared_bytes,
        quota: driver.quota(&zonepath)?,
    })
}
