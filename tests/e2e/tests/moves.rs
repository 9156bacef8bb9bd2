//! Tests moves of a zonepath, on one file system and to another one, and renames of zones.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::run::run;
use e2e::{Host, Ran, skip};
use sys::process::ns;

/// A file system that is mounted in a host. The mount ends with this value.
struct Disk(PathBuf);

impl Disk {
    /// Makes a file system and mounts it. Prints the reason if this is impossible.
    fn new(host: &Host, fstype: &str, at: &str) -> Option<Self> {
        let at = host.path(at);
        let image = host.path(&format!("/{fstype}.img"));
        let file = fs::File::create(&image).unwrap();
        file.set_len(200 << 20).unwrap();
        let program = format!("mkfs.{fstype}");
        let Some(mkfs) = ["/usr/sbin", "/sbin"]
            .map(|dir| Path::new(dir).join(&program))
            .into_iter()
            .find(|path| path.exists())
        else {
            skip(&format!("no {program}"));
            return None;
        };
        let _ = run(Command::new(mkfs).arg("-q").arg(&image), b"").ok();
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        let ran = run(mount.args(["-o", "loop"]).args([&image, &at]), b"");
        if ran.code() != Some(0) {
            skip(&format!("{fstype} cannot be mounted: {}", ran.err.trim()));
            return None;
        }
        Some(Self(at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let lazy = std::thread::panicking().then_some("-l");
        let _ = Command::new("umount").args(lazy).arg(&self.0).output();
    }
}

/// Runs a test in a mount namespace of its own.
fn alone(test: impl FnOnce() + Send) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name);
        let ran = thread.spawn_scoped(scope, || {
            sys::namespace::unshare(ns::MOUNT).expect("a mount namespace");
            sys::mount::make_private_recursive().expect("private mounts");
            test();
        });
        if let Err(panic) = ran.expect("a thread").join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Creates zone `web` with the texts `one`, of snapshot `s`, and `two`, and its clone `other`.
fn with_snapshot_and_clone(host: &Host) {
    host.clone_from("master", "web");
    host.put("web", "var/word", "one\n");
    host.on("web", &["snapshot", "s"]).quiet();
    host.put("web", "var/word", "two\n");
    host.clone_from("web", "other");
}

#[track_caller]
fn refused(ran: &Ran, text: &str) {
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(ran.err.contains(text), "{}", ran.err);
}

/// Expects that the zone boots at its zonepath with its latest text, and still has its snapshot.
#[track_caller]
fn is_whole(host: &Host) {
    for zone in ["web", "other"] {
        host.boot(zone);
        assert_eq!(host.sh(zone, "cat /var/word"), "two");
        host.halt(zone);
    }
    host.on("web", &["rollback", "-F", "s"]).quiet();
    host.boot("web");
    assert_eq!(host.sh("web", "cat /var/word"), "one");
    host.halt("web");
    let check = host.zoneadm(&["check"]);
    assert_eq!(
        (check.code(), check.out.as_str()),
        (Some(0), ""),
        "{check:?}"
    );
}

#[test]
fn a_zonepath_is_renamed_with_its_snapshots_and_beside_its_clones() {
    let Some(host) = Host::with_master() else {
        return;
    };
    with_snapshot_and_clone(&host);
    fs::create_dir_all(host.path("/srv")).unwrap();
    let uuid = host.row("web").uuid;
    let inode = fs::metadata(host.path("/zones/web")).unwrap().ino();
    let plan = host.on("web", &["move", "-n", "/srv/web"]).ok().out;
    assert!(plan.starts_with("move zone web:\n"), "{plan}");
    assert!(plan.contains("rename ") && !plan.contains("copy"), "{plan}");
    assert!(host.path("/zones/web").exists() && !host.path("/srv/web").exists());
    host.on("web", &["move", "/srv/web"]).quiet();
    let row = host.row("web");
    assert_eq!(
        (row.state.as_str(), row.zonepath.as_str(), row.uuid),
        ("installed", "/srv/web", uuid)
    );
    assert!(!host.path("/zones/web").exists());
    let moved = fs::metadata(host.path("/srv/web")).unwrap();
    assert_eq!((moved.ino(), moved.mode() & 0o7777), (inode, 0o700));
    let info = host.zonecfg(&["-z", "web", "info zonepath"]).ok().out;
    assert_eq!(info, "zonepath: /srv/web\n");
    is_whole(&host);
    let again = host.on("web", &["move", "/srv/web"]);
    assert_eq!(again.code(), Some(0), "{again:?}");
    assert!(again.err.contains("already at this zonepath"), "{again:?}");
    // The clone outlives the moved zone.
    host.on("web", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/srv/web").exists());
    host.boot("other");
    assert_eq!(host.sh("other", "cat /var/word"), "two");
    host.halt("other");
}

#[test]
fn a_move_that_cannot_be_is_refused_and_changes_nothing() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web");
    let path = |text: &str| host.path(text);
    fs::create_dir_all(path("/srv/full/inner")).unwrap();
    fs::create_dir_all(path("/open")).unwrap();
    fs::set_permissions(
        path("/open"),
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    std::os::unix::fs::symlink("srv", path("/link")).unwrap();
    for (to, text) in [
        ("/srv/full", "/srv/full is not empty."),
        ("/none/web", "/none is not a directory: make it first."),
        ("/open/web", "/open must not be group writable."),
        ("/link/web", "must not contain a symbolic link."),
        ("/zones/web/inner", "overlap"),
        ("/zones/master", "zone master has the zonepath"),
        ("/zones/master/inner", "overlap"),
    ] {
        refused(&host.on("web", &["move", to]), text);
        refused(&host.on("web", &["move", "-n", to]), text);
    }
    for (words, text) in [
        (&["move"][..], "move needs the new zonepath"),
        (&["move", "srv/web"], "must be absolute"),
        (&["move", "/srv/../x"], ""),
    ] {
        let ran = host.on("web", words);
        assert_eq!(ran.code(), Some(2), "{ran:?}");
        assert!(ran.err.contains(text), "{ran:?}");
    }
    let both = host.zoneadm(&["-z", "web", "-z", "master", "move", "/srv/x"]);
    assert_eq!(both.code(), Some(2), "{both:?}");
    host.boot("web");
    refused(
        &host.on("web", &["move", "/srv/web"]),
        "move operation is invalid for running zones.",
    );
    host.halt("web");
    host.on("web", &["mount"]).quiet();
    refused(
        &host.on("web", &["move", "/srv/web"]),
        "invalid for mounted zones.",
    );
    host.on("web", &["unmount"]).quiet();
    host.configure("new", "");
    refused(
        &host.on("new", &["move", "/srv/web"]),
        "must be installed before move.",
    );
    assert_eq!(host.row("web").zonepath, "/zones/web");
    host.boot("web");
    host.halt("web");
}

#[test]
fn a_step_that_fails_leaves_the_zone_where_it_was() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web");
    host.put("web", "var/word", "one\n");
    fs::create_dir_all(host.path("/srv")).unwrap();
    for step in 1..=4 {
        let ran = host.with_fault(&format!("move:{step}:fail"), "web", &["move", "/srv/web"]);
        assert_eq!(ran.code(), Some(1), "step {step}: {ran:?}");
        let row = host.row("web");
        assert_eq!(
            (row.state.as_str(), row.zonepath.as_str()),
            ("installed", "/zones/web"),
            "step {step}"
        );
        assert!(!host.path("/srv/web").exists(), "step {step}");
        let check = host.zoneadm(&["check"]);
        assert_eq!(check.code(), Some(0), "step {step}: {check:?}");
    }
    // The configuration keeps its template.
    let info = host.zonecfg(&["-z", "web", "info zonepath"]).ok().out;
    assert_eq!(
        info,
        "zonepath.template: /zones/%{zonename}\nzonepath: /zones/web\n"
    );
    host.boot("web");
    assert_eq!(host.sh("web", "cat /var/word"), "one");
    host.halt("web");
}

/// Moves a zone to a disk of this type and back, and compares.
fn to_another_file_system(fstype: &str) {
    alone(|| {
        let Some(host) = Host::with_own_master() else {
            return;
        };
        let Some(disk) = Disk::new(&host, fstype, "/srv") else {
            return;
        };
        with_snapshot_and_clone(&host);
        host.put("web", "var/inner/file", "text");
        fs::write(host.path("/zones/web/notes"), "of the administrator").unwrap();
        let plan = host.on("web", &["move", "-n", "/srv/web"]).ok().out;
        assert!(plan.contains("copy the root of"), "{plan}");
        assert!(!host.path("/srv/web").exists());
        let said = host.on("web", &["move", "/srv/web"]).ok().out;
        assert!(said.contains("Copied "), "{said}");
        assert!(!host.path("/zones/web").exists());
        assert_eq!(host.row("web").zonepath, "/srv/web");
        let notes = fs::read_to_string(host.path("/srv/web/notes")).unwrap();
        assert_eq!(notes, "of the administrator");
        assert!(!host.path("/srv/web/.moving").exists());
        // The zone needs nothing of its old place.
        for zone in ["other", "master"] {
            host.boot(zone);
            host.halt(zone);
        }
        let storage = host.on("web", &["storage"]).ok().out;
        assert!(storage.contains(fstype), "{storage}");
        host.boot("web");
        assert_eq!(host.sh("web", "cat /var/inner/file"), "text");
        host.halt("web");
        is_whole(&host);
        fs::remove_file(host.path("/srv/web/notes")).unwrap();
        let _ = host.on("web", &["move", "/zones/web"]).ok();
        let left: Vec<_> = fs::read_dir(&disk.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "lost+found")
            .collect();
        assert!(left.is_empty(), "{left:?}");
        host.boot("web");
        assert_eq!(host.sh("web", "cat /var/word"), "one");
        host.halt("web");
        drop(disk);
    });
}

#[test]
fn a_zone_is_copied_to_ext4_and_back() {
    to_another_file_system("ext4");
}

#[test]
fn a_zone_is_copied_to_btrfs_and_back() {
    to_another_file_system("btrfs");
}

#[test]
fn a_zone_is_copied_into_the_root_of_a_file_system_and_stays_after_a_full_disk() {
    alone(|| {
        let Some(host) = Host::with_own_master() else {
            return;
        };
        let Some(disk) = Disk::new(&host, "ext4", "/srv/web") else {
            return;
        };
        with_snapshot_and_clone(&host);
        let filler = disk.0.join("lost+found/filler");
        let file = fs::File::create(&filler).unwrap();
        let room = rustix::fs::statvfs(&disk.0).unwrap();
        rustix::fs::fallocate(
            &file,
            rustix::fs::FallocateFlags::empty(),
            0,
            room.f_bavail * room.f_frsize - (64 << 10),
        )
        .unwrap();
        drop(file);
        host.put("web", "var/big", vec![1; 1 << 20]);
        let ran = host.on("web", &["move", "/srv/web"]);
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        assert_eq!(host.row("web").zonepath, "/zones/web");
        let left = |at: &Path| -> Vec<_> {
            let entries = fs::read_dir(at).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names.filter(|name| name != "lost+found").collect()
        };
        assert_eq!(left(&disk.0), [] as [&str; 0], "{ran:?}");
        let check = host.zoneadm(&["check"]);
        assert_eq!(check.code(), Some(0), "{check:?}");
        fs::remove_file(&filler).unwrap();
        let _ = host.on("web", &["move", "/srv/web"]).ok();
        is_whole(&host);
        // A mount point cannot be renamed, so the zone is copied away from it, too.
        fs::create_dir_all(host.path("/elsewhere")).unwrap();
        let _ = host.on("web", &["move", "/elsewhere/web"]).ok();
        assert_eq!(left(&disk.0), [] as [&str; 0]);
        host.boot("web");
        assert_eq!(host.sh("web", "cat /var/word"), "one");
        host.halt("web");
        drop(disk);
    });
}

#[test]
fn a_kernel_zone_moves_with_its_disks_and_paths() {
    alone(|| {
        let Some(host) = Host::new() else { return };
        if !e2e::machine::has_qemu() {
            return;
        }
        let Some(disk) = Disk::new(&host, "ext4", "/srv") else {
            return;
        };
        e2e::machine::configure(&host, "k1", "");
        let image = host.path("/disk.raw");
        let file = fs::File::create(&image).unwrap();
        file.set_len(16 << 20).unwrap();
        // A boot sector, so that install takes the file as a disk that a BIOS can start.
        let mut sector = vec![0xf4_u8; 510];
        sector.extend([0x55, 0xaa]);
        std::os::unix::fs::FileExt::write_all_at(&file, &sector, 0).unwrap();
        let image = image.display().to_string();
        let _ = host.on("k1", &["install", "-a", &image]).ok();
        fs::create_dir_all(host.path("/moved")).unwrap();
        let before = fs::metadata(host.path("/zones/k1/disk0")).unwrap();
        for (to, copies) in [("/moved/k1", false), ("/srv/k1", true), ("/zones/k2", true)] {
            let said = host.on("k1", &["move", to]).ok().out;
            assert_eq!(said.contains("Copied"), copies, "{said}");
            let info = host.zonecfg(&["-z", "k1", "info"]).ok().out;
            assert!(info.contains(&format!("file://{to}/disk0")), "{info}");
            let planned = host.on("k1", &["boot", "-n"]).ok().out;
            let disk0 = host.path(to).join("disk0").display().to_string();
            assert!(planned.contains(&disk0), "{planned}");
            let size = fs::metadata(host.path(to).join("disk0")).unwrap();
            assert_eq!(size.len(), before.len());
            // A hole stays a hole.
            assert!(size.blocks() <= before.blocks() + 16, "{}", size.blocks());
        }
        // A rename leaves the disks where they are.
        host.zonecfg(&["-z", "k1", "set zonename=k3"]).quiet();
        let planned = host.on("k3", &["boot", "-n"]).ok().out;
        assert!(planned.contains("/zones/k2/disk0"), "{planned}");
        host.on("k3", &["uninstall", "-F"]).quiet();
        assert!(!host.path("/zones/k2").exists());
        drop(disk);
    });
}

#[test]
fn a_renamed_zone_keeps_its_uuid_files_snapshots_and_logs() {
    let Some(host) = Host::with_master() else {
        return;
    };
    with_snapshot_and_clone(&host);
    host.boot("web");
    host.halt("web");
    let before = host.row("web");
    host.zonecfg(&["-z", "web", "set zonename=db"]).quiet();
    let after = host.row("db");
    assert_eq!(
        (after.state.as_str(), after.zonepath.as_str(), &after.uuid),
        ("installed", "/zones/web", &before.uuid)
    );
    assert!(host.rows().iter().all(|row| row.name != "web"));
    for (gone, there) in [
        ("/etc/zones/web.xml", "/etc/zones/db.xml"),
        ("/var/log/zones/web.messages", "/var/log/zones/db.messages"),
    ] {
        assert!(
            !host.path(gone).exists() && host.path(there).exists(),
            "{gone}"
        );
    }
    let run = fs::read_dir(host.path("/run/zones")).unwrap();
    let left: Vec<_> = run
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("web."))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    host.boot("db");
    assert_eq!(host.sh("db", "cat /var/word"), "two");
    refused(
        &host.zonecfg(&["-z", "db", "set zonename=web"]),
        "already running; set zonename not allowed.",
    );
    host.halt("db");
    host.on("db", &["rollback", "-F", "s"]).quiet();
    // The old name is free.
    host.configure("web", "set zonepath=/zones/second");
    refused(
        &host.zonecfg(&["-z", "db", "set zonename=web"]),
        "Zone name already in use",
    );
    assert_eq!(host.row("web").state, "configured");
}

#[test]
fn the_root_of_a_detached_zone_stays_its_root_after_a_rename() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web");
    host.put("web", "var/word", "one\n");
    let _ = host.on("web", &["detach"]).ok();
    host.zonecfg(&["-z", "web", "set zonename=db"]).quiet();
    assert_eq!(host.row("db").zonepath, "/zones/web");
    let _ = host.on("db", &["attach"]).ok();
    host.boot("db");
    assert_eq!(host.sh("db", "cat /var/word"), "one");
    host.halt("db");
    // A zone without files takes the zonepath of its new name.
    host.configure("new", "");
    host.zonecfg(&["-z", "new", "set zonename=newer"]).quiet();
    assert_eq!(host.row("newer").zonepath, "/zones/newer");
}

#[test]
fn check_shows_and_completes_a_killed_move() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web");
    fs::create_dir_all(host.path("/srv")).unwrap();
    let ran = host.with_fault("move:3:kill", "web", &["move", "/srv/web"]);
    assert_ne!(ran.code(), Some(0), "{ran:?}");
    // The folder has its new name, and the index the old one.
    assert!(host.path("/srv/web/root").exists());
    assert_eq!(host.row("web").zonepath, "/zones/web");
    let check = host.zoneadm(&["check"]);
    assert_eq!(check.code(), Some(1), "{check:?}");
    assert!(check.out.contains("move"), "{check:?}");
    let _ = host.zoneadm(&["check", "-r"]);
    assert_eq!(host.row("web").zonepath, "/srv/web");
    let check = host.zoneadm(&["check"]);
    assert_eq!(check.code(), Some(0), "{check:?}");
    host.boot("web");
    host.halt("web");
}

#[test]
fn the_exported_files_of_a_zone_with_a_label_move_along() {
    alone(|| {
        let Some(host) = Host::with_master() else {
            return;
        };
        let Some(disk) = Disk::new(&host, "ext4", "/srv") else {
            return;
        };
        let names = include_str!("../../../crates/label/tests/label_encodings");
        fs::write(host.path("/etc/zones/label_encodings"), names).unwrap();
        host.configure("low", "set -F label=0x0002-08-08");
        host.on("low", &["clone", "master"]).quiet();
        host.boot("low");
        host.sh(
            "low",
            "mkdir /export/d; echo one >/export/d/f; ln /export/d/f /export/g; \
             ln -s d/f /export/link; chown 7:8 /export/g; mv /export/d /export/e",
        );
        host.halt("low");
        fs::create_dir_all(host.path("/moved")).unwrap();
        for (to, copies) in [("/moved/low", false), ("/srv/low", true)] {
            let said = host.on("low", &["move", to]).ok().out;
            assert_eq!(said.contains("Copied"), copies, "{said}");
            host.boot("low");
            let seen = host.sh(
                "low",
                "cat /export/g; stat -c '%u %g %h' /export/e/f; readlink /export/link; \
                 echo more >/export/e/new; rm /export/e/new",
            );
            assert!(seen.starts_with("one\n7 8 2\nd/f"), "{seen}");
            host.halt("low");
        }
        assert!(!host.path("/moved/low").exists());
        assert!(disk.0.join("low/export/root/e/f").exists());
        host.on("low", &["uninstall", "-F"]).quiet();
        assert!(!disk.0.join("low").exists());
    });
}
