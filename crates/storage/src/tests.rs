//! Tests datasets in a plain folder: sharing, removal and repair. The folder `tests` contains the
//! other tests.
//!
//! These tests mount nothing. They read a file of a dataset by its name in the top and then in each
//! layer, which is correct because no test deletes a file.

mod crashes;
mod environments;
mod formats;
mod garbage;
mod images;
mod races;
mod random;
mod relocate;
mod running;
mod shared;
mod snapshots;
mod switches;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::collect::{Lost, collect};
use crate::dataset::Dataset;
use crate::error::Error;
use crate::layout::{LINK, ROOT, WORK};
use crate::name::Name;

struct Zones(tempfile::TempDir);

impl Zones {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Creates the test zones in memory if possible. This is for tests that create hundreds of
    /// zones and need no extended attributes.
    fn quick() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap()))
    }

    fn zone(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn layers(&self) -> PathBuf {
        self.zone(".layers")
    }

    fn layer_count(&self) -> usize {
        fs::read_dir(self.layers()).map_or(0, |entries| {
            entries
                .filter(|e| e.as_ref().unwrap().file_name() != ".dead")
                .count()
        })
    }

    /// Returns all files below the folder, for messages and to check that nothing is left.
    fn files(&self) -> Vec<PathBuf> {
        fn walk(at: &Path, all: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                all.push(path.clone());
                if path.symlink_metadata().unwrap().is_dir() {
                    walk(&path, all);
                }
            }
        }
        let mut all = Vec::new();
        walk(self.0.path(), &mut all);
        all.sort();
        all
    }

    fn origin(&self) -> Dataset {
        let origin = Dataset::create(&self.zone("origin")).unwrap();
        write(&origin, "a", "one");
        origin
    }
}

fn write(dataset: &Dataset, name: &str, text: &str) {
    fs::write(dataset.stack().unwrap().top.join(name), text).unwrap();
}

fn read(dataset: &Dataset, name: &str) -> Option<String> {
    let stack = dataset.stack().unwrap();
    std::iter::once(&stack.top)
        .chain(&stack.lowers)
        .find_map(|layer| fs::read_to_string(layer.join(name)).ok())
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn names(dataset: &Dataset) -> Vec<String> {
    let all = dataset.snapshots().unwrap();
    all.iter().map(|one| one.name.to_string()).collect()
}

/// Creates a zone with the snapshot "one", in which the file "a" contains "one". After the
/// snapshot, "a" contains "two".
fn web(zones: &Zones) -> Dataset {
    let web = Dataset::create(&zones.zone("web")).unwrap();
    write(&web, "a", "one");
    web.snapshot(&name("one")).unwrap();
    write(&web, "a", "two");
    web
}

fn depth(dataset: &Dataset) -> usize {
    dataset.stack().unwrap().lowers.len()
}

#[test]
fn a_new_dataset_is_a_plain_tree() {
    let zones = Zones::new();
    let dataset = Dataset::create(&zones.zone("web")).unwrap();
    assert_eq!(depth(&dataset), 0);
    let mode = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(zones.zone("web")), 0o700);
    assert_eq!(mode(zones.zone("web").join(ROOT)), 0o755);
    assert!(matches!(
        Dataset::create(&zones.zone("web")),
        Err(Error::Exists(_))
    ));
    assert!(!zones.layers().exists());
}

#[test]
fn refuses_paths_that_are_not_plain() {
    for bad in ["web", "/z/../etc", "/"] {
        assert!(
            matches!(Dataset::open(Path::new(bad)), Err(Error::BadPath(_))),
            "{bad}"
        );
    }
    let zones = Zones::new();
    assert!(matches!(
        Dataset::open(&zones.zone("none")),
        Err(Error::NoDataset(_))
    ));
}

#[test]
fn clones_share_a_layer_and_differ_above_it() {
    let zones = Zones::new();
    let origin = zones.origin();
    let clone = origin.clone_to(&zones.zone("web1")).unwrap();
    write(&clone, "b", "two");
    write(&origin, "a", "changed");
    assert_eq!(read(&clone, "a").as_deref(), Some("one"));
    assert_eq!(read(&origin, "a").as_deref(), Some("changed"));
    assert_eq!(read(&origin, "b"), None);
    assert_eq!(
        clone.stack().unwrap().lowers,
        origin.stack().unwrap().lowers
    );
}

#[test]
fn an_unchanged_origin_makes_one_layer_for_all_clones() {
    let zones = Zones::new();
    let origin = zones.origin();
    for n in 0..5 {
        origin.clone_to(&zones.zone(&format!("web{n}"))).unwrap();
    }
    assert_eq!((zones.layer_count(), depth(&origin)), (1, 1));
    // A change of the root folder alone counts as a change of the top.
    fs::set_permissions(
        origin.stack().unwrap().top,
        fs::Permissions::from_mode(0o750),
    )
    .unwrap();
    let clone = origin.clone_to(&zones.zone("web5")).unwrap();
    assert_eq!((zones.layer_count(), depth(&clone)), (2, 2));
    assert_eq!(
        clone.stack().unwrap().top.metadata().unwrap().mode() & 0o7777,
        0o750
    );
}

#[test]
fn the_new_top_looks_like_the_sealed_one() {
    let zones = Zones::new();
    let origin = zones.origin();
    let top = origin.stack().unwrap().top;
    fs::set_permissions(&top, fs::Permissions::from_mode(0o1711)).unwrap();
    let folder = fs::File::open(&top).unwrap();
    rustix::fs::fsetxattr(
        &folder,
        "user.colour",
        b"red",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    drop(folder);
    let before = top.metadata().unwrap();
    origin.seal().unwrap();
    let after = top.metadata().unwrap();
    // Each subvolume has its own inode numbers.
    assert_ne!((before.dev(), before.ino()), (after.dev(), after.ino()));
    assert_eq!(
        (
            before.mode(),
            before.uid(),
            before.mtime(),
            before.mtime_nsec()
        ),
        (after.mode(), after.uid(), after.mtime(), after.mtime_nsec())
    );
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(&top, "user.colour", &mut value).unwrap();
    assert_eq!(&value[..length], b"red");
    // The new top therefore counts as unchanged.
    let first = origin.seal().unwrap();
    assert_eq!(origin.seal().unwrap(), first);
}

#[test]
fn removing_in_any_order_leaves_nothing() {
    let names = ["origin", "web", "child", "grandchild"];
    // Tests all 24 orders of removal of a chain of four zones, each one a clone of the previous
    // one.
    for order in permutations(&[0, 1, 2, 3]) {
        let zones = Zones::new();
        let mut last = zones.origin();
        for name in &names[1..] {
            let next = last.clone_to(&zones.zone(name)).unwrap();
            write(&next, name, name);
            last = next;
        }
        for (n, gone) in order.iter().enumerate() {
            Dataset::destroy(&zones.zone(names[*gone])).unwrap();
            for left in &order[n + 1..] {
                let dataset = Dataset::open(&zones.zone(names[*left])).unwrap();
                assert_eq!(read(&dataset, "a").as_deref(), Some("one"));
                for name in &names[1..=*left] {
                    assert_eq!(read(&dataset, name).as_deref(), Some(*name));
                }
            }
        }
        let mut left: Vec<_> = names.iter().map(|name| zones.zone(name)).collect();
        left.sort();
        assert_eq!(zones.files(), left, "{order:?}");
    }
}

fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (n, item) in items.iter().enumerate() {
        let mut rest = items.to_vec();
        rest.remove(n);
        for mut tail in permutations(&rest) {
            tail.insert(0, *item);
            all.push(tail);
        }
    }
    all
}

#[test]
fn destroy_keeps_what_is_not_its_own_and_may_be_repeated() {
    let zones = Zones::new();
    let origin = zones.origin();
    origin.seal().unwrap();
    fs::write(zones.zone("origin").join("note"), "mine").unwrap();
    Dataset::destroy(&zones.zone("origin")).unwrap();
    Dataset::destroy(&zones.zone("origin")).unwrap();
    Dataset::destroy(&zones.zone("never")).unwrap();
    assert_eq!(
        zones.files(),
        [zones.zone("origin"), zones.zone("origin").join("note")]
    );
}

#[test]
fn a_failed_clone_leaves_nothing() {
    let zones = Zones::new();
    let origin = zones.origin();
    fs::create_dir_all(zones.zone("web").join(ROOT)).unwrap();
    assert!(matches!(
        origin.clone_to(&zones.zone("web")),
        Err(Error::Exists(_))
    ));
    // An existing, empty zonepath is fine.
    fs::remove_dir(zones.zone("web").join(ROOT)).unwrap();
    origin.clone_to(&zones.zone("web")).unwrap();
    assert_eq!(zones.layer_count(), 1);
}

#[test]
fn links_of_another_form_are_refused() {
    let zones = Zones::new();
    for text in [
        "/etc",
        "../.layers/0123456789abcdef/refs/layer-0123456789abcdef",
        "../.layers/0123456789abcdef/dataset-0123456789abcdef",
        "../.layers/x/refs/dataset-0123456789abcdef",
    ] {
        let path = zones.zone("web");
        Dataset::create(&path).unwrap();
        std::os::unix::fs::symlink(text, path.join(LINK)).unwrap();
        let error = Dataset::open(&path).unwrap_err();
        assert!(matches!(error, Error::BadLink { .. }), "{text}: {error}");
        fs::remove_dir_all(path).unwrap();
    }
}

#[test]
fn a_moved_dataset_can_be_sealed_and_cloned() {
    let zones = Zones::new();
    let web = zones.origin().clone_to(&zones.zone("web")).unwrap();
    fs::create_dir(zones.zone("other")).unwrap();
    let web = web.move_to(&zones.zone("other/web")).unwrap();
    write(&web, "b", "two");
    let clone = web.clone_to(&zones.zone("clone")).unwrap();
    assert_eq!(depth(&clone), 2);
    assert!(matches!(
        clone.clone_to(clone.zonepath()),
        Err(Error::Exists(_))
    ));
    Dataset::destroy(web.zonepath()).unwrap();
    Dataset::destroy(&zones.zone("origin")).unwrap();
    assert_eq!(read(&clone, "a").as_deref(), Some("one"));
    assert_eq!(read(&clone, "b").as_deref(), Some("two"));
    Dataset::destroy(clone.zonepath()).unwrap();
    assert_eq!(zones.layer_count(), 0);
    assert_eq!(
        fs::read_dir(zones.zone("other/.layers")).map_or(0, Iterator::count),
        0
    );
}

#[test]
fn a_zonepath_moved_by_hand_keeps_its_layers() {
    let zones = Zones::new();
    let origin = zones.origin();
    let web = origin.clone_to(&zones.zone("web")).unwrap();
    drop((origin, web));
    Dataset::destroy(&zones.zone("origin")).unwrap();
    fs::rename(zones.zone("web"), zones.zone("moved")).unwrap();
    let report = collect(&zones.layers(), Lost::Keep).unwrap();
    assert_eq!((report.stale_refs, report.removed), (0, 0));
    let moved = Dataset::open(&zones.zone("moved")).unwrap();
    assert_eq!(read(&moved, "a").as_deref(), Some("one"));
    Dataset::destroy(&zones.zone("moved")).unwrap();
    assert_eq!(
        zones.files(),
        [zones.zone("moved"), zones.zone("origin")].as_slice()
    );
}

#[test]
fn a_zonepath_copied_by_hand_becomes_a_user_of_its_own() {
    let zones = Zones::new();
    let origin = zones.origin();
    origin.seal().unwrap();
    let copy = zones.zone("copy");
    for name in [ROOT, WORK] {
        fs::create_dir_all(copy.join(name)).unwrap();
    }
    let link = fs::read_link(origin.zonepath().join(LINK)).unwrap();
    std::os::unix::fs::symlink(&link, copy.join(LINK)).unwrap();
    let copy = Dataset::open(&copy).unwrap();
    assert_ne!(fs::read_link(copy.zonepath().join(LINK)).unwrap(), link);
    Dataset::destroy(origin.zonepath()).unwrap();
    assert_eq!(read(&copy, "a").as_deref(), Some("one"));
    Dataset::destroy(copy.zonepath()).unwrap();
    assert_eq!(zones.layer_count(), 0);
}

#[test]
fn a_lost_zone_keeps_its_layers_until_told_otherwise() {
    let zones = Zones::new();
    zones.origin().seal().unwrap();
    fs::remove_dir_all(zones.zone("origin")).unwrap();
    let report = collect(&zones.layers(), Lost::Keep).unwrap();
    assert_eq!(report.lost, [zones.zone("origin")]);
    assert_eq!(zones.layer_count(), 1);
    let report = collect(&zones.layers(), Lost::Drop).unwrap();
    assert_eq!((report.stale_refs, report.removed), (1, 1));
    assert_eq!(zones.files(), [] as [PathBuf; 0]);
}

#[test]
fn clones_in_parallel_share_one_layer() {
    let zones = Zones::new();
    let path = zones.origin().zonepath().to_owned();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (path, zone) = (&path, zones.zone(&format!("web{n}")));
            scope.spawn(move || Dataset::open(path).unwrap().clone_to(&zone).unwrap());
        }
    });
    assert_eq!(zones.layer_count(), 1);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let zone = zones.zone(&format!("web{n}"));
            scope.spawn(move || Dataset::destroy(&zone).unwrap());
        }
        scope.spawn(|| Dataset::destroy(&path).unwrap());
        scope.spawn(|| collect(&zones.layers(), Lost::Keep).unwrap());
    });
    collect(&zones.layers(), Lost::Keep).unwrap();
    assert!(!zones.layers().exists());
}

/// Regression test: when sixty zones were uninstalled at once, two last users of a layer removed
/// the layer at the same time.
#[test]
fn the_last_users_of_a_layer_may_end_at_the_same_time() {
    for _ in 0..60 {
        let zones = Zones::new();
        let path = zones.origin().zonepath().to_owned();
        for n in 0..4 {
            let zone = zones.zone(&format!("web{n}"));
            Dataset::open(&path).unwrap().clone_to(&zone).unwrap();
        }
        Dataset::destroy(&path).unwrap();
        let together = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for n in 0..4 {
                let (together, zone) = (&together, zones.zone(&format!("web{n}")));
                scope.spawn(move || {
                    together.wait();
                    Dataset::destroy(&zone).unwrap();
                });
            }
        });
        collect(&zones.layers(), Lost::Keep).unwrap();
        assert!(!zones.layers().exists());
    }
}

#[test]
fn merged_files_are_the_same_files() {
    let zones = Zones::new();
    let origin = zones.origin();
    let top = origin.stack().unwrap().top.join("a");
    let before = top.metadata().unwrap().ino();
    origin.seal().unwrap();
    write(&origin, "b", "two");
    origin.seal().unwrap();
    assert_eq!(origin.shorten(8).unwrap(), 2);
    assert_eq!(origin.shorten(0).unwrap(), 1);
    let stack = origin.stack().unwrap();
    if zones.zone("origin/vol").exists() {
        // A hard link cannot cross subvolumes, so the file has shared blocks instead.
        return;
    }
    assert_eq!(stack.lowers[0].join("a").metadata().unwrap().ino(), before);
    // The old layers were removed, and with them the other names of the file.
    assert_eq!(stack.lowers[0].join("a").metadata().unwrap().nlink(), 1);
    assert_eq!(zones.layer_count(), 1);
}

#[test]
fn a_table_of_cron_keeps_one_name() {
    let zones = Zones::new();
    let origin = zones.origin();
    let top = origin.stack().unwrap().top;
    fs::create_dir_all(top.join("etc/cron.d")).unwrap();
    for name in ["etc/crontab", "etc/cron.d/job", "etc/passwd"] {
        write(&origin, name, name);
    }
    origin.seal().unwrap();
    write(&origin, "b", "two");
    let clone = origin.clone_to(&zones.zone("clone")).unwrap();
    assert_eq!(origin.shorten(1).unwrap(), 1);
    for dataset in [&origin, &clone] {
        let lower = dataset.stack().unwrap().lowers.pop().unwrap();
        for name in ["etc/crontab", "etc/cron.d/job"] {
            assert_eq!(lower.join(name).metadata().unwrap().nlink(), 1, "{name}");
            assert_eq!(read(dataset, name).as_deref(), Some(name));
        }
        let others = if zones.zone("origin/vol").exists() {
            1
        } else {
            2
        };
        let passwd = lower.join("etc/passwd").metadata().unwrap();
        assert_eq!(passwd.nlink(), others);
    }
}

#[test]
fn usage_counts_own_and_shared_bytes() {
    let zones = Zones::new();
    let origin = Dataset::create(&zones.zone("origin")).unwrap();
    let top = origin.stack().unwrap().top;
    fs::write(top.join("big"), vec![1; 1 << 20]).unwrap();
    fs::hard_link(top.join("big"), top.join("same")).unwrap();
    fs::create_dir(top.join("d")).unwrap();
    fs::write(top.join("d/small"), "x").unwrap();
    // The file system allocates blocks only when the data is written back to disk.
    fs::File::open(top.join("big")).unwrap().sync_all().unwrap();
    let alone = origin.usage().unwrap();
    assert_eq!(
        (alone.own_files, alone.layers, alone.shared_bytes),
        (4, 0, 0)
    );
    assert!((1 << 20..3 << 19).contains(&alone.own_bytes), "{alone:?}");
    let clone = origin
        .clone_to(&zones.zone("web"))
        .unwrap()
        .usage()
        .unwrap();
    assert_eq!((clone.own_bytes, clone.own_files, clone.layers), (0, 0, 1));
    assert_eq!(clone.shared_bytes, alone.own_bytes);
}

/// A zone on a file system that is not mounted keeps the layers on other file systems.
#[test]
fn the_layer_below_one_that_is_not_there_stays() {
    let zones = Zones::new();
    let origin = zones.origin();
    let (data, away) = (zones.zone("data"), zones.zone("away"));
    fs::create_dir(&data).unwrap();
    let web = origin.clone_to(&data.join("web")).unwrap();
    write(&web, "b", "two");
    web.seal().unwrap();
    drop(web);
    fs::rename(&data, &away).unwrap();
    let collected = collect(&zones.layers(), Lost::Keep).unwrap();
    assert_eq!(collected.lost.len(), 1);
    Dataset::destroy(&zones.zone("origin")).unwrap();
    fs::rename(&away, &data).unwrap();
    let web = Dataset::open(&data.join("web")).unwrap();
    assert_eq!(read(&web, "a").as_deref(), Some("one"));
    assert_eq!(read(&web, "b").as_deref(), Some("two"));
    Dataset::destroy(&data.join("web")).unwrap();
    assert!(!zones.layers().exists());
}
