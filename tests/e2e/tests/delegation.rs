//! Tests delegation: the rights that the admin resources of zones give to users who are not root.

use std::fs;
use std::process::Command;

use e2e::delegation::{Service, admin, allow, uid};
use e2e::run::run;
use e2e::{Host, Terminal};

#[test]
fn user_a_does_with_zone_a_what_was_allowed() {
    let Some(host) = Host::with_web() else { return };
    allow(&host, "web", "daemon", "login,manage");
    let service = Service::start(&host);
    service.run("daemon", "zoneadm -z web boot").quiet();
    assert_eq!(host.state("web"), "running");
    service
        .run("daemon", "zoneadm -z web boot")
        .mentions(0, "zone is already booted");
    let ran = service.run_words(
        "daemon",
        "zlogin",
        &["web", "echo out; echo err >&2; id -u; exit 7"],
    );
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str(), ran.code()),
        ("out\n0\n", "err\n", Some(7)),
        "{ran:?}"
    );
    // The exit status after a signal is that of a shell.
    let ran = service.run_words("daemon", "zlogin", &["-S", "web", "kill -KILL $$"]);
    assert_eq!(ran.code(), Some(137), "{ran:?}");
    let all: Vec<u8> = (0..=255u8).cycle().take(1 << 20).collect();
    let ran = run(
        &mut service.command("daemon", "zlogin", &["web", "cksum"]),
        &all,
    )
    .ok();
    assert_eq!(ran.out, run(&mut Command::new("cksum"), &all).ok().out);
    let ran = run(
        &mut service.command("daemon", "zlogin", &["-n", "web", "cat"]),
        b"x",
    )
    .ok();
    assert_eq!(ran.out, "");
    service.run("daemon", "zoneadm -z web reboot").quiet();
    service.run("daemon", "zoneadm -z web shutdown").quiet();
    assert_eq!(host.state("web"), "installed");
    service.run("daemon", "zoneadm -z web ready").quiet();
    service.run("daemon", "zoneadm -z web halt").quiet();
    let plan = service.run("daemon", "zoneadm -z web boot -n").ok();
    assert!(!plan.out.is_empty());
    assert_eq!(host.state("web"), "installed");
    service.run("daemon", "zoneadm -z web uninstall -F").quiet();
    assert_eq!(host.state("web"), "configured");
    // The present configuration decides, also in a session that began earlier.
    host.zonecfg(&["-z", "web", "remove -F admin"]).quiet();
    service.run("daemon", "zoneadm -z web install").says(
        1,
        "zoneadm: zone 'web': User daemon is not authorized to install this zone.",
    );
    let log = service.log();
    let line = |verb: &str, rest: &str| {
        let found = log.iter().any(|line| {
            line.starts_with(&format!("uid={} user=daemon pid=", uid("daemon")))
                && line.contains(&format!(" zone=web verb={verb} {rest}"))
        });
        assert!(found, "{verb} {rest}: {log:#?}");
    };
    for verb in ["boot", "reboot", "shutdown", "ready", "halt", "uninstall"] {
        line(verb, "granted");
        line(verb, "ended: exit status: 0");
    }
    line("command", "ended: exit status: 7");
    line("install", "refused: ");
}

#[test]
fn users_whom_nobody_names_have_nothing_and_it_is_logged() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("daemon", "login,manage,config"));
    let service = Service::start(&host);
    for (line, verb) in [
        ("zoneadm -z a boot", "boot"),
        ("zoneadm -z a halt", "halt"),
        ("zoneadm -z a uninstall -F", "uninstall"),
        ("zlogin a", "login"),
        ("zlogin -C a", "console"),
        ("zlogin a id", "command"),
        ("zonecfg -z a set autoboot=true", "config"),
    ] {
        let ran = service.run("games", line);
        assert_eq!((ran.code(), ran.out.as_str()), (Some(1), ""), "{ran:?}");
        let last = service.refusals("games").pop().unwrap();
        assert!(
            last.contains(&format!(" zone=a verb={verb} refused: ")),
            "{last}"
        );
    }
    // Commands without a need for rights work without the service.
    let before = service.log();
    let listed = service.run("games", "zoneadm list -cp").ok();
    assert!(listed.out.contains(":a:configured:"), "{listed:?}");
    let info = service.run("games", "zonecfg -z a info admin").ok();
    assert!(info.out.contains("user: daemon"), "{info:?}");
    service.run("games", "zonename").quiet();
    let export = service.run("daemon", "zonecfg -z a export").ok();
    assert!(export.out.contains("add admin"), "{export:?}");
    assert_eq!(service.log(), before);
}

#[test]
fn without_zoneauthd_users_are_told_to_ask_root() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("daemon", "login,manage,config"));
    let mut service = Service::start(&host);
    service.child.kill().unwrap();
    service.child.wait().unwrap();
    for (line, text) in [
        (
            "zoneadm -z a boot",
            "zoneadm: zone 'a': only a privileged user may boot a zone.",
        ),
        (
            "zlogin a",
            "zlogin: only a privileged user may log in to zone 'a'.",
        ),
    ] {
        let ran = service.run("daemon", line);
        assert!(ran.err.starts_with(text), "{ran:?}");
        ran.mentions(1, "zoneauthd");
    }
    let ran = service.run("daemon", "zonecfg -z a set autoboot=true");
    ran.mentions(1, "read-only mode");
    // A socket that another program has made at this path is not the service.
    let fake = service.root.join("run/zones/auth.sock");
    fs::remove_file(&fake).unwrap();
    fs::write(&fake, "").unwrap();
    let ran = service.run("daemon", "zoneadm -z a boot");
    ran.mentions(1, "only a privileged user");
    // The next service replaces the dead one, and is the only one.
    let service = Service::start(&host);
    let second = run(&mut host.command("zoneauthd", &[]), b"");
    second.mentions(1, "is served already");
    service
        .run("daemon", "zoneadm -z a halt")
        .mentions(1, "must be installed before halt.");
    // Not every user may start the service.
    service
        .run("daemon", "zoneauthd")
        .mentions(1, "must be run as root");
}

#[test]
fn a_clone_needs_its_source_too() {
    let Some(host) = Host::with_master() else {
        return;
    };
    for zone in ["c1", "c2"] {
        host.configure(zone, &admin("daemon", "manage"));
    }
    host.configure("source", &admin("daemon", "clonefrom"));
    host.on("source", &["clone", "master"]).quiet();
    let service = Service::start(&host);
    service.run("daemon", "zoneadm -z c1 clone master").says(
        1,
        "zoneadm: zone 'master': User daemon is not authorized to clone this zone.",
    );
    assert_eq!(host.state("c1"), "configured");
    service
        .run("daemon", "zoneadm -z c1 -z c2 clone source")
        .quiet();
    assert_eq!(
        (host.state("c1"), host.state("c2")),
        ("installed".into(), "installed".into())
    );
    service
        .run("daemon", "zoneadm -z c1 clone source -n")
        .mentions(1, "not expected here");
    service
        .run("daemon", "zoneadm -z source uninstall -F")
        .mentions(1, "not authorized");
    // The user answers a question at the terminal.
    let words = ["-z", "c1", "uninstall"];
    let mut terminal = Terminal::start(service.command("daemon", "zoneadm", &words));
    terminal.expect("Are you sure you want to uninstall zone c1 (y/[n])? ");
    terminal.types("y\r");
    assert_eq!(terminal.status(), 0);
    assert_eq!(host.state("c1"), "configured");
    // A glob selects all matching zones. Unless the user has rights for every one of them, none is
    // changed.
    service
        .run("daemon", "zoneadm -z c* uninstall -F")
        .mentions(1, "is already in state");
    assert_eq!(host.state("c2"), "configured");
}

#[test]
fn a_delegated_session_is_atomic_and_finds_a_lost_update() {
    let Some(host) = Host::new() else { return };
    host.configure("a", &admin("daemon", "config"));
    let service = Service::start(&host);
    let digest = service.run("daemon", "zonecfg -z a --digest").ok().out;
    let change = |digest: &str, value: &str| {
        let line = format!("zonecfg -z a --atomic --expect {digest} set autoboot={value}");
        service.run("daemon", &line)
    };
    change(digest.trim(), "true").quiet();
    change(digest.trim(), "false").mentions(1, "has another digest than expected");
    let line = "zonecfg -z a --atomic set autoboot=false; set limitpriv=default,sys_time";
    let words: Vec<&str> = line.splitn(5, ' ').skip(1).collect();
    let ran = service.run_words("daemon", "zonecfg", &words);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    let info = host.zonecfg(&["-z", "a", "info autoboot"]).ok().out;
    assert_eq!(info, "autoboot: true\n");
}
