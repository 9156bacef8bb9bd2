//! Tests `zoneadm diff` and `zoneadm files`: looks into snapshots of running and halted zones, also
//! of a hostile one.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use e2e::Host;

/// Returns the lines of a diff.
#[track_caller]
fn diff(host: &Host, moments: &[&str]) -> Vec<String> {
    let words = [&["diff"], moments].concat();
    let ran = host.on("web", &words).ok();
    ran.out.lines().map(str::to_owned).collect()
}

#[test]
fn a_diff_of_a_running_zone_lists_each_change_once() {
    let Some(host) = Host::with_web() else { return };
    host.put("web", "var/word", "one\n");
    host.put("web", "var/mode", "one\n");
    fs::create_dir_all(host.top("web").join("srv/site/sub")).unwrap();
    host.put("web", "srv/site/index", "one\n");
    host.put("web", "srv/gone", "one\n");
    host.on("web", &["snapshot", "one"]).quiet();
    assert_eq!(diff(&host, &["one"]), [""; 0]);
    host.boot("web");
    // The boot itself writes some files.
    host.on("web", &["snapshot", "booted"]).quiet();
    host.sh(
        "web",
        "echo two >/var/word; chmod 600 /var/mode; touch /etc/passwd
         mv /srv/site /srv/place; echo new >/srv/place/new; rm /srv/gone; mkfifo /srv/fifo
         ln -s /etc /srv/link; echo x >\"$(printf '/srv/a\\n\\033[2J\\377')\"",
    );
    let expected = [
        "+\t/srv/a\\n\\u{1b}[2J\\xff",
        "+\t/srv/fifo",
        "-\t/srv/gone",
        "+\t/srv/link",
        "R\t/srv/site -> /srv/place",
        "+\t/srv/place/new",
        "M\t/var/mode",
        "M\t/var/word",
    ];
    let now = diff(&host, &["booted"]);
    let of_test = |line: &&String| line.contains("/srv/") || line.contains("/var/");
    let shown: Vec<&String> = now
        .iter()
        .filter(of_test)
        .filter(|line| !line.contains("/var/log") && !line.contains("/var/lib"))
        .collect();
    assert_eq!(sorted(&shown), sorted(&expected.iter().collect::<Vec<_>>()));
    assert!(!now.iter().any(|line| line.contains("/etc/passwd")));
    host.on("web", &["snapshot", "two"]).quiet();
    let both = diff(&host, &["booted", "two"]);
    let both: Vec<&String> = both.iter().filter(of_test).collect();
    assert!(
        expected
            .iter()
            .all(|line| both.iter().any(|one| one == line))
    );
    // The other direction undoes the changes.
    let back = diff(&host, &["two", "booted"]);
    for line in ["R\t/srv/place -> /srv/site", "+\t/srv/gone", "-\t/srv/fifo"] {
        assert!(back.iter().any(|one| one == line), "{line}: {back:?}");
    }
    let json = host.on("web", &["diff", "-j", "booted", "two"]).ok().out;
    let rows: Vec<serde_json::Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let row = |path: &str| {
        let found = rows.iter().find(|row| row["path"] == path);
        found.unwrap_or_else(|| panic!("{path}: {json}"))
    };
    assert_eq!(row("/var/mode")["what"], serde_json::json!(["mode"]));
    assert_eq!(row("/var/word")["what"], serde_json::json!(["content"]));
    assert_eq!(row("/srv/place")["from"], "/srv/site");
    assert_eq!(row("/srv/fifo")["type"], "fifo");
    let hostile = row("/srv/a\\n\\u{1b}[2J\\xff");
    assert_eq!(hostile["path_bytes"], "L3Nydi9hChtbMkr/");
    // A halted zone has the same present.
    host.halt("web");
    let halted = diff(&host, &["two"]);
    let halted: Vec<&String> = halted
        .iter()
        .filter(|line| line.contains("/srv/"))
        .collect();
    assert_eq!(halted, [""; 0]);
}

fn sorted<T: AsRef<str>>(lines: &[T]) -> Vec<String> {
    let mut lines: Vec<String> = lines.iter().map(|line| line.as_ref().to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn a_diff_takes_boot_environments_and_refuses_other_names() {
    let Some(host) = Host::with_web() else { return };
    let _ = host.on("web", &["beadm", "create", "be"]).ok();
    host.put("web", "etc/new", "new\n");
    assert_eq!(diff(&host, &["be"]), ["+\t/etc/new"]);
    // The active boot environment is the present.
    assert_eq!(diff(&host, &["be", "initial"]), ["+\t/etc/new"]);
    assert_eq!(diff(&host, &["initial", "be"]), ["-\t/etc/new"]);
    host.on("web", &["diff", "none"]).says(
        1,
        "zoneadm: zone 'web': has no snapshot none; zoneadm snapshots lists them.",
    );
    host.on("web", &["diff"])
        .mentions(2, "diff needs the names of one or two snapshots");
    host.on("web", &["diff", "../be"]).mentions(2, "../be");
    host.on("global", &["diff", "be"])
        .mentions(1, "invalid for the global zone");
}

#[test]
fn a_zone_that_changes_all_the_time_is_compared() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.on("web", &["snapshot", "one"]).quiet();
    host.sh(
        "web",
        "(while :; do
             mkdir -p /srv/d/e/f; echo x >/srv/d/e/f/g; mv /srv/d /srv/$$.x; rm -rf /srv/*.x
             rm -rf /srv/l; ln -s / /srv/l; rm /srv/l; mkfifo /srv/l
         done) >/dev/null 2>&1 </dev/null & echo $! >/run/busy",
    );
    for _ in 0..30 {
        let ran = host.on("web", &["diff", "-j", "one"]);
        assert!(matches!(ran.code(), Some(0 | 1)), "{ran:?}");
        for line in ran.out.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let path = row["path"].as_str().unwrap();
            // No link was followed to the root.
            assert!(!path.starts_with("/srv/l/"), "{line}");
        }
    }
    host.sh("web", "kill $(cat /run/busy)");
}

#[test]
fn folders_of_thousands_of_names_and_a_thousand_deep_are_listed() {
    let Some(host) = Host::with_web() else { return };
    host.on("web", &["snapshot", "one"]).quiet();
    let top = host.top("web").join("srv");
    fs::create_dir_all(top.join("many")).unwrap();
    for n in 0..5000 {
        fs::write(top.join(format!("many/{n}")), "").unwrap();
    }
    let long = "\u{7}".repeat(255);
    fs::write(top.join(&long), "").unwrap();
    let name = std::ffi::OsStr::from_bytes(b"\x07d");
    let mut at = rustix::fs::open(&top, rustix::fs::OFlags::PATH, 0.into()).unwrap();
    for _ in 0..1000 {
        rustix::fs::mkdirat(&at, name, rustix::fs::Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, name, rustix::fs::OFlags::PATH, 0.into()).unwrap();
    }
    let lines = diff(&host, &["one"]);
    assert!(lines.iter().all(|line| line.starts_with("+\t/srv")));
    let many = lines.iter().filter(|line| line.contains("/many/")).count();
    let deep = lines.iter().filter(|line| line.contains("\\u{7}d")).count();
    assert_eq!((many, deep), (5000, 1000));
    let long = format!("+\t/srv/{}", "\\u{7}".repeat(255));
    assert!(lines.contains(&long));
}
