//! Tests `zoneadm backup`, `backups` and `restore` with the real restic.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::Host;
use e2e::run::run;
use e2e::ssh::{SFTP_SERVER, Server};
use e2e::tree::{assert_same, change, face};
use serde_json::Value;

/// Returns a host with a zone `web` and without settings of backups. Another test may have used the
/// same host before.
fn with_web() -> Option<Host> {
    let host = Host::with_web()?;
    for name in ["/etc/zones/backup", "/etc/zones/backup.key"] {
        let _ = fs::remove_file(host.path(name));
    }
    let _ = fs::remove_dir_all(host.path("/repository"));
    Some(host)
}

/// Returns true if restic is installed.
fn has_restic() -> bool {
    let found = Path::new("/usr/bin/restic").exists();
    if !found {
        e2e::skip("no restic");
    }
    found
}

/// Returns the repository of a host as a word.
fn repository(host: &Host) -> String {
    host.path("/repository").display().to_string()
}

/// Returns the backups of a host, as JSON.
fn backups(host: &Host) -> Vec<Value> {
    let ran = host.zoneadm(&["backups", "-j"]).ok();
    serde_json::from_str(&ran.out).unwrap()
}

/// Returns the properties of all files of a halted zone.
fn whole(host: &Host, zone: &str) -> e2e::tree::Face {
    let _ = host.on(zone, &["mount"]).ok();
    let seen = face(&host.path(&format!("/zones/{zone}/lu")));
    let _ = host.on(zone, &["unmount"]).ok();
    seen
}

/// Runs restic on the repository of a host, as an attacker with the key would.
fn restic(host: &Host, folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new("/usr/bin/restic");
    command
        .args(["--no-cache", "-q", "-r", &repository(host), "-p"])
        .arg(host.path("/etc/zones/backup.key"))
        .args(words)
        .current_dir(folder);
    run(&mut command, b"").ok().out
}

#[test]
fn a_running_zone_is_backed_up_by_its_differences_and_comes_back_whole() {
    if !has_restic() {
        return;
    }
    let Some(host) = with_web() else { return };
    let _ = host.on("web", &["mount"]).ok();
    let root = host.path("/zones/web/lu");
    fs::create_dir_all(root.join("var/tree")).unwrap();
    (0..4).for_each(|step| change(&root, step));
    let mut noise = vec![0; 40 << 10];
    fs::create_dir(root.join("srv/data")).unwrap();
    for number in 0..200 {
        let mut random = fs::File::open("/dev/urandom").unwrap();
        random.read_exact(&mut noise).unwrap();
        fs::write(root.join(format!("srv/data/{number}")), &noise).unwrap();
    }
    let _ = host.on("web", &["unmount"]).ok();
    host.boot("web");
    let ran = host.on("web", &["backup", "-r", &repository(&host)]).ok();
    assert!(ran.out.contains("keep a copy of the key"), "{ran:?}");
    host.sh("web", "echo other >/srv/data/7; echo new >/srv/data/new");
    // The settings have the repository now.
    let ran = host.on("web", &["backup"]).ok();
    // Files whose content did not change are not read again, although the snapshot has a copy. The
    // manifest is a new file each time.
    assert!(ran.out.contains("in 1 new, 2 changed and"), "{ran:?}");
    assert_eq!(host.on("web", &["snapshots", "-p"]).ok().out, "");
    let all = backups(&host);
    let added: Vec<u64> = all
        .iter()
        .filter_map(|one| one["added_bytes"].as_u64())
        .collect();
    // The lists of the folders are new, because the files of a snapshot have other inodes: 2 MiB and
    // more, depending on the packages of the host. The data in srv, 8 MiB, is not stored again.
    assert!(added[0] > 8 << 20 && added[1] < 4 << 20, "{added:?}");

    // A file of the first backup comes back into the running zone, with its owner and mode.
    let first = all[0]["id"].as_str().unwrap();
    let changed = host.sh(
        "web",
        "chmod 700 /srv; stat -c %s /srv/data/7; rm -r /var/tree/moved",
    );
    assert_eq!(changed, "6");
    let words = [
        "restore",
        "-s",
        &first[..8],
        "/srv/data/7",
        "/var/tree/moved",
    ];
    let _ = host.on("web", &words).ok();
    let stat = "stat -c '%s %a %u:%g' /srv/data/7 /srv /var/tree/moved";
    assert_eq!(
        host.sh("web", stat),
        "40960 644 0:0\n4096 700 0:0\n4096 2770 5:6"
    );
    // The same into a folder of the host that only root can enter.
    let folder = host.path("/out");
    let out = folder.display().to_string();
    let _ = host
        .on("web", &["restore", "-d", &out, "/srv/data/new"])
        .ok();
    assert_eq!(
        fs::read_to_string(folder.join("root/srv/data/new")).unwrap(),
        "new\n"
    );
    assert_eq!(
        fs::metadata(&folder).unwrap().permissions().mode() & 0o7777,
        0o700
    );
    let words = [
        "restore",
        "-d",
        &host.path("/none").display().to_string(),
        "/none",
    ];
    host.on("web", &words).mentions(1, "has no /none");

    // The whole zone comes back after it was deleted.
    host.halt("web");
    let before = whole(&host, "web");
    let uuid = host.row("web").uuid;
    let _ = host.on("web", &["backup"]).ok();
    let _ = host.on("web", &["uninstall", "-F"]).ok();
    let _ = host.zonecfg(&["-z", "web", "delete", "-F"]).ok();
    let ran = host.on("web", &["restore", "-n"]).ok();
    assert!(ran.out.contains("configure it"), "{ran:?}");
    let _ = host.on("web", &["restore"]).ok();
    assert_eq!(host.row("web").uuid, uuid);
    assert_same(&before, &whole(&host, "web"));
    host.boot("web");
    host.halt("web");

    // A zone that has a root gets a boot environment, and keeps its root.
    let _ = host.on("web", &["restore", "-s", &first[..8]]).ok();
    assert_same(&before, &whole(&host, "web"));
    let name = format!("restored-{}", &first[..8]);
    let _ = host.on("web", &["beadm", "activate", &name]).ok();
    host.boot("web");
    assert_eq!(host.sh("web", "stat -c %s /srv/data/7"), "40960");
    host.halt("web");

    // Old backups are removed on request.
    let ran = host.zoneadm(&["backups", "-n", "--keep", "last=1"]).ok();
    assert_eq!(ran.out.lines().count(), 2, "{ran:?}");
    assert_eq!(backups(&host).len(), 3);
    let _ = host.zoneadm(&["backups", "--keep", "last=1"]).ok();
    assert_eq!(backups(&host).len(), 1);
    let ran = host.zoneadm(&["backups", "--check"]).ok();
    assert!(ran.out.contains("is whole: 1 backups"), "{ran:?}");
}

#[test]
fn a_wrong_key_and_a_damaged_repository_are_found() {
    if !has_restic() {
        return;
    }
    let Some(host) = with_web() else { return };
    let key = host.path("/etc/zones/backup.key");
    host.on("web", &["backup"]).mentions(1, "no repository");
    let full = host.path("/zones").display().to_string();
    host.on("web", &["backup", "-r", &full])
        .mentions(1, "name an empty folder");
    assert!(!key.exists());
    let _ = host.on("web", &["backup", "-r", &repository(&host)]).ok();

    let wrong = host.path("/wrong");
    fs::write(&wrong, "another key\n").unwrap();
    let wrong = wrong.display().to_string();
    let open = fs::Permissions::from_mode(0o640);
    fs::set_permissions(&wrong, open).unwrap();
    host.on("web", &["backup", "-k", &wrong])
        .mentions(1, "users other than root can read the key");
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o600)).unwrap();
    for words in [
        &["backups", "-k", &wrong][..],
        &["-z", "web", "backup", "-k", &wrong],
    ] {
        host.zoneadm(words)
            .mentions(1, "is not the key of the repository");
    }
    let settings = host.path("/etc/zones/backup");
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o666)).unwrap();
    host.zoneadm(&["backups"]).mentions(1, "chmod 600 it");
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o600)).unwrap();

    // One wrong bit in the largest file of the repository.
    let _ = host.zoneadm(&["backups", "--check"]).ok();
    let mut find = Command::new("find");
    let found = run(
        find.arg(host.path("/repository/data"))
            .args(["-type", "f", "-printf", "%s %p\n"]),
        b"",
    );
    let found = found.ok().out;
    let files = found.lines().filter_map(|line| line.split_once(' '));
    let largest = files.max_by_key(|(size, _)| size.parse::<u64>().unwrap());
    let (size, path) = largest.unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    let mut file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let middle = SeekFrom::Start(size.parse::<u64>().unwrap() / 2);
    let mut byte = [0];
    file.seek(middle).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(middle).unwrap();
    file.write_all(&[byte[0] ^ 1]).unwrap();
    drop(file);
    let ran = host.zoneadm(&["backups", "--check"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    // A restoration of the damaged data leaves nothing behind.
    let _ = host.on("web", &["uninstall", "-F"]).ok();
    let _ = host.zonecfg(&["-z", "web", "delete", "-F"]).ok();
    let ran = host.on("web", &["restore"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(host.rows().iter().all(|row| row.name != "web"));
    assert!(!host.path("/zones/web/root").exists());
}

#[test]
fn a_killed_backup_leaves_nothing_for_long() {
    if !has_restic() {
        return;
    }
    let Some(host) = with_web() else { return };
    host.boot("web");
    let mounts = host.mounts();
    for fault in ["backup:1:kill", "backup:2:kill"] {
        let repository = repository(&host);
        let ran = host.with_fault(fault, "web", &["backup", "-r", &repository]);
        assert!(ran.was_killed(), "{ran:?}");
        assert_eq!(host.mounts(), mounts);
        let left = host.on("web", &["snapshots", "-p"]).ok().out;
        assert!(left.starts_with("web:export-"), "{left}");
        let _ = host.on("web", &["backup"]).ok();
        assert_eq!(host.on("web", &["snapshots", "-p"]).ok().out, "");
    }
    assert_eq!(host.state("web"), "running");
    let _ = host.zoneadm(&["backups", "--check"]).ok();
    host.halt("web");
}

#[test]
fn a_zone_is_restored_on_another_host_over_ssh() {
    if !has_restic() {
        return;
    }
    if !Path::new(SFTP_SERVER).exists() {
        e2e::skip("no sftp-server");
        return;
    }
    let (Some(here), Some(there)) = (with_web(), Host::new()) else {
        return;
    };
    let Some(server) = Server::new(&there) else {
        return;
    };
    here.put("web", "root/word", "kept\n");
    // The hosts have the same settings and the same key.
    let far = format!("sftp:root@127.0.0.1:{}", there.path("/far").display());
    let mut settings = format!("repository={far}\n");
    for option in server.options() {
        settings.push_str(&format!("ssh-option={option}\n"));
    }
    for host in [&here, &there] {
        fs::create_dir_all(host.path("/etc/zones")).unwrap();
        let path = host.path("/etc/zones/backup");
        fs::write(&path, &settings).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    there.zoneadm(&["backups"]).mentions(1, "no such key");
    let ran = here.on("web", &["backup", "-r", &far]).ok();
    assert!(ran.out.contains("Made the repository"), "{ran:?}");
    let ran = here.on("web", &["backup"]).ok();
    assert!(ran.out.contains("in 0 new, 1 changed"), "{ran:?}");
    let key = "/etc/zones/backup.key";
    fs::copy(here.path(key), there.path(key)).unwrap();
    let _ = there.on("web", &["restore"]).ok();
    assert_eq!(there.row("web").uuid, here.row("web").uuid);
    there.boot("web");
    assert_eq!(there.sh("web", "cat /root/word"), "kept");
    there.halt("web");
}

/// Makes a tree of a moment, with files that `fill` writes into its root.
fn moment(host: &Host, name: &str, fill: impl FnOnce(&Path)) -> PathBuf {
    let folder = host.path(&format!("/moment-{name}"));
    fs::create_dir_all(folder.join("root/usr")).unwrap();
    let text = format!("<zone name='{name}' zonepath='/zones/{name}' brand='native'/>");
    fs::write(folder.join("SUNWdetached.xml"), text).unwrap();
    fill(&folder.join("root"));
    restic(host, &folder, &["backup", "--tag", "zone=evil", "."]);
    folder
}

#[test]
fn a_repository_that_lies_gets_nothing_on_the_host() {
    if !has_restic() {
        return;
    }
    let Some(host) = with_web() else { return };
    let _ = host.on("web", &["backup", "-r", &repository(&host)]).ok();
    // The configuration is that of another zone than the list says.
    moment(&host, "other", |_| {});
    host.on("evil", &["restore"])
        .mentions(1, "is refused: the list of backups says zone");
    // An owner outside of every zone's range.
    moment(&host, "evil", |root| {
        fs::write(root.join("file"), "").unwrap();
        chown(root.join("file"), Some(100_000), Some(0)).unwrap();
    });
    host.on("evil", &["restore", "-F"])
        .mentions(1, "a zone has ids up to");
    assert!(host.rows().iter().all(|row| row.name != "evil"));
    // A device node, and an attribute that would show another folder in an overlay.
    moment(&host, "evil", |root| {
        fs::remove_file(root.join("file")).unwrap();
        let device = rustix::fs::makedev(1, 8);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("random"),
            rustix::fs::FileType::CharacterDevice,
            rustix::fs::Mode::from_raw_mode(0o666),
            device,
        )
        .unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(root.join("usr"), "trusted.overlay.redirect", b"/etc", flags).unwrap();
        rustix::fs::setxattr(root.join("usr"), "user.kept", b"1", flags).unwrap();
    });
    let ran = host.on("evil", &["restore", "-F"]).ok();
    assert!(ran.out.contains("Left out 1 device nodes"), "{ran:?}");
    let top = host.top("evil");
    assert!(!top.join("random").exists());
    let mut names = vec![0; 256];
    let length = rustix::fs::listxattr(top.join("usr"), &mut names[..]).unwrap();
    assert_eq!(&names[..length], b"user.kept\0");
    // A path cannot lead out of the zone, in the moment or in the zone.
    std::os::unix::fs::symlink(host.path("/"), host.top("web").join("out")).unwrap();
    let ran = host.on("web", &["restore", "/../etc/passwd"]);
    assert_eq!(ran.code(), Some(2), "{ran:?}");
}
