//! Tests zones-service, which boots zones when the host boots and shuts them down before the host
//! does.

use e2e::run::run;
use e2e::{Host, Ran, Terminal, wait_for};
use rustix::process::{Pid, Signal, kill_process};

fn service(host: &Host, words: &[&str]) -> Ran {
    run(&mut host.command("zones-service", words), b"")
}

#[track_caller]
fn set(host: &Host, zone: &str, commands: &str) {
    host.zonecfg(&["-z", zone, commands]).quiet();
}

/// An init that leaves a file when the zone is shut down in order.
fn mark_at_end(host: &Host, zone: &str) {
    host.put_program(
        zone,
        "etc/rc.zone",
        "#!/bin/sh\n[ \"$1\" != stop ] || echo orderly >/var/ended\n",
    );
}

fn ended_in_order(host: &Host, zone: &str) -> bool {
    host.top(zone).join("var/ended").exists()
}

/// An init without signal handlers: the kernel does not deliver such signals to a first process.
const DEAF: &str = "#!/bin/sh\nwhile :; do sleep 1000; done\n";

#[test]
fn zones_come_and_go_with_the_host() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web[1-5]");
    set(&host, "web1", "set autoboot=true; set boot-priority=low");
    set(&host, "web2", "set autoboot=true");
    set(&host, "web3", "set autoboot=true; set boot-priority=high");
    set(&host, "web5", "set autoshutdown=halt");
    for zone in ["web1", "web5"] {
        mark_at_end(&host, zone);
    }
    let planned = service(&host, &["start", "-n"]).ok();
    assert_eq!(
        planned.out,
        "start:\n  boot zone web3 (boot-priority high)\n  boot zone web2\n  boot zone web1 (boot-priority low)\n"
    );
    assert_eq!(host.zoneadm(&["list", "-n"]).ok().out, "");

    let started = service(&host, &["start"]).ok();
    assert_eq!(
        (started.out.as_str(), started.err.as_str()),
        (
            "zone 'web3': booted\nzone 'web2': booted\nzone 'web1': booted\nzones-service: start: 3 booted\n",
            ""
        )
    );
    let id = |zone: &str| host.row(zone).id.expect("a running zone");
    assert!(id("web3") < id("web2") && id("web2") < id("web1"));
    assert_eq!(host.state("web4"), "installed");
    // The second start finds nothing to do.
    let again = service(&host, &["start"]).ok();
    assert_eq!(again.text(), "zones-service: start: nothing to do");

    host.boot("web5");
    host.on("web4", &["ready"]).quiet();
    let planned = service(&host, &["stop", "-n", "-t", "200"]).ok();
    assert_eq!(
        planned.out,
        "stop within 200 s, by halt after 150 s:\n  shut down zone web1\n  shut down zone web2\n  shut down zone web3\n  halt zone web4\n  halt zone web5\n"
    );
    let stopped = service(&host, &["stop", "-t", "200"]).ok();
    assert_eq!(stopped.err, "");
    let last = stopped.out.lines().last();
    assert_eq!(last, Some("zones-service: stop: 3 shut down, 2 halted"));
    assert_eq!(host.zoneadm(&["list", "-n"]).ok().out, "");
    assert!(ended_in_order(&host, "web1"));
    assert!(!ended_in_order(&host, "web5"));
    let again = service(&host, &["stop"]).ok();
    assert_eq!(again.text(), "zones-service: stop: nothing to do");
}

#[test]
fn a_zone_that_does_not_boot_keeps_no_other_from_it() {
    let Some(host) = Host::with_master() else {
        return;
    };
    for zone in ["bad", "half", "web"] {
        host.clone_from("master", zone);
    }
    for zone in ["web", "bad", "half"] {
        set(&host, zone, "set autoboot=true");
    }
    set(
        &host,
        "bad",
        "set boot-priority=high; add attr; set name=init; set type=string; set value=/no/init; end",
    );
    host.on("half", &["mark", "incomplete"]).quiet();
    let started = service(&host, &["start"]);
    assert_eq!(host.state("web"), "running");
    assert_eq!(host.state("bad"), "installed");
    assert!(started.out.contains("zone 'web': booted\n"), "{started:?}");
    assert!(
        started
            .out
            .ends_with("zones-service: start: 1 booted, 2 failed\n"),
        "{started:?}"
    );
    assert!(
        started
            .err
            .contains("zones-service: zone 'half': zone is incomplete; uninstall required.\n"),
        "{started:?}"
    );
    started.mentions(1, "/no/init");

    let json = service(&host, &["stop", "-j"]).ok();
    assert!(
        json.out
            .starts_with("{\"action\":\"stop\",\"status\":0,\"still-up\":[],\"zones\":[{"),
        "{json:?}"
    );
    assert!(json.out.contains("\"result\":\"shut down\""), "{json:?}");
}

#[test]
fn a_zone_that_does_not_listen_is_halted() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "deaf");
    host.clone_from("master", "good");
    host.put_program("deaf", "etc/deaf", DEAF);
    mark_at_end(&host, "good");
    host.on("deaf", &["boot", "--", "-i", "/etc/deaf"]).quiet();
    host.boot("good");
    let stopped = service(&host, &["stop", "-t", "40"]).ok();
    assert_eq!(
        stopped.err,
        "zones-service: zone 'deaf': WARNING: was not down after 30 s, so it was halted\n"
    );
    assert!(
        stopped
            .out
            .ends_with("zones-service: stop: 1 shut down, 1 halted\n"),
        "{stopped:?}"
    );
    assert_eq!(host.zoneadm(&["list", "-n"]).ok().out, "");
    assert!(ended_in_order(&host, "good"));
}

#[test]
fn a_zone_that_cannot_be_ended_is_named() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "good");
    host.clone_from("master", "stuck");
    host.boot("good");
    host.boot("stuck");
    let daemon = host.zoneadmd("stuck").expect("a zoneadmd");
    let signal = |signal| {
        kill_process(Pid::from_raw(daemon).expect("a number"), signal).expect("a zoneadmd");
    };
    signal(Signal::STOP);
    let stopped = service(&host, &["stop", "-t", "20"]);
    signal(Signal::CONT);
    assert_eq!(host.state("good"), "installed");
    assert!(
        stopped
            .out
            .ends_with("zones-service: stop: 1 shut down, 1 failed, 1 still up\n"),
        "{stopped:?}"
    );
    assert!(
        stopped
            .err
            .ends_with("zones-service: zone 'stuck': is still up\n"),
        "{stopped:?}"
    );
    stopped.mentions(1, "zone 'stuck': was not down after 15 s; ");
    // The zone now reacts to the order.
    host.wait_for_state("stuck", "installed");
}

#[test]
fn start_repairs_zones_after_a_crash() {
    let Some(host) = Host::with_master() else {
        return;
    };
    for zone in ["dead", "orphan", "web"] {
        host.clone_from("master", zone);
        host.boot(zone);
    }
    set(&host, "web", "set autoboot=true");
    // This state is that after a power failure: all processes ended at once, and records are on the
    // disk.
    for zone in ["dead", "web"] {
        let init = host.init_of(zone);
        host.kill(host.zoneadmd(zone).expect("a zoneadmd"));
        host.kill(init);
    }
    host.kill(host.zoneadmd("orphan").expect("a zoneadmd"));
    assert!(host.path("run/zones/dead.state").exists());
    assert!(!host.groups_of("dead").is_empty());
    let started = service(&host, &["start"]).ok();
    assert_eq!(started.err, "");
    for line in [
        "zone 'dead': cleaned up after a crash\n",
        "zone 'orphan': has a zoneadmd again\n",
        "zone 'web': booted\n",
    ] {
        assert!(started.out.contains(line), "{started:?}");
    }
    assert!(!host.path("run/zones/dead.state").exists());
    assert!(host.groups_of("dead").is_empty());
    assert!(host.zoneadmd("orphan").is_some());
    assert_eq!(host.sh("orphan", "hostname"), "orphan");
    let stopped = service(&host, &["stop"]).ok();
    assert_eq!(
        stopped.text().lines().last(),
        Some("zones-service: stop: 2 shut down")
    );
}

#[test]
fn thirty_zones_at_once_and_a_terminal_that_shows_how_far_it_is() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web[1-30]");
    for number in 1..=30 {
        set(&host, &format!("web{number}"), "set autoboot=true");
    }
    let mut screen = Terminal::start(host.command("zones-service", &["start"]));
    screen.expect("start: 0 of 30, waiting for web");
    screen.expect("zones-service: start: 30 booted");
    assert_eq!(screen.status(), 0);
    assert_eq!(host.zoneadm(&["list", "-n"]).ok().out.lines().count(), 30);
    let stopped = service(&host, &["stop", "-t", "280"]).ok();
    assert_eq!(stopped.err, "");
    assert!(
        stopped.out.ends_with("zones-service: stop: 30 shut down\n"),
        "{stopped:?}"
    );
    assert_eq!(host.zoneadm(&["list", "-n"]).ok().out, "");
}

#[test]
fn a_command_that_holds_a_zone_is_waited_for() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // One second is longer than commands wait for each other's locks.
    let lock = std::fs::File::open(host.path("run/zones/web.zoneadm.lock")).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("the lock");
    let stopping = std::thread::scope(|scope| {
        let stopping = scope.spawn(|| service(&host, &["stop", "-t", "200"]));
        std::thread::sleep(std::time::Duration::from_secs(3));
        drop(lock);
        stopping.join().expect("an end")
    });
    assert_eq!(
        stopping.ok().text().lines().last(),
        Some("zones-service: stop: 1 shut down")
    );
}

#[test]
fn suspend_refuses_zones_without_a_kernel_of_their_own() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.on("web", &["suspend"]).says(
        1,
        "zoneadm: zone 'web': zones of brand native cannot be suspended: their processes are \
         the host's. Use shutdown to stop it in order, snapshot to keep its files, or a zone of \
         brand kz, which has a kernel of its own.",
    );
    assert_eq!(host.state("web"), "running");
    host.on("master", &["suspend"])
        .says(1, "zoneadm: zone 'master': not running");
    // A zone that cannot be suspended cannot have autoshutdown=suspend.
    host.zonecfg(&["-z", "web", "set autoshutdown=suspend; commit"])
        .mentions(1, "autoshutdown=suspend");
    wait_for("state running", || {
        (host.state("web") == "running").then_some(())
    });
}
