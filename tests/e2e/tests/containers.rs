//! Containers of other tools in a zone, on a volume of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use e2e::Host;

/// What podman keeps is an overlay, and an overlay has no place on that of a zone's root.
const KEPT: &str = "/var/lib/containers";

/// A container for itself: the zone bounds it, and gives it the network.
const ALONE: &str = "--rm --network=host --cgroups=disabled";

#[test]
fn podman_runs_in_a_sparse_zone() {
    let Some(host) = Host::new() else { return };
    if !Path::new("/usr/bin/podman").exists() || !Path::new("/usr/bin/crun").exists() {
        return e2e::skip("no podman with crun");
    }
    if !Path::new("/usr/bin/busybox").exists() {
        return e2e::skip("no busybox");
    }
    let volume = host.path("/volume");
    fs::create_dir(&volume).unwrap();
    fs::set_permissions(&volume, fs::Permissions::from_mode(0o700)).unwrap();
    let special = volume.display();
    host.configure(
        "pod",
        &format!("add fs; set dir={KEPT}; set special={special}; set type=lofs; end"),
    );
    host.on("pod", &["install"]).quiet();
    let root = host.path("/tree");
    fs::create_dir_all(root.join("bin")).unwrap();
    e2e::between_starts(|| fs::copy("/usr/bin/busybox", root.join("bin/busybox"))).unwrap();
    std::os::unix::fs::symlink("busybox", root.join("bin/sh")).unwrap();
    let image = host.put("pod", "root/image.tar", "");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&image).arg("-C").arg(&root).arg(".");
    e2e::run::run(&mut tar, b"").quiet();
    host.boot("pod");
    // crun looks for it, also where it is told to use none.
    host.sh("pod", "mount -t cgroup2 cgroup2 /sys/fs/cgroup");
    host.sh("pod", "podman import -q /root/image.tar tiny");
    let said = host.sh(
        "pod",
        &format!("podman run {ALONE} tiny sh -c \"echo in; exec busybox cat /proc/1/comm\""),
    );
    assert_eq!(said, "in\nbusybox");
    assert!(volume.join("storage").is_dir());
    host.halt("pod");
}
