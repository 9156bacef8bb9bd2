//! Tests with the exports of other container tools.

use super::*;

#[test]
fn exports_of_incus_and_containers_of_lxc_are_taken_apart() {
    let hard =
        |name: &str, target: &str| member(b'1', name.as_bytes(), target.as_bytes(), 0o644, b"");
    let mut trial = Trial::new();
    trial
        .unpack(&archive(&[
            dir("backup"),
            file("backup/index.yaml", "name: web"),
            file("backup/container/backup.yaml", "container:"),
            dir("backup/container/rootfs"),
            dir("backup/container/rootfs/usr"),
            file("backup/container/rootfs/usr/a", "a"),
            hard(
                "backup/container/rootfs/usr/b",
                "backup/container/rootfs/usr/a",
            ),
        ]))
        .unwrap();
    assert_eq!(fs::read_to_string(trial.path("usr/b")).unwrap(), "a");
    assert!(!trial.path("backup").exists());
    let error = refusal(&archive(&[
        dir("backup"),
        dir("backup/container/rootfs/usr"),
        hard("backup/container/rootfs/usr/b", "backup/index.yaml"),
    ]));
    assert!(error.contains("outside the root"), "{error}");

    let mut trial = Trial::new();
    let source = trial.dir.path().join("source");
    fs::create_dir_all(source.join("rootfs/usr")).unwrap();
    fs::write(source.join("rootfs/usr/a"), "a").unwrap();
    fs::write(
        source.join("config"),
        "lxc.idmap = u 0 100000 65536\nlxc.idmap = g 0 200000 65536\n",
    )
    .unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(source.join("rootfs/usr/a"), Some(100_033), Some(200_034))
            .unwrap();
    }
    trial.install(&Source::Directory(source), LIMITS).unwrap();
    let meta = trial.path("usr/a").metadata().unwrap();
    if rustix::process::geteuid().is_root() {
        assert_eq!((meta.uid(), meta.gid()), (33, 34));
    }
}

#[test]
fn an_archive_of_a_layout_is_told_by_its_first_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    for (members, expected) in [
        (vec![file("oci-layout", "{}")], true),
        // This archive has the form that `tar -C layout -c .` writes.
        (vec![dir("./"), dir("./blobs")], true),
        (vec![dir("./"), file("./index.json", "{}")], true),
        (vec![file("./oci-layout", "{}")], true),
        (vec![dir("./"), dir("./bin")], false),
        (vec![dir("./"), dir("./usr"), dir("./blobs")], false),
        (vec![dir("./")], false),
        (Vec::new(), false),
    ] {
        fs::write(&path, archive(&members)).unwrap();
        assert_eq!(
            container::is_container(&path),
            expected,
            "{} members",
            members.len()
        );
    }
    for other in [&b"not an archive"[..], &[1; 4096]] {
        fs::write(&path, other).unwrap();
        assert!(!container::is_container(&path));
    }
}
