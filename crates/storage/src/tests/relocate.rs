//! Tests that copy a zonepath with its layers and snapshots, and interrupt the copy.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::crashes::leaves_nothing;
use super::{Zones, depth, name, names, read, web, write};
use crate::collect::{Lost, collect};
use crate::copy::Copied;
use crate::dataset::Dataset;
use crate::error::Error;
use crate::{copy_zonepath, crash, rename_zonepath};

fn copy(from: &Path, to: &Path) -> Copied {
    copy_zonepath(from, to, &mut |_| {}).unwrap()
}

/// Creates a zone with several branches of snapshots: after each rollback, the zone continues from
/// an older snapshot.
fn branched(zones: &Zones) -> Dataset {
    let web = web(zones);
    web.snapshot(&name("two")).unwrap();
    write(&web, "b", "of two");
    web.snapshot(&name("two-b")).unwrap();
    web.rollback(&name("one")).unwrap();
    write(&web, "c", "of one");
    // The clone seals a layer that no snapshot names.
    web.clone_to(&zones.zone("clone")).unwrap();
    write(&web, "d", "of one");
    web.snapshot(&name("one-d")).unwrap();
    web.rollback(&name("two")).unwrap();
    write(&web, "e", "now");
    web
}

fn texts(dataset: &Dataset) -> Vec<Option<String>> {
    ["a", "b", "c", "d", "e"]
        .map(|file| read(dataset, file))
        .into()
}

#[test]
fn a_copy_has_all_snapshots_and_needs_no_layer_of_the_original() {
    let (zones, other) = (Zones::new(), Zones::quick());
    let web = branched(&zones);
    let before = web.snapshots().unwrap();
    let at = other.zone("web");
    fs::create_dir(&at).unwrap();
    copy(web.zonepath(), &at);
    let copied = Dataset::open(&at).unwrap();
    let mut seen = Vec::new();
    for dataset in [&web, &copied] {
        let now = texts(dataset);
        let all: Vec<_> = ["one", "two", "two-b", "one-d"]
            .into_iter()
            .map(|snapshot| {
                dataset.rollback(&name(snapshot)).unwrap();
                texts(dataset)
            })
            .collect();
        seen.push((now, all));
    }
    assert_eq!(seen[0], seen[1]);
    let after = copied.snapshots().unwrap();
    let of = |all: &[crate::Snapshot]| -> Vec<_> {
        all.iter()
            .map(|one| (one.name.clone(), one.created))
            .collect()
    };
    assert_eq!(of(&before), of(&after));
    for zone in ["web", "clone"] {
        Dataset::destroy(&zones.zone(zone)).unwrap();
    }
    leaves_nothing(&zones, &["web", "clone"], None);
    copied.rollback(&name("one-d")).unwrap();
    assert_eq!(read(&copied, "d").as_deref(), Some("of one"));
    leaves_nothing(&other, &["web"], None);
}

#[test]
fn layers_without_a_common_one_are_copied() {
    let (zones, other) = (Zones::new(), Zones::quick());
    let web = web(&zones);
    for number in 0..4 {
        write(&web, &format!("f{number}"), "x");
        web.seal().unwrap();
    }
    // The zone stands on one merged layer, and the snapshot on the former ones.
    web.shorten(1).unwrap();
    let at = other.zone("web");
    copy(web.zonepath(), &at);
    let copied = Dataset::open(&at).unwrap();
    assert_eq!(read(&copied, "a").as_deref(), Some("two"));
    assert_eq!(read(&copied, "f3").as_deref(), Some("x"));
    assert_eq!(names(&copied), ["one"]);
    copied.rollback(&name("one")).unwrap();
    assert_eq!(read(&copied, "a").as_deref(), Some("one"));
    assert_eq!(read(&copied, "f3"), None);
    leaves_nothing(&other, &["web"], None);
}

#[test]
fn other_files_of_the_zonepath_and_a_top_without_layers_are_copied() {
    let (zones, other) = (Zones::new(), Zones::quick());
    let origin = zones.origin();
    let top = origin.stack().unwrap().top;
    fs::hard_link(top.join("a"), top.join("hard")).unwrap();
    let from = origin.zonepath();
    let disk = fs::File::create(from.join("disk0")).unwrap();
    disk.set_len(8 << 20).unwrap();
    fs::create_dir(from.join("be")).unwrap();
    std::os::unix::fs::symlink("initial 7", from.join("be/active")).unwrap();
    let at = other.zone("origin");
    let mut reports = 0;
    let done = copy_zonepath(from, &at, &mut |_| reports += 1).unwrap();
    assert!(reports > 0 && done.entries >= 4, "{reports} {done:?}");
    let copied = Dataset::open(&at).unwrap();
    assert_eq!(depth(&copied), 0);
    let top = copied.stack().unwrap().top;
    let inode = |file: &str| fs::metadata(top.join(file)).unwrap().ino();
    assert_eq!(inode("a"), inode("hard"));
    let disk = fs::metadata(at.join("disk0")).unwrap();
    assert_eq!(
        (disk.len(), disk.blocks()),
        (8 << 20, 0),
        "a hole stays a hole"
    );
    let link = fs::read_link(at.join("be/active")).unwrap();
    assert_eq!(link, Path::new("initial 7"));
    assert!(!at.join(".links").exists());
    // A second copy does not replace the first one.
    let again = copy_zonepath(from, &at, &mut |_| {});
    assert!(matches!(again, Err(Error::Exists(_))), "{again:?}");
}

#[test]
fn a_rename_replaces_an_empty_folder_and_nothing_else() {
    let zones = Zones::new();
    let web = web(&zones);
    let clone = web.clone_to(&zones.zone("clone")).unwrap();
    let (from, to) = (web.zonepath().to_owned(), zones.zone("inner/web"));
    fs::create_dir_all(to.join("full")).unwrap();
    assert!(matches!(rename_zonepath(&from, &to), Err(Error::Exists(_))));
    fs::remove_dir(to.join("full")).unwrap();
    rename_zonepath(&from, &to).unwrap();
    assert!(!from.exists());
    let moved = Dataset::open(&to).unwrap();
    assert_eq!(read(&moved, "a").as_deref(), Some("two"));
    assert_eq!(names(&moved), ["one"]);
    collect(&zones.layers(), Lost::Keep).unwrap();
    Dataset::destroy(clone.zonepath()).unwrap();
    moved.rollback(&name("one")).unwrap();
    assert_eq!(read(&moved, "a").as_deref(), Some("one"));
    Dataset::destroy(&to).unwrap();
    assert_eq!(zones.layer_count(), 0);
}

#[test]
fn a_crash_in_a_copy_leaves_a_dataset_that_destroy_removes() {
    let mut points = 0;
    for k in 0.. {
        let zones = Zones::quick();
        drop(branched(&zones));
        fs::create_dir(zones.zone("inner")).unwrap();
        let (from, to) = (zones.zone("web"), zones.zone("inner/web"));
        let is_through = crash::run(k, || copy(&from, &to)).is_ok();
        Dataset::destroy(&to).unwrap();
        crate::remove_tree(&to).unwrap();
        let inner = zones.zone("inner/.layers");
        collect(&inner, Lost::Keep).unwrap();
        assert!(!inner.exists(), "{k}: {:?}", zones.files());
        let web = Dataset::open(&from).unwrap();
        assert_eq!(read(&web, "e").as_deref(), Some("now"), "{k}");
        assert_eq!(names(&web).len(), 4);
        fs::remove_dir(zones.zone("inner")).unwrap();
        leaves_nothing(&zones, &["web", "clone"], Some(k));
        if is_through {
            points = k;
            break;
        }
    }
    assert!(points >= 40, "{points}");
}

#[test]
fn a_crash_in_a_rename_leaves_references_of_all_snapshots() {
    let mut points = 0;
    for k in 0.. {
        let zones = Zones::quick();
        drop(branched(&zones));
        fs::create_dir(zones.zone("inner")).unwrap();
        let (from, to) = (zones.zone("web"), zones.zone("inner/web"));
        let is_through = crash::run(k, || rename_zonepath(&from, &to).unwrap()).is_ok();
        let at = if to.exists() { &to } else { &from };
        let web = Dataset::open(at).unwrap();
        assert_eq!(names(&web).len(), 4, "{k}");
        // The layers of the snapshots go with the zone.
        for zone in [at, &zones.zone("clone")] {
            Dataset::destroy(zone).unwrap();
        }
        collect(&zones.layers(), Lost::Keep).unwrap();
        assert_eq!(zones.layer_count(), 0, "{k}: {:?}", zones.files());
        if is_through {
            points = k;
            break;
        }
    }
    assert!(points >= 3, "{points}");
}
