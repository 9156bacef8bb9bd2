//! Helpers for tests of zonepatch: a host with a package archive, and checks of the patched zones.

pub mod running;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::debian::{self, Archive, Deb};
use crate::run::{among_mounts, run};
use crate::tree::{self, Face};
use crate::{Host, Ran};

/// Returns a host with a halted zone `master`, which has apt and the packages `app` and `more`, and
/// the package archive from which they were installed; `None` if they cannot be created.
///
/// # Panics
/// Fails if they can be created on this machine, but creating them fails.
#[must_use]
pub fn debian() -> Option<(Host, Archive)> {
    if !debian::can_be_made() {
        return None;
    }
    let host = Host::new()?;
    let root = host.path("/debian");
    debian::make(&root);
    let archive = Archive::new(host.path("/repo"));
    archive.add(&app("1"));
    archive.add(&more("1"));
    install_with(&host, "master", &archive);
    let debs = ["app_1_all.deb", "more_1_all.deb"].map(|name| {
        let path = archive.folder().join(name);
        path.display().to_string()
    });
    let _ = zonepatch(&host, &["apply", "-z", "master", &debs[0], &debs[1]]).ok();
    Some((host, archive))
}

/// Installs a zone from the root at `/debian`, which reads the packages of the archive at `/repo`.
///
/// # Panics
/// Fails if the zone cannot be made.
pub fn install_with(host: &Host, zone: &str, archive: &Archive) {
    let special = archive.folder().display().to_string();
    let configuration = format!(
        "create -t SUNWlx; add fs; set dir=/repo; set special={special}; set type=lofs; \
         add options ro; end"
    );
    host.zonecfg(&["-z", zone, &configuration]).quiet();
    let root = host.path("/debian").display().to_string();
    let _ = host.on(zone, &["install", "-d", &root]).ok();
}

/// Returns a package with configuration files; version 2 has other content, one more file and one
/// less.
#[must_use]
pub fn app(version: &str) -> Deb<'_> {
    Deb {
        name: "app",
        version,
        files: match version {
            "1" => &[
                ("opt/app/data", "one"),
                ("opt/app/same", "same"),
                ("opt/app/old", "old"),
                ("etc/app/main.conf", "main 1\n"),
                ("etc/app/other.conf", "other\n"),
            ],
            _ => &[
                ("opt/app/data", "two"),
                ("opt/app/same", "same"),
                ("opt/app/new/file", "new"),
                ("etc/app/main.conf", "main 2\n"),
                ("etc/app/other.conf", "other\n"),
            ],
        },
        // One file has two names (hard links).
        postinst: "mkdir -p /var/lib/app; sha256sum /opt/app/data >/var/lib/app/index\n\
                   ln -f /opt/app/data /var/lib/app/data\n\
                   echo \"configured $2\" >>/var/log/app.log",
        ..Deb::default()
    }
}

/// Returns a package with a single file.
#[must_use]
pub fn more(version: &str) -> Deb<'_> {
    Deb {
        name: "more",
        version,
        files: match version {
            "1" => &[("opt/more/version", "1")],
            _ => &[("opt/more/version", "2")],
        },
        ..Deb::default()
    }
}

/// Runs zonepatch.
#[must_use]
pub fn zonepatch(host: &Host, words: &[&str]) -> Ran {
    run(&mut host.command("zonepatch", words), b"")
}

/// Runs `zonepatch apply` and returns its report of each zone.
///
/// # Panics
/// Fails if it does not succeed.
#[track_caller]
pub fn apply(host: &Host, words: &[&str]) -> BTreeMap<String, Value> {
    let ran = zonepatch(host, &[&["apply", "-j"], words].concat());
    let value: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let zones = value["zones"].as_array().unwrap();
    zones
        .iter()
        .map(|one| (one["zone"].as_str().unwrap().to_owned(), one.clone()))
        .collect()
}

/// Returns the outcome, the way, and the reason.
#[must_use]
pub fn fate(one: &Value) -> (String, String, String) {
    let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("how"), text("reason"))
}

/// Calls a function with the complete root of a halted zone.
pub fn within<T>(host: &Host, zone: &str, look: impl FnOnce(&Path) -> T) -> T {
    host.on(zone, &["mount"]).quiet();
    let seen = look(&host.path("/zones").join(zone).join("lu"));
    host.on(zone, &["unmount"]).quiet();
    seen
}

/// Returns all properties of the files in the root of a halted zone.
#[must_use]
pub fn face(host: &Host, zone: &str) -> Face {
    within(host, zone, tree::face)
}

/// Returns the content of a file of a halted zone, or `None` if the file does not exist.
#[must_use]
pub fn read(host: &Host, zone: &str, path: &str) -> String {
    within(host, zone, |root| {
        fs::read_to_string(root.join(path)).unwrap_or_default()
    })
}

/// Returns the version of a package and its installation state.
///
/// # Panics
/// Fails if the root has no package database.
#[must_use]
pub fn installed(root: &Path, package: &str) -> String {
    let status = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap();
    let record = status
        .split("\n\n")
        .find(|record| record.starts_with(&format!("Package: {package}\n")));
    let field = |name: &str| {
        let lines = record?.lines();
        lines
            .filter_map(|line| line.strip_prefix(name))
            .next()
            .map(str::to_owned)
    };
    format!(
        "{} {}",
        field("Version: ").unwrap_or_default(),
        field("Status: ").unwrap_or_default()
    )
}

/// Changes the complete root of a halted zone, as an administrator on the host would.
pub fn change(host: &Host, zone: &str, act: impl FnOnce(&Path)) {
    within(host, zone, act);
}

/// Compares a zone that was patched alone with a zone that shares the patch, without times and
/// without the files that differ between zones: logs, caches, and the zone's identity.
///
/// # Panics
/// Fails if they differ.
#[track_caller]
pub fn assert_alike(real: &Face, shared: &Face) {
    let noise = [
        "var/log",
        "var/cache",
        "var/lib/apt/lists",
        "var/lib/dpkg/status-old",
        "var/lib/dpkg/lock",
        "var/lib/dpkg/lock-frontend",
        "var/lib/dpkg/triggers/Lock",
        "var/lib/dpkg/diversions-old",
        "etc/hostname",
        "etc/hosts",
        "etc/machine-id",
        "etc/resolv.conf",
    ];
    let plain = |face: &Face| -> BTreeMap<PathBuf, String> {
        face.iter()
            .filter(|(path, _)| !noise.iter().any(|name| path.starts_with(name)))
            .map(|(path, text)| {
                let words: Vec<&str> = text.split(' ').collect();
                // The third word is the time.
                let text = [&words[..2], &words[3..]].concat().join(" ");
                (path.clone(), text)
            })
            .collect()
    };
    let (real, shared) = (plain(real), plain(shared));
    for (path, text) in &real {
        assert_eq!(shared.get(path), Some(text), "{}", path.display());
    }
    let more: Vec<_> = shared
        .keys()
        .filter(|path| !real.contains_key(*path))
        .collect();
    assert!(more.is_empty(), "{more:?}");
}

/// Returns the folders of the patches of a zone, the oldest first.
///
/// # Panics
/// Fails if zonepatch does not list them.
#[must_use]
pub fn standing(host: &Host, zone: &str) -> Vec<String> {
    let past = zonepatch(host, &["history", "-z", zone, "-j"]).ok();
    let past: Value = serde_json::from_str(&past.out).unwrap();
    let past = past.as_array().unwrap();
    past.iter()
        .map(|one| one["standing"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns a program of the host that sees another package database than the machine's.
#[must_use]
pub fn with_database(real: &Command, database: &Path) -> Command {
    const SCRIPT: &str =
        "mount --make-rprivate / && mount --bind \"$0\" /var/lib/dpkg && exec \"$@\"";
    among_mounts(SCRIPT, database, real)
}
