//! Patches sixteen different zones in one run. One table gives the expected result of each.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::debian::{Archive, Deb};
use e2e::patching::{
    app, apply, assert_alike, change, debian, face, fate, install_with, installed, more, within,
    zonepatch,
};
use e2e::run::run;
use e2e::tree::{self, Face};
use e2e::{Host, rounds, start};
use serde_json::Value;

/// The expected result for a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The zone's own package manager patches the zone.
    Real,
    /// The zone gets the shared result of other zones.
    Shared,
    /// The zone stays unchanged.
    Failed,
}

/// A zone, its special property, and the expected result.
struct Row {
    zone: &'static str,
    /// Makes the zone's own files.
    plant: fn(&Path),
    end: End,
    /// A part of the reason that the run must print.
    why: &'static str,
    /// Files with their expected content, in addition to those of the patch.
    keeps: &'static [(&'static str, &'static str)],
}

const fn row(
    zone: &'static str,
    plant: fn(&Path),
    end: End,
    why: &'static str,
    keeps: &'static [(&'static str, &'static str)],
) -> Row {
    Row {
        zone,
        plant,
        end,
        why,
        keeps,
    }
}

/// The first two zones are really patched, and the others are compared with them.
const TABLE: [Row; 16] = [
    row("a1", nothing, End::Real, "are compared with it", &[]),
    row("a2", nothing, End::Real, "are compared with it", &[]),
    row(
        "local",
        |root| write(root, "opt/app/own", "own"),
        End::Shared,
        "",
        &[("opt/app/own", "own")],
    ),
    row(
        "untouched",
        |root| write(root, "etc/app/other.conf", "mine\n"),
        End::Shared,
        "",
        &[("etc/app/other.conf", "mine\n")],
    ),
    row(
        "touched",
        |root| write(root, "etc/app/main.conf", "mine\n"),
        End::Real,
        "/etc/app/main.conf was changed in this zone",
        &[
            ("etc/app/main.conf", "mine\n"),
            ("etc/app/main.conf.dpkg-dist", "main 2\n"),
        ],
    ),
    row(
        "damaged",
        |root| write(root, "opt/app/data", "mine"),
        End::Real,
        "/opt/app/data was changed in this zone",
        &[],
    ),
    row(
        "held",
        |root| status(root, "hold ok installed"),
        End::Real,
        "",
        &[],
    ),
    row(
        "half",
        |root| status(root, "install ok half-configured"),
        End::Real,
        "",
        &[],
    ),
    row("extra", extra, End::Real, "", &[]),
    row(
        "moved",
        |root| fs::rename(root.join("opt/app"), root.join("opt/was")).unwrap(),
        End::Real,
        "was renamed in this zone",
        &[("opt/was/data", "one")],
    ),
    row(
        "mode",
        |root| {
            let closed = fs::Permissions::from_mode(0o700);
            fs::set_permissions(root.join("etc/app"), closed).unwrap();
        },
        End::Real,
        "/etc/app has other permissions",
        &[],
    ),
    // These zones have one more package, see `debian_with_all`.
    row(
        "id1",
        nothing,
        End::Real,
        "differ in /var/lib/ident.id",
        &[("var/lib/ident.id", "id1\n")],
    ),
    row(
        "id2",
        nothing,
        End::Real,
        "differ in /var/lib/ident.id",
        &[("var/lib/ident.id", "id2\n")],
    ),
    row(
        "id3",
        nothing,
        End::Real,
        "differ in /var/lib/ident.id",
        &[("var/lib/ident.id", "id3\n")],
    ),
    row("failing", nothing, End::Failed, "apt-get failed: ", &[]),
    row("full", nothing, End::Failed, "No space left on device", &[]),
];

fn nothing(_: &Path) {}

fn write(root: &Path, path: &str, text: &str) {
    fs::write(root.join(path), text).unwrap();
}

/// Sets another status for the package `more`.
fn status(root: &Path, word: &str) {
    let path = root.join("var/lib/dpkg/status");
    let text = fs::read_to_string(&path).unwrap();
    let from = "Package: more\nStatus: install ok installed";
    assert!(text.contains(from), "{text}");
    let text = text.replacen(from, &format!("Package: more\nStatus: {word}"), 1);
    fs::write(path, text).unwrap();
}

/// A package that only this zone has.
fn extra(root: &Path) {
    let path = root.join("var/lib/dpkg/status");
    let mut text = fs::read_to_string(&path).unwrap();
    text.push_str(
        "Package: own\nStatus: install ok installed\nMaintainer: x\nArchitecture: all\n\
         Version: 1\nDescription: x\n\n",
    );
    fs::write(path, text).unwrap();
    write(root, "var/lib/dpkg/info/own.list", "/.\n");
}

/// Makes packages of this version that only some zones have.
fn others(version: &str) -> [Deb<'_>; 3] {
    let is_old = version == "1";
    let deb = |name, file, postinst| Deb {
        name,
        version,
        files: file,
        postinst,
        ..Deb::default()
    };
    [
        deb(
            "ident",
            &[("opt/ident", "x")],
            match is_old {
                true => "",
                false => "cat /etc/hostname >/var/lib/ident.id",
            },
        ),
        deb(
            "frail",
            &[("opt/frail", "x")],
            match is_old {
                true => "",
                false => "echo broken as planned >&2; exit 1",
            },
        ),
        deb(
            "big",
            &[("opt/big", "x")],
            match is_old {
                true => "",
                // The package is larger than the free space of the zone's disk.
                false => "head -c 64000000 /dev/zero >/opt/big.data",
            },
        ),
    ]
}

/// A file system for one zone, which is removed when the test ends.
struct Disk(PathBuf);

impl Disk {
    fn new(at: PathBuf, megabytes: u64) -> Option<Self> {
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        let size = format!("size={megabytes}m,mode=0700");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&at);
        let ran = run(&mut mount, b"");
        (ran.code() == Some(0)).then_some(Self(at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = start(Command::new("umount").arg(&self.0)).wait();
        let _ = fs::remove_dir(&self.0);
    }
}

/// Makes the zone `full`, on a disk with little free space; `None` if this kernel does not support
/// it.
fn full(host: &Host, archive: &Archive) -> Option<Disk> {
    let root = host.path("/debian");
    let used = run(Command::new("du").arg("-sm").arg(&root), b"").ok();
    let used: u64 = used.text().split('\t').next().unwrap().parse().unwrap();
    let Some(disk) = Disk::new(host.path("/zones/full"), used + 24) else {
        e2e::skip("no tmpfs can be mounted: without the zone on a full disk");
        return None;
    };
    install_with(host, "full", archive);
    let ran = give(host, archive, &["full"], &["app", "more", "big"]);
    if ran.err.contains("id-mapped") {
        e2e::skip("this kernel cannot id-map a tmpfs: without the zone on a full disk");
        host.on("full", &["uninstall", "-F"]).quiet();
        host.zonecfg(&["-z", "full", "delete", "-F"]).quiet();
        return None;
    }
    let _ = ran.ok();
    Some(disk)
}

/// Installs version 1 of packages in zones.
fn give(host: &Host, archive: &Archive, zones: &[&str], packages: &[&str]) -> e2e::Ran {
    let mut words = vec!["apply".to_owned(), "--no-share".to_owned()];
    for zone in zones {
        words.extend(["-z".to_owned(), (*zone).to_owned()]);
    }
    for name in packages {
        let path = archive.folder().join(format!("{name}_1_all.deb"));
        words.push(path.display().to_string());
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    zonepatch(host, &words)
}

#[test]
fn each_of_sixteen_zones_ends_as_the_table_says() {
    let Some((host, archive)) = debian() else {
        return;
    };
    for deb in others("1") {
        archive.add(&deb);
    }
    let disk = full(&host, &archive);
    let table: Vec<&Row> = TABLE
        .iter()
        .filter(|row| row.zone != "full" || disk.is_some())
        .collect();
    // Zones of one origin can share a result.
    host.clone_from("master", "ident");
    let _ = give(&host, &archive, &["ident"], &["ident"]).ok();
    for row in table.iter().filter(|row| row.zone != "full") {
        let origin = match row.zone.starts_with("id") {
            true => "ident",
            false => "master",
        };
        host.clone_from(origin, row.zone);
    }
    let _ = give(&host, &archive, &["failing"], &["frail"]).ok();
    for row in &table {
        change(&host, row.zone, row.plant);
    }
    // For each zone that shares, there is a similar zone that must not share.
    let shared = || table.iter().filter(|row| row.end == End::Shared);
    for row in shared() {
        host.clone_from(row.zone, &format!("real-{}", row.zone));
    }
    // The short run has one zone of each kind, and the long run all zones.
    let kinds = ["a1", "local", "moved", "id1", "failing", "full"];
    let is_long = rounds(1).end > 1;
    let before: BTreeMap<&str, Face> = table
        .iter()
        .filter(|row| is_long || kinds.contains(&row.zone))
        .map(|row| (row.zone, face(&host, row.zone)))
        .collect();
    archive.add(&app("2"));
    archive.add(&more("2"));
    for deb in others("2") {
        archive.add(&deb);
    }

    // A dry run prints what it would do, and changes nothing.
    let plan = zonepatch(&host, &["plan", "-z", "a1"]).ok();
    let would = "\tapp 1 -> 2\n\tmore 1 -> 2\n";
    assert!(plan.out.contains(would), "{plan:?}");
    tree::assert_same(&before["a1"], &face(&host, "a1"));

    let words: Vec<&str> = table.iter().flat_map(|row| ["-z", row.zone]).collect();
    let fates = apply(&host, &words);
    let alone = apply(&host, &["-z", "real-*", "--no-share"]);
    assert!(!alone.is_empty());
    assert!(alone.values().all(|one| fate(one).1 == "real"), "{alone:?}");
    for row in &table {
        ends_as_it_says(&host, row, &fates[row.zone], before.get(row.zone));
    }
    for zone in ["a1", "a2", "local", "touched"] {
        let number = |root: &Path, name| fs::metadata(root.join(name)).unwrap().ino();
        let names = within(&host, zone, |root| {
            ["opt/app/data", "var/lib/app/data"].map(|name| number(root, name))
        });
        assert_eq!(names[0], names[1], "two names of one file in {zone}");
    }
    for row in shared() {
        // A shared result equals the result of the package manager, except for logs and caches.
        let real = face(&host, &format!("real-{}", row.zone));
        assert_alike(&real, &face(&host, row.zone));
    }

    let status = zonepatch(&host, &["status", "-z", "local", "-z", "held"]).ok();
    assert!(status.out.contains("held: more"), "{status:?}");
    let again = apply(&host, &["-z", "a1", "-z", "a2", "-z", "local"]);
    let unchanged = again.values().all(|one| fate(one).0 == "unchanged");
    assert!(unchanged, "{again:?}");

    // One command undoes the patch in all zones, byte for byte. A zone whose patch failed keeps its
    // earlier patches.
    let past = || {
        let past = zonepatch(&host, &["history", "-z", "local", "-j"]).ok();
        serde_json::from_str::<Value>(&past.out).unwrap()[0].clone()
    };
    let patch = past()["patch"].as_str().unwrap().to_owned();
    let _ = zonepatch(&host, &["rollback", "-t", &patch]).ok();
    for (zone, before) in &before {
        println!("rolled back: {zone}");
        tree::assert_same(before, &face(&host, zone));
    }
    for row in table.iter().filter(|row| row.end != End::Failed) {
        let version = within(&host, row.zone, |root| installed(root, "app"));
        assert_eq!(version, "1 install ok installed", "{}", row.zone);
    }
    assert_eq!(past()["standing"], "rolled_back");
    if let Some(disk) = disk {
        host.on("full", &["uninstall", "-F"]).quiet();
        drop(disk);
    }
}

#[track_caller]
fn ends_as_it_says(host: &Host, row: &Row, said: &Value, before: Option<&Face>) {
    let zone = row.zone;
    let (outcome, how, reason) = fate(said);
    assert!(reason.contains(row.why), "{zone}: {reason}");
    let (wanted, way) = match row.end {
        End::Real => ("patched", "real"),
        End::Shared => ("patched", "shared"),
        End::Failed => ("failed", ""),
    };
    assert_eq!(
        (outcome.as_str(), how.as_str()),
        (wanted, way),
        "{zone}: {reason}"
    );
    if row.end == End::Failed {
        tree::assert_same(before.unwrap(), &face(host, zone));
        let log = fs::read_to_string(host.path(said["log"].as_str().unwrap())).unwrap();
        assert!(
            zone != "failing" || log.contains("broken as planned"),
            "{log}"
        );
        return;
    }
    within(host, zone, |root| {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        assert_eq!(installed(root, "app"), "2 install ok installed", "{zone}");
        let more = match zone {
            "held" => "1 hold ok installed",
            _ => "2 install ok installed",
        };
        assert_eq!(installed(root, "more"), more, "{zone}");
        assert_eq!(text("opt/app/data"), "two", "{zone}");
        assert!(!root.join("opt/app/old").exists(), "{zone}");
        assert_eq!(text("etc/hostname").trim(), zone);
        for (path, wanted) in row.keeps {
            assert_eq!(text(path), *wanted, "{zone}: {path}");
        }
        let mode = fs::metadata(root.join("etc/app"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777;
        assert_eq!(mode, if zone == "mode" { 0o700 } else { 0o755 }, "{zone}");
    });
}
