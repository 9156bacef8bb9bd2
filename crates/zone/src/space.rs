//! `zoneadm storage`: shows how the root of a zone is stored, and its space.

use model::verb::Admission;
use model::{Verb, ZoneName};
use serde::Serialize;
use storage::{Dataset, driver_at};
use store::index::Index;

use host::{Error, Host};

/// A line of `zoneadm storage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The zone.
    pub zone: String,
    /// The storage driver.
    pub driver: String,
    /// The type of file system that the zonepath is on.
    pub fstype: String,
    /// Layers below the writable top.
    pub layers: usize,
    /// Layers that a running zone has mounted until its next boot takes the others.
    pub mounted_layers: Option<usize>,
    /// Named snapshots.
    pub snapshots: usize,
    /// Bytes in the top: the files of this zone alone.
    pub own_bytes: u64,
    /// Files, folders and links in the top.
    pub own_files: u64,
    /// Bytes in the layers below, which others may share.
    pub shared_bytes: u64,
    /// The limit of the top, in bytes.
    pub quota: Option<u64>,
}

/// Looks at the storage of a zone; walks through its files.
///
/// # Errors
/// [`Error::Refused`] for a zone without a root.
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
        snapshots: driver.snapshots(&zonepath)?.len(),
        own_bytes: usage.own_bytes,
        own_files: usage.own_files,
        shared_bytes: usage.shared_bytes,
        quota: driver.quota(&zonepath)?,
    })
}
