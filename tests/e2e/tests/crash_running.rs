//! Tests that a zoneadm, zoneadmd or init that is killed or fails at any moment of a zone's active
//! life loses no zone and leaves nothing.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use e2e::{Host, Terminal, rounds, wait_for};

/// A number above the number of steps of every plan.
const MANY: usize = 64;

/// Returns the steps that a dry run prints.
fn plan(host: &Host, zone: &str, words: &[&str]) -> Vec<String> {
    let ran = host.on(zone, &[words, &["-n"]].concat()).ok();
    ran.out
        .lines()
        .skip(1)
        .map(|line| line.trim().to_owned())
        .collect()
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
                // The last two positions are not steps of the plan: the continuation, and the end.
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
                // Checks that no process of an inactive zone is left, after the kernel has
                // delivered its signals.
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
    // The fault is in the zoneadmd that boots.
    host.with_fault("halt:1:kill", "web", &["boot"]).quiet();
    assert_eq!(host.on("web", &["halt"]).code(), Some(0));
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());

    host.with_fault("halt:1:fail", "web", &["boot"]).quiet();
    host.on("web", &["halt"])
        .mentions(1, "a fault was asked for");
    let state = host.state("web");
    assert!(
        ["running", "shutting_down", "down"].contains(&state.as_str()),
        "{state}"
    );
    // The second halt has a zoneadmd without a fault, and succeeds.
    if let Some(pid) = host.zoneadmd("web") {
        host.kill(pid);
    }
    host.halt("web");
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());
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
    // The shell and setsid may not have started sleep yet.
    wait_for("sleep in the zone", || {
        let sleeps = host.sh("web", "cat /proc/[0-9]*/comm | grep -c sleep || true");
        (sleeps == "1").then_some(())
    });
    assert!(
        host.zoneadmd("web").is_some(),
        "zlogin brought no zoneadmd back"
    );

    // The new zoneadmd has a console for the zone, and keeps the console history.
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
        // zoneadmd is killed first, so that no process tears the zone down.
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
    for round in rounds(12) {
        let mut command = host.command("zoneadm", &["-z", "web", "boot"]);
        let quiet = Stdio::null;
        command.stdin(quiet()).stdout(quiet()).stderr(quiet());
        let mut child = e2e::start(&mut command);
        // This pause is not for an event: it makes each round hit another moment.
        std::thread::sleep(Duration::from_micros(700 * (round % 24)));
        child.kill().unwrap();
        child.wait().unwrap();
        // A process that the killed command started continues under its lock.
        let again = wait_for("turn of another command", || {
            let again = host.on("web", &["boot"]);
            (!again.err.contains("operation in progress")).then_some(again)
        });
        assert_eq!(again.code(), Some(0), "round {round}: {again:?}");
        assert_eq!(host.sh("web", "hostname"), "web", "round {round}");
        // No unfinished file of the killed command is left.
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
    for round in rounds(8) {
        let mut command = host.command("zoneadm", &["-z", "web", "halt"]);
        let quiet = Stdio::null;
        command.stdin(quiet()).stdout(quiet()).stderr(quiet());
        let mut child = e2e::start(&mut command);
        std::thread::sleep(Duration::from_micros(500 * (round % 16)));
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
