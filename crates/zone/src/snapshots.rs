//! `zoneadm snapshots`: lists the snapshots of a zone and their space.

use std::time::SystemTime;

use model::verb::Admission;
use model::{Verb, ZoneName};
use serde::Serialize;
use storage::driver_at;
use store::index::Index;

use host::{Error, Host};

/// A line of `zoneadm snapshots`: a snapshot of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The name of the zone.
    pub zone: String,
    /// The name of the snapshot.
    pub name: String,
    /// The time of creation, in seconds since 1970.
    pub created: u64,
    /// Number of layers of the snapshot.
    pub layers: usize,
    /// Number of bytes that the removal of the snapshot frees.
    pub used_bytes: u64,
    /// Number of bytes in all layers of the snapshot, including shared layers.
    pub referenced_bytes: u64,
}

/// Lists the snapshots of a zone, the oldest first. Reads the sizes of all their files.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone has no root.
pub fn snapshots(host: &Host, zone: &ZoneName) -> Result<Vec<Row>, Error> {
    let index = Index::load(&host.root)?;
    let entry = index.get(zone)?;
    let (state, _) = subject::state(host, entry)?;
    if let Admission::Refuse(text) = Verb::Snapshots.admission(state) {
        return Err(Error::State(text));
    }
    let zonepath = host.root.path(&entry.zonepath);
    let driver = driver_at(&zonepath)?;
    let row = |one: storage::Snapshot| -> Result<Row, Error> {
        let usage = driver.snapshot_usage(&zonepath, &one.name)?;
        let since = one.created.duration_since(SystemTime::UNIX_EPOCH);
        Ok(Row {
            zone: zone.to_string(),
            name: one.name.to_string(),
            created: since.unwrap_or_default().as_secs(),
            layers: one.depth,
            used_bytes: usage.own_bytes,
            referenced_bytes: usage.all_bytes,
        })
    };
    driver.snapshots(&zonepath)?.into_iter().map(row).collect()
}
