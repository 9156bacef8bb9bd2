//! `zoneadm snapshots`: lists the snapshots of a zone and their space.

use std::time::SystemTime;

use model::verb::Admission;
use model::{Verb, ZoneName};
use serde::Serialize;
use storage::driver_at;
use store::index::Index;

use host::{Error, Host};

/// A line of `zoneadm snapshots`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The zone.
    pub zone: String,
    /// The snapshot.
    pub name: String,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Layers it stands on.
    pub layers: usize,
    /// Bytes that removing it frees.
    pub used_bytes: u64,
    /// Bytes in all its layers, shared ones included.
    pub referenced_bytes: u64,
}

/// Lists the snapshots of a zone, the oldest first. Walks through their files.
///
/// # Errors
/// [`Error::Refused`] for a zone without a root.
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
