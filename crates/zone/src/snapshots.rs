//! `zoneadm snapshots`: lists the snapshots of a zone and their space.

use std::time::SystemTime;

use model::config::Period;
use model::verb::Admission;
use model::{Verb, ZoneName};
use serde::Serialize;
use storage::{Snapshot, SnapshotUsage, driver_at};
use store::index::Index;

use crate::slide::Auto;
use crate::{environments, kept_disks};
use host::{Error, Host};
use platform::kind;

/// A line of `zoneadm snapshots`: a snapshot of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The name of the zone.
    pub zone: String,
    /// The name of the snapshot.
    pub name: String,
    /// The time of creation, in seconds since 1970.
    pub created: u64,
    /// The period for which a schedule took the snapshot; `None` for snapshots that no schedule
    /// removes.
    pub period: Option<Period>,
    /// Number of layers of the snapshot.
    pub layers: usize,
    /// Number of bytes that the removal of the snapshot frees; `None` without sizes.
    pub used_bytes: Option<u64>,
    /// Number of bytes in all layers of the snapshot, including shared layers; `None` without
    /// sizes.
    pub referenced_bytes: Option<u64>,
}

/// The figures of a list of snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figures {
    /// Names, times and sizes. A size that is not stored yet costs a walk through the files of a
    /// layer.
    Sizes,
    /// Names and times. This never depends on the number of files.
    NoSizes,
}

/// Lists the snapshots of a zone, the oldest first.
///
/// # Errors
/// Fails with [`Error::Refused`] if the zone has no root.
pub fn snapshots(host: &Host, zone: &ZoneName, figures: Figures) -> Result<Vec<Row>, Error> {
    let index = Index::load(&host.root)?;
    let entry = index.get(zone)?;
    let (state, _) = subject::state(host, entry)?;
    if let Admission::Refuse(text) = Verb::Snapshots.admission(state) {
        return Err(Error::State(text));
    }
    let zonepath = host.root.path(&entry.zonepath);
    let driver = driver_at(&zonepath)?;
    let marked = environments::scheduled(&zonepath)?;
    let row = |one: Snapshot, usage: Option<SnapshotUsage>| {
        let auto = Auto::parse(&one.name).filter(|_| marked.contains(&one.name));
        let since = one.created.duration_since(SystemTime::UNIX_EPOCH);
        Row {
            zone: zone.to_string(),
            name: one.name.to_string(),
            created: since.unwrap_or_default().as_secs(),
            period: auto.map(|auto| auto.period),
            layers: one.depth,
            used_bytes: usage.map(|usage| usage.own_bytes),
            referenced_bytes: usage.map(|usage| usage.all_bytes),
        }
    };
    let config = store::xml::load(&host.root, zone)?;
    if kind::of(&config).keeps_disks() {
        let all = kept_disks::list(&zonepath, figures == Figures::Sizes)?;
        return Ok(all
            .into_iter()
            .map(|(one, usage)| row(one, usage))
            .collect());
    }
    Ok(match figures {
        Figures::Sizes => {
            let all = driver.snapshot_usages(&zonepath)?.into_iter();
            all.map(|(one, usage)| row(one, Some(usage))).collect()
        }
        Figures::NoSizes => {
            let all = driver.snapshots(&zonepath)?.into_iter();
            all.map(|one| row(one, None)).collect()
        }
    })
}
