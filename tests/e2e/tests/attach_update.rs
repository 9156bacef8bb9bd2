//! Tests `zoneadm attach -u` and `-U` of zones with a whole root, on a host with newer packages
//! than the source host.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::debian::{self, Archive, Deb};
use e2e::patching::with_database;
use e2e::run::run;
use e2e::tree::{self, Face};
use e2e::{Host, Ran, rounds, start};

const STATUS: &str = "/var/lib/dpkg/status";

fn app(version: &str) -> Deb<'_> {
    Deb {
        name: "zones-app",
        version,
        files: match version {
            "1" => &[
                ("opt/app/a", "1"),
                ("opt/app/z", "1"),
                ("etc/app.conf", "1"),
            ],
            _ => &[
                ("opt/app/a", "2"),
                ("opt/app/z", "2"),
                ("etc/app.conf", "2"),
            ],
        },
        postinst: "cat /opt/app/a >/var/lib/app",
        ..Deb::default()
    }
}

fn more(version: &str) -> Deb<'_> {
    Deb {
        name: "zones-more",
        version,
        files: match version {
            "1" => &[("opt/more", "1")],
            _ => &[("opt/more", "2")],
        },
        ..Deb::default()
    }
}

/// Two hosts and an archive: one host has a detached zone `web` with both packages, the other has
/// the newer `zones-app`, and the archive has the newer versions of both.
struct Hosts {
    here: Host,
    there: Host,
    archive: Archive,
}

impl Hosts {
    fn new() -> Option<Self> {
        if !debian::can_be_made() {
            return None;
        }
        let (here, there) = (Host::new()?, Host::new()?);
        debian::make(&here.path("/debian"));
        let archive = Archive::new(here.path("/repo"));
        let debs = [archive.add(&app("1")), archive.add(&more("1"))];
        let root = here.path("/debian");
        fs::create_dir_all(root.join("repo")).unwrap();
        for deb in &debs {
            fs::copy(deb, root.join("repo").join(deb.file_name().unwrap())).unwrap();
        }
        let mut install = Command::new("chroot");
        install
            .arg(&root)
            .args(["sh", "-c", "dpkg -i /repo/*.deb && rm /repo/*.deb"])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let _ = run(&mut install, b"").ok();
        // The zone has the same release as the host; otherwise its packages would not be compared.
        let words = format!(
            "create -b; set zonepath=/zones/web; add fs; set dir=/repo; set special={}; \
             set type=lofs; add options ro; end",
            archive.folder().display()
        );
        here.zonecfg(&["-z", "web", &words]).quiet();
        let _ = here
            .on("web", &["install", "-d", &root.display().to_string()])
            .ok();
        archive.add(&app("2"));
        archive.add(&more("2"));
        Some(Self {
            here,
            there,
            archive,
        })
    }

    /// Moves the zone from one host to the other.
    fn carry(&self) {
        let _ = self.here.on("web", &["detach"]).ok();
        fs::create_dir_all(self.there.path("/zones")).unwrap();
        fs::rename(self.here.path("/zones/web"), self.there.path("/zones/web")).unwrap();
        self.here.zonecfg(&["-z", "web", "delete -F"]).quiet();
        self.there
            .zonecfg(&["-z", "web", "create -a /zones/web"])
            .quiet();
    }

    /// Runs zoneadm on the other host, whose package database has this version of the package.
    fn command(&self, version: &str, words: &[&str]) -> Command {
        let database = self.there.path(&format!("/dpkg{version}"));
        if !database.exists() {
            copy(Path::new("/var/lib/dpkg"), &database);
            let mut status = fs::read_to_string(STATUS).unwrap();
            status += &format!(
                "\nPackage: zones-app\nStatus: install ok installed\nPriority: optional\n\
                 Maintainer: Nobody <nobody@example.org>\nArchitecture: all\n\
                 Version: {version}\nDescription: a package of a test\n"
            );
            fs::write(database.join("status"), status).unwrap();
        }
        let real = self
            .there
            .command("zoneadm", &[&["-z", "web"], words].concat());
        with_database(&real, &database)
    }

    fn on(&self, version: &str, words: &[&str]) -> Ran {
        run(&mut self.command(version, words), b"")
    }

    /// Returns the zone's version of a package, from its records and from its files.
    fn versions(&self) -> (String, String) {
        within(&self.there, versions)
    }
}

fn versions(root: &Path) -> (String, String) {
    let status = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap();
    let version = |name: &str| {
        let mut records = status.split("\n\n");
        let record = records.find(|record| record.starts_with(&format!("Package: {name}\n")));
        let record = record.unwrap();
        assert!(
            record.contains("\nStatus: install ok installed\n"),
            "{record}"
        );
        let mut lines = record.lines();
        let version = lines.find_map(|line| line.strip_prefix("Version: "));
        version.unwrap().to_owned()
    };
    let (app, more) = (version("zones-app"), version("zones-more"));
    for file in ["opt/app/a", "opt/app/z", "etc/app.conf", "var/lib/app"] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(text, app, "{file}");
    }
    assert_eq!(fs::read_to_string(root.join("opt/more")).unwrap(), more);
    (app, more)
}

/// Opens the complete root of a detached or halted zone.
fn within<T>(host: &Host, look: impl FnOnce(&Path) -> T) -> T {
    let installed = host.state("web") == "installed";
    if !installed {
        // -F attaches the zone without a check. It has no layers except its own.
        let _ = host.on("web", &["attach", "-F"]).ok();
    }
    host.on("web", &["mount"]).quiet();
    let seen = look(&host.path("/zones/web/lu"));
    host.on("web", &["unmount"]).quiet();
    if !installed {
        let _ = host.on("web", &["detach"]).ok();
    }
    seen
}

fn copy(from: &Path, to: &Path) {
    run(Command::new("cp").arg("-a").arg(from).arg(to), b"").quiet();
}

fn both(app: &str, more: &str) -> (String, String) {
    (app.to_owned(), more.to_owned())
}

#[test]
fn a_zone_with_a_root_of_its_own_is_updated() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.carry();
    let there = &hosts.there;
    hosts.on("2", &["attach"]).says(
        1,
        "These packages installed on the source system are inconsistent with this system:\n\
         \tzones-app (1) version mismatch\n\t\t(2)",
    );
    assert_eq!(there.state("web"), "configured");

    // The zone cannot get versions that its package sources do not have.
    let ran = hosts.on("3", &["attach", "-u"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(ran.err.contains("could not be updated"), "{ran:?}");
    assert_eq!(there.state("web"), "configured");
    assert!(!there.path("/zones/.attach-web").exists());
    assert!(!there.path("/zones/web/.attaching").exists());

    // With -u only packages that are too old are updated.
    let ran = hosts.on("2", &["attach", "-u"]).ok();
    assert!(ran.out.contains("Updated 1 packages."), "{ran:?}");
    assert_eq!(there.state("web"), "installed");
    assert_eq!(hosts.versions(), both("2", "1"));
    assert!(!there.path("/zones/.attach-web").exists());
    assert_eq!(there.on("web", &["snapshots", "-p"]).ok().out, "");

    // No package returns to an older version.
    let _ = hosts.on("2", &["detach"]).ok();
    hosts
        .on("1", &["attach", "-u"])
        .mentions(1, "cannot be downgraded");
    assert_eq!(there.state("web"), "configured");
    // With -U every package is updated.
    let ran = hosts.on("2", &["attach", "-U"]).ok();
    assert!(ran.out.contains("Updated 1 packages."), "{ran:?}");
    assert_eq!(hosts.versions(), both("2", "2"));
    drop(hosts.archive);
}

#[test]
fn an_immutable_zone_is_updated_from_outside() {
    let Some(hosts) = Hosts::new() else { return };
    let profile = "file-mac-profile=strict";
    hosts
        .here
        .zonecfg(&["-z", "web", &format!("set {profile}")])
        .quiet();
    hosts.carry();
    let there = &hosts.there;
    let ran = hosts.on("2", &["attach", "-u"]).ok();
    assert!(ran.out.contains("Updated 1 packages."), "{ran:?}");
    assert_eq!(hosts.versions(), both("2", "1"));
    let export = there.zonecfg(&["-z", "web", "export"]).ok().out;
    assert!(export.contains(profile), "{export}");
}

#[test]
fn an_update_killed_at_any_moment_leaves_the_old_or_the_new_zone() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.carry();
    let there = &hosts.there;
    let old: Face = within(there, tree::face);
    let _ = there.on("web", &["attach", "-F"]).ok();
    there.on("web", &["snapshot", "former"]).quiet();
    let _ = there.on("web", &["detach"]).ok();
    // The duration of a complete attach on this machine.
    let began = Instant::now();
    let _ = hosts.on("2", &["attach", "-u"]).ok();
    let whole = began.elapsed().max(Duration::from_millis(100));
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    // The zone returns to its former state; it is installed.
    let back = || {
        there.on("web", &["rollback", "-F", "former"]).quiet();
        let _ = there.on("web", &["detach"]).ok();
    };
    back();
    let times = if rounds(1).end > 1 { 100 } else { 4 };
    for round in 0..times {
        let mut child = start(
            hosts
                .command("2", &["attach", "-u"])
                .stdout(std::process::Stdio::null()),
        );
        // The kills are spread over the whole attach, and a little beyond its end.
        let part = u32::try_from((round * 7919 + 311) % 1000).unwrap();
        std::thread::sleep(whole * part / 900);
        let _ = child.kill();
        let _ = child.wait();
        if there.state("web") == "configured" {
            // A job that is being killed may hold the lock for a moment.
            let ran = e2e::wait_for("the job's end", || {
                let ran = there.on("web", &["attach", "-F"]);
                (!ran.err.contains("in progress")).then_some(ran)
            });
            let _ = ran.ok();
        }
        let versions = hosts.versions();
        if versions == both("1", "1") {
            tree::assert_same(&old, &within(there, tree::face));
        }
        *seen.entry(versions).or_default() += 1;
        assert!(!there.path("/zones/.attach-web").exists());
        back();
    }
    println!("zones by version after a kill: {seen:?}");
    let known = [both("1", "1"), both("2", "1")];
    assert!(seen.keys().all(|one| known.contains(one)), "{seen:?}");
    assert!(
        seen.contains_key(&both("1", "1")),
        "no kill came in time: {seen:?}"
    );
    // The same command again completes the attach.
    let _ = hosts.on("2", &["attach", "-u"]).ok();
    assert_eq!(hosts.versions(), both("2", "1"));
}
