//! Tests that containers of other tools become zones: roots and configurations of nspawn, LXC and
//! Incus.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::Host;
use e2e::container::{archive, busybox, file, system};
use e2e::run::run;

/// The first user id of the LXC container on its host.
const FIRST: u32 = 300_000;

/// Unpacks a small bootable system into a new folder.
fn root(host: &Host, folder: &str, busybox: &[u8]) -> PathBuf {
    let root = host.path(folder);
    fs::create_dir_all(&root).unwrap();
    let mut members = system(busybox);
    members.push(file("etc/os-release", b"ID=tiny\nNAME=Tiny\n"));
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg("-").arg("-C").arg(&root);
    run(&mut tar, &archive(&members)).quiet();
    root
}

/// Configures a zone from the container's file of the other tool.
fn configure(host: &Host, zone: &str, said: &Path) -> String {
    let said = said.to_str().unwrap();
    let commands = run(&mut host.command("zonep2vchk", &["-c", "-f", said]), b"").ok();
    let translated = host.path(&format!("/{zone}.cfg"));
    fs::write(&translated, &commands.out).unwrap();
    host.zonecfg(&["-z", zone, "-f", translated.to_str().unwrap()])
        .quiet();
    commands.out
}

/// Boots, enters, clones and halts the zone.
fn lives(host: &Host, zone: &str) {
    let other = format!("{zone}-too");
    host.clone_from(zone, &other);
    for zone in [zone, &other] {
        host.boot(zone);
        assert_eq!(host.sh(zone, "hostname"), zone);
        assert_eq!(host.sh(zone, "cat /etc/os-release"), "ID=tiny\nNAME=Tiny");
        assert_eq!(
            host.sh(zone, "stat -c %u:%g /etc/passwd /bin/busybox"),
            "0:0\n0:0"
        );
    }
    host.sh(&other, "echo changed >/etc/os-release");
    assert_eq!(host.sh(zone, "cat /etc/os-release"), "ID=tiny\nNAME=Tiny");
    for zone in [zone, &other] {
        host.halt(zone);
        assert_eq!(host.state(zone), "installed");
        assert!(host.groups_of(zone).is_empty());
    }
}

#[test]
fn a_root_of_nspawn_with_its_settings() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let root = root(&host, "/machines/tiny", &busybox);
    let shared = host.path("/shared");
    fs::create_dir(&shared).unwrap();
    fs::write(shared.join("word"), "shared").unwrap();
    let settings = host.path("/machines/tiny.nspawn");
    let text = format!(
        "[Exec]\nBoot=yes\nCapability=CAP_NET_ADMIN\n[Files]\nBindReadOnly={}:/srv\n",
        shared.display()
    );
    fs::write(&settings, text).unwrap();
    let commands = configure(&host, "tiny", &settings);
    assert!(
        commands.contains("# not taken over: Capability"),
        "{commands}"
    );
    host.on("tiny", &["install", "-d", root.to_str().unwrap()])
        .quiet();
    host.boot("tiny");
    assert_eq!(host.sh("tiny", "cat /srv/word"), "shared");
    host.halt("tiny");
    lives(&host, "tiny");
}

#[test]
fn a_container_of_lxc_with_users_of_its_own() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let root = root(&host, "/lxc/tiny/rootfs", &busybox);
    shift(&root);
    let config = host.path("/lxc/tiny/config");
    let text = format!(
        "lxc.uts.name = tiny\nlxc.idmap = u 0 {FIRST} 65536\nlxc.idmap = g 0 {FIRST} 65536\n\
         lxc.rootfs.path = dir:{}\nlxc.cgroup2.pids.max = 100\n",
        root.display()
    );
    fs::write(&config, text).unwrap();
    let commands = configure(&host, "tiny", &config);
    assert!(commands.contains("set max-lwps=100"), "{commands}");
    let folder = host.path("/lxc/tiny");
    host.on("tiny", &["install", "-d", folder.to_str().unwrap()])
        .quiet();
    lives(&host, "tiny");
}

/// Changes the owners of all files below a folder to the ids of the container.
fn shift(path: &Path) {
    let meta = fs::symlink_metadata(path).unwrap();
    lchown(path, Some(meta.uid() + FIRST), Some(meta.gid() + FIRST)).unwrap();
    if meta.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            shift(&entry.unwrap().path());
        }
    }
}

#[test]
fn an_export_of_incus() {
    let Some(host) = Host::new() else { return };
    let Some(busybox) = busybox() else { return };
    let settings = b"container:\n  architecture: x86_64\n  config:\n    limits.memory: 256MiB\n    \
        security.nesting: \"true\"\n  devices:\n    root:\n      path: /\n      type: disk\n  name: tiny\n";
    let tree = host.path("/export");
    root(&host, "/export/backup/container/rootfs", &busybox);
    fs::write(tree.join("backup/container/backup.yaml"), settings).unwrap();
    fs::write(tree.join("backup/index.yaml"), "name: tiny\n").unwrap();
    let export = host.path("/tiny.tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("-czf").arg(&export).arg("-C").arg(&tree);
    run(tar.args(["backup/index.yaml", "backup/container"]), b"").quiet();
    let commands = configure(&host, "tiny", &tree.join("backup/container/backup.yaml"));
    assert!(commands.contains("set physical=256M"), "{commands}");
    let ran = host.on("tiny", &["install", "-a", export.to_str().unwrap()]);
    assert!(ran.ok().out.contains("An export of Incus"));
    lives(&host, "tiny");
}
