//! Tests `zoneadm diff` and `zoneadm files`: looks into snapshots of running and halted zones, also
//! of a hostile one.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use e2e::Host;
use e2e::delegation::{Service, allow};

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

#[test]
fn files_of_a_snapshot_are_listed_and_printed() {
    let Some(host) = Host::with_web() else { return };
    host.put("web", "srv/one", "one\n");
    host.put("web", "srv/esc", "\u{1b}[2J");
    let top = host.top("web").join("srv");
    std::os::unix::fs::symlink("/srv/one", top.join("link")).unwrap();
    std::os::unix::fs::symlink("../../../../../../etc/hostname", top.join("out")).unwrap();
    fs::write(top.join(std::ffi::OsStr::from_bytes(b"a\n\xff")), "x").unwrap();
    let mode = rustix::fs::Mode::RUSR;
    let fifo = top.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    host.on("web", &["snapshot", "one"]).quiet();
    host.boot("web");
    host.sh("web", "rm -r /srv; echo other >/etc/hostname");
    let before = host.mounts();
    let listed = host.on("web", &["files", "ls", "one", "/srv"]).ok().out;
    let names: Vec<&str> = listed
        .lines()
        .map(|line| line.split_once("Z ").unwrap().1)
        .collect();
    assert_eq!(
        names,
        [
            "a\\n\\xff",
            "esc",
            "fifo",
            "link -> /srv/one",
            "one",
            "out -> ../../../../../../etc/hostname"
        ]
    );
    let json = host
        .on("web", &["files", "ls", "-j", "one", "/srv"])
        .ok()
        .out;
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["name_bytes"], "YQr/");
    let cat = |words: &[&str]| host.on("web", &[&["files", "cat"], words].concat());
    assert_eq!(cat(&["one", "/srv/link"]).ok().out, "one\n");
    assert_eq!(cat(&["one", "/srv/esc"]).ok().out, "\u{1b}[2J");
    assert_eq!(cat(&["-e", "one", "/srv/esc"]).ok().out, "\\u{1b}[2J");
    // The path in base64 is /srv/a\n\xff.
    assert_eq!(cat(&["-b", "one", "L3Nydi9hCv8="]).ok().out, "x");
    // A link that climbs out of the root stays in it.
    assert_eq!(cat(&["one", "/srv/out"]).ok().out, "web\n");
    cat(&["one", "/srv/fifo"]).says(
        1,
        "zoneadm: zone 'web': one has /srv/fifo as another type: expected a regular file.",
    );
    cat(&["one", "/srv/none"]).says(1, "zoneadm: zone 'web': one has no /srv/none.");
    cat(&["none", "/srv/one"]).mentions(1, "has no snapshot none");
    assert_eq!(host.mounts(), before);
}

/// Makes the files that are restored: a folder of user 7 with a file with attributes and two names.
fn site(host: &Host) {
    host.put("web", "srv/site/sub/one", "one\n");
    host.put("web", "srv/site/two", "two\n");
    let top = host.top("web").join("srv/site");
    fs::hard_link(top.join("two"), top.join("three")).unwrap();
    std::os::unix::fs::symlink("two", top.join("link")).unwrap();
    std::os::unix::fs::chown(&top, Some(7), Some(8)).unwrap();
    std::os::unix::fs::chown(top.join("sub/one"), Some(9), Some(10)).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    fs::set_permissions(top.join("sub/one"), mode(0o4755)).unwrap();
    fs::set_permissions(&top, mode(0o750)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(top.join("sub/one"), "user.note", b"x", flags).unwrap();
    // cap_net_raw, as setcap writes it.
    let capability = b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    rustix::fs::setxattr(top.join("two"), "security.capability", capability, flags).unwrap();
}

const LOOK: &str = "cd /srv/site && stat -c '%n %u:%g %a' . sub sub/one two link && stat -c %h two && cat sub/one two && readlink link";
const SEEN: &str =
    ". 7:8 750\nsub 0:0 755\nsub/one 9:10 4755\ntwo 0:0 644\nlink 0:0 777\n2\none\ntwo\ntwo";

#[test]
fn files_come_back_into_a_running_zone_with_their_attributes() {
    let Some(host) = Host::with_web() else { return };
    site(&host);
    host.on("web", &["snapshot", "one"]).quiet();
    host.boot("web");
    assert_eq!(host.sh("web", LOOK), SEEN);
    host.sh("web", "rm -r /srv; mkdir /srv; chmod 711 /srv");
    let restore = |words: &[&str]| host.on("web", &[&["files", "restore"], words].concat());
    let plan = restore(&["-n", "one", "/srv/site"]).ok().out;
    assert_eq!(
        plan,
        "files restore zone web:\n  enter the running zone as its root\n  \
         write /srv/site of snapshot one\n  replace files that exist\n"
    );
    assert_eq!(host.sh("web", "ls /srv"), "");
    restore(&["one", "/srv/site"]).quiet();
    assert_eq!(host.sh("web", LOOK), SEEN);
    // A folder above a restored path keeps its mode.
    assert_eq!(host.sh("web", "stat -c %a /srv"), "711");
    let mut value = [0; 32];
    let restored = host.top("web").join("srv/site");
    for (file, name) in [("two", "security.capability"), ("sub/one", "user.note")] {
        let length = rustix::fs::getxattr(restored.join(file), name, &mut value[..]);
        assert!(length.unwrap() > 0, "{file} {name}");
    }
    // New files stay; changed ones are replaced, or kept.
    host.sh(
        "web",
        "cd /srv/site; echo new >new; echo x >two; chmod 700 .; rm link",
    );
    restore(&["-k", "one", "/srv/site"]).quiet();
    let now = host.sh(
        "web",
        "cd /srv/site; cat new two; readlink link; stat -c %a .",
    );
    assert_eq!(now, "new\nx\ntwo\n700");
    restore(&["one", "/srv/site"]).quiet();
    let now = host.sh("web", "cd /srv/site; cat new two; stat -c %a .");
    assert_eq!(now, "new\ntwo\n750");
    // A single file of a folder that is missing.
    host.sh("web", "rm -r /srv/site");
    restore(&["one", "/srv/site/sub/one"]).quiet();
    assert_eq!(
        host.sh("web", "cd /srv; find . | sort; stat -c %u site"),
        ".\n./site\n./site/sub\n./site/sub/one\n7"
    );
    restore(&["one", "/srv/none", "/srv/site"])
        .says(1, "zoneadm: zone 'web': one has no /srv/none.");
    restore(&["one", "/"]).mentions(2, "expected an absolute path below /");
    restore(&["one", "/srv/../etc"]).mentions(2, "expected an absolute path below /");
}

#[test]
fn a_restoration_follows_no_link_of_the_zone() {
    let Some(host) = Host::with_web() else { return };
    site(&host);
    host.on("web", &["snapshot", "one"]).quiet();
    let outside = host.path("outside");
    fs::create_dir(&outside).unwrap();
    // The running zone, and then the halted one, has a link in place of a folder and of a file.
    host.boot("web");
    let way = format!("../../../../../..{}", outside.display());
    host.sh("web", &format!("rm -r /srv/site; ln -s {way} /srv/site"));
    let ran = host.on("web", &["files", "restore", "one", "/srv/site/two"]);
    ran.mentions(1, "a file or link has the name of a folder");
    host.halt("web");
    let ran = host.on("web", &["files", "restore", "one", "/srv/site/two"]);
    ran.mentions(1, "a file or link has the name of a folder");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    fs::write(outside.join("file"), "mine").unwrap();
    let top = host.top("web").join("srv");
    fs::remove_file(top.join("site")).unwrap();
    fs::create_dir(top.join("site")).unwrap();
    std::os::unix::fs::symlink(outside.join("file"), top.join("site/two")).unwrap();
    // The link itself is replaced.
    host.on("web", &["files", "restore", "one", "/srv/site"])
        .quiet();
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "mine");
    host.boot("web");
    assert_eq!(host.sh("web", LOOK), SEEN);
}

#[test]
fn a_whole_root_goes_to_a_snapshot_and_back() {
    let Some(host) = Host::with_web() else { return };
    host.put("web", "srv/word", "one\n");
    host.on("web", &["snapshot", "one"]).quiet();
    host.boot("web");
    host.sh("web", "echo two >/srv/word");
    // A copy of the snapshot: it stays as it is.
    host.on("web", &["beadm", "create", "-e", "one", "back"])
        .quiet();
    host.on("web", &["beadm", "activate", "--now", "back"])
        .quiet();
    assert_eq!(host.sh("web", "cat /srv/word"), "one");
    host.sh("web", "echo three >/srv/word");
    assert_eq!(
        diff(&host, &["one"])
            .iter()
            .filter(|line| line.contains("/srv/"))
            .count(),
        1
    );
    // The former root is a boot environment.
    host.on("web", &["beadm", "activate", "--now", "initial"])
        .quiet();
    assert_eq!(host.sh("web", "cat /srv/word"), "two");
    host.on("web", &["beadm", "activate", "--now", "back"])
        .quiet();
    assert_eq!(host.sh("web", "cat /srv/word"), "three");
}

#[test]
fn delegated_users_see_moments_and_take_files_back() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    allow(&host, "web", "daemon", "manage");
    allow(&host, "web", "games", "login");
    let service = Service::start(&host);
    host.sh("web", "mkdir -p /srv; echo one >/srv/one");
    host.on("web", &["snapshot", "a"]).quiet();
    host.sh("web", "rm /srv/one");
    for user in ["daemon", "games"] {
        let seen = service.run(user, "zoneadm -z web diff a").ok().out;
        assert!(seen.lines().any(|line| line == "-\t/srv/one"), "{seen}");
        let listed = service.run(user, "zoneadm -z web files ls -j a /srv").ok();
        assert!(listed.out.contains(r#""name":"one""#), "{listed:?}");
        service
            .run(user, "zoneadm -z web files restore a /srv/one")
            .quiet();
        assert_eq!(host.sh("web", "cat /srv/one; rm /srv/one"), "one");
    }
    let printed = service.run("games", "zoneadm -z web files cat a /srv/one");
    assert_eq!(printed.ok().out, "one\n");
    service
        .run("daemon", "zoneadm -z web files cat a /srv/one")
        .mentions(1, "User daemon is not authorized");
}
