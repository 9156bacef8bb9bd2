//! Kills zonepatch at random moments. Every zone must then be either unpatched or patched.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use e2e::debian::{self, Archive, Deb};
use e2e::patching::{install_with, within, zonepatch};
use e2e::run::run;
use e2e::{Host, rounds, start, tree};
use serde_json::Value;

const ZONES: [&str; 4] = ["web1", "web2", "web3", "web4"];

fn app(version: &str) -> Deb<'_> {
    Deb {
        name: "app",
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

/// Returns the version that all files of a zone have.
fn version(root: &Path) -> String {
    let status = fs::read_to_string(root.join("var/lib/dpkg/status")).unwrap();
    let mut records = status.split("\n\n");
    let record = records.find(|record| record.starts_with("Package: app\n"));
    let record = record.unwrap();
    assert!(
        record.contains("\nStatus: install ok installed\n"),
        "{record}"
    );
    let mut lines = record.lines();
    let version = lines
        .find_map(|line| line.strip_prefix("Version: "))
        .unwrap();
    for file in ["opt/app/a", "opt/app/z", "etc/app.conf", "var/lib/app"] {
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(text, version, "{file}");
    }
    version.to_owned()
}

/// A host with a halted zone `master` that has version 1 of the package, clones of it, and version
/// 2 in the archive.
fn fleet(clones: &str) -> Option<Host> {
    if !debian::can_be_made() {
        return None;
    }
    let host = Host::new()?;
    debian::make(&host.path("/debian"));
    let archive = Archive::new(host.path("/repo"));
    let first = archive.add(&app("1")).display().to_string();
    install_with(&host, "master", &archive);
    let _ = zonepatch(&host, &["apply", "-z", "master", &first]).ok();
    host.clone_from("master", clones);
    archive.add(&app("2"));
    Some(host)
}

#[test]
fn a_run_killed_at_any_moment_leaves_old_and_new_zones_and_no_others() {
    let Some(host) = fleet("web[1-4]") else {
        return;
    };
    let zonepatch = |words: &[&str]| zonepatch(&host, words);
    let old: BTreeMap<&str, tree::Face> = ZONES
        .iter()
        .map(|zone| (*zone, within(&host, zone, tree::face)))
        .collect();
    // The duration of a whole run on this machine.
    let began = std::time::Instant::now();
    let words = ["apply", "-z", "web*"];
    let _ = zonepatch(&words).ok();
    let whole = began.elapsed().max(Duration::from_millis(100));
    let _ = zonepatch(&["rollback", "-z", "web*"]).ok();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..rounds(10).end.max(20) {
        let mut command = host.command("zonepatch", &words);
        command.stdout(Stdio::null());
        let mut child = start(&mut command);
        // The kills are spread over the whole run, and a little beyond its end.
        let part = u32::try_from((round * 7919) % 1000).unwrap();
        std::thread::sleep(whole * part / 900);
        let _ = child.kill();
        let _ = child.wait();
        // The repair is started by hand, or as at the boot of the host.
        match round % 2 {
            0 => zonepatch(&["recover"]).quiet(),
            _ => {
                let ran = run(&mut host.command("zones-service", &["start"]), b"").ok();
                // The next run also removes what a killed run left, and reports this.
                let other = ran
                    .err
                    .lines()
                    .find(|line| !line.contains(" unused trees "));
                assert_eq!(other, None, "{ran:?}");
            }
        }
        assert!(!is_journal_left(&host), "round {round}");
        for zone in ZONES {
            let version = within(&host, zone, version);
            if version == "2" {
                let _ = zonepatch(&["rollback", "-z", zone]).ok();
            }
            *seen.entry(version).or_default() += 1;
        }
    }
    for zone in ZONES {
        tree::assert_same(&old[zone], &within(&host, zone, tree::face));
    }
    one_that_cannot_be_cleared_up_is_in_nobodys_way(&host);
    nobody_has_to_read_to_the_end(&host);
    println!("zones by version after a kill: {seen:?}");
    assert!(seen.keys().all(|one| one == "1" || one == "2"), "{seen:?}");
    assert!(seen.contains_key("1"), "no kill came in time: {seen:?}");
}

/// The journal of a zone that will get a shared layer, and the path of this journal.
struct Verifying {
    path: PathBuf,
    journal: Value,
}

impl Verifying {
    /// Returns the first journal of a zone that is not in the list of known zones.
    fn find(host: &Host, known: &BTreeMap<String, Self>) -> Option<(String, Self)> {
        let files = fs::read_dir(host.path("/var/lib/zones/patch")).ok()?;
        files.flatten().find_map(|file| {
            let path = file.path();
            // An unfinished journal does not count.
            if path.extension()? != "journal" {
                return None;
            }
            let text = fs::read(&path).ok()?;
            let journal: Value = serde_json::from_slice(&text).ok()?;
            let zone = journal["zone"].as_str()?.to_owned();
            let is = journal["phase"]["verifying"].is_object() && !known.contains_key(&zone);
            is.then_some((zone, Self { path, journal }))
        })
    }

    /// Restores the state in which the run was killed before the zone was done.
    fn put_back(&self, fingerprint: Option<&str>) {
        let history = self.path.with_extension("history");
        let mut known: Value = serde_json::from_slice(&fs::read(&history).unwrap()).unwrap();
        let entries = known["entries"].as_array_mut().unwrap();
        let patch = entries.pop().unwrap()["patch"].clone();
        assert_eq!(patch, self.journal["patch"]);
        fs::write(&history, known.to_string()).unwrap();
        let mut journal = self.journal.clone();
        if let Some(other) = fingerprint {
            journal["phase"]["verifying"]["fingerprint"] = other.into();
        }
        fs::write(&self.path, journal.to_string()).unwrap();
    }

    /// Returns the number of the zone's patches in the history.
    fn patches(&self) -> usize {
        let text = fs::read(self.path.with_extension("history")).unwrap_or_default();
        let known: Value = serde_json::from_slice(&text).unwrap_or_default();
        known["entries"].as_array().map_or(0, Vec::len)
    }
}

#[test]
fn a_zone_on_a_shared_layer_is_looked_at_before_it_stays_there() {
    let Some(host) = fleet("web[1-4]") else {
        return;
    };
    let words = ["apply", "-z", "web*"];
    // Two zones are really patched, and the others get the shared result. The test reads their
    // journals during the run, and repeats the run until it has seen one.
    let mut seen = BTreeMap::new();
    for _ in 0..50 {
        let mut command = host.command("zonepatch", &words);
        let mut child = start(command.stdout(Stdio::null()));
        seen.clear();
        let status = loop {
            seen.extend(Verifying::find(&host, &seen));
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
        };
        assert!(status.success());
        if seen.len() == 2 {
            break;
        }
        let _ = zonepatch(&host, &["rollback", "-z", "web*"]).ok();
    }
    let zones: Vec<&String> = seen.keys().collect();
    let [right, wrong] = zones[..] else {
        panic!("not seen in any run: {zones:?}");
    };
    // The run is killed when the zone already uses the layer. The next command checks if the zone
    // is as expected.
    seen[right].put_back(None);
    seen[wrong].put_back(Some("another"));
    let patches = [right, wrong].map(|zone| seen[zone].patches());
    zonepatch(&host, &["recover"]).quiet();
    assert!(!is_journal_left(&host));
    assert_eq!(within(&host, right, version), "2");
    assert_eq!(within(&host, wrong, version), "1");
    assert_eq!(seen[right].patches(), patches[0] + 1);
    assert_eq!(seen[wrong].patches(), patches[1]);
    let snapshot = seen[wrong].journal["snapshot"].as_str().unwrap();
    let has = |zone: &str| host.on(zone, &["snapshots", "-p"]).ok().out;
    assert!(has(right).contains(&format!(":{snapshot}:")));
    assert!(!has(wrong).contains(&format!(":{snapshot}:")));
    // The run is killed just before the switch: the zone is completely old or completely new.
    let mut caught = false;
    for _ in 0..50 {
        for zone in ZONES {
            if within(&host, zone, version) == "2" {
                let _ = zonepatch(&host, &["rollback", "-z", zone]).ok();
            }
        }
        let mut command = host.command("zonepatch", &words);
        let mut child = start(command.stdout(Stdio::null()));
        while !caught && child.try_wait().unwrap().is_none() {
            caught = Verifying::find(&host, &BTreeMap::new()).is_some();
        }
        let _ = child.kill();
        let _ = child.wait();
        zonepatch(&host, &["recover"]).quiet();
        assert!(!is_journal_left(&host));
        // This also fails if a zone is only partly patched.
        for zone in ZONES {
            let _ = within(&host, zone, version);
        }
        if caught {
            break;
        }
    }
    assert!(caught, "no run was killed while it verified");
}

fn is_journal_left(host: &Host) -> bool {
    let files = fs::read_dir(host.path("/var/lib/zones/patch")).unwrap();
    files.flatten().any(|file| {
        file.path()
            .extension()
            .is_some_and(|kind| kind == "journal")
    })
}

/// A journal as a killed run leaves it.
fn leave_journal(host: &Host, zone: &str) -> std::path::PathBuf {
    let listed = host.on(zone, &["list", "-p"]).ok();
    let uuid = listed.text().split(':').nth(4).unwrap().to_owned();
    let path = host.path(&format!("/var/lib/zones/patch/{uuid}.journal"));
    let copy = host.path(&format!("/zones/.patch-{zone}"));
    let journal = serde_json::json!({
        "patch": "left", "zone": zone, "snapshot": "patch-left", "copy": copy, "phase": "working"
    });
    fs::write(&path, journal.to_string()).unwrap();
    path
}

fn one_that_cannot_be_cleared_up_is_in_nobodys_way(host: &Host) {
    let zonepatch = |words: &[&str]| zonepatch(host, words);
    let [one, other] = ["web1", "web2"].map(|zone| leave_journal(host, zone));
    host.on("web1", &["detach"])
        .mentions(1, "zonepatch recover");
    // A killed run also leaves package files.
    let staged = host.path("/var/lib/zones/patch/files-left");
    fs::create_dir(&staged).unwrap();
    host.on("web1", &["mount"]).quiet();
    zonepatch(&["recover"]).mentions(
        1,
        "zonepatch: zone 'web1': the leftovers of an interrupted patch",
    );
    assert!(one.exists() && !other.exists() && !staged.exists());
    let ran = zonepatch(&["apply", "-z", "web2"]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    assert!(ran.err.contains("zone 'web1'"), "{ran:?}");
    let _ = zonepatch(&["rollback", "-z", "web2"]).ok();
    host.on("web1", &["unmount"]).quiet();
    zonepatch(&["recover"]).quiet();
    assert!(!one.exists());
}

fn nobody_has_to_read_to_the_end(host: &Host) {
    let mut command = host.command("zonepatch", &["apply", "-z", "web*"]);
    let mut child = start(command.stdout(Stdio::piped()));
    drop(child.stdout.take());
    // The work is done; only the lost output is a failure.
    assert_eq!(child.wait().unwrap().code(), Some(1));
    for zone in ZONES {
        assert_eq!(within(host, zone, version), "2");
    }
}
