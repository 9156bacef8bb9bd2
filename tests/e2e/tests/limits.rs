//! Resource controls: set before init runs, felt in the zone and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::inside::{perl, syscall};
use e2e::{Host, wait_for};

/// A host with a zone `web` that has not booted; none where limits cannot be set:
/// below a v2 group with processes in it there are no controllers.
fn host() -> Option<Host> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let v1 = Path::new("/sys/fs/cgroup/pids").exists();
    if !v1 && own.trim() != "0::/" {
        e2e::skip("this session's control group has no controllers to hand down");
        return None;
    }
    Host::with_web()
}

/// The one of these files that a zone has, in whichever hierarchy.
fn knob(host: &Host, zone: &str, names: &[&str]) -> Option<PathBuf> {
    let groups = host.groups_of(zone);
    let own = groups.iter().filter(|group| group.ends_with(zone));
    own.flat_map(|group| names.iter().map(move |name| group.join(name)))
        .find(|path| path.exists())
}

/// What the kernel has in that file.
#[track_caller]
fn shown(host: &Host, zone: &str, names: &[&str]) -> String {
    let path = knob(host, zone, names).unwrap_or_else(|| panic!("none of {names:?}"));
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// How often something happened.
fn count(host: &Host, zone: &str, names: &[&str], key: &str) -> u64 {
    let text = shown(host, zone, names);
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {key} in {text}"))
}

fn messages(host: &Host, zone: &str) -> String {
    fs::read_to_string(host.path(&format!("/var/log/zones/{zone}.messages"))).unwrap_or_default()
}

fn set(host: &Host, zone: &str, commands: &str) {
    host.zonecfg(&["-z", zone, commands]).quiet();
}

#[test]
fn controls_are_planned_set_and_read_back() {
    let Some(host) = host() else { return };
    set(
        &host,
        "web",
        "set max-lwps=60; set cpu-shares=3; add capped-cpu; set ncpus=0.25; end; \
         add capped-memory; set physical=64M; set swap=96M; end",
    );
    let plan = host.on("web", &["boot", "-n"]).ok();
    for part in [
        "zone.cpu-cap=25",
        "zone.cpu-shares=3",
        "zone.max-physical-memory=64M",
        "zone.max-swap=96M",
        "zone.max-lwps=60",
    ] {
        assert!(plan.out.contains(part), "{part} in {plan:?}");
    }
    assert!(host.groups_of("web").is_empty(), "a dry run makes no group");
    host.boot("web");
    let v2 = knob(&host, "web", &["cpu.max"]).is_some();
    let expected = if v2 { "25000 100000" } else { "25000" };
    assert_eq!(
        shown(&host, "web", &["cpu.max", "cpu.cfs_quota_us"]),
        expected
    );
    let expected = if v2 { "3" } else { "30" };
    assert_eq!(shown(&host, "web", &["cpu.weight", "cpu.shares"]), expected);
    assert_eq!(
        shown(&host, "web", &["memory.max", "memory.limit_in_bytes"]),
        (64 << 20).to_string()
    );
    // v2 counts swap space alone. A kernel may account none at all.
    if let Some(path) = knob(&host, "web", &["memory.swap.max"]) {
        assert_eq!(fs::read_to_string(path).unwrap().trim(), "33554432");
    }
    if let Some(path) = knob(&host, "web", &["memory.memsw.limit_in_bytes"]) {
        assert_eq!(fs::read_to_string(path).unwrap().trim(), "100663296");
    }
    assert_eq!(shown(&host, "web", &["pids.max"]), "60");
    // A zone without any has one share and no limit.
    host.boot("master");
    let expected = if v2 { "1" } else { "10" };
    assert_eq!(
        shown(&host, "master", &["cpu.weight", "cpu.shares"]),
        expected
    );
    assert_eq!(shown(&host, "master", &["pids.max"]), "max");
    host.halt("master");
    // A new boot takes what is configured by then.
    set(&host, "web", "set max-lwps=50");
    assert_eq!(shown(&host, "web", &["pids.max"]), "60");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(shown(&host, "web", &["pids.max"]), "50");
}

#[test]
fn want_of_memory_kills_in_the_zone_only() {
    let Some(host) = host() else { return };
    set(
        &host,
        "web",
        "add capped-memory; set physical=64M; set swap=64M; end",
    );
    host.boot("master");
    host.boot("web");
    let hog = perl("my $x = \"x\" x (512<<20); print \"alive\";");
    let ran = host.zlogin(&["web", &hog]);
    assert!(!ran.out.contains("alive"), "{ran:?}");
    let kills = |zone: &str| {
        count(
            &host,
            zone,
            &["memory.events", "memory.oom_control"],
            "oom_kill ",
        )
    };
    assert!(kills("web") > 0);
    assert_eq!(kills("master"), 0);
    // As much again beside it, and the zone itself goes on.
    let much = perl("my $x = \"x\" x (128<<20); print \"alive\";");
    assert_eq!(host.sh("master", &much), "alive");
    assert_eq!(host.sh("web", "echo alive"), "alive");
    wait_for("word of the limit", || {
        messages(&host, "web")
            .contains("zone.max-physical-memory=64M was reached")
            .then_some(())
    });
    assert!(!messages(&host, "master").contains("reached"));
    host.halt("master");
}

#[test]
fn a_fork_bomb_stops_at_max_lwps() {
    let Some(host) = host() else { return };
    set(&host, "web", "set max-lwps=60");
    host.boot("master");
    host.boot("web");
    let bomb = perl(
        "my $n = 0; \
         while (defined(my $pid = fork)) { if (!$pid) { sleep 10000; exit } $n++ } \
         print \"$n $!\";",
    );
    // Without standard streams of ours in the children that stay.
    let ran = host.zlogin(&["web", &format!("{bomb} >/var/bomb </dev/null 2>/dev/null")]);
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let said = fs::read_to_string(host.top("web").join("var/bomb")).unwrap();
    let (number, why) = said.split_once(' ').unwrap();
    let number: u32 = number.parse().unwrap();
    assert!((10..60).contains(&number), "{said}");
    assert_eq!(why, "Resource temporarily unavailable");
    assert_eq!(host.sh("master", "echo alive"), "alive");
    assert!(count(&host, "web", &["pids.events"], "max ") > 0);
    assert_eq!(count(&host, "master", &["pids.events"], "max "), 0);
    wait_for("word of the limit", || {
        messages(&host, "web")
            .contains("zone.max-lwps=60 was reached")
            .then_some(())
    });
    // A zone that is full can still be ended.
    host.halt("web");
    host.halt("master");
}

#[test]
fn ipc_limits_hold_against_the_zones_root() {
    let Some(host) = host() else { return };
    set(
        &host,
        "web",
        "set max-shm-memory=1M; set max-shm-ids=2; set max-msg-ids=3; set max-sem-ids=4",
    );
    let plan = host.on("web", &["boot", "-n"]).ok();
    assert!(plan.out.contains("zone.max-shm-memory=1M"), "{plan:?}");
    let of_host = || fs::read_to_string("/proc/sys/kernel/sem").unwrap();
    let before = of_host();
    host.boot("web");
    assert_eq!(of_host(), before);
    let show = "cd /proc/sys/kernel; echo $(cat shmmax shmmni msgmni) $(cut -f4 sem)";
    assert_eq!(host.sh("web", show), "1048576 2 3 4");
    let segment = |bytes: u32| {
        // IPC_CREAT and a mode, no key.
        host.sh(
            "web",
            &syscall(libc::SYS_shmget, &format!("0, {bytes}, 01600")),
        )
    };
    assert_eq!(segment(2 << 20), "-1 Invalid argument");
    assert_ne!(segment(512 << 10).split(' ').next(), Some("-1"));
    // Together they would be too large, and then too many.
    assert_eq!(segment(768 << 10), "-1 No space left on device");
    assert_ne!(segment(4096).split(' ').next(), Some("-1"));
    assert_eq!(segment(4096), "-1 No space left on device");
    // Since Linux 6.9 the files belong to the zone's root.
    e2e::inside::all_fail(
        &host,
        "web",
        &[
            "echo 999999999 >/proc/sys/kernel/shmmax",
            "echo 999999999 >/proc/sys/kernel/shmall",
            "echo 1000 >/proc/sys/kernel/shmmni",
            "echo 1000 >/proc/sys/kernel/msgmni",
            "echo 250 32000 32 1000 >/proc/sys/kernel/sem",
            "unshare -Ur sh -c \"echo 1000 >/proc/sys/kernel/shmmni\"",
        ],
    );
    assert_eq!(host.sh("web", show), "1048576 2 3 4");
}

#[test]
fn locked_memory_is_limited_for_who_is_there_and_who_comes() {
    let Some(host) = host() else { return };
    set(
        &host,
        "web",
        "add capped-memory; set physical=256M; set locked=64K; end",
    );
    // Linux does it otherwise than Solaris, and that is said.
    host.on("web", &["boot"])
        .mentions(0, "zone 'web': WARNING: zone.max-locked-memory: ");
    wait_for("the same in the log", || {
        messages(&host, "web")
            .contains("WARNING: zone.max-locked-memory")
            .then_some(())
    });
    assert_eq!(host.sh("web", "ulimit -l"), "64");
    let of_init = host.sh("web", "grep \"Max locked\" /proc/1/limits");
    assert!(of_init.contains("65536"), "{of_init}");
    e2e::inside::all_fail(&host, "web", &["ulimit -l 128"]);
}

#[test]
fn numbers_that_linux_has_not_are_told() {
    let Some(host) = host() else { return };
    set(&host, "web", "set cpu-shares=60000");
    host.on("web", &["boot"])
        .mentions(0, "zone.cpu-shares: 60000 was asked for, ");
    assert_eq!(host.sh("web", "echo alive"), "alive");
}

#[test]
fn cpus_are_dedicated_or_the_zone_does_not_boot() {
    let Some(host) = host() else { return };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    set(&host, "web", "add dedicated-cpu; set ncpus=1000; end");
    let ran = host.on("web", &["boot"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(
        ran.err.contains("dedicated-cpu: 1000 CPUs are wanted"),
        "{ran:?}"
    );
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());
    if cpus < 2 {
        e2e::skip("there is only one CPU");
        return;
    }
    set(&host, "web", "select dedicated-cpu; set ncpus=1; end");
    host.on("web", &["boot"]).mentions(0, "dedicated-cpu: ");
    assert_eq!(host.sh("web", "nproc"), "1");
    assert_eq!(
        host.sh("web", "nproc </dev/null"),
        "1",
        "who comes later as well"
    );
    host.halt("web");
    assert!(host.groups_of("web").is_empty());
}
