//! Tests that make, roll back, clone and remove named snapshots, and interrupt each of these
//! operations.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

use rustix::fs::{AtFlags, CWD, FileType, Mode, XattrFlags};

use super::crashes::{crash_everywhere, leaves_nothing};
use super::{Zones, depth, name, names, read, web, write};
use crate::collect::{Lost, collect};
use crate::dataset::{Dataset, MERGE_DEPTH};
use crate::error::Error;
use crate::running::Method;

#[test]
fn a_zone_goes_back_and_forth_between_snapshots() {
    let zones = Zones::new();
    let web = web(&zones);
    web.snapshot(&name("two")).unwrap();
    write(&web, "a", "three");
    assert_eq!(names(&web), ["one", "two"]);
    for snapshot in ["one", "two", "two", "one"] {
        web.rollback(&name(snapshot)).unwrap();
        assert_eq!(read(&web, "a").as_deref(), Some(snapshot));
        write(&web, "a", "lost");
    }
    assert!(matches!(
        web.snapshot(&name("two")),
        Err(Error::SnapshotExists { .. })
    ));
    for wrong in [
        web.rollback(&name("three")),
        web.destroy_snapshot(&name("three")),
    ] {
        assert!(matches!(wrong, Err(Error::NoSnapshot { .. })));
    }
    assert_eq!(names(&web), ["one", "two"]);
    leaves_nothing(&zones, &["web"], None);
}

#[test]
fn a_snapshot_outlives_what_is_built_on_it_and_the_other_way_round() {
    let zones = Zones::new();
    let web = web(&zones);
    let clone = web
        .clone_snapshot_to(&name("one"), &zones.zone("clone"))
        .unwrap();
    assert_eq!(read(&clone, "a").as_deref(), Some("one"));
    assert_eq!(read(&web, "a").as_deref(), Some("two"));
    assert!(names(&clone).is_empty());
    Dataset::destroy(&zones.zone("clone")).unwrap();
    web.rollback(&name("one")).unwrap();
    let clone = web
        .clone_snapshot_to(&name("one"), &zones.zone("clone"))
        .unwrap();
    Dataset::destroy(&zones.zone("web")).unwrap();
    assert_eq!(read(&clone, "a").as_deref(), Some("one"));
    leaves_nothing(&zones, &["web", "clone"], None);
}

#[test]
fn a_removed_snapshot_takes_along_what_only_it_needs() {
    let zones = Zones::new();
    let web = web(&zones);
    fs::write(web.stack().unwrap().top.join("big"), vec![1; 1 << 20]).unwrap();
    // The file system allocates blocks only when the data is written back to disk.
    web.sync().unwrap();
    web.snapshot(&name("two")).unwrap();
    let used = |snapshot| web.snapshot_usage(&name(snapshot)).unwrap();
    assert_eq!(used("two").own_bytes, 0, "the zone stands on it, too");
    assert!(used("two").all_bytes >= 1 << 20);
    web.rollback(&name("one")).unwrap();
    assert!(used("two").own_bytes >= 1 << 20);
    assert!(used("two").own_bytes < used("two").all_bytes);
    assert_eq!(used("one").own_bytes, 0);
    assert_eq!(zones.layer_count(), 2);
    web.destroy_snapshot(&name("two")).unwrap();
    assert_eq!(zones.layer_count(), 1);
    web.destroy_snapshot(&name("one")).unwrap();
    assert_eq!(read(&web, "a").as_deref(), Some("one"));
    assert_eq!((zones.layer_count(), depth(&web)), (1, 1));
    assert!(!zones.zone("web/snapshots").exists());
    leaves_nothing(&zones, &["web"], None);
}

#[test]
fn many_snapshots_keep_the_chain_short() {
    let zones = Zones::new();
    let web = Dataset::create(&zones.zone("web")).unwrap();
    for n in 0..40 {
        write(&web, &format!("f{n}"), &n.to_string());
        web.snapshot(&name(&format!("s{n}"))).unwrap();
        assert!(depth(&web) <= MERGE_DEPTH, "{} layers", depth(&web));
    }
    let all = web.snapshots().unwrap();
    assert_eq!(all.len(), 40);
    assert!(all.iter().all(|one| one.depth <= MERGE_DEPTH), "{all:?}");
    for at in [0, 7, 8, 20, 39] {
        web.rollback(&name(&format!("s{at}"))).unwrap();
        for n in 0..40 {
            let want = (n <= at).then(|| n.to_string());
            assert_eq!(read(&web, &format!("f{n}")), want, "f{n} in s{at}");
        }
    }
    for n in 0..40 {
        web.destroy_snapshot(&name(&format!("s{n}"))).unwrap();
    }
    assert_eq!(zones.layer_count(), depth(&web));
    leaves_nothing(&zones, &["web"], None);
}

#[test]
fn snapshots_move_with_their_zone() {
    let zones = Zones::new();
    let web = web(&zones);
    web.snapshot(&name("two")).unwrap();
    let moved = web.move_to(&zones.zone("other")).unwrap();
    moved.rollback(&name("one")).unwrap();
    drop(moved);
    // The zonepath is moved by hand, too; opening the dataset updates the references on the layers.
    fs::rename(zones.zone("other"), zones.zone("again")).unwrap();
    let report = collect(&zones.layers(), Lost::Drop).unwrap();
    assert_eq!(report.stale_refs, 0);
    let again = Dataset::open(&zones.zone("again")).unwrap();
    assert_eq!(names(&again), ["one", "two"]);
    collect(&zones.layers(), Lost::Drop).unwrap();
    again.rollback(&name("two")).unwrap();
    assert_eq!(read(&again, "a").as_deref(), Some("two"));
    leaves_nothing(&zones, &["again"], None);
}

#[test]
fn a_crash_in_snapshot_leaves_one_or_none() {
    let points = crash_everywhere(
        |zones| drop(web(zones)),
        |zones| {
            let web = Dataset::open(&zones.zone("web")).unwrap();
            web.snapshot(&name("two")).unwrap();
        },
        |zones| {
            Dataset::open(&zones.zone("web")).unwrap();
            collect(&zones.layers(), Lost::Drop).unwrap();
        },
        |zones, at| {
            let web = Dataset::open(&zones.zone("web")).unwrap();
            assert_eq!(read(&web, "a").as_deref(), Some("two"), "{at:?}");
            if names(&web).len() < 2 {
                assert!(at.is_some());
                web.snapshot(&name("two")).unwrap();
            }
            write(&web, "a", "three");
            for snapshot in ["one", "two"] {
                web.rollback(&name(snapshot)).unwrap();
                assert_eq!(read(&web, "a").as_deref(), Some(snapshot), "{at:?}");
            }
            leaves_nothing(zones, &["web"], at);
        },
    );
    assert!(points >= 9, "{points}");
}

#[test]
fn a_crash_in_rollback_leaves_before_or_after() {
    for to in ["one", "two"] {
        let points = crash_everywhere(
            |zones| {
                let web = web(zones);
                web.snapshot(&name("two")).unwrap();
                write(&web, "a", "three");
                write(&web, "b", "three");
            },
            |zones| {
                let web = Dataset::open(&zones.zone("web")).unwrap();
                web.rollback(&name(to)).unwrap();
            },
            |zones| {
                Dataset::open(&zones.zone("web")).unwrap();
                collect(&zones.layers(), Lost::Drop).unwrap();
            },
            |zones, at| {
                let web = Dataset::open(&zones.zone("web")).unwrap();
                let seen = (read(&web, "a").unwrap(), read(&web, "b"));
                let after = (to.to_owned(), None);
                let before = ("three".to_owned(), Some("three".to_owned()));
                assert!(
                    seen == after || (at.is_some() && seen == before),
                    "{at:?}: {seen:?}"
                );
                assert_eq!(names(&web), ["one", "two"], "{at:?}");
                // After the rollback, no link is left that a later crash could mistake for a
                // rollback.
                write(&web, "c", "new");
                web.snapshot(&name("three")).unwrap();
                assert_eq!(read(&web, "c").as_deref(), Some("new"));
                for snapshot in ["one", "two"] {
                    web.rollback(&name(snapshot)).unwrap();
                    assert_eq!(read(&web, "a").as_deref(), Some(snapshot), "{at:?}");
                }
                leaves_nothing(zones, &["web"], at);
            },
        );
        assert!(points >= 7, "{points}");
    }
}

#[test]
fn a_crash_in_removing_a_snapshot_leaves_it_or_not() {
    let points = crash_everywhere(
        |zones| {
            let web = web(zones);
            web.snapshot(&name("two")).unwrap();
            web.rollback(&name("one")).unwrap();
        },
        |zones| {
            let web = Dataset::open(&zones.zone("web")).unwrap();
            web.destroy_snapshot(&name("two")).unwrap();
        },
        |zones| {
            Dataset::open(&zones.zone("web")).unwrap();
            collect(&zones.layers(), Lost::Drop).unwrap();
        },
        |zones, at| {
            let web = Dataset::open(&zones.zone("web")).unwrap();
            assert_eq!(read(&web, "a").as_deref(), Some("one"), "{at:?}");
            let left = names(&web);
            assert_eq!(zones.layer_count(), left.len(), "{at:?}");
            assert!(at.is_some() || left == ["one"]);
            leaves_nothing(zones, &["web"], at);
        },
    );
    assert!(points >= 4, "{points}");
}

#[test]
fn a_crash_in_destroying_a_zone_with_snapshots_is_finished_by_the_next() {
    crash_everywhere(
        |zones| {
            let web = web(zones);
            web.snapshot(&name("two")).unwrap();
            web.clone_snapshot_to(&name("one"), &zones.zone("clone"))
                .unwrap();
        },
        |zones| Dataset::destroy(&zones.zone("web")).unwrap(),
        |zones| {
            collect(&zones.layers(), Lost::Keep).unwrap();
        },
        |zones, at| {
            let clone = Dataset::open(&zones.zone("clone")).unwrap();
            assert_eq!(read(&clone, "a").as_deref(), Some("one"), "{at:?}");
            leaves_nothing(zones, &["web", "clone"], at);
        },
    );
}

/// Returns the properties that a copy must have in common with its original.
pub(super) fn faces(root: &std::path::Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let times = (meta.mtime(), meta.mtime_nsec());
        let owner = (meta.uid(), meta.gid(), meta.rdev(), meta.nlink());
        let name = path.file_name().unwrap().to_owned();
        let kind = meta.file_type();
        all.push(format!(
            "{name:?} {kind:?} {:o} {owner:?} {times:?}",
            meta.mode()
        ));
        if kind.is_dir() {
            all.extend(faces(&path));
        } else if kind.is_file() {
            all.push(format!("{:?}", fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

#[test]
fn a_running_zone_is_copied_with_all_that_overlay_keeps() {
    let zones = Zones::new();
    let web = web(&zones);
    let top = web.stack().unwrap().top;
    fs::create_dir_all(top.join("d/inner")).unwrap();
    fs::write(top.join("d/file"), "text").unwrap();
    fs::hard_link(top.join("d/file"), top.join("d/inner/same")).unwrap();
    symlink("nowhere", top.join("d/link")).unwrap();
    rustix::fs::mknodat(CWD, top.join("d/fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        let kind = FileType::CharacterDevice;
        rustix::fs::mknodat(CWD, top.join("d/gone"), kind, Mode::empty(), 0).unwrap();
        rustix::fs::chownat(
            CWD,
            top.join("d/link"),
            Some(rustix::fs::Uid::from_raw(1000)),
            None,
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        let folder = fs::File::open(top.join("d")).unwrap();
        let opaque = "trusted.overlay.opaque";
        rustix::fs::fsetxattr(&folder, opaque, b"y", XattrFlags::empty()).unwrap();
    }
    fs::set_permissions(top.join("d/file"), fs::Permissions::from_mode(0o4755)).unwrap();
    // A hole of a megabyte takes no space in the copy.
    let sparse = fs::File::create(top.join("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", (1 << 20) - 3).unwrap();
    sparse.sync_all().unwrap();

    let copy = web.copy_top().unwrap();
    if copy.method != Method::Subvolume {
        assert!(copy.copied.entries >= 8, "{:?}", copy.copied);
        assert!(copy.copied.copied_bytes + copy.copied.shared_bytes > 0);
    }
    let before = faces(&top);
    // The zone continues to run, and its later changes must not change the copy.
    web.snapshot_of_copy(&name("live"), copy).unwrap();
    write(&web, "a", "later");
    let clone = web
        .clone_snapshot_to(&name("live"), &zones.zone("clone"))
        .unwrap();
    assert_eq!(read(&clone, "a").as_deref(), Some("two"));
    let layer = &clone.stack().unwrap().lowers[0];
    assert_eq!(faces(layer), before);
    let file = layer.join("d/file").metadata().unwrap();
    assert_eq!(
        file.ino(),
        layer.join("d/inner/same").metadata().unwrap().ino()
    );
    let fifo = layer.join("d/fifo").symlink_metadata().unwrap();
    assert!(fifo.file_type().is_fifo());
    if root {
        let mut value = [0; 4];
        let length =
            rustix::fs::getxattr(layer.join("d"), "trusted.overlay.opaque", &mut value).unwrap();
        assert_eq!(&value[..length], b"y");
    }
    let blocks = layer.join("sparse").metadata().unwrap().blocks();
    assert!(blocks * 512 <= 64 << 10, "{blocks} blocks");
    assert_eq!(depth(&web), 1);
    web.rollback(&name("live")).unwrap();
    assert_eq!((read(&web, "a").as_deref(), depth(&web)), (Some("two"), 2));
    leaves_nothing(&zones, &["web", "clone"], None);
}

#[test]
fn a_crash_in_a_snapshot_of_a_running_zone_leaves_one_or_none() {
    let points = crash_everywhere(
        |zones| drop(web(zones)),
        |zones| {
            let web = Dataset::open(&zones.zone("web")).unwrap();
            let copy = web.copy_top().unwrap();
            web.snapshot_of_copy(&name("two"), copy).unwrap();
        },
        |zones| {
            Dataset::open(&zones.zone("web")).unwrap();
            collect(&zones.layers(), Lost::Drop).unwrap();
        },
        |zones, at| {
            let web = Dataset::open(&zones.zone("web")).unwrap();
            // The zone's own chain is unchanged, because it may be mounted.
            assert_eq!((read(&web, "a").as_deref(), depth(&web)), (Some("two"), 1));
            let taken = names(&web).len() == 2;
            assert!(taken || at.is_some());
            assert_eq!(zones.layer_count(), 1 + usize::from(taken), "{at:?}");
            leaves_nothing(zones, &["web"], at);
        },
    );
    assert!(points >= 8, "{points}");
}

#[test]
fn a_copy_that_is_given_up_leaves_nothing() {
    let zones = Zones::new();
    let web = web(&zones);
    web.copy_top().unwrap().discard();
    let copy = web.copy_top().unwrap();
    assert!(web.snapshot_of_copy(&name("one"), copy).is_err());
    assert_eq!(zones.layer_count(), 1);
    leaves_nothing(&zones, &["web"], None);
}
