//! Tests which zones a command selects, where it searches them, and which questions it asks.

use std::fs;

use e2e::{Host, Terminal, between_starts, wait_for};
use rustix::fs::{FlockOperation, flock};

#[test]
fn a_damaged_file_hides_no_other_zone() {
    let Some(host) = Host::new() else { return };
    for zone in ["a", "b", "c", "d"] {
        host.configure(zone, "");
    }
    let xml = host.path("/etc/zones/b.xml");
    let whole = fs::read(&xml).unwrap();
    fs::write(&xml, "<zone name=\"b\"><nonsense/></zone>").unwrap();
    let state = host.path("/run/zones/c.state");
    fs::create_dir_all(state.parent().unwrap()).unwrap();
    fs::write(&state, "{").unwrap();

    let ran = host.zoneadm(&["list", "-cn"]);
    assert_eq!(
        (ran.code(), ran.out.as_str()),
        (Some(1), "a\nd\n"),
        "{ran:?}"
    );
    let told: Vec<&str> = ran.err.lines().collect();
    assert_eq!(told.len(), 2, "{ran:?}");
    assert!(
        told[0].starts_with("zoneadm: b: could not be listed: "),
        "{ran:?}"
    );
    assert!(told[0].contains("b.xml:1"), "{ran:?}");
    assert!(
        told[1].starts_with("zoneadm: c: could not be listed: "),
        "{ran:?}"
    );
    assert_eq!(host.on("d", &["list"]).ok().err, "");

    fs::write(&xml, whole).unwrap();
    fs::remove_file(&state).unwrap();
    assert_eq!(host.zoneadm(&["list", "-cn"]).ok().out, "a\nb\nc\nd\n");
}

#[test]
fn the_global_zone_has_a_name() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    let list = |words: &[&str]| {
        let ran = host.zoneadm(words).ok();
        assert_eq!(ran.err, "");
        ran.out
    };
    assert_eq!(list(&["-z", "global", "list"]), "global\n");
    assert_eq!(
        list(&["-z", "global", "list", "-p"]),
        "0:global:running:/::native:shared:-:\n"
    );
    assert_eq!(
        list(&["-z", "web", "-z", "global", "list"]),
        "global\nweb\n"
    );
}

#[test]
fn an_alternate_root_does_not_depend_on_the_folder_of_the_caller() {
    let Some(host) = Host::new() else { return };
    for (program, words, prefix) in [
        ("zoneadm", &["list"][..], "zoneadm: "),
        ("zoneadm", &["-z", "web", "boot"], "zoneadm: "),
        ("zonecfg", &["-z", "web", "create"], ""),
    ] {
        for (root, status, why) in [
            ("relative", 2, "root path must be absolute: relative"),
            (
                "/nonexistent",
                1,
                "root path must be a directory: /nonexistent does not exist: make it with mkdir -p /nonexistent, or name another with -R or ZONES_ROOT",
            ),
        ] {
            let mut command = host.command(program, words);
            command.env("ZONES_ROOT", root).current_dir(host.root());
            e2e::run::run(&mut command, b"").says(status, &format!("{prefix}{why}"));
        }
    }
    assert!(!host.root().join("relative").exists());
}

#[test]
fn uninstall_looks_before_it_asks() {
    let Some(host) = Host::new() else { return };
    host.configure("new", "");
    host.on("nobody", &["uninstall"])
        .says(1, "zoneadm: nobody: No such zone configured");
    host.on("new", &["uninstall"])
        .says(1, "zoneadm: zone 'new': is already in state 'configured'.");
    let mut nothing = Terminal::start(host.command("zoneadm", &["-z", "new", "uninstall"]));
    nothing.expect("already in state");
    assert_eq!(nothing.status(), 1);

    host.install("web");
    host.on("web", &["uninstall"]).says(
        1,
        "zoneadm: Input not from terminal and -F not specified: uninstall not done.",
    );
    let uninstall = |zones: &[&str]| {
        let mut command = host.command("zoneadm", &[zones, &["uninstall"]].concat());
        command.current_dir(host.root());
        Terminal::start(command)
    };
    let question = "uninstall zone web (y/[n])? ";
    let mut asked = uninstall(&["-z", "web"]);
    asked.expect(question);
    // A user who takes long to answer keeps no folder busy.
    let folder = fs::read_link(format!("/proc/{}/cwd", asked.pid())).unwrap();
    assert_eq!(folder, std::path::Path::new("/"));
    asked.types("perhaps\n");
    asked.expect(question);
    asked.types("\n");
    assert_eq!(asked.status(), 0);
    assert_eq!(host.state("web"), "installed");

    let mut both = uninstall(&["-z", "new", "-z", "web"]);
    both.expect("zone 'new': is already in state 'configured'.");
    both.expect(question);
    both.types("yes\n");
    assert_eq!(both.status(), 1);
    assert_eq!(host.state("web"), "configured");
}

#[test]
fn the_end_of_a_terminal_is_no_answer() {
    let Some(host) = Host::new() else { return };
    let mut session = Terminal::start(host.command("zonecfg", &["-z", "web"]));
    session.expect("zonecfg:web> ");
    session.types("create\r");
    session.expect("zonecfg:web> ");
    session.types("add fs\r");
    session.expect("zonecfg:web:fs> ");
    session.types("\u{4}");
    session.expect("Resource incomplete; really quit (y/[n])? ");
    session.types("perhaps\r");
    session.expect("Resource incomplete; really quit (y/[n])? ");
    session.types("\u{4}");
    assert_eq!(session.status(), 1);
    assert_eq!(host.rows(), []);
}

#[test]
fn verify_tells_what_has_no_effect() {
    let Some(host) = Host::new() else { return };
    host.configure(
        "web",
        "set fs-allowed=ufs; set tenant=blue; set bootargs=-s",
    );
    host.on("web", &["verify"]).says(
        0,
        "zoneadm: zone 'web': WARNING: tenant: has no effect here\n\
         zoneadm: zone 'web': WARNING: fs-allowed: has no effect here yet\n\
         zoneadm: zone 'web': WARNING: /zones/web does not exist, so it could not be verified: \
         'install' makes it and verifies it again.",
    );
    host.on("web", &["install", "-n"]).quiet();
}

#[test]
fn a_listing_brings_zoneadmd_back_and_does_not_wait_for_others() {
    let Some(host) = Host::new() else { return };
    host.install("web");
    let program = host.command("zoneadm", &[]).get_program().to_owned();
    host.put_program("web", "root/zoneadm", fs::read(program).unwrap());
    host.boot("web");

    // A zone sees the same values as the host, except for the path.
    let row = host.row("web");
    assert_eq!(
        host.sh("web", "/root/zoneadm list -p"),
        format!(
            "{}:web:running:/:{}:native:shared:W:none",
            row.id.unwrap(),
            row.uuid
        )
    );

    host.kill(host.zoneadmd("web").unwrap());
    let lock = host.path("/run/zones/web.adopt");
    let file = fs::File::create(&lock).unwrap();
    flock(&file, FlockOperation::LockExclusive).unwrap();
    // The command ends although the lock is never released.
    host.zoneadm(&["list", "-n"]).quiet();
    assert_eq!(host.zoneadmd("web"), None);

    between_starts(|| drop(file));
    // A listing waits only a short time, and then continues without the facts that take longer.
    wait_for("zoneadmd brought back", || {
        let ran = host.zoneadm(&["list", "-n"]).ok();
        assert_eq!((ran.out.as_str(), ran.err.as_str()), ("web\n", ""));
        host.zoneadmd("web")
    });

    host.halt("web");
    host.on("web", &["uninstall", "-F"]).quiet();
    host.zonecfg(&["-z", "web", "delete -F"]).quiet();
    let left: Vec<_> = fs::read_dir(lock.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("web"))
        .collect();
    assert_eq!(left, [""; 0]);
}
