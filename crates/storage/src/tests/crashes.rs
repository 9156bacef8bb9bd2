//! Tests that end operations, and repairs, at each of their crash points.

use std::fs;
use std::path::PathBuf;

use super::{Zones, depth, read, write};
use crate::collect::{Lost, collect};
use crate::crash;
use crate::dataset::Dataset;
use crate::error::Error;

/// Ends `work` at its first crash point, then at its second, and so on until `work` completes. Ends
/// each repair by `mend` in the same way. `check` then verifies the result.
pub(super) fn crash_everywhere(
    prepare: impl Fn(&Zones),
    work: impl Fn(&Zones),
    mend: impl Fn(&Zones),
    check: impl Fn(&Zones, Option<u32>),
) -> u32 {
    for k in 0.. {
        for j in 0.. {
            let zones = Zones::quick();
            prepare(&zones);
            let through = crash::run(k, || work(&zones)).is_ok();
            let mended = crash::run(j, || mend(&zones)).is_ok();
            if !mended {
                mend(&zones);
            }
            check(&zones, (!through).then_some(k));
            if mended {
                break;
            }
        }
        let zones = Zones::quick();
        prepare(&zones);
        if crash::run(k, || work(&zones)).is_ok() {
            return k;
        }
    }
    unreachable!("an operation has an end")
}

/// Removes all zones of the test and checks that no layers are left.
pub(super) fn leaves_nothing(zones: &Zones, names: &[&str], at: Option<u32>) {
    for name in names {
        Dataset::destroy(&zones.zone(name)).unwrap();
    }
    collect(&zones.layers(), Lost::Keep).unwrap();
    let left: Vec<_> = zones
        .files()
        .into_iter()
        .filter(|path| !names.iter().any(|name| *path == zones.zone(name)))
        .collect();
    assert_eq!(left, [] as [PathBuf; 0], "after a crash at {at:?}");
}

#[test]
fn a_crash_in_seal_loses_nothing() {
    for sealed_before in [false, true] {
        let points = crash_everywhere(
            |zones| {
                let origin = zones.origin();
                if sealed_before {
                    origin.seal().unwrap();
                }
                write(&origin, "b", "two");
            },
            |zones| {
                Dataset::open(&zones.zone("origin"))
                    .unwrap()
                    .seal()
                    .unwrap();
            },
            |zones| {
                Dataset::open(&zones.zone("origin")).unwrap();
                collect(&zones.layers(), Lost::Keep).unwrap();
            },
            |zones, at| {
                let origin = Dataset::open(&zones.zone("origin")).unwrap();
                assert_eq!(read(&origin, "a").as_deref(), Some("one"), "{at:?}");
                assert_eq!(read(&origin, "b").as_deref(), Some("two"), "{at:?}");
                assert_eq!(zones.layer_count(), depth(&origin), "{at:?}");
                origin.seal().unwrap();
                assert_eq!(depth(&origin), if sealed_before { 2 } else { 1 });
                leaves_nothing(zones, &["origin"], at);
            },
        );
        assert!(points >= 7, "{points}");
    }
}

#[test]
fn a_crash_in_clone_leaves_a_whole_zone_or_none() {
    let points = crash_everywhere(
        |zones| drop(zones.origin()),
        |zones| {
            let origin = Dataset::open(&zones.zone("origin")).unwrap();
            origin.clone_to(&zones.zone("web")).unwrap();
        },
        |zones| {
            collect(&zones.layers(), Lost::Keep).unwrap();
        },
        |zones, at| {
            let origin = Dataset::open(&zones.zone("origin")).unwrap();
            assert_eq!(read(&origin, "a").as_deref(), Some("one"), "{at:?}");
            // The owner of the origin may change or remove the origin at any time without harm to
            // the clone.
            Dataset::destroy(origin.zonepath()).unwrap();
            match Dataset::open(&zones.zone("web")) {
                Ok(web) => assert_eq!(read(&web, "a").as_deref(), Some("one"), "{at:?}"),
                Err(Error::NoDataset(_)) => assert!(at.is_some()),
                Err(e) => panic!("crash at {at:?}: {e}"),
            }
            leaves_nothing(zones, &["origin", "web"], at);
            let again = Dataset::create(&zones.zone("web")).unwrap();
            assert_eq!(depth(&again), 0);
            Dataset::destroy(again.zonepath()).unwrap();
            leaves_nothing(zones, &["origin", "web"], at);
        },
    );
    assert!(points >= 10, "{points}");
}

#[test]
fn a_crash_in_destroy_is_finished_by_the_next() {
    let points = crash_everywhere(
        |zones| {
            let origin = zones.origin();
            let web = origin.clone_to(&zones.zone("web")).unwrap();
            write(&web, "b", "two");
            web.clone_to(&zones.zone("other")).unwrap();
            Dataset::destroy(&zones.zone("other")).unwrap();
            Dataset::destroy(&zones.zone("origin")).unwrap();
        },
        |zones| Dataset::destroy(&zones.zone("web")).unwrap(),
        |zones| {
            collect(&zones.layers(), Lost::Keep).unwrap();
        },
        |zones, at| {
            match Dataset::open(&zones.zone("web")) {
                // This result is allowed only before the first change to the dataset.
                Ok(web) => {
                    assert_eq!(read(&web, "a").as_deref(), Some("one"), "{at:?}");
                    assert_eq!(read(&web, "b").as_deref(), Some("two"), "{at:?}");
                }
                Err(Error::NoDataset(_) | Error::LayerMissing { .. }) => {}
                Err(e) => panic!("crash at {at:?}: {e}"),
            }
            leaves_nothing(zones, &["web", "origin", "other"], at);
        },
    );
    assert!(points >= 8, "{points}");
}

#[test]
fn a_crashed_seal_can_be_destroyed_unopened() {
    for k in 0..12 {
        let zones = Zones::new();
        let origin = zones.origin();
        let web = origin.clone_to(&zones.zone("web")).unwrap();
        write(&web, "b", "two");
        let _ = crash::run(k, || web.seal());
        Dataset::destroy(&zones.zone("web")).unwrap();
        assert_eq!(read(&origin, "a").as_deref(), Some("one"));
        leaves_nothing(&zones, &["web", "origin"], Some(k));
    }
}

#[test]
fn a_crash_in_shorten_loses_nothing() {
    let names = ["a", "b", "c", "d"];
    let points = crash_everywhere(
        |zones| {
            let origin = zones.origin();
            for name in &names[1..] {
                origin.seal().unwrap();
                write(&origin, name, name);
            }
            origin.clone_to(&zones.zone("web")).unwrap();
        },
        |zones| {
            let origin = Dataset::open(&zones.zone("origin")).unwrap();
            assert_eq!(origin.shorten(2).unwrap(), 2);
        },
        |zones| {
            collect(&zones.layers(), Lost::Keep).unwrap();
        },
        |zones, at| {
            for zone in ["origin", "web"] {
                let dataset = Dataset::open(&zones.zone(zone)).unwrap();
                assert_eq!(read(&dataset, "a").as_deref(), Some("one"), "{at:?}");
                for name in &names[1..] {
                    assert_eq!(read(&dataset, name).as_deref(), Some(*name), "{at:?}");
                }
            }
            let web = Dataset::open(&zones.zone("web")).unwrap();
            assert_eq!(depth(&web), 4);
            let origin = Dataset::open(&zones.zone("origin")).unwrap();
            assert_eq!(
                depth(&origin),
                if at.is_none() { 2 } else { depth(&origin) }
            );
            // Both zones share two layers, and no layer exists that neither zone uses.
            let layers = if depth(&origin) == 4 { 4 } else { 5 };
            assert_eq!(zones.layer_count(), layers, "{at:?}");
            leaves_nothing(zones, &["origin", "web"], at);
        },
    );
    assert!(points >= 6, "{points}");
}

#[test]
fn a_crash_in_shorten_beside_a_running_zone_takes_nothing_from_it() {
    let names = ["a", "b", "c", "d"];
    let points = crash_everywhere(
        |zones| {
            let origin = zones.origin();
            for name in &names[1..] {
                origin.seal().unwrap();
                write(&origin, name, name);
            }
            origin.seal().unwrap();
            note(zones, &origin);
        },
        |zones| {
            let origin = Dataset::open(&zones.zone("origin")).unwrap();
            assert_eq!(origin.shorten_beside(2).unwrap(), 2);
            assert_eq!(origin.mounted_depth().unwrap(), Some(4));
        },
        |zones| {
            collect(&zones.layers(), Lost::Keep).unwrap();
        },
        |zones, at| {
            let origin = Dataset::open(&zones.zone("origin")).unwrap();
            let all_there = |at: Option<u32>| {
                assert_eq!(read(&origin, "a").as_deref(), Some("one"), "{at:?}");
                for name in &names[1..] {
                    assert_eq!(read(&origin, name).as_deref(), Some(*name), "{at:?}");
                }
            };
            all_there(at);
            // The mounted layers of the zone exist after every crash.
            for tree in noted(zones) {
                assert!(tree.exists(), "after a crash at {at:?}: {}", tree.display());
            }
            // The merge is repeated, as an administrator would do.
            assert_eq!(origin.shorten_beside(2).unwrap(), 2, "{at:?}");
            assert!(noted(zones).iter().all(|tree| tree.exists()), "{at:?}");
            // Then the zone halts and boots.
            origin.let_go().unwrap();
            assert_eq!(
                (
                    depth(&origin),
                    zones.layer_count(),
                    origin.mounted_depth().unwrap()
                ),
                (2, 2, None),
                "{at:?}"
            );
            all_there(at);
            fs::remove_file(zones.zone("origin").join("lowers")).unwrap();
            leaves_nothing(zones, &["origin"], at);
        },
    );
    assert!(points >= 10, "{points}");
}

/// Records which trees are below a dataset now.
fn note(zones: &Zones, dataset: &Dataset) {
    let lowers = dataset.stack().unwrap().lowers;
    let text: Vec<_> = lowers.iter().map(|path| path.to_str().unwrap()).collect();
    fs::write(zones.zone("origin").join("lowers"), text.join("\n")).unwrap();
}

fn noted(zones: &Zones) -> Vec<PathBuf> {
    let text = fs::read_to_string(zones.zone("origin").join("lowers")).unwrap();
    text.lines().map(PathBuf::from).collect()
}

#[test]
fn the_next_boot_removes_leftovers_of_a_killed_merge() {
    for k in 0.. {
        if merge_killed_at(k, false) {
            break;
        }
    }
}

#[test]
fn an_uninstall_removes_leftovers_of_a_killed_merge() {
    for k in 0.. {
        if merge_killed_at(k, true) {
            break;
        }
    }
}

/// Returns true if the merge completed. The release of the mounted layers is killed repeatedly.
fn merge_killed_at(k: u32, uninstall: bool) -> bool {
    let zones = Zones::quick();
    let origin = zones.origin();
    for name in ["b", "c"] {
        origin.seal().unwrap();
        write(&origin, name, name);
    }
    origin.seal().unwrap();
    let through = crash::run(k, || origin.shorten_beside(1).unwrap()).is_ok();
    if !uninstall {
        for j in 0.. {
            if crash::run(j, || origin.let_go().unwrap()).is_ok() {
                break;
            }
        }
        for name in ["b", "c"] {
            assert_eq!(read(&origin, name).as_deref(), Some(name), "{k}");
        }
        assert_eq!(zones.layer_count(), depth(&origin), "{k}");
    }
    Dataset::destroy(&zones.zone("origin")).unwrap();
    assert_eq!(zones.files(), [zones.zone("origin")], "{k}");
    through
}

#[test]
fn letting_go_and_destroying_crash_anywhere() {
    for destroy in [false, true] {
        crash_everywhere(
            |zones| {
                let origin = zones.origin();
                origin.seal().unwrap();
                write(&origin, "b", "two");
                origin.clone_to(&zones.zone("web")).unwrap();
                assert_eq!(origin.shorten_beside(1).unwrap(), 1);
            },
            |zones| match destroy {
                true => Dataset::destroy(&zones.zone("origin")).unwrap(),
                false => Dataset::open(&zones.zone("origin"))
                    .unwrap()
                    .let_go()
                    .unwrap(),
            },
            |zones| {
                collect(&zones.layers(), Lost::Keep).unwrap();
            },
            |zones, at| {
                if !destroy {
                    let origin = Dataset::open(&zones.zone("origin")).unwrap();
                    origin.let_go().unwrap();
                    assert_eq!((depth(&origin), zones.layer_count()), (1, 3), "{at:?}");
                    assert_eq!(read(&origin, "b").as_deref(), Some("two"), "{at:?}");
                }
                let web = Dataset::open(&zones.zone("web")).unwrap();
                assert_eq!(read(&web, "a").as_deref(), Some("one"), "{at:?}");
                assert_eq!(read(&web, "b").as_deref(), Some("two"), "{at:?}");
                leaves_nothing(zones, &["origin", "web"], at);
            },
        );
    }
}

#[test]
fn a_dataset_moves_to_another_folder() {
    let points = crash_everywhere(
        |zones| {
            let web = zones.origin().clone_to(&zones.zone("web")).unwrap();
            write(&web, "b", "two");
            Dataset::destroy(&zones.zone("origin")).unwrap();
            fs::create_dir(zones.zone("other")).unwrap();
        },
        |zones| {
            let web = Dataset::open(&zones.zone("web")).unwrap();
            let moved = web.move_to(&zones.zone("other/web")).unwrap();
            assert_eq!(moved.zonepath(), zones.zone("other/web"));
        },
        |zones| {
            collect(&zones.layers(), Lost::Keep).unwrap();
        },
        |zones, at| {
            let places = [zones.zone("web"), zones.zone("other/web")];
            let place = places.iter().find(|place| place.exists()).unwrap();
            assert!(at.is_some() || *place == places[1]);
            let web = Dataset::open(place).unwrap();
            assert_eq!(read(&web, "a").as_deref(), Some("one"));
            assert_eq!(read(&web, "b").as_deref(), Some("two"));
            assert_eq!(zones.layer_count(), 1);
            Dataset::destroy(place).unwrap();
            collect(&zones.layers(), Lost::Keep).unwrap();
            collect(&zones.zone("other/.layers"), Lost::Keep).unwrap();
            assert!(!zones.layers().exists());
        },
    );
    assert!(points >= 2, "{points}");
}

#[test]
fn a_zone_that_moved_after_a_kill_in_let_go_opens() {
    let mut points = 0;
    for k in 0.. {
        let zones = Zones::quick();
        let web = super::web(&zones);
        web.seal().unwrap();
        web.destroy_snapshot(&super::name("one")).unwrap();
        assert_eq!(web.shorten_beside(1).unwrap(), 1);
        let through = crash::run(k, || web.let_go().unwrap()).is_ok();
        collect(&zones.layers(), Lost::Keep).unwrap();
        let moved = zones.zone("moved");
        fs::rename(zones.zone("web"), &moved).unwrap();
        let web = Dataset::open(&moved).unwrap();
        web.mounted_depth().unwrap();
        assert_eq!(read(&web, "a").as_deref(), Some("two"), "{k}");
        if through {
            break;
        }
        points = k;
    }
    assert!(points >= 2, "{points}");
}
