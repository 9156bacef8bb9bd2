//! Tests the steps by which snapshots get a layer that other zones have, too. Each operation is ended
//! at each crash point.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::crashes::{crash_everywhere, leaves_nothing};
use super::{Zones, name, read, write};
use crate::collect::{Lost, collect};
use crate::dataset::{Dataset, MERGE_DEPTH};
use crate::error::Error;
use crate::name::Name;
use crate::patch::{Obstacle, changed_folder};

fn next() -> Name {
    name("next")
}

fn is_log(path: &Path) -> bool {
    path == Path::new("log")
}

fn open(zones: &Zones, zone: &str) -> Dataset {
    Dataset::open(&zones.zone(zone)).unwrap()
}

/// Returns the content of a file in a snapshot.
fn kept(dataset: &Dataset, file: &str) -> Option<String> {
    let trees = dataset.snapshot_stack(&next()).unwrap().trees();
    let mut found = trees.iter().map(|tree| fs::read_to_string(tree.join(file)));
    found.find_map(Result::ok)
}

/// Returns the tree that the zones `web` and `other` have in common.
fn base(zones: &Zones) -> PathBuf {
    let trees = open(zones, "other").stack().unwrap().lowers;
    trees.last().unwrap().clone()
}

/// Returns the tree of the topmost layer of the snapshot.
fn topmost(web: &Dataset) -> PathBuf {
    web.snapshot_stack(&next()).unwrap().top
}

/// Creates a zone with a snapshot that has a file of its own and, as its topmost layer, a patch with
/// a log.
fn prepare(zones: &Zones) {
    let origin = zones.origin();
    origin.clone_to(&zones.zone("other")).unwrap();
    let web = origin.clone_to(&zones.zone("web")).unwrap();
    Dataset::destroy(&zones.zone("origin")).unwrap();
    write(&web, "own", "mine");
    web.snapshot(&next()).unwrap();
    let copy = web.clone_snapshot_to(&next(), &zones.zone("copy")).unwrap();
    write(&copy, "b", "new");
    write(&copy, "log", "said");
    copy.seal_tree().unwrap();
    web.take_as_snapshot(&next(), &copy).unwrap();
    Dataset::destroy(&zones.zone("copy")).unwrap();
}

fn extract(zones: &Zones) -> Dataset {
    let web = open(zones, "web");
    let place = zones.zone("patch");
    web.extract_of_snapshot(&next(), &base(zones), &place, &is_log)
        .unwrap()
}

/// Gives the snapshot the layer of `patch` instead of its topmost layer.
fn replace(zones: &Zones) {
    let web = open(zones, "web");
    let copy = web
        .clone_below(&next(), &topmost(&web), &zones.zone("copy"))
        .unwrap();
    copy.put_below(&open(zones, "patch"), &base(zones)).unwrap();
    copy.add_part_of_snapshot(&web, &next(), &is_log).unwrap();
    web.take_as_snapshot(&next(), &copy).unwrap();
}

fn mend(zones: &Zones) {
    for zone in ["web", "other"] {
        open(zones, zone);
    }
    collect(&zones.layers(), Lost::Keep).unwrap();
}

/// Checks that the zone and its snapshot have what they had.
fn is_whole(zones: &Zones, at: Option<u32>) {
    let web = open(zones, "web");
    for (file, root, snapshot) in [
        ("a", Some("one"), Some("one")),
        ("own", Some("mine"), Some("mine")),
        ("b", None, Some("new")),
        ("log", None, Some("said")),
    ] {
        assert_eq!(read(&web, file).as_deref(), root, "{file} after {at:?}");
        assert_eq!(kept(&web, file).as_deref(), snapshot, "{file} after {at:?}");
    }
}

#[test]
fn a_crash_in_an_extract_changes_no_snapshot() {
    let points = crash_everywhere(
        prepare,
        |zones| drop(extract(zones)),
        mend,
        |zones, at| {
            is_whole(zones, at);
            if at.is_none() {
                let patch = open(zones, "patch");
                assert_eq!(read(&patch, "b").as_deref(), Some("new"));
                assert_eq!(read(&patch, "own"), None);
                assert_eq!(read(&patch, "log"), None);
            }
            leaves_nothing(zones, &["web", "other", "patch", "copy", "origin"], at);
        },
    );
    assert!(points >= 4, "{points}");
}

#[test]
fn a_crash_while_a_snapshot_gets_a_shared_layer_changes_no_file() {
    let points = crash_everywhere(
        |zones| {
            prepare(zones);
            drop(extract(zones));
        },
        replace,
        mend,
        |zones, at| {
            is_whole(zones, at);
            let layer = open(zones, "patch").stack().unwrap().lowers[0].clone();
            let trees = open(zones, "web").snapshot_stack(&next()).unwrap().trees();
            assert!(at.is_some() || trees.contains(&layer));
            leaves_nothing(zones, &["web", "other", "patch", "copy", "origin"], at);
        },
    );
    assert!(points >= 10, "{points}");
}

#[test]
fn a_snapshot_with_other_layers_is_refused() {
    let zones = Zones::new();
    prepare(&zones);
    let web = open(&zones, "web");
    let place = zones.zone("copy");
    let nowhere = zones.zone("nowhere");
    for refused in [
        web.clone_below(&next(), &nowhere, &place),
        web.extract_of_snapshot(&next(), &nowhere, &place, &is_log),
    ] {
        assert!(matches!(refused, Err(Error::NotBelow { .. })));
    }
    let unknown = web.clone_below(&name("unknown"), &nowhere, &place);
    assert!(matches!(unknown, Err(Error::NoSnapshot { .. })));
    leaves_nothing(&zones, &["web", "other", "copy", "origin"], None);
}

#[test]
fn a_snapshot_takes_sealed_layers_without_a_merge() {
    let zones = Zones::new();
    let web = zones.origin().clone_to(&zones.zone("web")).unwrap();
    web.snapshot(&next()).unwrap();
    let copy = web.clone_snapshot_to(&next(), &zones.zone("copy")).unwrap();
    let mut trees = Vec::new();
    for number in 0..MERGE_DEPTH {
        write(&copy, "b", &number.to_string());
        trees.insert(0, copy.seal_tree().unwrap());
    }
    web.take_as_snapshot(&next(), &copy).unwrap();
    let kept = web.snapshot_stack(&next()).unwrap().trees();
    assert_eq!(kept[..MERGE_DEPTH], trees);
    leaves_nothing(&zones, &["web", "origin", "copy"], None);
}

#[test]
fn a_folder_that_a_zone_changed_is_found() {
    let folders: Vec<tempfile::TempDir> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let [patch, own, below] = [0, 1, 2].map(|n: usize| folders[n].path().to_owned());
    let make = |tree: &Path, path: &str, mode: u32| {
        fs::create_dir_all(tree.join(path)).unwrap();
        fs::set_permissions(tree.join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    let found = || {
        let is_log = |path: &Path| path.starts_with("log");
        let trees = (std::slice::from_ref(&own), std::slice::from_ref(&below));
        let misfit = changed_folder(&patch, trees.0, trees.1, &is_log).unwrap();
        misfit.map(|misfit| (misfit.path.display().to_string(), misfit.what))
    };
    for tree in [&patch, &own, &below] {
        make(tree, "etc/app", 0o755);
    }
    make(&patch, "opt/new", 0o755);
    make(&own, "srv", 0o700);
    make(&patch, "log/app", 0o700);
    make(&own, "log/app", 0o700);
    assert_eq!(found(), None);
    make(&patch, "etc/app", 0o711);
    make(&own, "etc/app", 0o711);
    assert_eq!(found(), Some(("etc/app".to_owned(), Obstacle::Folder)));
    make(&below, "etc/app", 0o711);
    assert_eq!(found(), None);
    make(&own, "opt", 0o755);
    assert_eq!(found(), Some(("opt".to_owned(), Obstacle::Own)));
}

#[test]
fn a_folder_of_logs_gets_the_permissions_that_all_zones_have() {
    let zones = Zones::new();
    let chmod = |dataset: &Dataset, folder: &str, mode: u32| {
        let path = dataset.stack().unwrap().top.join(folder);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let origin = zones.origin();
    chmod(&origin, "log", 0o755);
    origin.clone_to(&zones.zone("other")).unwrap();
    let web = origin.clone_to(&zones.zone("web")).unwrap();
    // The zone changed the one folder itself, and the patch made the other.
    chmod(&web, "log", 0o777);
    web.snapshot(&next()).unwrap();
    chmod(&web, "log", 0o777);
    chmod(&web, "log/app", 0o750);
    write(&web, "log/app/text", "said");
    write(&web, "b", "new");
    web.seal().unwrap();
    let is_log = |path: &Path| path.starts_with("log");
    let place = zones.zone("patch");
    let patch = web.extract(&base(&zones), &place, &is_log).unwrap();
    let layer = patch.stack().unwrap().lowers[0].clone();
    let mode = |folder: &str| {
        let seen = fs::metadata(layer.join(folder)).unwrap();
        seen.permissions().mode() & 0o7777
    };
    assert_eq!((mode("log"), mode("log/app")), (0o755, 0o750));
    assert!(!layer.join("log/app/text").exists());
    assert_eq!(read(&patch, "b").as_deref(), Some("new"));
    leaves_nothing(&zones, &["web", "other", "patch", "origin"], None);
}
