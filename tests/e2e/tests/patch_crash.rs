//! zonepatch killed at random moments: every zone is the old one or the new one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::debian::{self, Archive, Deb};
use e2e::patching::within;
use e2e::run::run;
use e2e::{Host, rounds, start, tree};

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

/// Which version all of a zone says it is.
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

#[test]
fn a_run_killed_at_any_moment_leaves_old_and_new_zones_and_no_others() {
    if !debian::can_be_made() {
        return;
    }
    let Some(host) = Host::new() else { return };
    debian::make(&host.path("/debian"));
    let archive = Archive::new(host.path("/repo"));
    let first = archive.add(&app("1")).display().to_string();
    let special = archive.folder().display().to_string();
    let configuration = format!(
        "create -t SUNWlx; add fs; set dir=/repo; set special={special}; set type=lofs; \
         add options ro; end"
    );
    host.zonecfg(&["-z", "master", &configuration]).quiet();
    let root = host.path("/debian").display().to_string();
    let _ = host.on("master", &["install", "-d", &root]).ok();
    let zonepatch = |words: &[&str]| run(&mut host.command("zonepatch", words), b"");
    let _ = zonepatch(&["apply", "-z", "master", &first]).ok();
    host.clone_from("master", "web[1-4]");
    archive.add(&app("2"));
    let old: BTreeMap<&str, tree::Face> = ZONES
        .iter()
        .map(|zone| (*zone, within(&host, zone, tree::face)))
        .collect();
    // How long a whole run takes here and now.
    let began = std::time::Instant::now();
    let words = ["apply", "-z", "web*"];
    let _ = zonepatch(&words).ok();
    let whole = began.elapsed().max(Duration::from_millis(100));
    let _ = zonepatch(&["rollback", "-z", "web*"]).ok();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..rounds(10).end.max(20) {
        let mut command = host.command("zonepatch", &words);
        command.stdout(std::process::Stdio::null());
        let mut child = start(&mut command);
        // Spread over the whole run, a little past its end.
        let part = u32::try_from((round * 7919) % 1000).unwrap();
        std::thread::sleep(whole * part / 900);
        let _ = child.kill();
        let _ = child.wait();
        // By hand, or as when the host boots.
        match round % 2 {
            0 => zonepatch(&["recover"]).quiet(),
            _ => {
                let ran = run(&mut host.command("zones-service", &["start"]), b"").ok();
                // What a killed run left is taken away at the same time, and that is said.
                let other = ran
                    .err
                    .lines()
                    .find(|line| !line.contains(" trees that nobody needs "));
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
    let zonepatch = |words: &[&str]| run(&mut host.command("zonepatch", words), b"");
    let [one, other] = ["web1", "web2"].map(|zone| leave_journal(host, zone));
    host.on("web1", &["detach"])
        .mentions(1, "zonepatch recover");
    // Package files of a killed run, too.
    let staged = host.path("/var/lib/zones/patch/files-left");
    fs::create_dir(&staged).unwrap();
    host.on("web1", &["mount"]).quiet();
    zonepatch(&["recover"]).mentions(1, "zonepatch: zone 'web1': what a patch that was cut off");
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
    let mut child = start(command.stdout(std::process::Stdio::piped()));
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    for zone in ZONES {
        assert_eq!(within(host, zone, version), "2");
    }
}
