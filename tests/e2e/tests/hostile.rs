//! Tests traps: devices, set-id programs, links and floods that a zone or a user of the host has
//! prepared.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::inside::all_fail;
use e2e::{Host, cgroup};

/// A folder of the host that only root can enter, to be shared with a zone.
fn closed_folder(host: &Host) -> PathBuf {
    let shared = host.path("/shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
    shared
}

#[test]
fn a_zone_has_only_harmless_devices() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let shared = closed_folder(&host);
    // A device node of the disk with this folder, which a careless administrator has left.
    let disk = fs::metadata(&shared).unwrap().dev();
    let (major, minor) = (libc::major(disk).to_string(), libc::minor(disk).to_string());
    let mknod = |path: &Path, kind: &str, major: &str, minor: &str| {
        let mut mknod = Command::new("mknod");
        mknod.arg("-m666").arg(path).args([kind, major, minor]);
        e2e::run::run(&mut mknod, b"").quiet();
    };
    mknod(&shared.join("disk"), "b", &major, &minor);
    mknod(&shared.join("kmsg"), "c", "1", "11");
    host.configure(
        "web",
        &format!(
            "add fs; set dir=/shared; set special={0}; set type=lofs; end; \
             add fs; set dir=/read; set special={0}; set type=lofs; add options ro; end",
            shared.display()
        ),
    );
    host.on("web", &["clone", "master"]).quiet();
    host.put("web", "root/here", "");
    mknod(&host.top("web").join("root/disk"), "b", &major, &minor);
    mknod(&host.top("web").join("root/mem"), "c", "1", "1");
    host.boot("web");
    let names = host.sh("web", "ls /dev");
    assert_eq!(
        names.replace('\n', " "),
        "console fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero zone-beadm"
    );
    let new_disk = format!("mknod /root/new b {major} {minor} && cat /root/new");
    let shared_disk = format!("mknod /shared/new b {major} {minor} && cat /shared/new");
    let dev_disk = format!("mknod /dev/new b {major} {minor} && cat /dev/new");
    all_fail(
        &host,
        "web",
        &[
            "test -e /dev/vda",
            "cat /shared/disk",
            "cat /read/disk",
            "cat /root/disk",
            "cat /root/mem",
            "head -c 1 /shared/kmsg",
            &new_disk,
            &shared_disk,
            &dev_disk,
            "mknod /root/kmsg c 1 11 && head -c 1 /root/kmsg",
            "mount -o remount,dev /dev && mknod /dev/mem c 1 1 && cat /dev/mem",
            "mount -o remount,dev /shared && cat /shared/disk",
            "mount -t tmpfs tmpfs /mnt && mknod /mnt/mem c 1 1 && cat /mnt/mem",
            "mount -t devtmpfs dev /mnt",
            "mount /shared/disk /mnt",
        ],
    );
    host.sh(
        "web",
        "echo ok >/dev/null && head -c 8 /dev/zero /dev/urandom /dev/random | wc -c",
    );
}

#[test]
fn set_id_programs_work_in_the_zone_and_nowhere_else() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let shared = closed_folder(&host);
    host.configure(
        "web",
        &format!(
            "add fs; set dir=/shared; set special={}; set type=lofs; end",
            shared.display()
        ),
    );
    host.on("web", &["clone", "master"]).quiet();
    host.boot("web");
    host.sh(
        "web",
        "echo joe:x:1000:1000::/var:/bin/sh >>/etc/passwd; echo joe:x:1000: >>/etc/group; echo 'joe:*:1::::::' >>/etc/shadow; \
         cp /usr/bin/id /var/tmp/id; chmod 4755 /var/tmp/id",
    );
    let id = host.zlogin(&["-l", "joe", "web", "/var/tmp/id"]).ok();
    assert!(
        id.out.contains("uid=1000(joe)") && id.out.contains("euid=0(root)"),
        "{id:?}"
    );
    // A set-id program of the host: it reads the zone's /etc/shadow, which joe must not read.
    let status = host
        .zlogin(&["-l", "joe", "web", "cat /etc/shadow 2>/dev/null; passwd -S"])
        .ok();
    assert!(status.out.starts_with("joe L "), "{status:?}");
    // In a folder of the host that the zone can write, set-id programs have no effect ...
    let _ = host.zlogin(&["web", "cp /usr/bin/id /shared/id && chmod 4755 /shared/id"]);
    let id = host.zlogin(&["-l", "joe", "web", "/shared/id"]);
    assert!(!id.out.contains("euid=0"), "{id:?}");
    // ... and no user of the host can reach files that the zone leaves there.
    host.halt("web");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    host.on("web", &["boot"]).mentions(1, "users of this host");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
    host.boot("web");
}

#[test]
fn a_root_full_of_traps_boots_or_is_refused() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "trap");
    // The zone has a folder with the same path, so that its links lead there. All users can write
    // to the host's folder, so only the path lookup keeps the zone's links out.
    let outside = host.path("/outside");
    fs::create_dir(&outside).unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o1777)).unwrap();
    let target = outside.to_string_lossy().into_owned();
    host.put(
        "trap",
        &format!("{}/here", target.trim_start_matches('/')),
        "",
    );
    let devices = fs::read_dir("/dev").unwrap().count();
    for name in ["proc", "dev", "sys", "run", "usr", "etc"] {
        host.on("trap", &["mount"]).quiet();
        let path = host.path("/zones/trap/lu").join(name);
        let kept = host.path("/zones/trap/lu").join(format!("{name}.kept"));
        let _ = fs::rename(&path, &kept);
        std::os::unix::fs::symlink(&target, &path).unwrap();
        host.on("trap", &["unmount"]).quiet();
        let ran = host.on("trap", &["boot"]);
        assert!(matches!(ran.code(), Some(0 | 1)), "{ran:?}");
        assert_eq!(
            fs::read_dir(&outside).unwrap().count(),
            0,
            "{name}: {ran:?}"
        );
        if host.state("trap") == "running" {
            host.halt("trap");
        }
        host.on("trap", &["mount"]).quiet();
        fs::remove_file(&path).unwrap();
        let _ = fs::rename(&kept, &path);
        host.on("trap", &["unmount"]).quiet();
    }
    assert_eq!(fs::read_dir("/dev").unwrap().count(), devices);
    host.boot("trap");
    assert_eq!(host.sh("trap", "hostname"), "trap");
}

#[test]
fn files_that_a_zone_leaves_for_the_host_are_only_files() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // The zone replaces the files that programs of the host read by links that lead outside.
    host.sh("web", "cd /etc && for name in hostname hosts machine-id passwd; do mv $name $name.kept; ln -s /../../../../../../etc/$name $name; done");
    let mut before = String::new();
    fs::File::open("/etc/hosts")
        .and_then(|mut file| file.read_to_string(&mut before))
        .unwrap();
    host.halt("web");
    host.clone_from("web", "next");
    assert_eq!(fs::read_to_string("/etc/hosts").unwrap(), before);
    assert_ne!(
        fs::read_to_string("/etc/hostname")
            .unwrap_or_default()
            .trim(),
        "next"
    );
    host.boot("next");
    assert_eq!(host.zlogin(&["-S", "next", "hostname"]).ok().text(), "next");
}

#[test]
fn a_full_zone_is_killed_whole_and_quickly_taken_down() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let _ = host.zlogin(&[
        "web",
        "for i in $(seq 200); do setsid sleep 100000 >/dev/null 2>&1 </dev/null & done",
    ]);
    assert!(cgroup::processes(&host.groups_of("web")).len() > 150);
    host.halt("web");
    assert!(host.groups_of("web").is_empty());
}
