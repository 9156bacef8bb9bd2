//! `zonecfg -z PATTERN delete -F`: deletes many zones, with one write of the index for each batch.

use cli::select;
use model::{State, ZoneName};
use store::Root;
use store::index::Index;
use store::lock;
use syntax::Backing;

use crate::backing::{Error, LOCK_RETRY_TIME, Stored, is_in_use};

/// Maximum number of zones that one write of the index deletes. A command holds the locks of all
/// zones of a batch, and may have 1024 open files.
const MAX_BATCH: usize = 250;

/// Deletes all zones that a pattern selects. A zone that cannot be deleted stays, and the others
/// are deleted. Returns the errors, in the order of the zones.
///
/// # Errors
/// Fails if the pattern selects no zone, or if the index cannot be read.
pub fn delete(root: &Root, pattern: &str) -> anyhow::Result<Vec<Error>> {
    let known: Vec<ZoneName> = Index::load(root)?
        .entries()
        .iter()
        .map(|entry| entry.name.clone())
        .collect();
    let mut zones = select::resolve([pattern], &known)?;
    // Two commands that delete the same zones lock them in the same order.
    zones.sort();
    let mut failed = Vec::new();
    for batch in zones.chunks(MAX_BATCH) {
        delete_batch(root, batch, &mut failed);
    }
    Ok(failed)
}

fn delete_batch(root: &Root, zones: &[ZoneName], failed: &mut Vec<Error>) {
    let mut stored = Stored::new(root.clone());
    let mut held = Vec::new();
    for zone in zones {
        match lock::zone_within(root, zone, LOCK_RETRY_TIME) {
            Ok(lock) => held.push((zone, lock)),
            Err(error) => failed.push(error.into()),
        }
    }
    // The states are read with all locks held.
    held.retain(|(zone, _)| match allowed(&mut stored, zone) {
        Ok(()) => true,
        Err(error) => {
            failed.push(error);
            false
        }
    });
    let held: Vec<_> = held.iter().map(|(zone, lock)| (*zone, lock)).collect();
    if let Err(error) = zone::delete::all(root, &held) {
        failed.push(error.into());
    }
}

fn allowed(stored: &mut Stored, zone: &ZoneName) -> Result<(), Error> {
    match stored.state(zone)? {
        None => Err(store::Error::NoSuchZone(zone.clone()).into()),
        Some(State::Configured) => Ok(()),
        Some(state) if !is_in_use(state) => Ok(()),
        Some(state) => Err(Error::State {
            zone: zone.clone(),
            state,
        }),
    }
}

#[cfg(test)]
mod tests {
    use syntax::Change;

    use super::*;

    fn names(root: &Root) -> Vec<String> {
        let index = Index::load(root).unwrap();
        let names = index.entries().iter().map(|entry| entry.name.to_string());
        names.collect()
    }

    #[test]
    fn deletes_the_zones_of_a_pattern_and_keeps_a_locked_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let mut stored = Stored::new(root.clone());
        for name in ["web1", "web2", "web3", "db"] {
            let config = stored.template(None, &name.parse().unwrap()).unwrap();
            let change = Change {
                zone: config.name(),
                base: None,
                config: &config,
                zonepath_forced: false,
            };
            stored.commit(&change).unwrap();
        }
        let busy: ZoneName = "web2".parse().unwrap();
        let held = lock::zone_within(&root, &busy, LOCK_RETRY_TIME).unwrap();
        let failed = delete(&root, "web*").unwrap();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(failed[0].to_string().contains("web2"), "{}", failed[0]);
        assert_eq!(names(&root), ["web2", "db"]);
        assert!(!root.xml(&"web1".parse().unwrap()).exists());
        drop(held);
        assert!(delete(&root, "web*").unwrap().is_empty());
        assert_eq!(names(&root), ["db"]);
        assert!(delete(&root, "web*").is_err(), "no zone is left");
        // A range names its zones, whether they exist or not.
        assert_eq!(delete(&root, "db[1-2]").unwrap().len(), 2);
    }
}
