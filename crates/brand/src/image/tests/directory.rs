//! Tests copies of directories.

use super::*;

#[test]
fn a_directory_is_copied_as_it_is() {
    let mut trial = Trial::new();
    let source = trial.dir.path().join("source");
    fs::create_dir_all(source.join("usr/deep/er")).unwrap();
    fs::write(source.join("usr/a"), "x").unwrap();
    fs::hard_link(source.join("usr/a"), source.join("usr/deep/b")).unwrap();
    fs::set_permissions(source.join("usr/a"), fs::Permissions::from_mode(0o4711)).unwrap();
    symlink("/etc/passwd", source.join("usr/link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(source.join("usr/socket")).unwrap();
    let done = trial
        .install(&Source::Directory(source.clone()), LIMITS)
        .unwrap();
    assert_eq!(
        (done.files, done.links, done.directories, done.left_out),
        (1, 1, 3, 1)
    );
    let meta = |name: &str| trial.path(name).symlink_metadata().unwrap();
    assert_eq!(meta("usr/a").mode() & 0o7777, 0o4711);
    assert_eq!(meta("usr/a").ino(), meta("usr/deep/b").ino());
    assert!(meta("usr/link").is_symlink());
    assert_eq!(
        meta("usr/deep").mtime(),
        source.join("usr/deep").metadata().unwrap().mtime()
    );
}

#[test]
fn a_huge_file_is_refused_before_it_is_copied() {
    let mut trial = Trial::new();
    let source = trial.dir.path().join("source");
    fs::create_dir_all(source.join("usr")).unwrap();
    let huge = fs::File::create(source.join("usr/huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let limits = Limits {
        bytes: 1 << 20,
        ..LIMITS
    };
    let error = trial
        .install(&Source::Directory(source), limits)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("more than 1048576 bytes in files"),
        "{error}"
    );
    assert!(!trial.path("usr/huge").exists());
}

#[test]
fn a_directory_around_the_zone_is_refused() {
    let mut trial = Trial::new();
    let around = trial.dir.path().to_owned();
    let error = trial
        .install(&Source::Directory(around), LIMITS)
        .unwrap_err();
    assert!(
        error.to_string().ends_with("the zone itself lies in it"),
        "{error}"
    );
}
