//! Tests that copy, rename and write into snapshots, and interrupt each operation.

use super::crashes::{crash_everywhere, leaves_nothing};
use super::{Zones, name, names, read, web, write};
use crate::collect::{Lost, collect};
use crate::dataset::Dataset;
use crate::error::Error;

fn open(zones: &Zones) -> Dataset {
    Dataset::open(&zones.zone("web")).unwrap()
}

fn mend(zones: &Zones) {
    open(zones);
    let _ = Dataset::open(&zones.zone("aside"));
    collect(&zones.layers(), Lost::Drop).unwrap();
}

#[test]
fn a_snapshot_is_copied_and_renamed() {
    let zones = Zones::new();
    let web = web(&zones);
    let created = web.snapshots().unwrap()[0].created;
    web.copy_snapshot(&name("one"), &name("copy")).unwrap();
    assert_eq!(names(&web), ["one", "copy"]);
    web.rename_snapshot(&name("one"), &name("former")).unwrap();
    assert_eq!(names(&web), ["former", "copy"]);
    assert_eq!(web.snapshots().unwrap()[0].created, created);
    for wrong in [
        web.copy_snapshot(&name("one"), &name("new")),
        web.rename_snapshot(&name("one"), &name("new")),
    ] {
        assert!(matches!(wrong, Err(Error::NoSnapshot { .. })));
    }
    let taken = web.rename_snapshot(&name("copy"), &name("former"));
    assert!(matches!(taken, Err(Error::SnapshotExists { .. })));
    web.destroy_snapshot(&name("former")).unwrap();
    let stack = web.snapshot_stack(&name("copy")).unwrap();
    assert_eq!(std::fs::read_to_string(stack.top.join("a")).unwrap(), "one");
    web.rollback(&name("copy")).unwrap();
    assert_eq!(read(&web, "a").as_deref(), Some("one"));
    leaves_nothing(&zones, &["web"], None);
}

#[test]
fn a_snapshot_takes_what_was_written_beside_it() {
    let zones = Zones::new();
    let web = web(&zones);
    let aside = zones.zone("aside");
    let copy = web.clone_snapshot_to(&name("one"), &aside).unwrap();
    write(&copy, "a", "patched");
    web.take_as_snapshot(&name("one"), &copy).unwrap();
    Dataset::destroy(&aside).unwrap();
    assert_eq!(read(&web, "a").as_deref(), Some("two"));
    web.rollback(&name("one")).unwrap();
    assert_eq!(read(&web, "a").as_deref(), Some("patched"));
    leaves_nothing(&zones, &["web", "aside"], None);
}

#[test]
fn a_dataset_becomes_a_new_snapshot_or_a_crash_leaves_none() {
    let points = crash_everywhere(
        |zones| {
            drop(web(zones));
            let other = Dataset::create(&zones.zone("aside")).unwrap();
            write(&other, "a", "restored");
        },
        |zones| {
            let other = Dataset::open(&zones.zone("aside")).unwrap();
            let web = open(zones);
            web.add_as_snapshot(&name("new"), &other).unwrap();
            let again = web.add_as_snapshot(&name("new"), &other);
            assert!(matches!(again, Err(Error::SnapshotExists { .. })));
        },
        mend,
        |zones, at| {
            let web = open(zones);
            assert_eq!(read(&web, "a").as_deref(), Some("two"), "{at:?}");
            let seen = names(&web);
            assert!(at.is_some() || seen.contains(&"new".to_owned()), "{seen:?}");
            for one in seen {
                web.rollback(&name(&one)).unwrap();
                let expected = if one == "new" { "restored" } else { "one" };
                assert_eq!(read(&web, "a").as_deref(), Some(expected), "{at:?}");
            }
            leaves_nothing(zones, &["web", "aside"], at);
        },
    );
    assert!(points >= 4, "{points}");
}

#[test]
fn a_crash_in_a_rename_leaves_a_name() {
    let points = crash_everywhere(
        |zones| drop(web(zones)),
        |zones| {
            let web = open(zones);
            web.rename_snapshot(&name("one"), &name("new")).unwrap();
        },
        mend,
        |zones, at| {
            let web = open(zones);
            let seen = names(&web);
            assert!(!seen.is_empty(), "{at:?}");
            for one in seen {
                web.rollback(&name(&one)).unwrap();
                assert_eq!(read(&web, "a").as_deref(), Some("one"), "{at:?}");
            }
            leaves_nothing(zones, &["web"], at);
        },
    );
    assert!(points >= 6, "{points}");
}

#[test]
fn a_crash_while_a_snapshot_takes_something_leaves_the_one_or_the_other() {
    let points = crash_everywhere(
        |zones| {
            let web = web(zones);
            let copy = web.clone_snapshot_to(&name("one"), &zones.zone("aside"));
            write(&copy.unwrap(), "a", "patched");
        },
        |zones| {
            let copy = Dataset::open(&zones.zone("aside")).unwrap();
            open(zones).take_as_snapshot(&name("one"), &copy).unwrap();
        },
        mend,
        |zones, at| {
            let web = open(zones);
            assert_eq!(names(&web), ["one"], "{at:?}");
            assert_eq!(read(&web, "a").as_deref(), Some("two"), "{at:?}");
            web.rollback(&name("one")).unwrap();
            let seen = read(&web, "a").unwrap();
            assert!(seen == "one" || seen == "patched", "{seen} after {at:?}");
            assert!(at.is_some() || seen == "patched");
            let copy = Dataset::open(&zones.zone("aside")).unwrap();
            assert_eq!(read(&copy, "a").as_deref(), Some("patched"), "{at:?}");
            leaves_nothing(zones, &["web", "aside"], at);
        },
    );
    assert!(points >= 10, "{points}");
}
