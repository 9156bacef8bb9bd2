//! Many zones and many commands at the same time.

use std::collections::BTreeSet;

use e2e::{Host, Ran, rounds};

/// Runs commands at the same time and returns the exit status of each.
fn together(count: usize, one: impl Fn(usize) -> Ran + Sync) -> Vec<Ran> {
    let one = &one;
    std::thread::scope(|scope| {
        let running: Vec<_> = (1..=count).map(|i| scope.spawn(move || one(i))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn thirty_zones_with_globs() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web[1-30]");
    host.on("web*", &["boot"]).quiet();
    let listed = host.zoneadm(&["list", "-n"]).ok();
    assert_eq!(listed.out.lines().count(), 30);
    let rows = host.rows();
    let ids: BTreeSet<u32> = rows.iter().filter_map(|row| row.id).collect();
    assert_eq!(ids.len(), 30, "{rows:?}");
    let uuids: BTreeSet<&str> = rows.iter().map(|row| row.uuid.as_str()).collect();
    assert_eq!(uuids.len(), 31);
    for i in [1, 7, 15, 30] {
        assert_eq!(host.sh(&format!("web{i}"), "hostname"), format!("web{i}"));
    }
    let ranges: BTreeSet<String> = (1..=30)
        .map(|i| {
            std::fs::read_to_string(format!(
                "/proc/{}/uid_map",
                host.init_of(&format!("web{i}"))
            ))
            .unwrap()
        })
        .collect();
    assert_eq!(ranges.len(), 30);
    host.on("web*", &["reboot"]).quiet();
    host.on("web*", &["halt"]).quiet();
    assert_eq!(host.zoneadm(&["list", "-n"]).ok().out, "");
    host.on("web*", &["uninstall", "-F"]).quiet();
    assert_eq!(host.zoneadm(&["list", "-in"]).ok().out, "master\n");
}

#[test]
fn commands_on_different_zones_do_not_disturb_each_other() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let names: Vec<String> = (0..=20).map(|i| format!("web{i}")).collect();
    for ran in together(20, |i| host.zonecfg(&["-z", &names[i], "create"])) {
        ran.quiet();
    }
    for ran in together(20, |i| host.on(&names[i], &["clone", "master"])) {
        ran.quiet();
    }
    for ran in together(20, |i| host.on(&names[i], &["boot"])) {
        ran.quiet();
    }
    for (i, ran) in together(20, |i| host.zlogin(&[&names[i], "hostname"]))
        .into_iter()
        .enumerate()
    {
        assert_eq!(ran.ok().text(), names[i + 1]);
    }
    let rows = host.rows();
    let ids: BTreeSet<u32> = rows.iter().filter_map(|row| row.id).collect();
    assert_eq!(ids.len(), 20, "{rows:?}");
    for ran in together(20, |i| host.on(&names[i], &["halt"])) {
        ran.quiet();
    }
    for ran in together(20, |i| host.on(&names[i], &["uninstall", "-F"])) {
        ran.quiet();
    }
    assert_eq!(
        host.rows()
            .iter()
            .filter(|row| row.state == "configured")
            .count(),
        20
    );
}

#[test]
fn commands_on_one_zone_take_turns_or_say_so() {
    let Some(host) = Host::with_web() else { return };
    let known = |ran: &Ran| {
        let line = ran.err.trim_end();
        matches!(
            (
                ran.code(),
                line.strip_prefix("zoneadm: zone 'web': ").unwrap_or(line)
            ),
            (
                Some(0),
                "" | "zone is already booted" | "zone is already halted"
            ) | (Some(1), "not running")
        ) || (ran.code() == Some(1)
            && line.contains("another zoneadm may have an operation in progress"))
    };
    for round in rounds(12) {
        let ran = together(6, |i| match i {
            1 | 4 => host.on("web", &["boot"]),
            2 | 5 => host.on("web", &["halt"]),
            3 => host.on("web", &["reboot"]),
            _ => host.zoneadm(&["list", "-cv"]),
        });
        for one in &ran {
            assert!(known(one), "round {round}: {one:?}");
        }
        let running = host.state("web") == "running";
        assert_eq!(
            host.inits_of("web").len(),
            usize::from(running),
            "round {round}"
        );
    }
    assert_eq!(host.on("web", &["boot"]).code(), Some(0));
    assert_eq!(host.sh("web", "hostname"), "web");
}

#[test]
fn a_zone_is_entered_while_it_comes_and_goes() {
    let Some(host) = Host::with_web() else { return };
    for _ in rounds(4) {
        let ran = together(6, |i| match i {
            1 => host.on("web", &["boot"]),
            6 => host.on("web", &["reboot"]),
            _ => host.zlogin(&["web", "hostname"]),
        });
        for one in &ran[1..5] {
            // The login succeeded, was killed with the zone, or got the message that the zone does
            // not run.
            let fine = one.text() == "web"
                || one.code() == Some(137)
                || one.err.contains("login allowed only");
            assert!(fine || one.err.contains("could not"), "{one:?}");
            assert!(!one.err.contains("panicked"), "{one:?}");
        }
        let _ = host.on("web", &["halt"]);
        assert_eq!(host.state("web"), "installed");
    }
}

#[test]
fn an_origin_is_cloned_by_many_commands_at_once() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    let names: Vec<String> = (0..=10).map(|i| format!("web{i}")).collect();
    // The origin is not sealed yet, so all clones want to seal it.
    for ran in together(10, |i| host.on(&names[i], &["clone", "--create", "master"])) {
        ran.quiet();
    }
    let layers = std::fs::read_dir(host.path("/zones/.layers")).unwrap();
    let layers = layers
        .flatten()
        .filter(|entry| entry.file_name() != ".dead");
    assert_eq!(layers.count(), 1);
    host.boot("web10");
    assert_eq!(host.sh("web10", "hostname"), "web10");
    host.halt("web10");
    // Clones and their origin are removed at the same time.
    let all = |i: usize| if i == 11 { "master" } else { names[i].as_str() };
    for ran in together(11, |i| host.on(all(i), &["uninstall", "-F"])) {
        ran.quiet();
    }
}

#[test]
fn a_caller_with_many_open_files_boots_like_any_other() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "web[1-6]");
    let program = host.command("zoneadm", &[]).get_program().to_owned();
    let mut shell = std::process::Command::new("bash");
    shell
        .arg("-c")
        .arg("for i in $(seq 10 90); do eval \"exec $i</dev/null\"; done; exec \"$ZONEADM\" -z 'web*' boot")
        .env("ZONEADM", program)
        .env("ZONES_ROOT", host.root())
        .env("ZONES_CGROUP", host.cgroup());
    e2e::run::run(&mut shell, b"").quiet();
    for i in 1..=6 {
        let zone = format!("web{i}");
        let open =
            std::fs::read_dir(format!("/proc/{}/fd", host.zoneadmd(&zone).unwrap())).unwrap();
        assert!(open.count() < 20, "zoneadmd holds what the caller had open");
        assert_eq!(host.sh(&zone, "hostname"), zone);
    }
}

#[test]
fn the_first_process_has_nothing_of_the_host_open() {
    let Some(host) = Host::with_web() else { return };
    for verbs in [&["boot"][..], &["ready", "boot"]] {
        for verb in verbs {
            host.on("web", &[verb]).quiet();
        }
        let folder = format!("/proc/{}/fd", host.init_of("web"));
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            let target = target.to_string_lossy();
            assert!(
                !target.starts_with(&*host.root().to_string_lossy()),
                "{target}"
            );
            assert!(
                !target.contains("/etc/") && !target.contains("cgroup"),
                "{target}"
            );
        }
        host.halt("web");
    }
}
