//! Tests trees that are packed into a stream and unpacked from it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::super::pack::Pack;
use super::super::{Content, unpack_stream};

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("etc/deep")).unwrap();
    fs::create_dir(at("bin")).unwrap();
    fs::write(at("etc/a"), "one").unwrap();
    fs::hard_link(at("etc/a"), at("etc/deep/b")).unwrap();
    fs::set_permissions(at("etc/a"), fs::Permissions::from_mode(0o4711)).unwrap();
    symlink("../etc/a", at("bin/l")).unwrap();
    let long = "n".repeat(200);
    fs::write(at("etc").join(&long), "long").unwrap();
    symlink(format!("/{long}/{long}"), at("etc/far")).unwrap();
    dir
}

fn carry(from: &Path, content: Content) -> tempfile::TempDir {
    let mut pack = Pack::new(Vec::new(), content);
    pack.tree(from, &mut |_, _| true).unwrap();
    let (bytes, packed) = pack.finish().unwrap();
    assert!(packed.members >= 8, "{packed:?}");
    let to = tempfile::tempdir().unwrap();
    unpack_stream(to.path(), bytes.as_slice(), content, Path::new("stream")).unwrap();
    to
}

#[test]
fn streams_unpack_to_the_packed_tree() {
    for content in [Content::Root, Content::Layer] {
        let from = tree();
        let to = carry(from.path(), content);
        let read = |name: &str| fs::read_to_string(to.path().join(name)).unwrap();
        assert_eq!(
            (read("etc/a"), read("etc/deep/b")),
            ("one".into(), "one".into())
        );
        let stat = fs::metadata(to.path().join("etc/a")).unwrap();
        assert_eq!((stat.nlink(), stat.mode() & 0o7777), (2, 0o4711));
        assert_eq!(read(&format!("etc/{}", "n".repeat(200))), "long");
        for link in ["bin/l", "etc/far"] {
            assert_eq!(
                fs::read_link(to.path().join(link)).unwrap(),
                fs::read_link(from.path().join(link)).unwrap()
            );
        }
        let before = fs::metadata(from.path().join("etc/deep")).unwrap().mtime();
        assert_eq!(
            fs::metadata(to.path().join("etc/deep")).unwrap().mtime(),
            before
        );
    }
}

#[test]
fn a_later_stream_goes_over_an_earlier_one() {
    let from = tree();
    let to = carry(from.path(), Content::Layer);
    fs::write(from.path().join("etc/a"), "two").unwrap();
    fs::remove_file(from.path().join("bin/l")).unwrap();
    fs::write(from.path().join("bin/l"), "a file now").unwrap();
    let mut pack = Pack::new(Vec::new(), Content::Layer);
    pack.tree(from.path(), &mut |path, _| {
        path.starts_with("bin") || path.ends_with("a") || path.ends_with("b")
    })
    .unwrap();
    let (bytes, _) = pack.finish().unwrap();
    unpack_stream(to.path(), bytes.as_slice(), Content::Layer, Path::new("s")).unwrap();
    let read = |name: &str| fs::read_to_string(to.path().join(name)).unwrap();
    assert_eq!(read("etc/a"), "two");
    assert_eq!(read("bin/l"), "a file now");
}

#[test]
fn only_safe_overlay_attributes_are_carried() {
    let layer = |name: &str, value: &[u8]| Content::Layer.keeps(name, value);
    assert!(layer("trusted.overlay.opaque", b"y"));
    assert!(!layer("trusted.overlay.opaque", b"n"));
    for (value, legal) in [
        (&b"/usr/lib"[..], true),
        (b"former", true),
        (b"a/b", false),
        (b"/a/../b", false),
        (b"..", false),
        (b"/", false),
        (b"", false),
        (b"a\0b", false),
    ] {
        assert_eq!(layer("trusted.overlay.redirect", value), legal, "{value:?}");
    }
    for name in [
        "trusted.overlay.metacopy",
        "trusted.overlay.origin",
        "trusted.other",
        "user.overlay.opaque",
        "security.selinux",
    ] {
        assert!(!layer(name, b"y"), "{name}");
    }
    assert!(layer("security.capability", b"x") && layer("user.mine", b"x"));
    assert!(!Content::Root.keeps("trusted.overlay.opaque", b"y"));
    assert!(!Content::Root.keeps("system.posix_acl_access", b"x"));
}
