//! Tests that the next command that looks at a zone removes the leftovers of a killed operation,
//! without a call of `collect`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Zones, name, write};
use crate::collect::tidy;
use crate::crash;
use crate::dataset::Dataset;
use crate::layers::is_mark;
use crate::survey::{Garbage, survey};

/// The names of all zones that may exist after an operation.
pub(super) const NAMES: [&str; 4] = ["web", "patch", "origin", ".patch-web"];

/// An operation, and the state of the zones before the operation.
pub(super) struct Operation {
    pub(super) called: &'static str,
    pub(super) prepare: fn(&Zones),
    pub(super) work: fn(&Zones),
}

fn open(zones: &Zones, zone: &str) -> Dataset {
    Dataset::open(&zones.zone(zone)).unwrap()
}

/// Creates zones on one layer: `web` with two own layers and a snapshot, `patch` with one own layer
/// that other zones may share, and a copy of `web`, in which a patch works.
fn prepare(zones: &Zones) {
    let origin = zones.origin();
    for zone in ["patch", "web"] {
        origin.clone_to(&zones.zone(zone)).unwrap();
    }
    write(&open(zones, "patch"), "b", "new");
    open(zones, "patch").seal().unwrap();
    let web = open(zones, "web");
    write(&web, "own", "mine");
    web.snapshot(&name("first")).unwrap();
    web.clone_snapshot_to(&name("first"), &zones.zone(".patch-web"))
        .unwrap();
    write(&web, "more", "mine");
    web.seal().unwrap();
    write(&web, "top", "mine");
}

fn put_below(zones: &Zones, zone: &str) {
    let patch = open(zones, "patch");
    let lowers = patch.stack().unwrap().lowers;
    let base = lowers.last().unwrap();
    open(zones, zone).put_below(&patch, base).unwrap();
}

fn run_copy(zones: &Zones) {
    let web = open(zones, "web");
    let copy = web.copy_top().unwrap();
    web.snapshot_of_copy(&name("second"), copy).unwrap();
}

pub(super) const OPERATIONS: [Operation; 11] = [
    Operation {
        called: "put a patch below a copy",
        prepare,
        work: |zones| put_below(zones, ".patch-web"),
    },
    Operation {
        called: "put a patch below a zone",
        prepare: |zones| {
            prepare(zones);
            open(zones, "web").seal().unwrap();
        },
        work: |zones| put_below(zones, "web"),
    },
    Operation {
        called: "shorten",
        prepare,
        work: |zones| assert_eq!(open(zones, "web").shorten(1).unwrap(), 1),
    },
    Operation {
        called: "shorten beside",
        prepare,
        work: |zones| assert_eq!(open(zones, "web").shorten_beside(1).unwrap(), 1),
    },
    Operation {
        called: "seal",
        prepare,
        work: |zones| {
            open(zones, "web").seal().unwrap();
        },
    },
    Operation {
        called: "snapshot",
        prepare,
        work: |zones| open(zones, "web").snapshot(&name("second")).unwrap(),
    },
    Operation {
        called: "snapshot of a running zone",
        prepare,
        work: run_copy,
    },
    Operation {
        called: "rollback",
        prepare,
        work: |zones| open(zones, "web").rollback(&name("first")).unwrap(),
    },
    Operation {
        called: "take over",
        prepare: |zones| {
            prepare(zones);
            write(&open(zones, ".patch-web"), "b", "new");
            open(zones, ".patch-web").seal().unwrap();
        },
        work: |zones| {
            let copy = open(zones, ".patch-web");
            open(zones, "web").take_over(&copy).unwrap();
        },
    },
    Operation {
        called: "take as a snapshot",
        prepare: |zones| {
            prepare(zones);
            write(&open(zones, ".patch-web"), "b", "new");
        },
        work: |zones| {
            let copy = open(zones, ".patch-web");
            let web = open(zones, "web");
            web.take_as_snapshot(&name("first"), &copy).unwrap();
        },
    },
    Operation {
        called: "rename a snapshot",
        prepare,
        work: |zones| {
            let web = open(zones, "web");
            web.rename_snapshot(&name("first"), &name("other")).unwrap();
        },
    },
];

/// Kills each operation at each crash point and then calls `check` with a name of that point.
fn after_each_kill(mut check: impl FnMut(&Zones, &str)) {
    for operation in &OPERATIONS {
        for k in 0.. {
            let zones = Zones::quick();
            (operation.prepare)(&zones);
            let done = crash::run(k, || (operation.work)(&zones)).is_ok();
            check(&zones, &format!("{}, killed at {k}", operation.called));
            if done {
                assert!(k > 2, "{} has no points", operation.called);
                break;
            }
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn removing_the_last_zone_removes_all_leftovers() {
    for order in [
        ["web", "patch", "origin", ".patch-web"],
        [".patch-web", "origin", "web", "patch"],
    ] {
        after_each_kill(|zones, at| {
            for zone in order {
                Dataset::destroy(&zones.zone(zone)).unwrap();
            }
            let zonepaths: Vec<PathBuf> = NAMES.iter().map(|zone| zones.zone(zone)).collect();
            let mut left = zones.files();
            left.retain(|path| !zonepaths.contains(path));
            assert_eq!(left, [] as [PathBuf; 0], "{at}");
        });
    }
}

#[test]
fn the_next_command_removes_leftovers_of_a_kill() {
    after_each_kill(|zones, at| {
        let web = zones.zone("web");
        Dataset::open(&web).unwrap();
        tidy(&web).unwrap();
        assert_eq!(tidy(&web).unwrap(), None, "{at}");
        let dead = entries(&zones.layers().join(".dead"));
        assert_eq!(dead, [] as [PathBuf; 0], "{at}");
        // Each layer belongs to the chain of a zone or snapshot, and has as many references as
        // direct users.
        let mut reached = BTreeSet::new();
        let mut users = 0;
        for zone in NAMES {
            let zone = open(zones, zone);
            let all = zone.others().unwrap();
            for dataset in all.iter().chain([&zone]) {
                let Some(bond) = dataset.bond().unwrap() else {
                    continue;
                };
                // A layer that is kept for a running zone may lack its reference: the next merge or
                // boot adds it.
                let is_kept = dataset.zonepath().ends_with("mounted");
                users += usize::from(!is_kept || dataset.holds_ref(&bond).unwrap());
                for layer in bond.layer.chain().unwrap() {
                    assert!(layer.form().unwrap().is_some(), "{at}");
                    reached.insert(layer.path());
                }
            }
        }
        let mut found = entries(&zones.layers());
        found.retain(|path| !path.ends_with(".dead"));
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), reached, "{at}");
        let references = reached
            .iter()
            .map(|layer| entries(&layer.join("refs")).len());
        let is_above = |layer: &&PathBuf| fs::read_link(layer.join("parent")).is_ok();
        let above = reached.iter().filter(is_above).count();
        assert_eq!(references.sum::<usize>(), users + above, "{at}");
    });
}

#[test]
fn a_killed_removal_leaves_a_grave_or_a_mark_until_it_has_ended() {
    for k in 0.. {
        let zones = Zones::quick();
        prepare(&zones);
        let (web, dead) = (zones.zone("web"), zones.layers().join(".dead"));
        let before = zones.files();
        let done = crash::run(k, || Dataset::destroy(&web).unwrap()).is_ok();
        let has_begun = zones.files() != before;
        let has_ended = entries(&web).is_empty();
        let is_told = !entries(&dead).is_empty();
        assert!(is_told || !has_begun || has_ended, "killed at {k}");
        tidy(&zones.zone("origin")).unwrap();
        assert_eq!(entries(&dead), [] as [PathBuf; 0], "killed at {k}");
        // The root is removed already, so it cannot mark the operation.
        let again = crash::run(3, || Dataset::destroy(&web).unwrap()).is_ok();
        let has_ended = entries(&web).is_empty();
        assert!(!entries(&dead).is_empty() || again || has_ended, "{k}");
        Dataset::destroy(&web).unwrap();
        assert_eq!(entries(&web), [] as [PathBuf; 0], "killed at {k}");
        assert_eq!(survey(&zones.layers()).unwrap(), Some(Vec::new()), "{k}");
        if done {
            assert!(k > 8, "a removal has only {k} points");
            break;
        }
    }
}

#[test]
fn a_survey_finds_leftovers_and_changes_nothing() {
    let mut kinds = BTreeSet::new();
    after_each_kill(|zones, at| {
        let layers = zones.layers();
        let before = zones.files();
        let found = survey(&layers).unwrap().unwrap();
        assert_eq!(zones.files(), before, "{at}");
        crate::collect(&layers, crate::Lost::Keep).unwrap();
        let changed = zones.files() != before;
        assert_eq!(changed, !found.is_empty(), "{at}: {found:?}");
        let paths = found.iter().map(|one| match one {
            Garbage::Layer(path)
            | Garbage::Reference(path)
            | Garbage::Dead(path)
            | Garbage::Unfinished(path)
            | Garbage::Lost {
                reference: path, ..
            } => path,
        });
        for path in paths.filter(|path| path.starts_with(&layers)) {
            assert!(fs::symlink_metadata(path).is_err(), "{at}: {path:?} stays");
        }
        assert_eq!(survey(&layers).unwrap(), Some(Vec::new()), "{at}");
        kinds.extend(
            found
                .iter()
                .map(std::mem::discriminant)
                .map(|kind| format!("{kind:?}")),
        );
    });
    assert_eq!(kinds.len(), 4, "a layer, a reference, a tree, a zonepath");
}

#[test]
fn a_survey_skips_busy_zones_and_moved_zonepaths() {
    let zones = Zones::quick();
    prepare(&zones);
    let web = open(&zones, "web");
    let copy = web.copy_top().unwrap();
    assert_eq!(survey(&zones.layers()).unwrap(), None);
    web.snapshot_of_copy(&name("second"), copy).unwrap();
    assert_eq!(survey(&zones.layers()).unwrap(), Some(Vec::new()));
    fs::rename(zones.zone("web"), zones.zone("origin").join("web")).unwrap();
    let found = survey(&zones.layers()).unwrap().unwrap();
    let is_lost = |one: &Garbage| matches!(one, Garbage::Lost { place, .. } if place.starts_with(zones.zone("web")));
    assert!(!found.is_empty() && found.iter().all(is_lost), "{found:?}");
    let none = zones.zone("no-such-folder");
    assert_eq!(survey(&none).unwrap(), Some(Vec::new()));
}

#[test]
fn cleanup_waits_for_a_command_at_work() {
    let zones = Zones::quick();
    prepare(&zones);
    let web = open(&zones, "web");
    let copy = web.copy_top().unwrap();
    assert_eq!(tidy(web.zonepath()).unwrap(), None);
    let dead = entries(&zones.layers().join(".dead"));
    let what = "the copy, the folder of its links, and the mark";
    assert_eq!(dead.len(), 3, "{what}: {dead:?}");
    let marks = dead.iter().filter_map(|path| path.file_name());
    assert_eq!(marks.filter(|name| is_mark(name)).count(), 1);
    web.snapshot_of_copy(&name("second"), copy).unwrap();
    assert_eq!(tidy(web.zonepath()).unwrap(), None);
    assert_eq!(entries(&zones.layers().join(".dead")), [] as [PathBuf; 0]);
}

/// The previous version left this state: the copy was removed, but the layer for the copy exists.
#[test]
fn a_layer_of_a_copy_that_is_gone_goes() {
    let zones = Zones::quick();
    prepare(&zones);
    let copy = zones.zone(".patch-web");
    write(&open(&zones, ".patch-web"), "b", "new");
    open(&zones, ".patch-web").seal().unwrap();
    fs::remove_dir_all(&copy).unwrap();
    let before = zones.layer_count();
    let collected = crate::collect(&zones.layers(), crate::Lost::Keep).unwrap();
    assert_eq!(collected.lost, [] as [PathBuf; 0]);
    assert_eq!(zones.layer_count(), before - 1);
    // A zone that is missing from its path may have been moved by hand.
    fs::rename(zones.zone("web"), zones.zone("origin").join("web")).unwrap();
    let before = zones.layer_count();
    let collected = crate::collect(&zones.layers(), crate::Lost::Keep).unwrap();
    assert!(!collected.lost.is_empty());
    assert_eq!(zones.layer_count(), before);
}
