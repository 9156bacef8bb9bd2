//! Tests streams of datasets on ZFS. The tests run one after the other in the virtual machine of
//! tests/vm/zfs, where `ZONES_TEST_ZFS` names a folder on ZFS. Without this variable, they are
//! skipped.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use storage::{Driver, Name, ROOT, Zfs};

/// Returns the test's own folder, or `None` if the host has no ZFS.
fn place(test: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("ZONES_TEST_ZFS") else {
        println!("skipped: ZONES_TEST_ZFS names no folder on ZFS");
        return None;
    };
    let place = Path::new(&folder).join(test);
    std::fs::create_dir(&place).unwrap();
    Some(place)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn write(zonepath: &Path, file: &str, text: &str) {
    std::fs::write(zonepath.join(ROOT).join(file), text).unwrap();
}

/// Reads a file of a halted zone.
fn read(zonepath: &Path, file: &str) -> Option<String> {
    // The stack is requested as for a boot, because the received file system is not mounted before.
    Zfs.stack(zonepath).unwrap();
    std::fs::read_to_string(zonepath.join(ROOT).join(file)).ok()
}

fn sent(zonepath: &Path, snapshot: &str, since: Option<&str>) -> File {
    let mut file = tempfile();
    let since = since.map(name);
    Zfs.send(zonepath, &name(snapshot), since.as_ref(), file.as_fd())
        .unwrap();
    file.rewind().unwrap();
    file
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// Rewinds a stream to its beginning.
fn again(mut stream: &File) -> &File {
    stream.rewind().unwrap();
    stream
}

fn tempfile() -> File {
    tempfile::tempfile().unwrap()
}

fn receive(zonepath: &Path, stream: &File) -> Result<(), String> {
    let received = Zfs.receive(zonepath, stream.as_fd());
    received.map_err(|error| error.to_string())
}

fn names(zonepath: &Path) -> Vec<String> {
    let all = Zfs.snapshots(zonepath).unwrap();
    all.iter().map(|one| one.name.to_string()).collect()
}

/// Returns the output of zfs(8).
fn zfs(words: &[&str]) -> String {
    let output = Command::new("zfs").args(words).output().unwrap();
    assert!(output.status.success(), "zfs {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn file_system(zonepath: &Path) -> String {
    let link = std::fs::read_link(zonepath.join("zfs")).unwrap();
    link.to_str().unwrap().to_owned()
}

#[test]
fn a_dataset_is_sent_whole_and_then_what_changed() {
    let Some(place) = place("whole") else { return };
    let (a, b, c) = (place.join("a"), place.join("b"), place.join("c"));
    Zfs.create(&a).unwrap();
    for (snapshot, text) in [("one", "first"), ("two", "second"), ("three", "third")] {
        write(&a, "file", text);
        Zfs.snapshot(&a, &name(snapshot)).unwrap();
    }
    let whole = sent(&a, "one", None);
    let changes = sent(&a, "two", Some("one"));
    let later = sent(&a, "three", Some("two"));
    assert!(changes.metadata().unwrap().len() < whole.metadata().unwrap().len());

    assert!(receive(&b, &changes).is_err());
    assert!(!b.join("zfs").exists(), "changes alone are no dataset");
    receive(&b, again(&whole)).unwrap();
    assert_eq!(read(&b, "file").as_deref(), Some("first"));
    assert_eq!(names(&b), ["one"]);

    // A stream that does not match the dataset changes nothing.
    assert!(receive(&b, &later).is_err());
    assert!(receive(&b, again(&whole)).is_err());
    assert_eq!(read(&b, "file").as_deref(), Some("first"));

    // Local changes since the snapshot do not prevent the receive, and are lost.
    write(&b, "file", "mine");
    receive(&b, again(&changes)).unwrap();
    assert_eq!(read(&b, "file").as_deref(), Some("second"));
    assert_eq!(names(&b), ["one", "two"]);

    // A received dataset can be cloned, and can be removed before its clone, like any other
    // dataset.
    Driver::clone(&Zfs, &b, Some(&name("one")), &c).unwrap();
    Zfs.destroy(&b).unwrap();
    assert_eq!(read(&c, "file").as_deref(), Some("first"));
    // A dataset without snapshots is not replaced.
    let error = receive(&c, again(&whole)).unwrap_err();
    assert!(error.contains("exists already"), "{error}");
    for zonepath in [a, c] {
        Zfs.destroy(&zonepath).unwrap();
    }
}

#[test]
fn a_stream_brings_nothing_but_files() {
    let Some(place) = place("hostile") else {
        return;
    };
    let (a, b) = (place.join("a"), place.join("b"));
    let before = zfs(&["list", "-H", "-t", "all", "-o", "name"]);
    Zfs.create(&a).unwrap();
    write(&a, "file", "first");
    Zfs.snapshot(&a, &name("one")).unwrap();
    let root = format!("{}/root", file_system(&a));

    // The stream contains properties.
    zfs(&["set", "sharenfs=on", &root]);
    let output = Command::new("zfs")
        .args(["send", "-p", &format!("{root}@one")])
        .output()
        .unwrap();
    let error = receive(&b, &file_of(&output.stdout)).unwrap_err();
    assert!(error.contains("properties of its own"), "{error}");
    assert!(!b.join("zfs").exists());

    // One stream is damaged, and one is no stream at all.
    let mut bytes = output.stdout;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    assert!(receive(&b, &file_of(&bytes)).is_err());
    assert!(receive(&b, &tempfile()).is_err());
    Zfs.destroy(&a).unwrap();
    assert_eq!(zfs(&["list", "-H", "-t", "all", "-o", "name"]), before);
}
