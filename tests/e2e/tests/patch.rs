//! zonepatch: zones that are alike and zones that are not, failures, and the way back.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::debian::{self, Archive, Deb};
use e2e::run::run;
use e2e::tree::{self, Face};
use e2e::{Host, Ran, start};
use serde_json::Value;

/// A host with a halted zone `master`, which has apt and the packages `app` and `more`,
/// and the archive that these come from.
fn debian() -> Option<(Host, Archive)> {
    if !debian::can_be_made() {
        return None;
    }
    let host = Host::new()?;
    let root = host.path("/debian");
    debian::make(&root);
    let archive = Archive::new(host.path("/repo"));
    archive.add(&app("1"));
    archive.add(&more("1"));
    let special = archive.folder().display().to_string();
    let configuration = format!(
        "create -t SUNWlx; add fs; set dir=/repo; set special={special}; set type=lofs; \
         add options ro; end"
    );
    host.zonecfg(&["-z", "master", &configuration]).quiet();
    let root = root.display().to_string();
    let _ = host.on("master", &["install", "-d", &root]).ok();
    let debs = ["app_1_all.deb", "more_1_all.deb"].map(|name| {
        let path = archive.folder().join(name);
        path.display().to_string()
    });
    let _ = zonepatch(&host, &["apply", "-z", "master", &debs[0], &debs[1]]).ok();
    Some((host, archive))
}

fn app(version: &str) -> Deb<'_> {
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
        postinst: "mkdir -p /var/lib/app; sha256sum /opt/app/data >/var/lib/app/index\n\
                   echo \"configured $2\" >>/var/log/app.log",
        fields: "",
    }
}

fn more(version: &str) -> Deb<'_> {
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

fn zonepatch(host: &Host, words: &[&str]) -> Ran {
    run(&mut host.command("zonepatch", words), b"")
}

/// What a run says of each zone.
#[track_caller]
fn apply(host: &Host, words: &[&str]) -> BTreeMap<String, Value> {
    let ran = zonepatch(host, &[&["apply", "-j"], words].concat());
    let value: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
    let zones = value["zones"].as_array().unwrap();
    zones
        .iter()
        .map(|one| (one["zone"].as_str().unwrap().to_owned(), one.clone()))
        .collect()
}

/// The outcome, how, and the reason.
fn fate(one: &Value) -> (String, String, String) {
    let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("how"), text("reason"))
}

/// Looks at the whole root of a halted zone.
fn within<T>(host: &Host, zone: &str, look: impl FnOnce(&Path) -> T) -> T {
    host.on(zone, &["mount"]).quiet();
    let seen = look(&host.path("/zones").join(zone).join("lu"));
    host.on(zone, &["unmount"]).quiet();
    seen
}

fn face(host: &Host, zone: &str) -> Face {
    within(host, zone, tree::face)
}

fn read(host: &Host, zone: &str, path: &str) -> String {
    within(host, zone, |root| {
        fs::read_to_string(root.join(path)).unwrap_or_default()
    })
}

/// The version of a package and how far it is installed.
fn installed(root: &Path, package: &str) -> String {
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

/// Changes the whole root of a halted zone, as its administrator would from the host.
fn change(host: &Host, zone: &str, act: impl FnOnce(&Path)) {
    within(host, zone, act);
}

#[test]
fn zones_that_are_alike_share_and_others_are_patched_for_real() {
    let Some((host, archive)) = debian() else {
        return;
    };
    host.clone_from("master", "same[1-4]");
    host.clone_from("master", "real");
    let planted = "touched,untouched,held,half,extra,moved,mode";
    for zone in planted.split(',') {
        host.clone_from("master", zone);
    }
    change(&host, "touched", |root| {
        fs::write(root.join("etc/app/main.conf"), "mine\n").unwrap();
    });
    change(&host, "untouched", |root| {
        fs::write(root.join("etc/app/other.conf"), "mine\n").unwrap();
    });
    let status = |root: &Path, from: &str, to: &str| {
        let path = root.join("var/lib/dpkg/status");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    };
    let record = |package: &str, word: &str| format!("Package: {package}\nStatus: {word}");
    change(&host, "held", |root| {
        status(
            root,
            &record("more", "install ok installed"),
            &record("more", "hold ok installed"),
        );
    });
    change(&host, "half", |root| {
        let half = "install ok half-configured";
        status(
            root,
            &record("more", "install ok installed"),
            &record("more", half),
        );
    });
    change(&host, "extra", |root| {
        let path = root.join("var/lib/dpkg/status");
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str(
            "Package: own\nStatus: install ok installed\nMaintainer: x\nArchitecture: all\n\
             Version: 1\nDescription: x\n\n",
        );
        fs::write(path, text).unwrap();
        fs::write(root.join("var/lib/dpkg/info/own.list"), "/.\n").unwrap();
    });
    change(&host, "moved", |root| {
        fs::rename(root.join("opt/app"), root.join("opt/was-app")).unwrap();
    });
    change(&host, "mode", |root| {
        use std::os::unix::fs::PermissionsExt;
        let closed = fs::Permissions::from_mode(0o700);
        fs::set_permissions(root.join("etc/app"), closed).unwrap();
    });
    let zones: Vec<String> = host.rows().into_iter().map(|row| row.name).collect();
    // One of each kind: really patched, sharing, and with something of its own.
    let before: BTreeMap<&str, Face> = ["same1", "same4", "moved"]
        .into_iter()
        .map(|zone| (zone, face(&host, zone)))
        .collect();
    archive.add(&app("2"));
    archive.add(&more("2"));

    // A plan says what would be done and does nothing.
    let plan = zonepatch(&host, &["plan", "-z", "same1"]).ok();
    assert!(
        plan.out.contains("\tapp 1 -> 2\n\tmore 1 -> 2\n"),
        "{plan:?}"
    );
    tree::assert_same(&before["same1"], &face(&host, "same1"));

    let alone = apply(&host, &["-z", "real", "--no-share"]);
    assert_eq!(
        fate(&alone["real"]),
        ("patched".into(), "real".into(), String::new())
    );
    let words: Vec<&str> = zones
        .iter()
        .map(String::as_str)
        .filter(|zone| *zone != "real")
        .flat_map(|zone| ["-z", zone])
        .collect();
    let fates = apply(&host, &words);
    let said = |zone: &str| fate(&fates[zone]);
    let shared = |zone: &str| {
        assert_eq!(
            said(zone),
            ("patched".into(), "shared".into(), String::new()),
            "{zone}"
        );
    };
    let real = |zone: &str, why: &str| {
        let (outcome, how, reason) = said(zone);
        assert_eq!(
            (outcome.as_str(), how.as_str()),
            ("patched", "real"),
            "{zone}: {reason}"
        );
        assert!(reason.contains(why), "{zone}: {reason}");
    };
    for zone in ["same3", "same4", "untouched"] {
        shared(zone);
    }
    real("touched", "/etc/app/main.conf was changed in this zone");
    real("held", "");
    real("half", "");
    real("extra", "");
    real("moved", "was renamed in this zone");
    real("mode", "/etc/app has other permissions");

    // Local files are kept, and what is held stays.
    assert_eq!(read(&host, "touched", "etc/app/main.conf"), "mine\n");
    assert_eq!(
        read(&host, "touched", "etc/app/main.conf.dpkg-dist"),
        "main 2\n"
    );
    assert_eq!(read(&host, "untouched", "etc/app/other.conf"), "mine\n");
    for zone in &zones {
        within(&host, zone, |root| {
            assert_eq!(installed(root, "app"), "2 install ok installed", "{zone}");
            let more = if zone == "held" {
                "1 hold ok installed"
            } else {
                "2 install ok installed"
            };
            assert_eq!(installed(root, "more"), more, "{zone}");
            assert_eq!(
                fs::read_to_string(root.join("opt/app/data")).unwrap(),
                "two",
                "{zone}"
            );
            assert!(!root.join("opt/app/old").exists(), "{zone}");
            let hostname = fs::read_to_string(root.join("etc/hostname")).unwrap();
            assert!(
                zone == "master" || hostname.trim() == zone,
                "{zone}: {hostname}"
            );
        });
    }
    within(&host, "mode", |root| {
        use std::os::unix::fs::PermissionsExt;
        let mode = root
            .join("etc/app")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700);
    });

    // What was shared is what the package manager makes, but for logs, caches and times.
    assert_alike(&face(&host, "real"), &face(&host, "same4"));

    let status = zonepatch(&host, &["status", "-z", "same4", "-z", "held"]).ok();
    assert!(status.out.contains("held: more"), "{status:?}");
    let again = apply(&host, &["-z", "same*"]);
    assert!(
        again.values().all(|one| fate(one).0 == "unchanged"),
        "{again:?}"
    );

    // One command takes all back, byte for byte.
    let _ = zonepatch(&host, &["rollback"]).ok();
    for (zone, before) in &before {
        tree::assert_same(before, &face(&host, zone));
    }
    for zone in zones.iter().filter(|zone| *zone != "master") {
        let version = within(&host, zone, |root| installed(root, "app"));
        assert_eq!(version, "1 install ok installed", "{zone}");
    }
    let past = zonepatch(&host, &["history", "-z", "same4", "-j"]).ok();
    let past: Value = serde_json::from_str(&past.out).unwrap();
    assert_eq!(past[0]["standing"], "rolled_back", "{past}");
}

/// Compares a zone that was patched with one that shares, without times and noise.
#[track_caller]
fn assert_alike(real: &Face, shared: &Face) {
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

#[test]
fn what_cannot_be_patched_is_as_it_was() {
    let Some((host, archive)) = debian() else {
        return;
    };
    host.clone_from("master", "web[1-4]");
    let before = face(&host, "web1");
    archive.add(&Deb {
        postinst: "echo broken as planned >&2; exit 1",
        ..app("3")
    });
    let fates = apply(&host, &["-z", "web*"]);
    for (zone, one) in &fates {
        let (outcome, _, reason) = fate(one);
        assert_eq!(outcome, "failed", "{zone}");
        assert!(reason.starts_with("apt-get failed: "), "{zone}: {reason}");
        let log = host.path(one["log"].as_str().unwrap());
        let log = fs::read_to_string(log).unwrap();
        assert!(log.contains("broken as planned"), "{log}");
    }
    tree::assert_same(&before, &face(&host, "web1"));
    fs::remove_file(archive.folder().join("app_3_all.deb")).unwrap();

    // An id that each zone gets of its own cannot be shared.
    archive.add(&Deb {
        name: "more",
        version: "2",
        files: &[("opt/more/version", "2")],
        postinst: "cat /etc/hostname >/var/lib/more.id",
        fields: "",
    });
    let fates = apply(&host, &["-z", "web*"]);
    let reasons: Vec<_> = fates.values().map(fate).collect();
    let differ =
        |one: &&(String, String, String)| one.2.contains("came to differ in /var/lib/more.id");
    assert!(
        reasons
            .iter()
            .all(|one| one.0 == "patched" && one.1 == "real"),
        "{reasons:?}"
    );
    assert_eq!(reasons.iter().filter(differ).count(), 2, "{reasons:?}");
    for zone in ["web1", "web4"] {
        assert_eq!(read(&host, zone, "var/lib/more.id").trim(), zone);
    }

    // One patch is taken back, and what was done since stays.
    let past = zonepatch(&host, &["history", "-z", "web1", "-j"]).ok();
    let past: Value = serde_json::from_str(&past.out).unwrap();
    let patch = past[0]["patch"].as_str().unwrap().to_owned();
    change(&host, "web1", |root| {
        fs::write(root.join("etc/since"), "x").unwrap();
    });
    let _ = zonepatch(&host, &["remove", "-z", "web1", &patch]).ok();
    within(&host, "web1", |root| {
        assert_eq!(installed(root, "more"), "1 install ok installed");
        assert!(root.join("etc/since").exists());
    });
    zonepatch(&host, &["remove", "-z", "web1", &patch]).mentions(
        1,
        &format!("zonepatch: zone 'web1': patch {patch} is taken back already."),
    );

    // Zones in other states are left alone.
    host.configure("new", "");
    let ran = zonepatch(&host, &["apply", "-z", "new"]).ok();
    assert!(ran.out.contains("new: skipped (is configured)"), "{ran:?}");
    zonepatch(&host, &["apply", "-z", "none"])
        .mentions(1, "zonepatch: zone 'none': No such zone configured");
}

/// A file system of its own for one zone, gone when the test is.
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

#[test]
fn a_full_disk_leaves_the_old_zone() {
    let Some((host, archive)) = debian() else {
        return;
    };
    let used = run(
        Command::new("du").args(["-sm"]).arg(host.path("/debian")),
        b"",
    )
    .ok();
    let used: u64 = used.text().split('\t').next().unwrap().parse().unwrap();
    let Some(disk) = Disk::new(host.path("/zones/full"), used + 24) else {
        e2e::skip("no tmpfs can be mounted");
        return;
    };
    let special = archive.folder().display().to_string();
    let configuration = format!(
        "create -t SUNWlx; add fs; set dir=/repo; set special={special}; set type=lofs; \
         add options ro; end"
    );
    host.zonecfg(&["-z", "full", &configuration]).quiet();
    let root = host.path("/debian").display().to_string();
    let _ = host.on("full", &["install", "-d", &root]).ok();
    let small = archive
        .folder()
        .join("more_1_all.deb")
        .display()
        .to_string();
    let ran = zonepatch(&host, &["apply", "-z", "full", &small]);
    if ran.err.contains("id-mapped") {
        e2e::skip("this kernel cannot id-map a tmpfs");
    } else {
        let _ = ran.ok();
        let before = face(&host, "full");
        let big = "0123456789abcdef".repeat(2 << 20);
        archive.add(&Deb {
            name: "more",
            version: "2",
            files: &[("opt/more/version", "2"), ("opt/more/big", &big)],
            ..Deb::default()
        });
        let fates = apply(&host, &["-z", "full"]);
        let (outcome, _, reason) = fate(&fates["full"]);
        assert_eq!(outcome, "failed", "{reason}");
        assert!(reason.contains("No space left on device"), "{reason}");
        tree::assert_same(&before, &face(&host, "full"));
    }
    host.on("full", &["uninstall", "-F"]).quiet();
    drop(disk);
}

#[test]
fn a_sparse_zone_that_is_behind_its_host_is_named() {
    if !debian::can_be_made() {
        return;
    }
    let Some(host) = Host::with_web() else {
        return;
    };
    let notes = || zonepatch(&host, &["status", "-z", "web"]).ok().out;
    assert!(!notes().contains("attach it with -u"), "{}", notes());
    change(&host, "web", |root| {
        let path = root.join("var/lib/dpkg/status");
        let text = fs::read_to_string(&path).unwrap();
        let (before, after) = text.split_once("\nVersion: ").unwrap();
        let (_, rest) = after.split_once('\n').unwrap();
        fs::write(&path, format!("{before}\nVersion: 0.0.1\n{rest}")).unwrap();
    });
    assert!(notes().contains("attach it with -u"), "{}", notes());
    zonepatch(&host, &["apply", "-z", "web"]).mentions(1, "is sparse");
}
