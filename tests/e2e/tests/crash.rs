//! Tests that install, clone, uninstall and mount lose no zone if they are killed or fail at any
//! step.

use std::fs;
use std::time::Duration;

use e2e::{Host, Ran, rounds, start};

/// A number above the number of steps of every plan.
const MANY: usize = 64;

/// Makes a tiny tree, from which zones of brand lx can be installed in milliseconds.
fn tiny(host: &Host) -> String {
    let tree = host.path("/tiny");
    for name in ["sbin/init", "etc/hostname", "bin/sh"] {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    tree.to_string_lossy().into_owned()
}

/// Returns the steps that a dry run prints.
fn plan(host: &Host, zone: &str, words: &[&str]) -> Vec<String> {
    let ran = host.on(zone, &[words, &["-n"]].concat()).ok();
    ran.out
        .lines()
        .skip(1)
        .map(|line| line.trim().to_owned())
        .collect()
}

/// Checks that an error names a step of the plan.
#[track_caller]
fn names(ran: &Ran, step: &str) {
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(ran.err.contains(step), "no {step:?} in {ran:?}");
}

/// Checks the state after a verb was killed or failed: the zone exists, in one of these states, and
/// can be uninstalled if it is incomplete.
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

/// These files are left if zoneadmd is killed while it undoes a failed boot.
#[test]
fn a_zone_boots_in_groups_whose_processes_were_killed() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let groups = host.groups_of("web");
    let v2 = groups
        .iter()
        .find(|path| path.join("cgroup.kill").exists() && path.ends_with("web"))
        .unwrap();
    host.halt("web");
    fs::create_dir_all(v2.join("zone")).unwrap();
    fs::write(v2.join("cgroup.kill"), "1").unwrap();
    host.boot("web");
    assert_eq!(host.sh("web", "hostname"), "web");
}

#[test]
fn clones_of_a_command_killed_at_any_moment_are_finished_by_the_next() {
    let Some(host) = Host::with_web() else { return };
    let words = ["-z", "copy[1-12]", "clone", "--create", "web"];
    for round in rounds(6) {
        // The first step of a clone seals the origin's top.
        host.put("web", "etc/round", round.to_string());
        let mut child = start(&mut host.command("zoneadm", &words));
        std::thread::sleep(Duration::from_millis(round % 6 * 3));
        let _ = child.kill();
        let _ = child.wait();
        let _ = host.zoneadm(&words).ok();
        for n in 1..=12 {
            let zone = format!("copy{n}");
            assert_eq!(host.state(&zone), "installed", "round {round}");
            let name = fs::read_to_string(host.top(&zone).join("etc/hostname"));
            assert_eq!(name.unwrap().trim(), zone, "round {round}");
        }
        host.boot("copy7");
        assert_eq!(host.sh("copy7", "cat /etc/round"), round.to_string());
        host.halt("copy7");
        host.on("copy*", &["uninstall", "-F"]).quiet();
        for n in 1..=12 {
            host.zonecfg(&["-z", &format!("copy{n}"), "delete -F"])
                .quiet();
        }
    }
    // An interrupted seal leaves unused layers, until the host boots, or until:
    let _ = e2e::run::run(&mut host.command("zoneimg", &["prune"]), b"").ok();
}

/// A verb, and the states of its zone before and after it.
struct Trial<'a> {
    host: &'a Host,
    words: &'a [&'a str],
    before: &'a str,
    after: &'a str,
}

impl Trial<'_> {
    /// Runs the verb for zone `web` with a kill, and then with a failure, at its first, second, ...
    /// step, until the verb succeeds. `begin` prepares the zone, and `finish` checks the result and
    /// the result of a second try.
    fn at_every_step(&self, begin: impl Fn(), finish: impl Fn(&str)) {
        for kind in ["kill", "fail"] {
            for step in 1..MANY {
                begin();
                let steps = plan(self.host, "web", self.words);
                let fault = format!("{}:{step}:{kind}", self.words[0]);
                let ran = self.host.with_fault(&fault, "web", self.words);
                let done = ran.code() == Some(0);
                if done {
                    assert!(step > steps.len(), "{fault} did not strike");
                    assert_eq!(self.host.state("web"), self.after);
                } else if kind == "fail" {
                    names(&ran, &steps[step - 1]);
                    mend(self.host, "web", &fault, &[self.before, "incomplete"]);
                } else {
                    assert!(ran.was_killed(), "{ran:?}");
                    let states = [self.before, "incomplete", self.after];
                    mend(self.host, "web", &fault, &states);
                }
                finish(&fault);
                if done {
                    break;
                }
            }
        }
    }
}

#[test]
fn install_killed_or_failed_at_every_step() {
    let Some(host) = Host::new() else { return };
    let tree = tiny(&host);
    host.zonecfg(&["-z", "web", "create -t SUNWlx"]).quiet();
    let trial = Trial {
        host: &host,
        words: &["install", "-d", &tree],
        before: "configured",
        after: "installed",
    };
    trial.at_every_step(
        || {},
        |fault| {
            if host.state("web") == "configured" {
                host.on("web", trial.words).quiet();
            }
            assert_eq!(host.state("web"), "installed", "{fault}");
            host.on("web", &["uninstall", "-F"]).quiet();
            assert!(!host.path("/zones/web").exists(), "{fault}");
        },
    );
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
    let trial = Trial {
        host: &host,
        words: &["clone", "master"],
        before: "configured",
        after: "installed",
    };
    trial.at_every_step(
        || {},
        |fault| {
            // The origin is unchanged in every case.
            assert_eq!(host.state("master"), "installed", "{fault}");
            if host.state("web") == "configured" {
                host.on("web", trial.words).quiet();
            }
            host.boot("web");
            assert_eq!(host.sh("web", "hostname"), "web");
            host.halt("web");
            host.on("web", &["uninstall", "-F"]).quiet();
        },
    );
}

#[test]
fn the_first_clone_of_an_origin_killed_at_every_step() {
    let Some(host) = Host::new() else { return };
    let tree = tiny(&host);
    // Each origin is new, so the first step of its clone seals its top.
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
                // The same command again completes the work.
                let _ = host.on("web[1-3]", &words).ok();
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
    let trial = Trial {
        host: &host,
        words: &["uninstall", "-F"],
        before: "installed",
        after: "configured",
    };
    trial.at_every_step(
        || host.on("web", &["clone", "master"]).quiet(),
        |fault| {
            if host.state("web") == "installed" {
                host.on("web", trial.words).quiet();
            }
            assert_eq!(host.state("web"), "configured", "{fault}");
            assert!(!host.path("/zones/web").exists(), "{fault}");
        },
    );
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
