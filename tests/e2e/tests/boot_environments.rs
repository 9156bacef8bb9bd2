//! Tests `zoneadm beadm`: boot environments of a zone are made while it runs, booted, and changed
//! by another root, and each operation is interrupted.

use std::fs;

use e2e::{Host, rounds};

/// Returns the name and flags of each boot environment.
#[track_caller]
fn list(host: &Host, zone: &str) -> Vec<(String, String)> {
    let ran = host.on(zone, &["beadm", "list", "-H"]).ok();
    let pair = |line: &str| {
        let fields: Vec<&str> = line.split(';').collect();
        assert_eq!(fields.len(), 7, "{line}");
        (fields[0].to_owned(), fields[2].to_owned())
    };
    let mut rows: Vec<_> = ran.out.lines().map(pair).collect();
    // The list is sorted by age. Boot environments of the same second are in any order.
    rows.sort();
    rows
}

fn pairs(words: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(name, flags): &(&str, &str)| ((*name).to_owned(), (*flags).to_owned());
    let mut rows: Vec<_> = words.iter().map(pair).collect();
    rows.sort();
    rows
}

#[test]
fn a_zone_goes_to_another_environment_and_back() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh("web", "echo one >/var/word");
    assert_eq!(list(&host, "web"), pairs(&[("initial", "NR")]));
    // The boot environment is made of a running zone.
    let _ = host.on("web", &["beadm", "create", "before"]).ok();
    host.sh("web", "echo two >/var/word; echo more >/var/more");
    assert_eq!(
        list(&host, "web"),
        pairs(&[("initial", "NR"), ("before", "")])
    );
    host.on("web", &["beadm", "activate", "before"]).quiet();
    assert_eq!(
        list(&host, "web"),
        pairs(&[("initial", "N"), ("before", "R")])
    );
    assert_eq!(host.sh("web", "cat /var/word"), "two");
    host.on("web", &["beadm", "destroy", "-F", "before"])
        .mentions(1, "is active on reboot");
    host.on("web", &["reboot"]).quiet();
    host.wait_for_state("web", "running");
    assert_eq!(
        host.sh("web", "cat /var/word; ls /var/more 2>/dev/null || hostname"),
        "one\nweb"
    );
    assert_eq!(
        list(&host, "web"),
        pairs(&[("initial", ""), ("before", "NR")])
    );
    // The zone returns to the former one, at once.
    host.on("web", &["beadm", "activate", "--now", "initial"])
        .quiet();
    assert_eq!(host.sh("web", "cat /var/word /var/more"), "two\nmore");
    host.on("web", &["beadm", "destroy", "-F", "initial"])
        .mentions(
            1,
            "boot environment initial is the active one; boot another one first.",
        );
    host.on("web", &["beadm", "destroy", "-F", "before"])
        .quiet();
    assert_eq!(list(&host, "web"), pairs(&[("initial", "NR")]));
}

/// With musl, which the release programs use, the standard library cannot read the time when a
/// folder was made.
#[test]
fn the_first_one_was_made_when_the_zone_was_installed() {
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap().as_secs()
    };
    // File systems use a clock that is up to one tick late.
    let before = now() - 1;
    let Some(host) = Host::with_own_master() else {
        return;
    };
    let ran = host.on("master", &["beadm", "list", "-H"]).ok();
    let fields: Vec<&str> = ran.text().split(';').collect();
    assert_eq!((fields[0], fields.len()), ("initial", 7), "{ran:?}");
    let made: u64 = fields[6].parse().unwrap();
    assert!((before..=now()).contains(&made), "{before}: {ran:?}");
}

#[test]
fn boot_with_z_boots_an_environment_once() {
    let Some(host) = Host::with_web() else { return };
    host.put("web", "var/word", "old\n");
    host.on("web", &["beadm", "create", "old"]).quiet();
    host.put("web", "var/word", "new\n");
    host.on("web", &["boot", "--", "-Z", "none"]).says(
        1,
        "zoneadm: zone 'web': has no boot environment none; see zoneadm beadm list.",
    );
    assert_eq!(host.state("web"), "installed");
    host.on("web", &["boot", "--", "-Z", "old"]).quiet();
    assert_eq!(host.sh("web", "cat /var/word"), "old");
    assert_eq!(list(&host, "web"), pairs(&[("initial", "R"), ("old", "N")]));
    host.sh("web", "echo older >/var/word");
    host.halt("web");
    host.boot("web");
    assert_eq!(host.sh("web", "cat /var/word"), "new");
    host.on("web", &["reboot", "--", "-Z", "old"]).quiet();
    assert_eq!(host.sh("web", "cat /var/word"), "older");
    assert_eq!(host.on("web", &["boot", "--", "-Z"]).code(), Some(2));
}

#[test]
fn a_mounted_environment_is_changed_while_the_zone_runs() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let at = host.path("mnt");
    let at = at.to_str().unwrap();
    let _ = host.on("web", &["beadm", "create", "next"]).ok();
    let ran = host.on("web", &["beadm", "mount", "next", at]).ok();
    assert_eq!(ran.text(), at);
    fs::write(host.path("mnt/etc/patched"), "yes\n").unwrap();
    fs::remove_file(host.path("mnt/etc/motd")).unwrap();
    assert!(host.on("web", &["beadm", "list"]).ok().out.contains(at));
    for words in [
        &["beadm", "mount", "next"][..],
        &["beadm", "activate", "next"],
        &["beadm", "destroy", "-F", "next"],
        &["beadm", "rename", "next", "other"],
    ] {
        host.on("web", words).mentions(1, "is mounted on");
    }
    host.on("web", &["beadm", "unmount", "next"]).quiet();
    assert!(!host.path("mnt").exists());
    host.on("web", &["beadm", "unmount", "next"]).says(
        1,
        "zoneadm: zone 'web': boot environment next is not mounted.",
    );
    assert_eq!(
        host.sh("web", "ls /etc/patched 2>/dev/null; ls /etc/motd"),
        "/etc/motd"
    );
    // It is mounted once more, in a folder that stays.
    fs::create_dir(host.path("mnt")).unwrap();
    let _ = host.on("web", &["beadm", "mount", "next", at]).ok();
    assert!(host.path("mnt/etc/patched").exists());
    host.on("web", &["beadm", "umount", "next"]).quiet();
    assert!(host.path("mnt").exists());
    host.on("web", &["beadm", "rename", "next", "patched"])
        .quiet();
    host.on("web", &["beadm", "activate", "--now", "patched"])
        .quiet();
    assert_eq!(
        host.sh(
            "web",
            "cat /etc/patched; ls /etc/motd 2>/dev/null || hostname"
        ),
        "yes\nweb"
    );
    // A zone with a mounted boot environment cannot be removed.
    let _ = host.on("web", &["beadm", "mount", "initial"]).ok();
    host.halt("web");
    host.on("web", &["uninstall", "-F"])
        .mentions(1, "unmount it first");
    assert_eq!(host.state("web"), "incomplete");
    let mut umount = std::process::Command::new("umount");
    umount.arg(host.path("/zones/web/be/at-initial"));
    e2e::run::run(&mut umount, b"").quiet();
    host.on("web", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/web").exists());
}

#[test]
fn names_are_not_taken_twice_and_nothing_is_lost_unasked() {
    let Some(host) = Host::with_web() else { return };
    host.on("web", &["beadm", "create", "one"]).quiet();
    for name in ["one", "initial"] {
        host.on("web", &["beadm", "create", name])
            .mentions(1, "already");
        host.on("web", &["beadm", "rename", "one", name])
            .mentions(1, "already");
    }
    host.on("web", &["beadm", "create", "-e", "one", "two"])
        .quiet();
    host.on("web", &["beadm", "create", "-e", "none", "three"])
        .says(1, "zoneadm: zone 'web': has no boot environment none.");
    host.on("web", &["beadm", "create", "-a", "three"]).quiet();
    host.on("web", &["beadm", "rename", "initial", "first"])
        .quiet();
    assert_eq!(
        list(&host, "web"),
        pairs(&[("first", "N"), ("one", ""), ("two", ""), ("three", "R")])
    );
    host.on("web", &["beadm", "destroy", "two"]).says(
        1,
        "zoneadm: Input not from terminal and -F not specified: destroy not done.",
    );
    let planned = host.on("web", &["beadm", "destroy", "-n", "two"]).ok();
    assert!(planned.out.contains("remove boot environment two"));
    // Snapshots are boot environments.
    host.on("web", &["snapshot", "four"]).quiet();
    assert_eq!(list(&host, "web").len(), 5);
    let json = host.on("web", &["beadm", "list", "-j", "four"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (&json[0]["name"], &json[1]),
        (&"four".into(), &serde_json::Value::Null)
    );
    for words in [
        &["beadm"][..],
        &["beadm", "lost"],
        &["beadm", "create"],
        &["beadm", "mount", "one", "relative"],
    ] {
        assert_eq!(host.on("web", words).code(), Some(2), "{words:?}");
    }
    host.zoneadm(&["-z", "global", "beadm", "list"]).says(
        1,
        "zoneadm: zone 'global': beadm operation is invalid for the global zone.",
    );
    host.configure("empty", "");
    host.on("empty", &["beadm", "list"])
        .says(1, "zoneadm: zone 'empty': must be installed before beadm.");
}

/// This one is the zone's present root.
#[track_caller]
fn active(host: &Host) -> String {
    let rows = list(host, "web");
    assert_eq!(rows.len(), 2, "{rows:?}");
    let row = rows.iter().find(|row| row.1.contains('N'));
    row.unwrap_or_else(|| panic!("{rows:?}")).0.clone()
}

#[test]
fn a_switch_that_is_killed_leaves_the_one_or_the_other() {
    let Some(host) = Host::with_web() else { return };
    // Each boot environment has its own name in the file var/word.
    host.put("web", "var/word", "initial\n");
    host.on("web", &["beadm", "create", "other"]).quiet();
    host.on("web", &["beadm", "activate", "--now", "other"])
        .quiet();
    host.put("web", "var/word", "other\n");
    let mut random = e2e::Random::new(12_345);
    let mut switched = 0;
    for _ in rounds(12) {
        let before = active(&host);
        let other = if before == "other" {
            "initial"
        } else {
            "other"
        };
        let words = ["-z", "web", "beadm", "activate", "--now", other];
        let mut child = e2e::start(&mut host.command("zoneadm", &words));
        std::thread::sleep(std::time::Duration::from_micros(random.below(15_000)));
        let _ = child.kill();
        let _ = child.wait();
        host.boot("web");
        let word = host.sh("web", "cat /var/word");
        host.halt("web");
        assert_eq!(word, active(&host), "was {before}");
        switched += u32::from(word != before);
    }
    println!("{switched} of {} switched", rounds(12).end);
}
