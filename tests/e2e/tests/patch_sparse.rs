//! Tests zonepatch on sparse zones, which follow their host. For the commands under test, these
//! tests replace the host's package database.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::patching::{face, standing, with_database, within, zonepatch};
use e2e::run::run;
use e2e::tree;
use e2e::{Host, Ran, rounds, skip, start};
use serde_json::Value;

const DATABASE: &str = "/var/lib/dpkg";

/// A host with an installed sparse zone `web`.
fn sparse() -> Option<Host> {
    if !Path::new(DATABASE).join("status").exists() {
        skip("the host has no dpkg");
        return None;
    }
    Host::with_web()
}

fn record(name: &str, version: &str, status: &str) -> String {
    format!(
        "\nPackage: {name}\nStatus: install ok {status}\nPriority: optional\n\
         Maintainer: Nobody <nobody@example.org>\nArchitecture: all\nVersion: {version}\n\
         Description: a package of a test\n"
    )
}

/// Makes a package database of this host with one more package.
fn database(host: &Host, name: &str, version: &str, status: &str) -> PathBuf {
    let place = host.path(&format!("/dpkg-{name}-{version}-{status}"));
    let copied = Command::new("cp")
        .args(["-a", "--reflink=auto", DATABASE])
        .arg(&place)
        .status();
    assert!(copied.unwrap().success());
    let file = place.join("status");
    let text = fs::read_to_string(&file).unwrap() + &record(name, version, status);
    fs::write(file, text).unwrap();
    let list = format!("/.\n/usr\n/usr/share\n/usr/share/{name}\n");
    fs::write(place.join(format!("info/{name}.list")), list).unwrap();
    place
}

/// Runs zonepatch on a host with this package database.
fn command(host: &Host, database: &Path, words: &[&str]) -> Command {
    let real = host.command("zonepatch", words);
    with_database(&real, database)
}

fn with(host: &Host, database: &Path, words: &[&str]) -> Ran {
    run(&mut command(host, database, words), b"")
}

/// Returns the recorded version of a package in the zone, with its file list.
fn version(host: &Host, zone: &str, name: &str) -> Option<String> {
    within(host, zone, |root| {
        let folder = root.join("var/lib/dpkg");
        let text = fs::read_to_string(folder.join("status")).unwrap();
        let mut records = text.split("\n\n");
        let found = records.find(|one| one.trim().starts_with(&format!("Package: {name}\n")))?;
        assert!(folder.join(format!("info/{name}.list")).exists());
        let version = found
            .lines()
            .find_map(|line| line.strip_prefix("Version: "));
        version.map(str::to_owned)
    })
}

#[test]
fn a_sparse_zone_follows_its_host_and_goes_back() {
    let Some(host) = sparse() else { return };
    host.put("web", "etc/own", "mine");
    let status = zonepatch(&host, &["status", "-z", "web"]).ok();
    assert!(!status.out.contains("sparse"), "{status:?}");
    let ran = zonepatch(&host, &["apply", "-z", "web"]).ok();
    assert!(ran.out.contains("web: unchanged"), "{ran:?}");
    let before = face(&host, "web");

    // The host's package manager has changed packages.
    let one = database(&host, "zones-app", "1", "installed");
    let status = with(&host, &one, &["status", "-z", "web"]).ok();
    assert!(
        status.out.contains("1 package is not as on the host"),
        "{status:?}"
    );
    let plan = with(&host, &one, &["plan", "-z", "web"]).ok();
    assert!(
        plan.out.contains("web: 1 package\n\tzones-app 1 new\n"),
        "{plan:?}"
    );
    assert_eq!(version(&host, "web", "zones-app"), None);
    let ran = with(&host, &one, &["apply", "-z", "web", "--security"]).ok();
    assert!(ran.out.contains("web: patched host, 1 package"), "{ran:?}");
    assert_eq!(version(&host, "web", "zones-app").as_deref(), Some("1"));
    let own = within(&host, "web", |root| {
        fs::read_to_string(root.join("etc/own")).unwrap()
    });
    assert_eq!(own, "mine");
    let ran = with(&host, &one, &["apply", "-z", "web"]).ok();
    assert!(ran.out.contains("web: unchanged"), "{ran:?}");
    let status = with(&host, &one, &["status", "-z", "web"]).ok();
    assert!(!status.out.contains("sparse"), "{status:?}");

    // The zone's packages cannot be returned to former versions, but the whole zone can be rolled
    // back.
    let past = zonepatch(&host, &["history", "-z", "web", "-j"]).ok();
    let past: Value = serde_json::from_str(&past.out).unwrap();
    assert_eq!(
        (&past[0]["how"], &past[0]["packages"][0]["to"]),
        (&"host".into(), &"1".into())
    );
    let patch = past[0]["patch"].as_str().unwrap();
    with(&host, &one, &["remove", "-z", "web", patch]).mentions(1, "its packages are the host's");
    let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
    tree::assert_same(&before, &face(&host, "web"));
    assert_eq!(standing(&host, "web"), ["rolled_back"]);

    // A package that is half installed on the host is not copied to zones.
    let half = database(&host, "zones-app", "2", "half-configured");
    with(&host, &half, &["apply", "-z", "web"])
        .mentions(1, "package zones-app is half configured on the host");
    // A package that the zone itself installed is not forgotten.
    within(&host, "web", |root| {
        let folder = root.join("var/lib/dpkg");
        let status = folder.join("status");
        let text = fs::read_to_string(&status).unwrap() + &record("own", "1", "installed");
        fs::write(status, text).unwrap();
        fs::write(folder.join("info/own.list"), "/.\n/opt\n/opt/own\n").unwrap();
    });
    with(&host, &one, &["apply", "-z", "web"]).mentions(1, "package own is the zone's own");
    assert_eq!(version(&host, "web", "own").as_deref(), Some("1"));
    assert_eq!(version(&host, "web", "zones-app"), None);
}

#[test]
fn a_running_sparse_zone_follows_with_its_next_boot() {
    let Some(host) = sparse() else { return };
    host.boot("web");
    let one = database(&host, "zones-app", "1", "installed");
    with(&host, &one, &["apply", "-z", "web"]).mentions(1, "--activate=next");
    let _ = with(&host, &one, &["apply", "-z", "web", "--activate=next"]).ok();
    assert_eq!(standing(&host, "web"), ["pending"]);
    let known = "dpkg-query -W -f '${Version}' zones-app 2>&1 || :";
    assert!(!host.sh("web", known).starts_with('1'));
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.sh("web", known), "1");
    assert_eq!(standing(&host, "web"), ["applied"]);
    let status = with(&host, &one, &["status", "-z", "web"]).ok();
    assert!(!status.out.contains("sparse"), "{status:?}");
    let _ = zonepatch(&host, &["rollback", "-z", "web", "--activate=now"]).ok();
    assert!(!host.sh("web", known).starts_with('1'));
}

#[test]
fn a_kill_at_any_moment_leaves_a_sparse_zone_old_or_new() {
    let Some(host) = sparse() else { return };
    let one = database(&host, "zones-app", "1", "installed");
    let words = ["apply", "-z", "web"];
    let began = Instant::now();
    let _ = with(&host, &one, &words).ok();
    let whole = began.elapsed().max(Duration::from_millis(50));
    let new = face(&host, "web");
    let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
    let old = face(&host, "web");
    for round in 0..rounds(2).end {
        let mut child = start(command(&host, &one, &words).stdout(Stdio::null()));
        let part = u32::try_from((round * 7919) % 1000).unwrap();
        std::thread::sleep(whole * part / 900);
        let _ = child.kill();
        let _ = child.wait();
        zonepatch(&host, &["recover"]).quiet();
        let is = face(&host, "web");
        match version(&host, "web", "zones-app") {
            Some(_) => {
                assert_eq!(is.len(), new.len());
                let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
            }
            None => tree::assert_same(&old, &is),
        }
    }
}
