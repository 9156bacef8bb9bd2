//! Tests snapshots of running zones: files that change during the copy, files that snapshots share,
//! and unchanged zones.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};

use super::crashes::leaves_nothing;
use super::snapshots::faces;
use super::{Zones, name, names, read, write};
use crate::collect::{Lost, collect};
use crate::crash;
use crate::dataset::Dataset;

/// Returns a zone whose file system tells changes; `None` on a tmpfs.
fn zone() -> Option<(Zones, Dataset)> {
    let zones = Zones::new();
    if !crate::fstype::tells_changes(fs::File::open(zones.0.path()).unwrap()) {
        println!("skipped: the folder of temporary files is on a file system without change times");
        return None;
    }
    let web = Dataset::create(&zones.zone("web")).unwrap();
    fs::create_dir(top(&web).join("d")).unwrap();
    for file in ["a", "b", "d/c"] {
        write(&web, file, file);
    }
    rest();
    Some((zones, web))
}

/// Waits until the stamps of all files are settled, by the clock of change times.
fn rest() {
    let now = || clock_gettime(ClockId::RealtimeCoarse);
    let end = now() + Timespec::try_from(Duration::from_millis(80)).unwrap();
    while now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn top(dataset: &Dataset) -> PathBuf {
    dataset.stack().unwrap().top
}

fn take(dataset: &Dataset, snapshot: &str) -> crate::Copied {
    let copy = dataset.copy_top().unwrap();
    let copied = copy.copied;
    dataset.snapshot_of_copy(&name(snapshot), copy).unwrap();
    copied
}

fn layer(dataset: &Dataset, snapshot: &str) -> PathBuf {
    dataset.snapshot_stack(&name(snapshot)).unwrap().top
}

fn inode(path: impl AsRef<Path>) -> u64 {
    path.as_ref().symlink_metadata().unwrap().ino()
}

#[test]
fn snapshots_share_unchanged_files_with_each_other_and_never_with_the_top() {
    let Some((zones, web)) = zone() else { return };
    symlink("a", top(&web).join("l")).unwrap();
    fs::hard_link(top(&web).join("a"), top(&web).join("d/again")).unwrap();
    rest();
    assert_eq!(take(&web, "one").linked, 0);
    write(&web, "b", "changed");
    rest();
    let copied = take(&web, "two");
    // The fourth file is one more name of the first.
    assert_eq!(copied.linked, 3, "{copied:?}");
    let (one, two) = (layer(&web, "one"), layer(&web, "two"));
    for file in ["a", "d/c", "d/again", "l"] {
        assert_eq!(inode(one.join(file)), inode(two.join(file)), "{file}");
        assert_ne!(inode(one.join(file)), inode(top(&web).join(file)), "{file}");
    }
    assert_eq!(inode(two.join("a")), inode(two.join("d/again")));
    assert_eq!(fs::read_to_string(one.join("b")).unwrap(), "b");
    assert_eq!(fs::read_to_string(two.join("b")).unwrap(), "changed");
    // A later change of the top reaches no layer.
    write(&web, "a", "later");
    assert_eq!(fs::read_to_string(two.join("a")).unwrap(), "a");
    web.destroy_snapshot(&name("one")).unwrap();
    assert_eq!(fs::read_to_string(two.join("d/c")).unwrap(), "d/c");
    leaves_nothing(&zones, &["web"], None);
}

#[test]
fn the_space_of_snapshots_together_and_of_the_next_one_is_told() {
    let Some((_zones, web)) = zone() else { return };
    let space = |snapshots: &[&str]| {
        rustix::fs::syncfs(fs::File::open(top(&web)).unwrap()).unwrap();
        let names = snapshots.iter().map(|one| name(one)).collect();
        web.bytes_together(&names).unwrap()
    };
    let mebibytes = |bytes: u64| (bytes + (512 << 10)) >> 20;
    let is_ext4 = !crate::fstype::shares_blocks(fs::File::open(top(&web)).unwrap());
    fs::write(top(&web).join("big"), vec![1; 3 << 20]).unwrap();
    fs::write(top(&web).join("d/changing"), vec![1; 1 << 20]).unwrap();
    rest();
    let to_copy = || mebibytes(web.bytes_to_copy().unwrap());
    assert_eq!(to_copy(), if is_ext4 { 4 } else { 0 });
    take(&web, "one");
    fs::write(top(&web).join("d/changing"), vec![2; 1 << 20]).unwrap();
    rest();
    assert_eq!(to_copy(), if is_ext4 { 1 } else { 0 });
    take(&web, "two");
    if is_ext4 {
        assert_eq!(to_copy(), 0);
        let own = |snapshot| web.snapshot_usage(&name(snapshot)).unwrap().own_bytes;
        assert_eq!(mebibytes(own("one")), 1);
        // Both have the large file, which is freed with the last of them.
        assert_eq!(mebibytes(space(&["one"])), 1);
        assert_eq!(mebibytes(space(&["one", "two"])), 5);
        take(&web, "mine");
        assert_eq!(mebibytes(space(&["one", "two"])), 1, "mine has the others");
    }
    assert_eq!(space(&[]), 0);
    assert_eq!(space(&["none"]), 0);
}

#[test]
fn the_tables_of_cron_are_never_shared() {
    let Some((_zones, web)) = zone() else { return };
    fs::create_dir(top(&web).join("cron.d")).unwrap();
    write(&web, "cron.d/job", "* * * * *");
    rest();
    take(&web, "one");
    take(&web, "two");
    let job = layer(&web, "two").join("cron.d/job");
    assert_eq!(job.metadata().unwrap().nlink(), 1);
}

#[test]
fn a_store_through_a_mapping_after_the_freeze_reaches_the_next_snapshot() {
    let Some((_zones, web)) = zone() else { return };
    let path = top(&web).join("mapped");
    fs::write(&path, vec![0; 16 << 10]).unwrap();
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let map = sys::mapping::Mapping::new(file.as_fd(), 16 << 10).unwrap();
    map.write(4096, b"one").unwrap();
    // The page stays dirty, and its file has not changed for some time.
    rest();
    let copy = web.copy_top().unwrap();
    map.write(4096, b"two").unwrap();
    web.snapshot_of_copy(&name("one"), copy).unwrap();
    rest();
    let copy = web.copy_top().unwrap();
    map.write(4096, b"six").unwrap();
    web.snapshot_of_copy(&name("two"), copy).unwrap();
    rest();
    assert_eq!(web.unchanged_since().unwrap(), None);
    take(&web, "three");
    for (snapshot, want) in [("one", b"one"), ("two", b"two"), ("three", b"six")] {
        let found = fs::read(layer(&web, snapshot).join("mapped")).unwrap();
        assert_eq!(&found[4096..4099], want, "{snapshot}");
    }
}

#[test]
fn a_store_through_a_mapping_during_the_copy_reaches_the_snapshot() {
    let Some((_zones, web)) = zone() else { return };
    let path = top(&web).join("mapped");
    fs::write(&path, vec![0; 16 << 10]).unwrap();
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let map = sys::mapping::Mapping::new(file.as_fd(), 16 << 10).unwrap();
    map.write(0, b"one").unwrap();
    rest();
    let mut copy = web.begin_copy().unwrap();
    map.write(0, b"two").unwrap();
    rest();
    web.complete_copy(&mut copy).unwrap();
    web.snapshot_of_copy(&name("one"), copy).unwrap();
    let found = fs::read(layer(&web, "one").join("mapped")).unwrap();
    assert_eq!(&found[..3], b"two");
}

/// Changes a top in a way that depends on `seed`.
fn change(top: &Path, seed: u64) {
    let folder = if seed % 3 == 0 { "d" } else { "e" };
    let (file, other) = (top.join(folder).join("f"), top.join("a"));
    let mode = |mode| fs::Permissions::from_mode(mode);
    let _ = fs::create_dir(top.join(folder));
    // Each of these may fail, if an earlier one removed its file.
    let _ = match seed % 11 {
        0 => fs::write(&file, seed.to_string()),
        1 => fs::remove_file(&file),
        2 => fs::rename(top.join("d"), top.join("moved")),
        3 => fs::remove_file(&other).and_then(|()| fs::create_dir(&other)),
        4 => fs::remove_dir(&other).and_then(|()| fs::write(&other, "file")),
        5 => fs::hard_link(&other, top.join(folder).join("same")),
        6 => fs::remove_file(top.join(folder).join("same")),
        7 => fs::set_permissions(&other, mode(0o700 | (seed % 8) as u32)),
        8 => fs::remove_dir_all(top.join(folder)),
        9 => symlink(
            seed.to_string(),
            top.join(folder).join(format!("l{}", seed % 4)),
        ),
        _ => fs::set_permissions(top.join(folder), mode(0o750 | (seed % 2) as u32)),
    };
}

#[test]
fn a_copy_is_the_top_at_the_freeze_whatever_changed_before() {
    let Some((zones, web)) = zone() else { return };
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 33
    };
    for round in 0..60 {
        for _ in 0..random() % 3 {
            change(&top(&web), random());
        }
        if round % 3 == 0 {
            rest();
        }
        let mut copy = web.begin_copy().unwrap();
        for _ in 0..random() % 4 {
            change(&top(&web), random());
        }
        web.complete_copy(&mut copy).unwrap();
        let before = faces(&top(&web));
        let snapshot = format!("s{round}");
        web.snapshot_of_copy(&name(&snapshot), copy).unwrap();
        // Files that several snapshots share have further names, in other layers.
        let links = |faces: Vec<String>| -> Vec<String> {
            let mut faces: Vec<_> = faces.iter().map(|face| without_links(face)).collect();
            faces.sort();
            faces
        };
        let after = links(faces(&layer(&web, &snapshot)));
        assert_eq!(after, links(before), "round {round}");
        if round >= 6 {
            web.destroy_snapshot(&name(&format!("s{}", round - 6)))
                .unwrap();
        }
    }
    leaves_nothing(&zones, &["web"], None);
}

/// Removes the number of names from the face of a file: the last number of its first parentheses.
fn without_links(face: &str) -> String {
    let parts = face
        .split_once('(')
        .and_then(|(head, rest)| Some((head, rest.split_once(')')?)));
    match parts {
        Some((head, (owner, tail))) => {
            let numbers: Vec<&str> = owner.split(", ").take(3).collect();
            format!("{head}({}){tail}", numbers.join(", "))
        }
        None => face.to_owned(),
    }
}

#[test]
fn an_unchanged_zone_is_found() {
    let Some((_zones, web)) = zone() else { return };
    assert_eq!(web.unchanged_since().unwrap(), None);
    web.snapshot(&name("halted")).unwrap();
    assert_eq!(web.unchanged_since().unwrap(), Some(name("halted")));
    write(&web, "a", "one");
    fs::create_dir(top(&web).join("d")).unwrap();
    assert_eq!(web.unchanged_since().unwrap(), None);
    // The stamps of these files are not settled, so the contents are compared.
    take(&web, "young");
    assert_eq!(web.unchanged_since().unwrap(), Some(name("young")));
    write(&web, "a", "two");
    assert_eq!(web.unchanged_since().unwrap(), None);
    rest();
    take(&web, "one");
    assert_eq!(web.unchanged_since().unwrap(), Some(name("one")));
    // A file that is written again with the same content has changed.
    let changes: [&dyn Fn(&Path); 5] = [
        &|top| fs::write(top.join("a"), "two").unwrap(),
        &|top| fs::write(top.join("d/new"), "").unwrap(),
        &|top| fs::rename(top.join("d/new"), top.join("d/newer")).unwrap(),
        &|top| fs::set_permissions(top.join("a"), fs::Permissions::from_mode(0o600)).unwrap(),
        &|top| fs::remove_dir_all(top.join("d")).unwrap(),
    ];
    for (n, change) in changes.iter().enumerate() {
        change(&top(&web));
        rest();
        assert_eq!(web.unchanged_since().unwrap(), None, "{n}");
        let snapshot = format!("s{n}");
        take(&web, &snapshot);
        assert_eq!(web.unchanged_since().unwrap(), Some(name(&snapshot)), "{n}");
    }
    web.rollback(&name("one")).unwrap();
    assert_eq!(web.unchanged_since().unwrap(), Some(name("one")));
}

#[test]
fn a_root_without_files_is_not_mistaken_for_an_older_one() {
    let Some((_zones, web)) = zone() else { return };
    web.snapshot(&name("base")).unwrap();
    write(&web, "a", "one");
    rest();
    take(&web, "one");
    fs::remove_file(top(&web).join("a")).unwrap();
    rest();
    // The top is empty, as that of the snapshot.
    take(&web, "empty");
    web.rollback(&name("one")).unwrap();
    web.destroy_snapshot(&name("base")).unwrap();
    assert_eq!(web.unchanged_since().unwrap(), Some(name("one")));
    write(&web, "x", "");
    fs::remove_file(top(&web).join("x")).unwrap();
    assert_eq!(read(&web, "a").as_deref(), Some("one"));
    assert_ne!(web.unchanged_since().unwrap(), Some(name("empty")));
}

/// Makes the tables of all snapshots those of an earlier boot of the host.
fn reboot(zones: &Zones) {
    for entry in fs::read_dir(zones.layers()).unwrap() {
        let path = entry.unwrap().path().join("stamps");
        if let Ok(mut bytes) = fs::read(&path) {
            // The id of the boot follows the first line and its length.
            bytes[20] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
}

#[test]
fn contents_are_compared_after_the_host_has_booted_again() {
    let Some((zones, web)) = zone() else { return };
    take(&web, "one");
    reboot(&zones);
    assert_eq!(web.unchanged_since().unwrap(), None);
    // After a power failure, this file has its former time and its later content.
    fs::write(layer(&web, "one").join("a"), "x").unwrap();
    rest();
    let copied = take(&web, "two");
    assert_eq!(copied.linked, 2, "{copied:?}");
    let two = layer(&web, "two");
    assert_eq!(fs::read_to_string(two.join("a")).unwrap(), "a");
    assert_eq!(inode(two.join("b")), inode(layer(&web, "one").join("b")));
    assert_eq!(web.unchanged_since().unwrap(), Some(name("two")));
}

#[test]
fn the_next_snapshot_shares_with_an_older_one_after_the_newest_is_removed() {
    let Some((zones, web)) = zone() else { return };
    for snapshot in ["one", "two", "three"] {
        take(&web, snapshot);
    }
    let tables = |zones: &Zones| {
        let files = zones.files().into_iter();
        files.filter(|path| path.ends_with("stamps")).count()
    };
    assert_eq!(tables(&zones), 2);
    web.destroy_snapshot(&name("three")).unwrap();
    assert_eq!(take(&web, "four").linked, 3);
}

/// Returns the bytes of all files in the layers of a zone.
fn allocated(zones: &Zones) -> u64 {
    let mut files = BTreeMap::new();
    for path in zones.files() {
        let stat = path.symlink_metadata().unwrap();
        if path.starts_with(zones.layers()) && !path.ends_with("stamps") {
            files.insert(stat.ino(), stat.blocks() * 512);
        }
    }
    files.values().sum()
}

#[test]
fn the_size_of_a_snapshot_is_what_its_removal_frees() {
    let Some((zones, web)) = zone() else { return };
    for n in 0..5 {
        fs::write(top(&web).join(format!("big{n}")), vec![1; 100 << 10]).unwrap();
    }
    for n in 0..5 {
        fs::write(top(&web).join("big0"), vec![n; 200 << 10]).unwrap();
        fs::write(top(&web).join(format!("new{n}")), vec![n; 40 << 10]).unwrap();
        web.sync().unwrap();
        rest();
        take(&web, &format!("s{n}"));
    }
    // A removal changes the figures of the snapshots before and after it.
    for n in [2, 3, 1, 4, 0] {
        let all = web.snapshot_usages().unwrap();
        let snapshot = name(&format!("s{n}"));
        let (_, usage) = all.iter().find(|(one, _)| one.name == snapshot).unwrap();
        assert_eq!(web.snapshot_usage(&snapshot).unwrap(), *usage);
        let before = allocated(&zones);
        web.destroy_snapshot(&snapshot).unwrap();
        let freed = before - allocated(&zones);
        // The folders of the layer itself are not counted, and a small folder may hold them.
        let folders = 4 * 4096;
        assert!(
            freed.abs_diff(usage.own_bytes) <= folders,
            "s{n}: {freed} bytes were freed, {} were listed",
            usage.own_bytes
        );
        assert!(
            usage.own_bytes >= 200 << 10 && usage.all_bytes >= 600 << 10,
            "{usage:?}"
        );
    }
}

#[test]
fn a_merge_corrects_the_sizes_of_the_layers_that_it_links() {
    let Some((_zones, web)) = zone() else { return };
    for n in 0..3 {
        fs::write(top(&web).join(format!("f{n}")), vec![n; 100 << 10]).unwrap();
        web.sync().unwrap();
        web.snapshot(&name(&format!("s{n}"))).unwrap();
    }
    let own = |snapshot: &str| web.snapshot_usage(&name(snapshot)).unwrap().own_bytes;
    web.rollback(&name("s1")).unwrap();
    assert!(own("s2") >= 100 << 10);
    web.rollback(&name("s2")).unwrap();
    assert_eq!(web.shorten(1).unwrap(), 1);
    // The merged layer has the file, too.
    assert!(own("s2") < 50 << 10, "{}", own("s2"));
}

#[test]
fn a_crash_in_a_snapshot_that_shares_files_leaves_one_or_none() {
    let mut points = 0;
    for k in 0.. {
        let Some((zones, web)) = zone() else { return };
        take(&web, "one");
        write(&web, "b", "changed");
        rest();
        let through = crash::run(k, || take(&web, "two")).is_ok();
        let web = Dataset::open(&zones.zone("web")).unwrap();
        collect(&zones.layers(), Lost::Drop).unwrap();
        assert_eq!(read(&web, "b").as_deref(), Some("changed"), "{k}");
        for (snapshot, want) in [("one", "b"), ("two", "changed")] {
            if names(&web).contains(&snapshot.to_owned()) {
                let layer = layer(&web, snapshot);
                assert_eq!(fs::read_to_string(layer.join("b")).unwrap(), want, "{k}");
                assert_eq!(fs::read_to_string(layer.join("a")).unwrap(), "a", "{k}");
            }
        }
        take(&web, "three");
        let three = layer(&web, "three");
        assert_eq!(
            inode(three.join("a")),
            inode(layer(&web, "one").join("a")),
            "{k}"
        );
        leaves_nothing(&zones, &["web"], Some(k));
        if through {
            points = k;
            break;
        }
    }
    assert!(points >= 8, "{points}");
}
