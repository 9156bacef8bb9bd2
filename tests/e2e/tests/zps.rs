//! Tests `zps`, which shows processes and their zones.

use e2e::run::run;
use e2e::{Host, Ran, rounds, wait_for};

fn zps(host: &Host, words: &[&str]) -> Ran {
    run(&mut host.command("zps", words), b"")
}

/// A host with running zones `web` and `db`, each with one process of the test.
fn two_zones() -> Option<Host> {
    let host = Host::with_running_web()?;
    host.clone_from("master", "db");
    host.boot("db");
    for zone in ["web", "db"] {
        host.sh(
            zone,
            &format!("bash -c 'exec -a mark-{zone} sleep 1000' >/dev/null 2>&1 &"),
        );
        wait_for("process in the zone", || {
            let ran = zps(&host, &["-z", zone, "-o", "args="]);
            ran.out.contains(&format!("mark-{zone}")).then_some(())
        });
    }
    Some(host)
}

fn pid_of(host: &Host, zone: &str) -> i32 {
    let ran = zps(host, &["-z", zone, "-o", "pid=,args="]).ok();
    let mark = format!("mark-{zone} ");
    let line = ran.out.lines().find(|line| line.contains(&mark));
    let pid = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    pid.unwrap_or_else(|| panic!("no {mark} in {ran:?}"))
}

#[test]
fn the_processes_of_a_zone_and_of_no_other() {
    let Some(host) = two_zones() else { return };
    let of_web = zps(&host, &["-z", "web", "-o", "zone=,args="]).ok();
    assert!(of_web.out.lines().all(|line| line.starts_with("web ")));
    assert!(of_web.out.contains("mark-web"), "{of_web:?}");
    assert!(!of_web.out.contains("mark-db"), "{of_web:?}");

    let init: i32 = host.init_of("web");
    let pids = zps(&host, &["-z", "web", "-o", "pid="]).ok().out;
    let pids: Vec<i32> = pids
        .lines()
        .map(|pid| pid.trim().parse().unwrap())
        .collect();
    assert!(pids.contains(&init), "{init} in {pids:?}");
    assert!(pids.contains(&pid_of(&host, "web")));
    // The processes of the host that serve a zone are not in the zone.
    let zoneadmd = host.zoneadmd("web").expect("a zoneadmd").to_string();
    let zone_of = |pid: &str| {
        zps(&host, &["-p", pid, "-o", "zone="])
            .ok()
            .text()
            .to_owned()
    };
    assert_eq!(zone_of(&zoneadmd), "global");
    assert_eq!(zone_of(&std::process::id().to_string()), "global");
    assert_eq!(zone_of(&pid_of(&host, "db").to_string()), "db");

    let both = zps(&host, &["-z", "web,db", "-Zf"]).ok();
    assert!(both.out.starts_with("ZONE UID"), "{both:?}");
    assert!(both.out.contains("mark-web") && both.out.contains("mark-db"));
    let all = zps(&host, &["-ef"]).ok();
    for word in ["ZONE", "mark-web", "mark-db", "zoneadmd"] {
        assert!(all.out.contains(word), "{word}");
    }
    // The host also shows the processes of zones that other tests run.
    let global = zps(&host, &["-z", "global", "-o", "pid="]).ok().out;
    let is_there = |pid: &str| global.lines().any(|line| line.trim() == pid);
    assert!(is_there(&zoneadmd));
    assert!(!is_there(&pid_of(&host, "web").to_string()));
}

#[test]
fn zones_by_glob_range_and_id_and_those_that_are_none() {
    let Some(host) = two_zones() else { return };
    let zones = |selection: &[&str]| -> Vec<String> {
        let ran = zps(&host, &[selection, &["-o", "zone="]].concat());
        let mut zones: Vec<String> = ran.out.lines().map(|line| line.trim().to_owned()).collect();
        zones.sort_unstable();
        zones.dedup();
        zones
    };
    let id = host.row("db").id.expect("an id").to_string();
    assert_eq!(zones(&["-z", "w*"]), ["web"]);
    assert_eq!(zones(&["-z", &id]), ["db"]);
    assert_eq!(zones(&["-z", "web", "-z", "db"]), ["db", "web"]);
    assert_eq!(zones(&["-z", "0,web"]), ["global", "web"]);

    zps(&host, &["-z", "nobody"]).says(1, "zps: unknown zone 'nobody'");
    zps(&host, &["-z", "web,nobody*"]).says(1, "zps: unknown zone 'nobody*'");
    zps(&host, &["-z", "99999"]).says(1, "zps: unknown zone '99999'");
    zps(&host, &["-x"]).mentions(2, "usage: zps");
    zps(&host, &["-o", "pid,nonsense"]).mentions(2, "no column 'nonsense'");
    // A zone that does not run has no processes: no message, but exit status 1.
    let none = zps(&host, &["-z", "master", "-o", "pid,args"]);
    assert_eq!(
        (none.code(), none.text(), none.err.as_str()),
        (Some(1), "PID COMMAND", "")
    );
    let elsewhere = pid_of(&host, "db").to_string();
    assert_eq!(zps(&host, &["-z", "web", "-p", &elsewhere]).code(), Some(1));
}

#[test]
fn ids_are_those_of_the_zone() {
    let Some(host) = two_zones() else { return };
    let pid = pid_of(&host, "web").to_string();
    let show = |columns: &str| {
        zps(&host, &["-p", &pid, "-o", columns])
            .ok()
            .text()
            .to_owned()
    };
    assert_eq!(show("user= uid= ruid="), "root 0 0");
    assert_ne!(show("hostuid="), "0");
    let inner = show("zpid=");
    assert_eq!(host.sh("web", &format!("cat /proc/{inner}/comm")), "sleep");
    assert_eq!(show("comm="), "sleep");

    let text = zps(&host, &["-z", "web,global", "-j"]).ok().out;
    let list: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let one = list
        .iter()
        .find(|one| one["pid"].as_i64() == pid.parse().ok())
        .unwrap();
    assert_eq!(one["zone"], "web");
    assert_eq!(one["zone_pid"].to_string(), inner);
    assert_eq!(one["user"], "root");
    assert_eq!(one["tty"], serde_json::Value::Null);
    assert!(list.iter().any(|one| one["zone"] == "global"));
}

#[test]
fn zps_in_a_zone_shows_only_that_zone() {
    let Some(host) = Host::with_web() else { return };
    let program = host.command("zps", &[]).get_program().to_owned();
    e2e::copy_program(program, host.put("web", "root/zps", ""));
    host.boot("web");
    let list = host.sh("web", "/root/zps -o zone=,pid=,args=");
    assert!(list.lines().all(|line| line.starts_with("web ")), "{list}");
    assert!(list.contains("/root/zps"), "{list}");
    assert!(
        list.lines()
            .any(|line| line.split_whitespace().nth(1) == Some("1")),
        "{list}"
    );
    assert_eq!(host.sh("web", "/root/zps -z web -p 1 -o zone="), "web");
    host.zlogin(&["web", "/root/zps -z global"])
        .says(1, "zps: unknown zone 'global'");
}

/// A process chooses its own name, which the host's administrator sees.
#[test]
fn zps_escapes_control_characters_of_process_names() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh(
        "web",
        "perl -e '$0 = \"x\\e[2Jy\\nroot 1 fake\\r\"; sleep 1000' >/dev/null 2>&1 &",
    );
    wait_for("process with an odd name", || {
        let ran = zps(&host, &["-z", "web", "-o", "args=,comm="]);
        assert!(!ran.out.contains(['\u{1b}', '\r']), "{ran:?}");
        assert!(!ran.out.lines().any(|line| line.starts_with("root 1 fake")));
        ran.out.contains("x?[2Jy?root 1 fake?").then_some(())
    });
}

/// Processes and zones start and end while zps reads /proc.
#[test]
fn zones_that_go_are_no_error() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            for _ in rounds(5) {
                host.halt("web");
                host.boot("web");
            }
        });
        while !work.is_finished() {
            let ran = zps(&host, &["-z", "web,global", "-o", "zone="]).ok();
            assert_eq!(ran.err, "");
            assert!(ran.out.contains("global"));
        }
        work.join().unwrap();
    });
}
