//! Tests resource controls: they are set before init runs, and limit only their zone.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::inside::{perl, syscall};
use e2e::{Host, wait_for};

/// Returns a host with a zone `web` that has not booted, or `None` if limits cannot be set: a v2
/// group with processes in it passes no controllers down.
fn host() -> Option<Host> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let v1 = Path::new("/sys/fs/cgroup/pids").exists();
    if !v1 && own.trim() != "0::/" {
        e2e::skip("this session's control group has no controllers to hand down");
        return None;
    }
    Host::with_web()
}

/// Returns the first of these files that the zone's groups have, in any hierarchy.
fn knob(host: &Host, zone: &str, names: &[&str]) -> Option<PathBuf> {
    let groups = host.groups_of(zone);
    let own = groups.iter().filter(|group| group.ends_with(zone));
    own.flat_map(|group| names.iter().map(move |name| group.join(name)))
        .find(|path| path.exists())
}

/// Returns the content of the kernel's file.
#[track_caller]
fn shown(host: &Host, zone: &str, names: &[&str]) -> String {
    let path = knob(host, zone, names).unwrap_or_else(|| panic!("none of {names:?}"));
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// Returns the count of an event.
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
    let expected = if v2 { "300" } else { "3072" };
    assert_eq!(shown(&host, "web", &["cpu.weight", "cpu.shares"]), expected);
    assert_eq!(
        shown(&host, "web", &["memory.max", "memory.limit_in_bytes"]),
        (64 << 20).to_string()
    );
    // v2 counts swap space separately. Some kernels do not account swap at all.
    if let Some(path) = knob(&host, "web", &["memory.swap.max"]) {
        assert_eq!(fs::read_to_string(path).unwrap().trim(), "33554432");
    }
    if let Some(path) = knob(&host, "web", &["memory.memsw.limit_in_bytes"]) {
        assert_eq!(fs::read_to_string(path).unwrap().trim(), "100663296");
    }
    assert_eq!(shown(&host, "web", &["pids.max"]), "60");
    // A zone without controls has one share and no limit.
    host.boot("master");
    let expected = if v2 { "100" } else { "1024" };
    assert_eq!(
        shown(&host, "master", &["cpu.weight", "cpu.shares"]),
        expected
    );
    assert_eq!(shown(&host, "master", &["pids.max"]), "max");
    host.halt("master");
    // The next boot uses the controls that are configured then.
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
    // Another process uses the same amount again and is killed, and the zone itself keeps running.
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
    // The background processes must not keep the test's standard streams open.
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
    // A zone that is at its limit can still be halted.
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
        // The flags are IPC_CREAT and a mode, and there is no key.
        host.sh(
            "web",
            &syscall(libc::SYS_shmget, &format!("0, {bytes}, 01600")),
        )
    };
    assert_eq!(segment(2 << 20), "-1 Invalid argument");
    assert_ne!(segment(512 << 10).split(' ').next(), Some("-1"));
    // The segments together exceed first the size limit, and then the number limit.
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
    // Linux differs from Solaris here, and a message says so.
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

/// Returns the CPUs on which the first process of a zone may run, as the kernel reports them.
fn cpus_of(host: &Host, zone: &str) -> String {
    host.sh(zone, "sed -n \"s/^Cpus_allowed_list:.//p\" /proc/1/status")
}

fn online() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn other_zones_are_kept_off_dedicated_cpus_until_they_are_given_back() {
    let Some(host) = host() else { return };
    if online() < 2 {
        e2e::skip("there is only one CPU");
        return;
    }
    host.clone_from("master", "late");
    host.boot("master");
    let all = cpus_of(&host, "master");
    set(&host, "web", "add dedicated-cpu; set ncpus=1; end");
    let _ = host.on("web", &["boot"]).ok();
    let own = cpus_of(&host, "web");
    assert!(own.parse::<u32>().is_ok(), "{own}");
    let is_off = |zone: &str| {
        // Every process of the zone is bound: the present ones and new ones.
        let said = host.sh(
            zone,
            "cat /proc/[0-9]*/status | sed -n \"s/^Cpus_allowed_list:.//p\"",
        );
        let sets: std::collections::BTreeSet<&str> = said.lines().collect();
        assert_eq!(sets.len(), 1, "{zone}: {said}");
        assert!(
            !includes(sets.first().unwrap(), &own),
            "{zone}: {said} and {own}"
        );
    };
    is_off("master");
    host.boot("late");
    is_off("late");
    // No CPU is left for another zone with dedicated CPUs.
    if online() == 2 {
        set(&host, "late", "add dedicated-cpu; set ncpus=1; end");
        let ran = host.on("late", &["reboot"]);
        assert!(
            ran.err
                .contains("dedicated-cpu: 1 CPU is wanted, and 0 are free"),
            "{ran:?}"
        );
        set(&host, "late", "remove dedicated-cpu");
        host.boot("late");
    }
    // A zone whose zoneadmd and processes are killed also releases its CPUs.
    let state = fs::read_to_string(host.path("/run/zones/web.state")).unwrap();
    let number = |key: &str| -> i32 {
        let part = state
            .split(&format!("\"{key}\":{{\"pid\":"))
            .nth(1)
            .unwrap();
        part.split(',').next().unwrap().parse().unwrap()
    };
    for pid in [number("daemon"), number("init")] {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    wait_for("the end of the zone", || {
        (host.state("web") == "installed").then_some(())
    });
    set(&host, "web", "remove dedicated-cpu");
    host.on("web", &["boot"]).quiet();
    assert_eq!(cpus_of(&host, "web"), all);
    assert_eq!(cpus_of(&host, "late"), all);
    // A running zone can get dedicated CPUs and release them.
    set(&host, "web", "add dedicated-cpu; set ncpus=1; end");
    let _ = host.on("web", &["apply"]).ok();
    assert_eq!(cpus_of(&host, "web"), own);
    is_off("late");
    host.halt("web");
    assert_eq!(cpus_of(&host, "late"), all);
    assert_eq!(cpus_of(&host, "master"), all);
    host.halt("late");
    host.halt("master");
    for zone in ["web", "late", "master"] {
        assert!(host.groups_of(zone).is_empty());
    }
}

/// Returns true if a list of CPUs contains this CPU.
fn includes(list: &str, cpu: &str) -> bool {
    let cpu: u32 = cpu.parse().unwrap();
    list.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        (first.parse().unwrap()..=last.parse::<u32>().unwrap()).contains(&cpu)
    })
}

#[test]
fn a_pool_has_cpus_that_only_its_zones_share() {
    let Some(host) = host() else { return };
    set(&host, "web", "set pool=batch");
    // An unknown pool counts as the default pool.
    host.on("web", &["boot"])
        .mentions(0, "pool: there is no pool batch");
    host.halt("web");
    fs::write(host.path("/etc/zones/pools"), "batch cpus=x\n").unwrap();
    let ran = host.on("web", &["boot"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    assert!(
        ran.err
            .contains("/etc/zones/pools: line 1: cpus=x: expected"),
        "{ran:?}"
    );
    if online() < 2 {
        e2e::skip("there is only one CPU");
        return;
    }
    fs::write(
        host.path("/etc/zones/pools"),
        "# of this host\nbatch ncpus=1 importance=5\n",
    )
    .unwrap();
    host.clone_from("master", "second");
    set(&host, "second", "set pool=batch");
    host.boot("master");
    let all = cpus_of(&host, "master");
    for zone in ["web", "second"] {
        host.on(zone, &["boot"]).mentions(0, "pool: ");
    }
    let own = cpus_of(&host, "web");
    assert!(own.parse::<u32>().is_ok(), "{own}");
    assert_eq!(cpus_of(&host, "second"), own);
    assert!(!includes(&cpus_of(&host, "master"), &own));
    let shown = host.on("web", &["rctl", "-p"]).ok();
    let line = format!("web:pool:privileged:batch:none:cpus[{own}]::");
    assert!(shown.out.contains(&line), "{line} in {shown:?}");
    host.halt("web");
    assert!(!includes(&cpus_of(&host, "master"), &own));
    host.halt("second");
    assert_eq!(cpus_of(&host, "master"), all);
    host.halt("master");
}

#[test]
fn the_global_zone_has_shares_beside_those_of_all_zones() {
    let Some(host) = host() else { return };
    set(&host, "web", "set cpu-shares=3");
    host.boot("web");
    let weight = || {
        let group = knob(&host, "web", &["cpu.weight", "cpu.shares"]).unwrap();
        let name = group.file_name().unwrap().to_owned();
        let base = group.parent().and_then(Path::parent).unwrap().join(name);
        let text = fs::read_to_string(base).unwrap();
        text.trim().parse::<u64>().unwrap()
    };
    let usual = weight();
    host.zonecfg(&["-z", "global", "set cpu-shares=2"]).quiet();
    host.zoneadm(&["-z", "global", "apply"]).quiet();
    assert_eq!(weight(), usual * 3 / 2);
    // One more zone runs, with one share.
    host.boot("master");
    assert_eq!(weight(), usual * 4 / 2);
    host.halt("master");
    assert_eq!(weight(), usual * 3 / 2);
    set(&host, "web", "set cpu-shares=10");
    let _ = host.on("web", &["apply"]).ok();
    assert_eq!(weight(), usual * 10 / 2);
    // Controls that have no effect on the global zone are reported.
    host.zonecfg(&["-z", "global", "clear cpu-shares"]).quiet();
    host.zoneadm(&["-z", "global", "apply"]).quiet();
    assert_eq!(weight(), usual);
}

#[test]
fn controls_are_listed_with_what_holds_what_is_used_and_hits() {
    let Some(host) = host() else { return };
    set(
        &host,
        "web",
        "set max-lwps=40; set max-shm-ids=5; set cpu-shares=7; \
         add capped-memory; set physical=64M; set swap=64M; end",
    );
    let fields = |control: &str| -> Vec<String> {
        let shown = host.on("web", &["rctl", "-p"]).ok();
        let mut lines = shown.out.lines();
        let line = lines.find_map(|line| line.strip_prefix(&format!("web:{control}:")));
        let line = line.unwrap_or_else(|| panic!("no {control} in {shown:?}"));
        line.split(':').map(str::to_owned).collect()
    };
    // For a halted zone, the configured controls are shown.
    assert_eq!(
        fields("zone.max-lwps"),
        ["privileged", "40", "deny", "", "", ""]
    );
    assert_eq!(fields("zone.cpu-cap"), [""; 6]);
    host.boot("web");
    let lwps = fields("zone.max-lwps");
    assert_eq!(lwps[..4], ["privileged", "40", "deny", "40"]);
    assert!(lwps[4].parse::<u64>().unwrap() > 0);
    assert_eq!(lwps[5], "0");
    assert_eq!(fields("zone.cpu-shares")[3], "7");
    assert_eq!(
        fields("zone.max-physical-memory")[3],
        (64 << 20).to_string()
    );
    assert_eq!(fields("zone.max-shm-ids")[3..5], ["5", "0"]);
    let segment = syscall(libc::SYS_shmget, "0, 8192, 01600");
    assert_ne!(host.sh("web", &segment).split(' ').next(), Some("-1"));
    assert_eq!(fields("zone.max-shm-ids")[3..5], ["5", "1"]);
    assert_eq!(fields("zone.max-shm-memory")[4], "8192");
    let bomb = perl(
        "my $n = 0; while ($n < 100 && defined(my $pid = fork)) { if (!$pid) { sleep 10000; exit } $n++ } print $n;",
    );
    let _ = host.zlogin(&["web", &format!("{bomb} >/dev/null </dev/null 2>&1")]);
    let hits = |text: &str| text.parse::<u64>().unwrap();
    let before = hits(&fields("zone.max-lwps")[5]);
    assert!(before > 0);
    // The next zoneadmd continues the counts.
    let state = fs::read_to_string(host.path("/run/zones/web.state")).unwrap();
    let part = state.split("\"daemon\":{\"pid\":").nth(1).unwrap();
    let pid: i32 = part.split(',').next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    wait_for("an adopted zone", || {
        let _ = host.zoneadm(&["list"]);
        messages(&host, "web").contains("adopted").then_some(())
    });
    assert!(hits(&fields("zone.max-lwps")[5]) >= before);
    // Programs can have JSON, and people get a table.
    let json = host.on("web", &["rctl", "-j"]).ok();
    let list: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let lwps = list
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["control"] == "zone.max-lwps");
    assert_eq!(lwps.unwrap()["limit"], "40");
    let table = host.on("web", &["rctl"]).ok();
    assert!(table.out.starts_with("CONTROL "), "{table:?}");
    assert!(
        table
            .out
            .contains("zone.max-physical-memory privileged    64.0M deny"),
        "{table:?}"
    );
}

#[test]
fn cpu_time_of_short_lives_is_charged() {
    let Some(host) = host() else { return };
    host.boot("web");
    let used = || count(&host, "web", &["cpu.stat"], "usage_usec ");
    // Each child runs for a moment and ends. The parent reports the CPU time of its children from
    // rusage.
    let script = perl(
        "use POSIX; \
         for (1..500) { my $pid = fork; if (!$pid) { my $x = 0; $x += $_ for 1..4000; POSIX::_exit(0) } waitpid($pid, 0) } \
         my ($u, $s, $cu, $cs) = times; printf \"%.0f\", ($u + $s + $cu + $cs) * 1e6;",
    );
    let before = used();
    let said: u64 = host.sh("web", &script).parse().unwrap();
    let charged = used() - before;
    // The shell around it, and the clock ticks of times(), cause a difference.
    assert!(charged + 20_000 >= said, "{charged} charged, {said} used");
}

#[test]
fn a_capped_zone_does_not_get_more() {
    let Some(host) = host() else { return };
    set(&host, "web", "add capped-cpu; set ncpus=0.25; end");
    host.boot("web");
    let used = || count(&host, "web", &["cpu.stat"], "usage_usec ");
    let (before, began) = (used(), std::time::Instant::now());
    let _ = host.zlogin(&["web", "timeout 3 sh -c \"while :; do :; done\""]);
    let spent = used() - before;
    let wall = began.elapsed().as_micros();
    // The limit is a quarter of each period of 0.1 s. One more period may have begun and not ended.
    let most = wall / 4 + 2 * 25_000;
    assert!(
        u128::from(spent) <= most * 108 / 100,
        "{spent} us in {wall} us"
    );
    // The limit is so low that every program has to wait, even on a busy machine.
    set(&host, "web", "select capped-cpu; set ncpus=0.01; end");
    let _ = host.on("web", &["apply"]).ok();
    let hits = wait_for("a zone that has to wait", || {
        let _ = host.zlogin(&["web", "echo alive"]);
        let shown = host.on("web", &["rctl", "-p"]).ok();
        let mut lines = shown.out.lines();
        let line =
            lines.find_map(|line| line.strip_prefix("web:zone.cpu-cap:privileged:1:deny:1::"));
        line.unwrap_or_else(|| panic!("{shown:?}"))
            .parse::<u64>()
            .ok()
            .filter(|hits| *hits > 0)
    });
    assert!(hits > 0);
}

#[test]
fn a_zone_has_the_host_id_that_is_set() {
    let Some(host) = Host::with_web() else { return };
    set(&host, "web", "set hostid=0xfeed01");
    let plan = host.on("web", &["boot", "-n"]).ok();
    assert!(plan.out.contains("set host id 00feed01"), "{plan:?}");
    // Links that the zone put there lead nowhere.
    let secret = host.path("/secret");
    fs::write(&secret, "untouched").unwrap();
    fs::create_dir_all(host.top("web").join("etc")).unwrap();
    std::os::unix::fs::symlink(&secret, host.top("web").join("etc/hostid")).unwrap();
    host.boot("web");
    assert_eq!(host.sh("web", "hostid"), "00feed01");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "untouched");
    set(&host, "web", "set hostid=12345678");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.sh("web", "hostid"), "12345678");
}
