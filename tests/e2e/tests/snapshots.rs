//! Tests snapshots of halted and running zones: they are made, listed, rolled back, cloned and
//! removed, and all of this is interrupted.

use std::fs;
use std::path::Path;

use e2e::{Host, Ran, database, wait_for};

/// Returns the listed snapshots of a zone.
#[track_caller]
fn names(host: &Host, zone: &str) -> Vec<String> {
    let ran = host.on(zone, &["snapshots", "-p"]).ok();
    let second = |line: &str| line.split(':').nth(1).unwrap_or_default().to_owned();
    ran.out.lines().map(second).collect()
}

/// Returns a file of a halted zone as the zone would see it.
#[track_caller]
fn content(host: &Host, zone: &str, path: &str) -> String {
    host.on(zone, &["mount"]).quiet();
    let at = host.path("/zones").join(zone).join("lu").join(path);
    let text = fs::read_to_string(at).unwrap_or_default();
    host.on(zone, &["unmount"]).quiet();
    text
}

/// Returns true if the zone is not frozen.
fn is_frozen(host: &Host, zone: &str) -> bool {
    host.groups_of(zone).iter().any(|group| {
        fs::read_to_string(group.join("cgroup.freeze")).is_ok_and(|text| text.trim() == "1")
    })
}

/// Returns the number of layers.
fn layers(host: &Host) -> usize {
    let entries = fs::read_dir(host.path("/zones/.layers"));
    let entries = entries.into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name() != ".dead").count()
}

#[test]
fn a_halted_zone_goes_back_to_what_it_was() {
    let Some(host) = Host::with_web() else { return };
    host.put("web", "var/word", "first\n");
    host.on("web", &["snapshot", "first"]).quiet();
    host.boot("web");
    assert_eq!(host.sh("web", "cat /var/word"), "first");
    host.sh(
        "web",
        "echo second >/var/word; rm /etc/motd; mkdir /var/new",
    );
    host.on("web", &["rollback", "-F", "first"]).says(
        1,
        "zoneadm: zone 'web': rollback operation is invalid for running zones.",
    );
    host.halt("web");
    host.on("web", &["snapshot", "second"]).quiet();
    assert_eq!(names(&host, "web"), ["first", "second"]);
    host.on("web", &["rollback", "-F", "first"]).quiet();
    host.boot("web");
    assert_eq!(
        host.sh(
            "web",
            "cat /var/word; ls -d /var/new 2>/dev/null || hostname"
        ),
        "first\nweb"
    );
    host.halt("web");
    host.on("web", &["rollback", "-F", "second"]).quiet();
    host.boot("web");
    assert_eq!(
        host.sh("web", "cat /var/word; ls -d /var/new"),
        "second\n/var/new"
    );
}

#[test]
fn rollback_asks_before_it_discards_changes() {
    let Some(host) = Host::with_web() else { return };
    host.on("web", &["snapshot", "one"]).quiet();
    host.on("web", &["rollback", "one"]).says(
        1,
        "zoneadm: Input not from terminal and -F not specified: rollback not done.",
    );
    for words in [
        &["snapshot"][..],
        &["snapshot", "../one"],
        &["snapshot", ".half"],
        &["rollback", "-F"],
        &["snapshots", "-x"],
        &["clone", "-s", "a/b", "web"],
    ] {
        assert_eq!(host.on("web", words).code(), Some(2), "{words:?}");
    }
    host.on("web", &["snapshot", "one"])
        .says(1, "zoneadm: zone 'web': has a snapshot one already.");
    for words in [
        &["rollback", "-F", "none"][..],
        &["destroy-snapshot", "none"],
    ] {
        host.on("web", words)
            .says(1, "zoneadm: zone 'web': has no snapshot none.");
    }
    let planned = host.on("web", &["rollback", "-n", "one"]).ok();
    assert!(planned.out.contains("snapshot one"), "{planned:?}");
    host.configure("empty", "");
    for words in [&["snapshot", "one"][..], &["snapshots"]] {
        host.on("empty", words)
            .mentions(1, "must be installed before");
    }
    assert_eq!(names(&host, "web"), ["one"]);
}

#[test]
fn the_list_says_what_each_takes() {
    let Some(host) = Host::with_web() else { return };
    fs::write(host.put("web", "var/big", ""), vec![7; 3 << 20]).unwrap();
    host.on("web", &["snapshot", "big"]).quiet();
    let json = |host: &Host| -> serde_json::Value {
        let ran = host.on("web", &["snapshots", "-j"]).ok();
        serde_json::from_str(&ran.out).unwrap()
    };
    let before = json(&host);
    assert_eq!(before[0]["name"], "big");
    assert_eq!(before[0]["used_bytes"], 0, "the zone stands on it, too");
    assert!(before[0]["referenced_bytes"].as_u64().unwrap() >= 3 << 20);
    let created = before[0]["created"].as_u64().unwrap();
    assert!(created > 1_700_000_000, "{created}");
    host.on("web", &["snapshot", "again"]).quiet();
    host.put("web", "var/small", "");
    host.on("web", &["snapshot", "small"]).quiet();
    assert_eq!(
        names(&host, "web"),
        ["big", "again", "small"],
        "the oldest first"
    );
    let columns = host.on("web", &["snapshots"]).ok();
    assert!(columns.out.starts_with("NAME"), "{columns:?}");
    assert_eq!(columns.out.lines().count(), 4, "{columns:?}");
}

#[test]
fn a_snapshot_is_cloned_while_its_zone_runs() {
    let Some(host) = Host::with_web() else { return };
    host.put("web", "var/word", "golden\n");
    host.on("web", &["snapshot", "golden"]).quiet();
    host.boot("web");
    host.sh("web", "echo spoiled >/var/word");
    host.on("one", &["clone", "--create", "-s", "golden", "web"])
        .quiet();
    host.on("two", &["clone", "--create", "-s", "none", "web"])
        .mentions(1, "zone web has no snapshot none");
    host.on("two", &["clone", "--create", "web"])
        .mentions(1, "zone web is running; installed is required");
    host.boot("one");
    assert_eq!(host.sh("one", "cat /var/word; hostname"), "golden\none");
    // The clone needs neither the snapshot nor the zone.
    host.on("web", &["destroy-snapshot", "golden"]).quiet();
    host.halt("web");
    host.on("web", &["uninstall", "-F"]).quiet();
    assert_eq!(host.sh("one", "cat /var/word"), "golden");
}

#[test]
fn snapshots_end_with_their_zone() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    for n in 0..4 {
        host.put("master", "var/n", n.to_string());
        host.on("master", &["snapshot", &format!("s{n}")]).quiet();
    }
    assert_eq!(layers(&host), 4);
    host.on("master", &["destroy-snapshot", "s3"]).quiet();
    host.on("master", &["rollback", "-F", "s1"]).quiet();
    assert_eq!(layers(&host), 3);
    host.on("master", &["uninstall", "-F"]).quiet();
    assert_eq!(layers(&host), 0);
}

#[test]
fn a_database_of_a_zone_that_writes_all_the_time_is_whole() {
    if !Path::new("/usr/bin/sqlite3").exists() {
        e2e::skip("no sqlite3 on the host");
        return;
    }
    let Some(host) = Host::with_running_web() else {
        return;
    };
    database::write_all_the_time(&host, "web", "delete");
    let rows = |host: &Host| -> u64 {
        let ask = "sqlite3 -cmd '.timeout 20000' /var/tmp/base.db 'SELECT max(n) FROM t' 2>/dev/null; true";
        host.sh("web", ask).trim().parse().unwrap_or(0)
    };
    for n in 0..e2e::rounds(2).end {
        let before = rows(&host);
        wait_for("more rows in the database", || {
            (rows(&host) > before + 2).then_some(())
        });
        let ran = host.on("web", &["snapshot", &format!("live{n}")]).ok();
        assert!(ran.out.contains("stood still"), "{ran:?}");
        assert!(!is_frozen(&host, "web"), "{ran:?}");
    }
    // The zone was not interrupted.
    let before = rows(&host);
    wait_for("more rows in the database", || {
        (rows(&host) > before).then_some(())
    });
    for n in 0..e2e::rounds(2).end {
        let (zone, snapshot) = (format!("copy{n}"), format!("live{n}"));
        host.on(&zone, &["clone", "--create", "-s", &snapshot, "web"])
            .quiet();
        host.boot(&zone);
        let checked = host.sh(
            &zone,
            "sqlite3 /var/tmp/base.db 'PRAGMA integrity_check; SELECT count(*) > 0, sum(half <> other) FROM t;'",
        );
        assert_eq!(checked, "ok\n1|0", "{snapshot}");
        host.halt(&zone);
        host.on(&zone, &["uninstall", "-F"]).quiet();
    }
    host.halt("web");
    host.on("web", &["rollback", "-F", "live0"]).quiet();
    host.boot("web");
    assert_eq!(
        host.sh("web", "sqlite3 /var/tmp/base.db 'PRAGMA integrity_check'"),
        "ok"
    );
}

#[test]
fn a_copy_of_a_running_zone_has_all_it_changed() {
    let Some(host) = Host::with_web() else { return };
    host.put("web", "var/old/inner/file", "inner\n");
    host.put("web", "var/gone", "");
    host.clone_from("web", "one");
    host.boot("one");
    let make = "cd /var; mv old moved; rm gone; mkdir -m 2770 dir; echo x >dir/a; ln dir/a dir/b; \
        ln -s nowhere dir/l; mkfifo dir/p; chown 1000:1000 dir/a; touch -d @1000000000 dir/a; \
        truncate -s 1M dir/sparse; rm -r /var/opt; mkdir /var/opt";
    host.sh("one", make);
    let seen = |zone: &str| {
        let look = "cd /var; find . -xdev -name log -prune -o -printf '%p %y %m %U %G %n %T@ %s %l\\n' | \
            grep -v '^./cache\\|^./tmp' | sort; cat moved/inner/file; ls gone 2>&1; true";
        host.sh(zone, look)
    };
    let before = seen("one");
    host.on("one", &["snapshot", "live"]).quiet();
    assert_eq!(seen("one"), before);
    host.sh("one", "rm -r /var/moved /var/dir");
    host.on("two", &["clone", "--create", "-s", "live", "one"])
        .quiet();
    host.boot("two");
    assert_eq!(seen("two"), before);
}

/// Checks the state after a verb was killed or failed at each step.
fn crash_at_each_step(verb: &str, running: bool) {
    let Some(host) = Host::with_web() else { return };
    host.put("web", "var/word", "first\n");
    host.on("web", &["snapshot", "first"]).quiet();
    host.put("web", "var/word", "second\n");
    if running {
        host.boot("web");
    }
    for kind in ["kill", "fail"] {
        for step in 1..16 {
            let fault = format!("{verb}:{step}:{kind}");
            let words: Vec<&str> = match verb {
                "snapshot" => vec![verb, "second"],
                "rollback" => vec![verb, "-F", "first"],
                _ => vec![verb, "extra"],
            };
            if verb == "destroy-snapshot" {
                host.on("web", &["snapshot", "extra"]).quiet();
            }
            let ran = host.with_fault(&fault, "web", &words);
            let through = ran.code() == Some(0);
            check_after(&host, &fault, &ran, running);
            if verb == "rollback" {
                host.put("web", "var/word", "second\n");
            }
            for extra in names(&host, "web").iter().filter(|name| *name != "first") {
                host.on("web", &["destroy-snapshot", extra]).quiet();
            }
            if through {
                assert!(step > 1, "{fault} did not strike");
                break;
            }
        }
    }
    if !running {
        host.boot("web");
    }
    assert_eq!(host.sh("web", "hostname"), "web");
}

#[track_caller]
fn check_after(host: &Host, fault: &str, ran: &Ran, running: bool) {
    if fault.ends_with("fail") && ran.code() != Some(0) {
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        assert!(ran.err.contains("a fault was asked for"), "{ran:?}");
    }
    let word = if running {
        // The process that froze the zone is killed, and the zone's zoneadmd thaws the zone.
        host.sh("web", "cat /var/word")
    } else {
        content(host, "web", "var/word").trim().to_owned()
    };
    let rolled = fault.starts_with("rollback");
    assert!(
        word == "second" || (rolled && word == "first"),
        "{fault}: {word}"
    );
    if running {
        wait_for("the zone to go on", || {
            (!is_frozen(host, "web")).then_some(())
        });
    }
    let names = names(host, "web");
    assert!(names.contains(&"first".to_owned()), "{fault}: {names:?}");
}

#[test]
fn snapshot_of_a_halted_zone_killed_or_failed_at_every_step() {
    crash_at_each_step("snapshot", false);
}

#[test]
fn snapshot_of_a_running_zone_killed_or_failed_at_every_step() {
    crash_at_each_step("snapshot", true);
}

#[test]
fn rollback_killed_or_failed_at_every_step() {
    crash_at_each_step("rollback", false);
}

#[test]
fn destroy_snapshot_killed_or_failed_at_every_step() {
    crash_at_each_step("destroy-snapshot", false);
    crash_at_each_step("destroy-snapshot", true);
}

#[test]
fn a_zone_goes_on_when_all_who_froze_it_are_dead() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let group = host
        .groups_of("web")
        .into_iter()
        .find(|group| group.ends_with("web") && group.join("cgroup.freeze").exists())
        .unwrap();
    // This is the state after zoneadm and zoneadmd were killed at the same moment.
    let daemon = host.zoneadmd("web").unwrap();
    host.kill(daemon);
    fs::write(group.join("cgroup.freeze"), "1").unwrap();
    assert!(is_frozen(&host, "web"));
    // Every command about the zone starts a new zoneadmd.
    host.on("web", &["boot"])
        .ok()
        .says(0, "zoneadm: zone 'web': zone is already booted");
    assert!(!is_frozen(&host, "web"));
    assert_eq!(host.sh("web", "hostname"), "web");
}
