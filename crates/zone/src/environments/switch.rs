//! Switches a halted zone from one boot environment to another.
//!
//! | step | a crash after it leaves |
//! |---|---|
//! | mark the switch as begun | it: removed, with the snapshot if there is one |
//! | keep the root as a snapshot, by the name of the active one | the same |
//! | **mark the switch as kept** | the next command does the rest |
//! | roll back to the other one | the same |
//! | store its name as the active one, and the next one | the same |
//! | remove its snapshot, which is the root now | the same |
//! | remove the mark | - |

use std::path::Path;
use std::time::{Duration, SystemTime};

use storage::{Dataset, Name};

use crate::environments::dataset::{made, open, seconds};
use crate::environments::marks::{Active, Marks, Switch};
use host::Error;

/// Makes a boot environment the root of a halted zone: the one that `once` names, or the one that
/// was activated. Does nothing if there is none. The caller must hold the zone's lock. Returns a
/// remark if the activated boot environment does not exist, as after a crash during a rename; the
/// zone then keeps its present root.
pub(crate) fn take_next(zonepath: &Path, once: Option<&Name>) -> Result<Option<String>, Error> {
    complete(zonepath)?;
    let marks = Marks::at(zonepath);
    let target = match (once, marks.next()?) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name,
        (None, None) => return Ok(None),
    };
    let active = marks.active()?;
    let from = active.name;
    if target == from {
        // A boot without -Z uses the activated boot environment, so the mark is removed.
        if once.is_none() {
            marks.set_next(None)?;
        }
        return Ok(None);
    }
    let dataset = open(zonepath)?;
    let known = dataset.snapshots()?;
    if known.iter().all(|one| one.name != target) {
        if once.is_none() {
            marks.set_next(None)?;
            return Ok(Some(format!(
                "boot environment {target} was activated and is gone; it boots {from}. See zoneadm beadm list."
            )));
        }
        return Err(Error::Refused(format!(
            "has no boot environment {target}; see zoneadm beadm list."
        )));
    }
    if known.iter().any(|one| one.name == from) {
        return Err(Error::Refused(format!(
            "has a snapshot {from}, as the active boot environment is called; rename the one or the other with zoneadm beadm rename."
        )));
    }
    let mut switch = Switch {
        from,
        to: target,
        once: once.is_some(),
        kept: false,
    };
    marks.set_switch(Some(&switch))?;
    let created = active.created.unwrap_or_else(|| made(zonepath));
    let created = SystemTime::UNIX_EPOCH + Duration::from_secs(created);
    dataset.snapshot_made(&switch.from, created)?;
    switch.kept = true;
    marks.set_switch(Some(&switch))?;
    go_on(&marks, &dataset, &switch)?;
    Ok(None)
}

/// Completes or undoes an interrupted switch. The zone must be halted.
pub(crate) fn complete(zonepath: &Path) -> Result<(), Error> {
    let marks = Marks::at(zonepath);
    let Some(switch) = marks.switch()? else {
        return Ok(());
    };
    let dataset = open(zonepath)?;
    if switch.kept {
        return go_on(&marks, &dataset, &switch);
    }
    if dataset
        .snapshots()?
        .iter()
        .any(|one| one.name == switch.from)
    {
        dataset.destroy_snapshot(&switch.from)?;
    }
    marks.set_switch(None)
}

fn go_on(marks: &Marks, dataset: &Dataset, switch: &Switch) -> Result<(), Error> {
    if marks.active()?.name != switch.to {
        let known = dataset.snapshots()?;
        let created = known.iter().find(|one| one.name == switch.to);
        let created = created.map(|one| seconds(one.created));
        dataset.rollback(&switch.to)?;
        marks.set_active(&Active {
            name: switch.to.clone(),
            created,
        })?;
    }
    match (switch.once, marks.next()?) {
        // If another boot environment was activated meanwhile, it stays activated.
        (true, Some(next)) if next != switch.to => {}
        (true, _) => marks.set_next(Some(&switch.from))?,
        (false, Some(next)) if next == switch.to => marks.set_next(None)?,
        (false, _) => {}
    }
    if dataset.snapshots()?.iter().any(|one| one.name == switch.to) {
        dataset.destroy_snapshot(&switch.to)?;
    }
    marks.set_switch(None)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    struct Zone {
        _dir: tempfile::TempDir,
        path: std::path::PathBuf,
    }

    /// Makes a zone with the boot environment "old". The file `word` contains "new" in the zone's
    /// root and "old" in this boot environment.
    fn zone() -> Zone {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web");
        let dataset = Dataset::create(&path).unwrap();
        fs::write(path.join("root/word"), "old").unwrap();
        // These tests need only a file system that can rename.
        dataset.snapshot(&name("old")).unwrap();
        fs::write(path.join("root/word"), "new").unwrap();
        Zone { _dir: dir, path }
    }

    fn word(path: &Path) -> String {
        let stack = Dataset::open(path).unwrap().stack().unwrap();
        let mut trees = std::iter::once(stack.top).chain(stack.lowers);
        trees
            .find_map(|tree| fs::read_to_string(tree.join("word")).ok())
            .unwrap()
    }

    fn snapshots(path: &Path) -> Vec<String> {
        let all = Dataset::open(path).unwrap().snapshots().unwrap();
        all.iter().map(|one| one.name.to_string()).collect()
    }

    #[test]
    fn the_root_switches_between_two_environments() {
        let zone = zone();
        let marks = Marks::at(&zone.path);
        take_next(&zone.path, None).unwrap();
        assert_eq!(word(&zone.path), "new");
        marks.set_next(Some(&name("old"))).unwrap();
        take_next(&zone.path, None).unwrap();
        assert_eq!(word(&zone.path), "old");
        assert_eq!(snapshots(&zone.path), ["initial"]);
        assert_eq!(marks.active().unwrap().name, name("old"));
        assert_eq!(marks.next().unwrap(), None);
        fs::write(zone.path.join("root/word"), "older").unwrap();
        // After a switch for one boot, the next boot without -Z switches back.
        take_next(&zone.path, Some(&name("initial"))).unwrap();
        assert_eq!(word(&zone.path), "new");
        assert_eq!(marks.next().unwrap(), Some(name("old")));
        take_next(&zone.path, None).unwrap();
        assert_eq!(word(&zone.path), "older");
        assert_eq!(marks.next().unwrap(), None);
        assert!(take_next(&zone.path, Some(&name("none"))).is_err());
        assert_eq!(word(&zone.path), "older");
    }

    #[test]
    fn a_switch_that_was_cut_off_is_completed_or_taken_back() {
        for kept in [false, true] {
            let zone = zone();
            let marks = Marks::at(&zone.path);
            marks.set_next(Some(&name("old"))).unwrap();
            let dataset = Dataset::open(&zone.path).unwrap();
            let switch = Switch {
                from: name("initial"),
                to: name("old"),
                once: false,
                kept,
            };
            marks.set_switch(Some(&switch)).unwrap();
            dataset.snapshot(&switch.from).unwrap();
            if kept {
                dataset.rollback(&switch.to).unwrap();
            }
            complete(&zone.path).unwrap();
            assert_eq!(marks.switch().unwrap(), None);
            assert_eq!(word(&zone.path), if kept { "old" } else { "new" });
            take_next(&zone.path, None).unwrap();
            assert_eq!(word(&zone.path), "old");
            assert_eq!(snapshots(&zone.path), ["initial"]);
            take_next(&zone.path, Some(&name("initial"))).unwrap();
            assert_eq!(word(&zone.path), "new");
        }
    }

    #[test]
    fn a_missing_activated_environment_does_not_stop_the_boot() {
        let zone = zone();
        let marks = Marks::at(&zone.path);
        marks.set_next(Some(&name("former"))).unwrap();
        let remark = take_next(&zone.path, None).unwrap().unwrap();
        assert!(remark.contains("former"), "{remark}");
        assert_eq!(word(&zone.path), "new");
        assert_eq!(marks.next().unwrap(), None);
        assert_eq!(take_next(&zone.path, None).unwrap(), None);
    }

    #[test]
    fn a_snapshot_of_the_active_ones_name_is_not_lost() {
        let zone = zone();
        let dataset = Dataset::open(&zone.path).unwrap();
        dataset.snapshot(&name("initial")).unwrap();
        let error = take_next(&zone.path, Some(&name("old"))).unwrap_err();
        assert!(error.to_string().contains("rename"), "{error}");
        assert_eq!(word(&zone.path), "new");
        assert_eq!(snapshots(&zone.path), ["old", "initial"]);
    }
}
