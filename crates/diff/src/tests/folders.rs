//! Plain folders, without root.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::{Done, Event, Kind, Moment, Proof};

fn compare(before: &Path, after: &Path) -> (Vec<String>, Done) {
    let [before, after] = [before, after].map(|path| Moment {
        layers: vec![path.to_owned()],
    });
    let mut told = Vec::new();
    let done = crate::compare(&before, &after, Proof::Bytes, &mut |event| {
        told.push(match event {
            Event::Change(change) => {
                let what: Vec<&str> = change.what.words().collect();
                let path = change.path.escape_ascii();
                format!(
                    "{:?} {path} {} {}",
                    change.action,
                    change.kind.as_str(),
                    what.join(",")
                )
            }
            Event::Problem { path, why } => format!("{}: {why}", path.escape_ascii()),
        });
        ControlFlow::Continue(())
    });
    (told, done.unwrap())
}

/// Two folders with the same content.
fn two() -> (tempfile::TempDir, [std::path::PathBuf; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let both = ["before", "after"].map(|name| dir.path().join(name));
    for root in &both {
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(root.join("etc/same"), "same").unwrap();
    }
    (dir, both)
}

#[test]
fn content_mode_target_and_type_are_compared() {
    let (_dir, [before, after]) = two();
    for (root, text, mode, target) in [(&before, "one", 0o644, "a"), (&after, "two", 0o600, "b")] {
        fs::write(root.join("etc/content"), text).unwrap();
        fs::write(root.join("etc/mode"), "x").unwrap();
        fs::set_permissions(root.join("etc/mode"), fs::Permissions::from_mode(mode)).unwrap();
        symlink(target, root.join("etc/link")).unwrap();
    }
    fs::write(before.join("etc/type"), "x").unwrap();
    let fifo = after.join("etc/type");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(
        compare(&before, &after).0,
        [
            "Modified /etc/content file content",
            "Modified /etc/link symlink content",
            "Modified /etc/mode file mode",
            "Removed /etc/type file ",
            "Added /etc/type fifo ",
        ]
    );
}

#[test]
fn a_change_behind_a_hole_is_found_and_no_hole_is_read() {
    let (_dir, [before, after]) = two();
    for (root, byte) in [(&before, b"x"), (&after, b"y")] {
        let file = fs::File::create(root.join("sparse")).unwrap();
        // Reading a tebibyte would take minutes.
        file.set_len(1 << 40).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, byte, (1 << 40) - 1).unwrap();
        fs::File::create(root.join("hole"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
    }
    assert_eq!(
        compare(&before, &after).0,
        ["Modified /sparse file content"]
    );
}

#[test]
fn names_may_have_any_bytes_and_folders_may_be_deep() {
    let (_dir, [before, after]) = two();
    let name = std::ffi::OsStr::from_bytes(b"a\n\x1b[2J\xff");
    fs::write(after.join(name), "").unwrap();
    let long = "n".repeat(255);
    fs::write(after.join(&long), "").unwrap();
    // Deeper than a path that the kernel opens, and deeper than the open folders.
    let mut at = rustix::fs::open(&after, rustix::fs::OFlags::PATH, 0.into()).unwrap();
    for _ in 0..1000 {
        rustix::fs::mkdirat(&at, "deep-folder", rustix::fs::Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "deep-folder", rustix::fs::OFlags::PATH, 0.into()).unwrap();
    }
    let (told, done) = compare(&before, &after);
    assert_eq!((told.len(), done.problems), (1002, 0));
    assert_eq!(told[0], "Added /a\\n\\x1b[2J\\xff file ");
    assert!(told[1000].matches("deep-folder").count() == 1000);
    assert_eq!(told[1001], format!("Added /{long} file "));
    // The standard library removes trees of any depth.
}

#[test]
fn the_receiver_can_end_the_comparison() {
    let (_dir, [before, after]) = two();
    for name in ["a", "b", "c"] {
        fs::write(after.join(name), "").unwrap();
    }
    let [before, after] = [before, after].map(|path| Moment { layers: vec![path] });
    let mut count = 0;
    let done = crate::compare(&before, &after, Proof::Bytes, &mut |_| {
        count += 1;
        ControlFlow::Break(())
    });
    assert!(done.unwrap().ended && count == 1);
}

#[test]
fn a_removed_layer_is_an_error() {
    let (_dir, [before, after]) = two();
    fs::write(after.join("new"), "").unwrap();
    let gone = before.clone();
    let [before, after] = [before, after].map(|path| Moment { layers: vec![path] });
    let done = crate::compare(&before, &after, Proof::Bytes, &mut |_| {
        fs::rename(&gone, gone.with_extension("dead")).unwrap();
        ControlFlow::Continue(())
    });
    assert!(matches!(done, Err(crate::Error::Removed(path)) if path == before.layers[0]));
    let missing = crate::compare(&before, &after, Proof::Bytes, &mut |_| {
        ControlFlow::Continue(())
    });
    assert!(matches!(missing, Err(crate::Error::Layer(..))));
}

#[test]
fn a_tree_that_changes_all_the_time_is_compared_to_an_end() {
    let (_dir, [before, after]) = two();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let work = after.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                n += 1;
                let (a, b) = (work.join(format!("z{n}")), work.join("swap"));
                let _ = fs::create_dir_all(a.join("x"));
                let _ = fs::write(a.join("x/f"), "text");
                let _ = fs::remove_dir_all(&b);
                let _ = fs::rename(&a, &b);
                let _ = fs::remove_dir_all(work.join("etc"));
                let _ = symlink("/", work.join("etc"));
                let _ = fs::remove_file(work.join("etc"));
                let _ = fs::create_dir(work.join("etc"));
                let _ = fs::write(work.join("etc/same"), "other");
            }
        });
        for _ in 0..200 {
            for line in compare(&before, &after).0 {
                let inside = ["/etc", "/swap", "/z"];
                assert!(inside.iter().any(|name| line.contains(name)), "{line}");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn types_are_those_of_the_mode() {
    assert_eq!(Kind::of_mode(0o100_644), Kind::File);
    assert_eq!(Kind::of_mode(0o140_644), Kind::Socket);
    assert_eq!(Kind::of_mode(0o060_644), Kind::BlockDevice);
}
