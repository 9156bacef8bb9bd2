//! The deletion of configurations: `zonecfg delete`, and `zoneadm uninstall --delete` after the
//! removal of the files.

use model::plan::{Step, ZonePlan};
use model::{Verb, ZoneName};
use store::lock::{self, ZoneLock};
use store::{Root, index, xml};

/// Removes zones from the index in one write, and then their files in `/etc/zones` and `/run/zones`.
/// A zone without an entry in the index does not exist, so a kill in between leaves only files that
/// `zoneadm check` shows.
///
/// # Errors
/// Fails with [`store::Error`]. If the index could not be written, no zone has changed.
pub fn all(root: &Root, zones: &[(&ZoneName, &ZoneLock)]) -> Result<(), store::Error> {
    if zones.is_empty() {
        return Ok(());
    }
    let mut zonepaths = Vec::new();
    index::update(root, |index| {
        let entries = zones.iter().filter_map(|(zone, _)| index.remove(zone));
        zonepaths = entries.map(|entry| entry.zonepath).collect();
        Ok::<(), store::Error>(())
    })?;
    for zonepath in zonepaths {
        // The rest of a zonepath whose zone went to another host. The zone is deleted all the same:
        // `zoneadm check` shows a rest that stays.
        let _ = subject::away::clear_gone(&root.path(&zonepath));
    }
    for (zone, held) in zones {
        let ports = xml::remove(root, zone)?;
        control::audit::record_network(root, ports.as_slice(), None);
        lock::forget(root, zone, held)?;
    }
    Ok(())
}

/// Returns the plan for a zone that has no files.
pub(crate) fn plan(zone: &ZoneName) -> ZonePlan {
    ZonePlan {
        zone: zone.clone(),
        verb: Verb::Uninstall,
        steps: vec![Step::DeleteConfiguration],
    }
}
