//! A command, a zoneadmd or an init that dies or fails at any step loses no zone.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use e2e::{Host, Ran, Terminal, wait_for};

/// More steps than any plan has.
const MANY: usize = 64;

/// A tiny tree to install zones of brand lx from, in milliseconds.
fn tiny(host: &Host) -> String {
    let tree = host.path("/tiny");
    for name in ["sbin/init", "etc/hostname", "bin/sh"] {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    tree.to_string_lossy().into_owned()
}

/// The steps that a dry run prints.
fn plan(host: &Host, zone: &str, words: &[&str]) -> Vec<String> {
    let ran = host.on(zone, &[words, &["-n"]].concat()).ok();
    ran.out
        .lines()
        .skip(1)
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Expects an error that names a step of the plan.
#[track_caller]
fn names(ran: &Ran, step: &str) {
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(ran.err.contains(step), "no {step:?} in {ran:?}");
}

/// What must hold after a verb died or failed: the zone is there, in one of these
/// states, and uninstalling helps if it is incomplete.
#[track_caller]
fn mend(host: &Host, zone: &str, fault: &str, states: &[&str]) {
    let state = host.state(zone);
    assert!(
        states.contains(&state.as_str()),
        "{fault}: zone {zone} is {state}"
    );
    if state == "incomplete" {
        host.on(zone, &["boot"]).says(
            1,
            &format!("zoneadm: zone '{zone}': zone is incomplete; uninstall required."),
        );
        host.on(zone, &["uninstall", "-F"]).quiet();
    }
}

#[test]
fn install_killed_or_failed_at_every_step() {
    let Some(host) = Host::new() else { return };
    let tree = tiny(&host);
    let install = ["install", "-d", tree.as_str()];
    host.zonecfg(&["-z", "web", "create -t SUNWlx"]).quiet();
    let steps = plan(&host, "web", &install);
    for kind in ["kill", "fail"] {
        for step in 1..MANY {
            let fault = format!("install:{step}:{kind}");
            let ran = host.with_fault(&fault, "web", &install);
            if ran.code() == Some(0) {
                assert!(step > steps.len(), "{fault} did not strike");
                break;
            }
            if kind == "fail" {
                names(&ran, &steps[step - 1]);
                mend(&host, "web", &fault, &["configured", "incomplete"]);
            } else {
                assert!(ran.was_killed(), "{ran:?}");
                mend(
                    &host,
                    "web",
                    &fault,
                    &["configured", "incomplete", "installed"],
                );
            }
            if host.state("web") == "configured" {
                host.on("web", &install).quiet();
            }
            assert_eq!(host.state("web"), "installed", "{fault}");
            host.on("web", &["uninstall", "-F"]).quiet();
            assert!(!host.path("/zones/web").exists(), "{fault}");
        }
        assert_eq!(host.state("web"), "installed");
        host.on("web", &["uninstall", "-F"]).quiet();
    }
}

#[test]
fn install_of_a_sparse_zone_killed_when_it_is_populated() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    let populated = 1 + plan(&host, "web", &["install"])
        .iter()
        .position(|step| step.starts_with("install brand"))
        .unwrap();
    for step in [populated, populated + 1] {
        let fault = format!("install:{step}:kill");
        assert!(host.with_fault(&fault, "web", &["install"]).was_killed());
        assert_eq!(host.state("web"), "incomplete");
        mend(&host, "web", &fault, &["incomplete"]);
    }
    host.on("web", &["install"]).quiet();
    host.boot("web");
}

#[test]
fn clone_killed_or_failed_at_every_step() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.configure("web", "");
    let clone = ["clone", "master"];
    let steps = plan(&host, "web", &clone);
    for kind in ["kill", "fail"] {
        for step in 1..MANY {
            let fault = format!("clone:{step}:{kind}");
            let ran = host.with_fault(&fault, "web", &clone);
            if ran.code() == Some(0) {
                assert!(step > steps.len(), "{fault} did not strike");
                break;
            }
            if kind == "fail" {
                names(&ran, &steps[step - 1]);
                mend(&host, "web", &fault, &["configured", "incomplete"]);
            } else {
                assert!(ran.was_killed(), "{ran:?}");
                mend(
                    &host,
                    "web",
                    &fault,
                    &["configured", "incomplete", "installed"],
                );
            }
            // The origin is never the worse for it.
            assert_eq!(host.state("master"), "installed", "{fault}");
            if host.state("web") == "configured" {
                host.on("web", &clone).quiet();
            }
            host.boot("web");
            assert_eq!(host.sh("web", "hostname"), "web");
            host.halt("web");
            host.on("web", &["uninstall", "-F"]).quiet();
        }
        host.on("web", &["uninstall", "-F"]).quiet();
    }
}

#[test]
fn the_first_clone_of_an_origin_killed_at_every_step() {
    let Some(host) = Host::new() else { return };
    let tree = tiny(&host);
    // Each origin is new: cloning it begins with sealing its top.
    for step in 1..8 {
        let (origin, clone) = (format!("origin{step}"), format!("clone{step}"));
        for zone in [&origin, &clone] {
            host.zonecfg(&["-z", zone, "create -t SUNWlx"]).quiet();
        }
        host.on(&origin, &["install", "-d", &tree]).quiet();
        let fault = format!("clone:{step}:kill");
        let _ = host.with_fault(&fault, &clone, &["clone", &origin]);
        assert_eq!(host.state(&origin), "installed", "{fault}");
        mend(
            &host,
            &clone,
            &fault,
            &["configured", "incomplete", "installed"],
        );
        if host.state(&clone) == "configured" {
            host.on(&clone, &["clone", &origin]).quiet();
        }
        for zone in [&clone, &origin] {
            host.on(zone, &["mount"]).quiet();
            assert!(
                host.path("/zones").join(zone).join("lu/sbin/init").exists(),
                "{fault}"
            );
            host.on(zone, &["unmount"]).quiet();
        }
    }
}

#[test]
fn clones_that_configure_themselves_are_there_or_not() {
    let Some(host) = Host::with_master() else {
        return;
    };
    for kind in ["kill", "fail"] {
        for step in 1..MANY {
            let fault = format!("clone:{step}:{kind}");
            let words = ["clone", "--create", "master"];
            let ran = host.with_fault(&fault, "web[1-3]", &words);
            let done = ran.code() == Some(0);
            if !done {
                // Half a zone that nobody had configured is found by the next try.
                let _ = host.on("web[1-3]", &words);
                for row in host.rows() {
                    if row.state == "incomplete" {
                        host.on(&row.name, &["uninstall", "-F"]).quiet();
                    }
                    if host.state(&row.name) == "configured" {
                        host.on(&row.name, &words).quiet();
                    }
                }
            }
            for zone in ["web1", "web2", "web3"] {
                assert_eq!(host.state(zone), "installed", "{fault}");
            }
            host.on("web*", &["uninstall", "-F"]).quiet();
            for zone in ["web1", "web2", "web3"] {
                host.zonecfg(&["-z", zone, "delete -F"]).quiet();
            }
            if done {
                break;
            }
        }
    }
}

#[test]
fn uninstall_killed_or_failed_at_every_step() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.configure("web", "");
    for kind in ["kill", "fail"] {
        for step in 1..MANY {
            host.on("web", &["clone", "master"]).quiet();
            let steps = plan(&host, "web", &["uninstall"]);
            let fault = format!("uninstall:{step}:{kind}");
            let ran = host.with_fault(&fault, "web", &["uninstall", "-F"]);
            if ran.code() == Some(0) {
                assert!(step > steps.len(), "{fault} did not strike");
                assert_eq!(host.state("web"), "configured");
                break;
            }
            if kind == "fail" {
                names(&ran, &steps[step - 1]);
                mend(&host, "web", &fault, &["installed", "incomplete"]);
            } else {
                assert!(ran.was_killed(), "{ran:?}");
                mend(
                    &host,
                    "web",
                    &fault,
                    &["installed", "incomplete", "configured"],
                );
            }
            if host.state("web") == "installed" {
                host.on("web", &["uninstall", "-F"]).quiet();
            }
            assert_eq!(host.state("web"), "configured", "{fault}");
            assert!(!host.path("/zones/web").exists(), "{fault}");
        }
    }
}

#[test]
fn boot_killed_or_failed_at_every_step() {
    let Some(host) = Host::with_web() else { return };
    let steps = plan(&host, "web", &["boot"]);
    for kind in ["kill", "fail"] {
        let mut struck = 0;
        for step in 1..MANY {
            let fault = format!("boot:{step}:{kind}");
            let ran = host.with_fault(&fault, "web", &["boot"]);
            if ran.code() == Some(0) {
                host.halt("web");
                break;
            }
            struck = step;
            assert_eq!(ran.code(), Some(1), "{ran:?}");
            assert!(
                ran.err
                    .ends_with("zoneadm: zone 'web': call to zoneadmd failed\n"),
                "{ran:?}"
            );
            if kind == "fail" {
                // The last two are no steps of the plan: going on, and the end.
                let step = ran
                    .err
                    .split("could not ")
                    .nth(1)
                    .and_then(|text| text.split(": a fault").next());
                let known = step.is_some_and(|step| steps.iter().any(|one| one == step));
                assert!(
                    known || ran.err.contains("a fault was asked for"),
                    "{ran:?}"
                );
                assert_eq!(host.state("web"), "installed", "{fault}");
                assert!(
                    host.groups_of("web").is_empty(),
                    "{fault}: {:?}",
                    host.groups_of("web")
                );
            } else {
                // No process of a zone that is not running may be left, once the
                // kernel has delivered its signals.
                wait_for(&format!("end of the zone after {fault}"), || {
                    let running = host.state("web") == "running";
                    (running || host.inits_of("web").is_empty()).then_some(())
                });
            }
            let state = host.state("web");
            assert!(
                ["installed", "running"].contains(&state.as_str()),
                "{fault}: {state}"
            );
            assert_eq!(host.on("web", &["boot"]).code(), Some(0), "{fault}");
            assert_eq!(host.inits_of("web").len(), 1, "{fault}");
            assert_eq!(host.sh("web", "hostname"), "web");
            host.halt("web");
            assert!(host.groups_of("web").is_empty(), "{fault}");
        }
        assert!(struck >= 8, "only {struck} steps");
    }
}

#[test]
fn a_failed_boot_leaves_no_trace_on_uninstall() {
    let Some(host) = Host::with_web() else { return };
    for step in [2, 4, 7, 8, 12] {
        let ran = host.with_fault(&format!("boot:{step}:kill"), "web", &["boot"]);
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        host.on("web", &["uninstall", "-F"]).quiet();
        assert_eq!(
            host.groups_of("web"),
            [] as [std::path::PathBuf; 0],
            "step {step}"
        );
        host.on("web", &["clone", "master"]).quiet();
    }
}

#[test]
fn halt_killed_or_failed_in_zoneadmd() {
    let Some(host) = Host::with_web() else { return };
    // The fault waits in the zoneadmd that boots.
    host.with_fault("halt:1:kill", "web", &["boot"]).quiet();
    assert_eq!(host.on("web", &["halt"]).code(), Some(0));
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());

    host.with_fault("halt:1:fail", "web", &["boot"]).quiet();
    names(&host.on("web", &["halt"]), "a fault was asked for");
    let state = host.state("web");
    assert!(
        ["running", "shutting_down", "down"].contains(&state.as_str()),
        "{state}"
    );
    // Halt again: with a zoneadmd that knows of no fault it works.
    if let Some(pid) = host.zoneadmd("web") {
        host.kill(pid);
    }
    host.halt("web");
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());
    host.boot("web");
}

#[test]
fn mount_killed_at_every_step() {
    let Some(host) = Host::with_web() else { return };
    for step in 1..=2 {
        let ran = host.with_fault(&format!("mount:{step}:kill"), "web", &["mount"]);
        assert!(ran.was_killed(), "{ran:?}");
        assert_eq!(host.on("web", &["mount"]).code(), Some(0));
        assert!(host.path("/zones/web/lu/etc/hostname").exists());
        let ran = host.with_fault(&format!("unmount:{step}:kill"), "web", &["unmount"]);
        assert!(ran.was_killed(), "{ran:?}");
        assert_eq!(host.on("web", &["unmount"]).code(), Some(0));
        assert_eq!(host.state("web"), "installed");
        assert!(!host.path("/zones/web/lu").exists());
    }
    host.boot("web");
}

#[test]
fn a_zone_outlives_its_zoneadmd() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh("web", "setsid sleep 100000 >/dev/null 2>&1 </dev/null &");
    let kill_daemon = || host.kill(host.zoneadmd("web").expect("a zoneadmd"));
    let init = host.init_of("web");
    let id = host.row("web").id;

    kill_daemon();
    assert!(Path::new(&format!("/proc/{init}")).exists());
    assert_eq!(
        (host.state("web").as_str(), host.row("web").id),
        ("running", id)
    );
    assert_eq!(host.init_of("web"), init);

    kill_daemon_or_none(&host);
    assert_eq!(host.sh("web", "cat /proc/[0-9]*/comm | grep -c sleep"), "1");
    assert!(
        host.zoneadmd("web").is_some(),
        "zlogin brought no zoneadmd back"
    );

    // The new one has a console for the zone, and keeps its history.
    let mut console = Terminal::start(host.command("zlogin", &["-C", "web"]));
    console.expect("[Connected to zone 'web' console]");
    host.sh("web", "echo spoken >/dev/console");
    console.expect("spoken");
    drop(console);

    kill_daemon_or_none(&host);
    host.on("web", &["boot"])
        .says(0, "zoneadm: zone 'web': zone is already booted");
    assert!(
        host.zoneadmd("web").is_some(),
        "boot brought no zoneadmd back"
    );

    kill_daemon_or_none(&host);
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.sh("web", "hostname"), "web");

    kill_daemon_or_none(&host);
    host.on("web", &["shutdown"]).quiet();
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());

    host.boot("web");
    kill_daemon_or_none(&host);
    host.halt("web");
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());
}

fn kill_daemon_or_none(host: &Host) {
    if let Some(pid) = host.zoneadmd("web") {
        host.kill(pid);
    }
}

#[test]
fn an_adopted_zone_ends_by_itself_as_any_other() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    kill_daemon_or_none(&host);
    assert_eq!(host.state("web"), "running");
    let _ = host.zlogin(&["web", "kill -PWR 1"]);
    host.wait_for_state("web", "installed");
    wait_for("end of the groups", || {
        host.groups_of("web").is_empty().then_some(())
    });
}

#[test]
fn a_zone_whose_init_is_killed_is_halted() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh("web", "setsid sleep 100000 >/dev/null 2>&1 </dev/null &");
    host.kill(host.init_of("web"));
    host.wait_for_state("web", "installed");
    wait_for("end of the groups", || {
        host.groups_of("web").is_empty().then_some(())
    });
    host.boot("web");
}

#[test]
fn a_zone_that_died_with_its_zoneadmd_can_be_used_again() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    for again in [&["boot"][..], &["ready"], &["halt"], &["uninstall", "-F"]] {
        // First zoneadmd, so that nobody takes the zone down.
        host.kill(host.zoneadmd("web").expect("a zoneadmd"));
        host.kill(host.init_of("web"));
        assert_eq!(host.state("web"), "installed", "{again:?}");
        host.zlogin(&["web", "id"])
            .mentions(1, "login allowed only to running zones");
        assert_eq!(host.on("web", again).code(), Some(0), "{again:?}");
        match again[0] {
            "boot" => assert_eq!(host.sh("web", "hostname"), "web"),
            "ready" => host.boot("web"),
            "halt" => host.boot("web"),
            _ => assert_eq!(host.groups_of("web"), [] as [std::path::PathBuf; 0]),
        }
    }
}

#[test]
fn a_ready_zone_ends_with_its_zoneadmd() {
    let Some(host) = Host::with_web() else { return };
    host.on("web", &["ready"]).quiet();
    host.kill(host.zoneadmd("web").expect("a zoneadmd"));
    host.wait_for_state("web", "installed");
    host.boot("web");
    assert_eq!(host.sh("web", "hostname"), "web");
}

#[test]
fn zoneadm_killed_at_any_moment_of_a_boot() {
    let Some(host) = Host::with_web() else { return };
    for round in 0..12 {
        let mut command = host.command("zoneadm", &["-z", "web", "boot"]);
        let quiet = Stdio::null;
        let mut child = command
            .stdin(quiet())
            .stdout(quiet())
            .stderr(quiet())
            .spawn()
            .unwrap();
        // Not to wait for something: to hit each time another moment.
        std::thread::sleep(Duration::from_micros(700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it has begun goes on under its lock.
        let again = wait_for("turn of another command", || {
            let again = host.on("web", &["boot"]);
            (!again.err.contains("operation in progress")).then_some(again)
        });
        assert_eq!(again.code(), Some(0), "round {round}: {again:?}");
        assert_eq!(host.sh("web", "hostname"), "web", "round {round}");
        // What the killed one had begun is not there beside it.
        wait_for("one first process", || {
            (host.inits_of("web").len() == 1).then_some(())
        });
        host.halt("web");
        assert!(host.groups_of("web").is_empty(), "round {round}");
    }
}

#[test]
fn zoneadm_killed_while_it_waits_for_halt() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    for round in 0..8 {
        let mut command = host.command("zoneadm", &["-z", "web", "halt"]);
        let quiet = Stdio::null;
        let mut child = command
            .stdin(quiet())
            .stdout(quiet())
            .stderr(quiet())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(500 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let again = host.on("web", &["halt"]);
        assert_eq!(again.code(), Some(0), "round {round}: {again:?}");
        assert_eq!(host.state("web"), "installed");
        assert!(host.groups_of("web").is_empty(), "round {round}");
        host.boot("web");
    }
}

#[test]
fn a_damaged_state_file_is_told_and_loses_no_zone() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let path = host.path("/run/zones/web.state");
    let kept = fs::read(&path).unwrap();
    fs::write(&path, &kept[..kept.len() / 2]).unwrap();
    host.on("web", &["halt"]).mentions(1, "web.state");
    fs::write(&path, &kept).unwrap();
    host.halt("web");
}
