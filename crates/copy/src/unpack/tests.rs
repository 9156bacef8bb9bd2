use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use super::*;
use crate::pack::pack;
use crate::target::Naming;
use crate::write::Writer;

fn root(path: &Path) -> OwnedFd {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).unwrap()
}

fn rules() -> Rules {
    Rules {
        owner: Owner::Caller,
        set_id: false,
        restore: None,
    }
}

/// Unpacks a stream in `root` at `to`, and returns the problems.
fn unpacked(at: &Path, to: &str, stream: &[u8]) -> Result<Vec<String>, Error> {
    let root = root(at);
    let mut problems = Vec::new();
    let target = Target::open(root.as_fd(), Path::new(to), Naming::Rename)?;
    unpack(root.as_fd(), target, stream, &rules(), &mut |problem| {
        problems.push(problem.to_string());
    })?;
    Ok(problems)
}

fn packed(at: &Path, sources: &[&str]) -> (Vec<u8>, Vec<String>) {
    let sources: Vec<PathBuf> = sources.iter().map(PathBuf::from).collect();
    let (mut stream, mut problems) = (Vec::new(), Vec::new());
    pack(root(at).as_fd(), &sources, &mut stream, &mut |problem| {
        problems.push(problem.to_string());
    })
    .unwrap();
    (stream, problems)
}

/// Returns a stream of these members, whose files have the content `text`.
fn stream(members: &[(&str, Kind)]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    for (name, kind) in members {
        let mut member = Member::new(name.as_bytes().to_vec(), kind.clone());
        member.size = if *kind == Kind::File { 4 } else { 0 };
        writer.member(&member).unwrap();
        if *kind == Kind::File {
            writer.content(b"text").unwrap();
            writer.pad(4).unwrap();
        }
    }
    writer.finish().unwrap()
}

/// Makes a folder that contains `root`, and beside it `secret`, which must not change.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("root");
    fs::create_dir(&at).unwrap();
    fs::write(dir.path().join("secret"), "secret").unwrap();
    (dir, at)
}

#[test]
fn a_tree_is_copied_with_modes_links_holes_and_times() {
    let (_dir, from) = place();
    let site = from.join("site");
    fs::create_dir_all(site.join("a/b")).unwrap();
    fs::write(site.join("a/one\n"), "one").unwrap();
    fs::hard_link(site.join("a/one\n"), site.join("a/two")).unwrap();
    symlink("/etc/passwd", site.join("link")).unwrap();
    let holes = fs::File::create(site.join("holes")).unwrap();
    holes.write_at(b"end", 64 << 20).unwrap();
    fs::write(site.join("tool"), "#!").unwrap();
    fs::set_permissions(site.join("tool"), PermissionsExt::from_mode(0o4755)).unwrap();
    fs::set_permissions(site.join("a/b"), PermissionsExt::from_mode(0o500)).unwrap();
    let (stream, problems) = packed(&from, &["/site"]);
    assert_eq!(problems, [""; 0]);
    assert!(stream.len() < 1 << 20, "{}", stream.len());
    let (_other, to) = place();
    assert_eq!(unpacked(&to, "/new", &stream).unwrap(), [""; 0]);
    let new = to.join("new");
    assert_eq!(fs::read(new.join("a/one\n")).unwrap(), b"one");
    let inode = |path: &str| fs::metadata(new.join(path)).unwrap().ino();
    assert_eq!(inode("a/one\n"), inode("a/two"));
    assert_eq!(
        fs::read_link(new.join("link")).unwrap(),
        Path::new("/etc/passwd")
    );
    let holes = fs::metadata(new.join("holes")).unwrap();
    assert!(holes.len() == (64 << 20) + 3 && holes.blocks() < 2048);
    let mode = |path: &str| fs::metadata(new.join(path)).unwrap().mode() & 0o7777;
    assert_eq!((mode("tool"), mode("a/b")), (0o755, 0o500));
    let times = |at: &Path| {
        let meta = fs::metadata(at).unwrap();
        (meta.mtime(), meta.mtime_nsec())
    };
    assert_eq!(times(&new.join("a")), times(&site.join("a")));
    assert_eq!(times(&new.join("tool")), times(&site.join("tool")));
    // A second copy replaces the files, and adds no folder inside.
    let (stream, _) = packed(&from, &["/site/."]);
    assert_eq!(unpacked(&to, "/new/", &stream).unwrap(), [""; 0]);
    assert!(!new.join("site").exists());
}

#[test]
fn names_of_a_stream_never_lead_out_of_the_destination() {
    let (dir, to) = place();
    symlink("..", to.join("up")).unwrap();
    symlink("../secret", to.join("file")).unwrap();
    let stream = stream(&[
        ("../secret", Kind::File),
        ("/../secret", Kind::File),
        ("up/secret", Kind::File),
        ("here", Kind::Symlink(b"..".to_vec())),
        ("here/secret", Kind::File),
        ("stolen", Kind::HardLink(b"../secret".to_vec())),
        ("stolen", Kind::HardLink(b"up/secret".to_vec())),
        ("file", Kind::File),
        ("/etc/passwd", Kind::File),
    ]);
    let problems = unpacked(&to, "/", &stream).unwrap();
    assert_eq!(problems.len(), 6, "{problems:#?}");
    assert_eq!(fs::read(dir.path().join("secret")).unwrap(), b"secret");
    assert!(!to.join("stolen").exists());
    // A link that had the name of a file is replaced, not followed.
    assert!(fs::symlink_metadata(to.join("file")).unwrap().is_file());
    assert_eq!(fs::read(to.join("etc/passwd")).unwrap(), b"text");
}

#[test]
fn a_fifo_in_the_place_of_a_file_is_replaced() {
    let (_dir, to) = place();
    let fifo = to.join("a");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    fs::create_dir(to.join("b")).unwrap();
    let problems = unpacked(&to, "/", &stream(&[("a", Kind::File), ("b", Kind::File)])).unwrap();
    assert_eq!(problems, ["/b: a folder with this name exists: not copied"]);
    assert_eq!(fs::read(to.join("a")).unwrap(), b"text");
    let left: Vec<_> = fs::read_dir(&to).unwrap().collect();
    assert_eq!(left.len(), 2);
}

#[test]
fn a_cut_stream_leaves_no_part_of_a_file() {
    let (_dir, to) = place();
    let stream = stream(&[("a", Kind::File)]);
    let error = unpacked(&to, "/", &stream[..514]).unwrap_err();
    assert!(error.to_string().contains("ends too early"), "{error}");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
}

#[test]
fn special_files_are_reported_and_not_packed() {
    let (_dir, from) = place();
    let fifo = from.join("fifo\x1b");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    fs::write(from.join("file"), "x").unwrap();
    let (_, problems) = packed(&from, &["/.", "/missing"]);
    assert_eq!(problems[0], "/./fifo\\u{1b}: is a FIFO: not copied");
    assert!(
        problems[1].starts_with("/missing: No such file"),
        "{problems:?}"
    );
}

#[test]
fn several_sources_need_a_folder() {
    let (_dir, to) = place();
    let error = Target::open(root(&to).as_fd(), Path::new("/new"), Naming::Keep).unwrap_err();
    assert_eq!(error.to_string(), "/new: expected an existing folder");
    let problems = unpacked(
        &to,
        "/new",
        &stream(&[("a", Kind::File), ("b", Kind::File)]),
    )
    .unwrap();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(fs::read(to.join("new")).unwrap(), b"text");
}

/// Restores paths from one root into another, and returns the problems.
fn restored(from: &Path, to: &Path, paths: &[&str], existing: Existing) -> Vec<String> {
    let rules = Rules {
        owner: Owner::Caller,
        set_id: true,
        restore: Some(Restore {
            paths: paths.iter().map(PathBuf::from).collect(),
            existing,
        }),
    };
    let (mut stream, mut problems) = (Vec::new(), Vec::new());
    let mut tell = |problem: &Problem| problems.push(problem.to_string());
    crate::pack_for(&rules, root(from).as_fd(), &mut stream, &mut tell).unwrap();
    let to = root(to);
    let target = Target::open(to.as_fd(), Path::new("/"), Naming::Keep).unwrap();
    unpack(to.as_fd(), target, stream.as_slice(), &rules, &mut tell).unwrap();
    problems
}

/// Makes two roots, the first of which has files.
fn two_roots() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    fs::create_dir_all(from.join("a/b/c")).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("a/b/c/file"), "old").unwrap();
    fs::hard_link(from.join("a/b/c/file"), from.join("a/b/two")).unwrap();
    fs::write(from.join("a/beside"), "old").unwrap();
    fs::set_permissions(from.join("a/b"), PermissionsExt::from_mode(0o710)).unwrap();
    (dir, from, to)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_restored_path_comes_back_at_its_place_without_its_neighbours() {
    let (_dir, from, to) = two_roots();
    let problems = restored(&from, &to, &["/a/b", "/a/b/two"], Existing::Replace);
    assert_eq!(problems, [""; 0]);
    assert_eq!(fs::read(to.join("a/b/c/file")).unwrap(), b"old");
    assert!(!to.join("a/beside").exists());
    assert_eq!(mode(&to.join("a/b")), 0o710);
    let number = |name: &str| fs::metadata(to.join(name)).unwrap().ino();
    assert_eq!(number("a/b/c/file"), number("a/b/two"));
}

#[test]
fn existing_folders_get_their_mode_back_and_those_above_keep_theirs() {
    let (_dir, from, to) = two_roots();
    fs::create_dir_all(to.join("a/b")).unwrap();
    for name in ["a", "a/b"] {
        fs::set_permissions(to.join(name), PermissionsExt::from_mode(0o700)).unwrap();
    }
    restored(&from, &to, &["/a/b"], Existing::Keep);
    assert_eq!((mode(&to.join("a")), mode(&to.join("a/b"))), (0o700, 0o700));
    restored(&from, &to, &["/a/b"], Existing::Replace);
    assert_eq!((mode(&to.join("a")), mode(&to.join("a/b"))), (0o700, 0o710));
}

#[test]
fn existing_files_are_replaced_or_kept() {
    let (_dir, from, to) = two_roots();
    fs::create_dir_all(to.join("a/b/c")).unwrap();
    fs::write(to.join("a/b/c/file"), "new").unwrap();
    fs::write(to.join("a/b/more"), "new").unwrap();
    assert_eq!(restored(&from, &to, &["/a"], Existing::Keep), [""; 0]);
    assert_eq!(fs::read(to.join("a/b/c/file")).unwrap(), b"new");
    assert_eq!(restored(&from, &to, &["/a"], Existing::Replace), [""; 0]);
    assert_eq!(fs::read(to.join("a/b/c/file")).unwrap(), b"old");
    assert_eq!(fs::read(to.join("a/b/more")).unwrap(), b"new");
}

#[test]
fn a_restoration_follows_links_on_neither_side() {
    let (dir, from, to) = two_roots();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, to.join("a")).unwrap();
    let problems = restored(&from, &to, &["/a/b/two"], Existing::Replace);
    assert!(
        problems[0].contains("has the name of a folder"),
        "{problems:?}"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    symlink(from.join("a"), from.join("link")).unwrap();
    let problems = restored(&from, &to, &["/link/beside"], Existing::Replace);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(!to.join("link").exists());
}

#[test]
fn the_other_name_of_a_kept_file_has_the_old_content() {
    // Either name can come first.
    for (kept, other) in [("a/b/c/file", "a/b/two"), ("a/b/two", "a/b/c/file")] {
        let (_dir, from, to) = two_roots();
        fs::create_dir_all(to.join("a/b/c")).unwrap();
        fs::write(to.join(kept), "new").unwrap();
        assert_eq!(restored(&from, &to, &["/a"], Existing::Keep), [""; 0]);
        assert_eq!(fs::read(to.join(kept)).unwrap(), b"new");
        assert_eq!(fs::read(to.join(other)).unwrap(), b"old");
    }
}
