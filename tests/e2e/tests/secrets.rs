//! Tests which facts of its host and of other zones a new zone can read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use e2e::Host;

/// Returns every path below `folder`, relative to it.
fn paths(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let entry = entry.unwrap();
            found.insert(entry.path().strip_prefix(folder).unwrap().to_owned());
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn a_new_zone_has_no_secret_of_the_host() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    let top = host.top("master");
    let etc = top.join("etc");
    // A hashed password of the host.
    let shadow = fs::read_to_string("/etc/shadow").unwrap_or_default();
    let hashes: Vec<&str> = shadow
        .lines()
        .filter_map(|line| line.split(':').nth(1))
        .filter(|hash| hash.contains('$'))
        .collect();
    let zone_shadow = fs::read_to_string(etc.join("shadow")).unwrap();
    for line in zone_shadow.lines() {
        let password = line.split(':').nth(1).unwrap();
        assert!(matches!(password, "*" | "!" | "!*" | "!!"), "{line}");
    }
    let machine_id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    for path in paths(&top) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        assert!(!name.starts_with("ssh_host_"), "{}", path.display());
        assert!(
            !name.starts_with("id_rsa") && !name.starts_with("id_ed25519"),
            "{}",
            path.display()
        );
        assert!(
            !path.starts_with("etc/ssl/private") || path.ends_with("private"),
            "{}",
            path.display()
        );
        let file = top.join(&path);
        if !file.symlink_metadata().unwrap().is_file() {
            continue;
        }
        let text = fs::read(&file).unwrap();
        let holds = |secret: &str| {
            !secret.is_empty()
                && text
                    .windows(secret.len())
                    .any(|window| window == secret.as_bytes())
        };
        assert!(!hashes.iter().any(|hash| holds(hash)), "{}", path.display());
        assert!(!holds(machine_id.trim()), "{}", path.display());
    }
    // Personal accounts of the host are not copied to the zone.
    for line in fs::read_to_string(etc.join("passwd")).unwrap().lines() {
        let uid: u32 = line.split(':').nth(2).unwrap().parse().unwrap();
        assert!(uid < 1000 || uid == 65534, "{line}");
    }
    // No password of the host's root is copied either.
    let home = paths(&top.join("root"));
    let of_the_distribution = [".bashrc", ".profile"].map(PathBuf::from);
    assert!(
        home.iter().all(|path| of_the_distribution.contains(path)),
        "{home:?}"
    );
}

#[test]
fn clones_differ_only_in_their_identity() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "one");
    host.clone_from("master", "two");
    for zone in ["one", "two"] {
        host.on(zone, &["mount"]).quiet();
    }
    let (one, two) = (host.path("/zones/one/lu"), host.path("/zones/two/lu"));
    assert_eq!(paths(&one), paths(&two));
    let mut differ = Vec::new();
    for path in paths(&one) {
        let (a, b) = (one.join(&path), two.join(&path));
        if !a.symlink_metadata().unwrap().is_file() {
            assert_eq!(fs::read_link(&a).ok(), fs::read_link(&b).ok());
            continue;
        }
        if fs::read(&a).unwrap() != fs::read(&b).unwrap() {
            differ.push(path.to_string_lossy().into_owned());
        }
    }
    let identity = [
        "etc/hostname",
        "etc/hosts",
        "etc/machine-id",
        "etc/mailname",
        "var/lib/dbus/machine-id",
    ];
    for name in &identity[..3] {
        assert!(
            differ.iter().any(|path| path == name),
            "{name} is the same in both"
        );
    }
    differ.retain(|path| !identity.contains(&path.as_str()));
    assert_eq!(differ, [""; 0]);
    let name = |root: &Path| fs::read_to_string(root.join("etc/hostname")).unwrap();
    assert_eq!((name(&one), name(&two)), ("one\n".into(), "two\n".into()));
    let id = |root: &Path| fs::read_to_string(root.join("etc/machine-id")).unwrap();
    assert_eq!(id(&one).trim().len(), 32);
    let rows = host.rows();
    let uuids: BTreeSet<&str> = rows.iter().map(|row| row.uuid.as_str()).collect();
    assert_eq!(uuids.len(), 3);
    for zone in ["one", "two"] {
        host.on(zone, &["unmount"]).quiet();
    }
}

#[test]
fn an_identity_is_new_after_reinstalling_and_old_after_booting() {
    let Some(host) = Host::new() else { return };
    host.install("web");
    host.boot("web");
    let id = |host: &Host| host.sh("web", "cat /etc/machine-id");
    let (first, uuid) = (id(&host), host.row("web").uuid);
    host.on("web", &["reboot"]).quiet();
    assert_eq!(
        (id(&host), host.row("web").uuid),
        (first.clone(), uuid.clone())
    );
    host.halt("web");
    host.on("web", &["uninstall", "-F"]).quiet();
    host.on("web", &["install"]).quiet();
    host.boot("web");
    assert_ne!(id(&host), first);
    assert_ne!(host.row("web").uuid, uuid);
}

#[test]
fn a_zone_knows_its_packages() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    if !Path::new("/var/lib/dpkg/status").exists() {
        e2e::skip("this host has no dpkg");
        return;
    }
    let of_zone = host.sh(
        "web",
        "dpkg-query -W -f '${Package} ${Version}\\n' bash coreutils; dpkg --audit",
    );
    let mut query = std::process::Command::new("dpkg-query");
    query.args(["-W", "-f", "${Package} ${Version}\\n", "bash", "coreutils"]);
    assert_eq!(of_zone, e2e::run::run(&mut query, b"").ok().text());
}
