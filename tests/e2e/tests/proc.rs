//! Tests that zones read their own limits in /proc and /sys.

use std::fs;
use std::path::Path;

use e2e::Host;
use e2e::inside::all_fail;

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

/// Waits until a condition is true.
#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    e2e::wait_for(what, || is_so().then_some(()));
}

#[track_caller]
fn set(host: &Host, zone: &str, commands: &str) {
    host.zonecfg(&["-z", zone, commands]).quiet();
}

/// Returns a number of /proc/meminfo in the zone, in KiB.
#[track_caller]
fn kib(host: &Host, zone: &str, key: &str) -> u64 {
    let text = host.sh(
        zone,
        &format!("sed -n 's/^{key}: *\\([0-9]*\\).*/\\1/p' /proc/meminfo"),
    );
    text.parse().unwrap_or_else(|_| panic!("{key}: {text}"))
}

/// Returns the number of files of /proc and /sys that are replaced by mounts.
fn covered(host: &Host, zone: &str) -> usize {
    let text = host.sh(zone, "grep -c '/web.proc/' /proc/self/mountinfo || true");
    text.parse().unwrap()
}

/// Returns the process that updates the files of a zone.
fn reader(host: &Host, zone: &str) -> Option<i32> {
    let path = host.path(&format!("/run/zones/{zone}.proc/reader"));
    let text = fs::read_to_string(path).ok()?;
    let pid: i32 = text.split(' ').next()?.parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    (name.trim() == "zone-proc").then_some(pid)
}

const HOST_TOTAL: &str = "sed -n 's/^MemTotal: *\\([0-9]*\\).*/\\1/p' /proc/meminfo";

#[test]
fn memory_is_that_of_the_zone() {
    let Some(host) = host() else { return };
    set(
        &host,
        "web",
        "add capped-memory; set physical=512M; set swap=512M; end",
    );
    host.boot("web");
    assert_eq!(kib(&host, "web", "MemTotal"), 512 << 10);
    assert_eq!(kib(&host, "web", "SwapTotal"), 0);
    // The values are read as people and programs read them.
    let free = host.sh("web", "free -m | awk '/^Mem:/ { print $2 }'");
    assert_eq!(free, "512");
    assert_eq!(host.sh("web", "grep -c . /proc/swaps"), "1");
    // A file in /run is in memory, and counts as used memory.
    let before = kib(&host, "web", "Shmem");
    let _ = host.sh("web", "dd if=/dev/zero of=/run/big bs=1M count=40 2>&1");
    wait_for("the memory that a file takes", || {
        kib(&host, "web", "Shmem") >= before + (39 << 10)
    });
    assert!(kib(&host, "web", "MemFree") <= (512 - 39) << 10);
    // The zone cannot change the files.
    all_fail(
        &host,
        "web",
        &[
            "echo x >/proc/meminfo",
            "chmod 666 /proc/meminfo",
            "chown 0 /proc/meminfo",
            "mount -o remount,bind,rw /proc/meminfo",
            "perl -e 'open F, q(<), q(/proc/meminfo); exit !fcntl(F, 1024, 0)'",
        ],
    );
    // Many processes read at a time and are killed during the reads.
    let _ = host.sh(
        "web",
        "for i in 1 2 3 4 5 6 7 8; do
             (while :; do cat /proc/meminfo /proc/loadavg; done) >/dev/null & pids=\"$pids $!\"
         done; sleep 1; kill -9 $pids",
    );
    assert_eq!(kib(&host, "web", "MemTotal"), 512 << 10);
    // The zone may unmount its files and then sees the kernel's own.
    let _ = host.sh("web", "umount /proc/meminfo");
    assert!(kib(&host, "web", "MemTotal") > 512 << 10);
    let old = reader(&host, "web").unwrap();
    host.halt("web");
    assert!(!host.path("/run/zones/web.proc").exists());
    assert!(!Path::new(&format!("/proc/{old}")).exists());
}

/// Returns a fifth of this many MiB, in whole pages, as KiB.
fn fifth(mib: u64) -> String {
    ((mib << 20) / 5 / 4096 * 4).to_string()
}

#[test]
fn a_full_run_leaves_the_zone_alive() {
    let Some(host) = host() else { return };
    set(
        &host,
        "web",
        "add capped-memory; set physical=128M; set swap=128M; end",
    );
    host.boot("web");
    let init = host.init_of("web");
    // The size is a fifth of the memory in bytes, and the number of inodes is limited.
    let size = host.sh("web", "df --output=size -k /run | tail -1");
    assert_eq!(size.trim(), fifth(128));
    let said = host.sh("web", "dd if=/dev/zero of=/run/full bs=1M 2>&1 || true");
    assert!(said.contains("No space left on device"), "{said}");
    let said = host.sh(
        "web",
        "rm /run/full; mkdir /run/many; cd /run/many; perl -e 'for (1..20000) { open F, q(>), $_ or die qq($!\\n) }' 2>&1 || true",
    );
    assert_eq!(said, "No space left on device");
    assert_eq!(host.init_of("web"), init);
    let log = fs::read_to_string(host.path("/var/log/zones/web.messages")).unwrap();
    assert!(!log.contains("want of memory"), "{log}");
    let _ = host.sh("web", "rm -r /run/many");
    // With more memory /run becomes larger. Without a limit it has the size that the kernel gives.
    set(
        &host,
        "web",
        "select capped-memory; set physical=200M; set swap=200M; end",
    );
    let _ = host.on("web", &["apply", "-q"]).ok();
    let size = host.sh("web", "df --output=size -k /run | tail -1");
    assert_eq!(size.trim(), fifth(200));
    let size = host.sh("web", "df --output=size -k /dev/shm | tail -1");
    assert_eq!(size.trim(), (100 * 1024).to_string());
}

#[test]
fn cpus_are_those_of_the_zone() {
    let Some(host) = host() else { return };
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    if all < 2 {
        e2e::skip("there is only one CPU");
        return;
    }
    set(&host, "web", "add dedicated-cpu; set ncpus=1; end");
    let _ = host.on("web", &["boot"]).ok();
    let own = host.sh("web", "sed -n 's/^Cpus_allowed_list:.//p' /proc/1/status");
    assert_eq!(host.sh("web", "nproc"), "1");
    assert_eq!(host.sh("web", "getconf _NPROCESSORS_ONLN"), "1");
    assert_eq!(host.sh("web", "cat /sys/devices/system/cpu/online"), own);
    assert_eq!(
        host.sh("web", "sed -n 's/^processor.*: //p' /proc/cpuinfo"),
        own
    );
    assert_eq!(
        host.sh("web", "grep -o '^cpu[0-9]*' /proc/stat | tr '\\n' ' '"),
        format!("cpu cpu{own} ")
    );
    // The CPU time of the zone's programs is counted.
    let user = "awk '/^cpu / { print $2 + $4 }' /proc/stat";
    let before: u64 = host.sh("web", user).parse().unwrap();
    let _ = host.sh(
        "web",
        "perl -e 'my $end = times() + 0.5; 1 while times() < $end'",
    );
    wait_for("the time that the zone ran", || {
        host.sh("web", user).parse::<u64>().unwrap() >= before + 40
    });
    assert_ne!(host.sh("web", "cut -d' ' -f1 /proc/loadavg"), "");
    let uptime = "cut -d. -f1 /proc/uptime";
    let up: u64 = host.sh("web", uptime).parse().unwrap();
    let of_host: u64 = fs::read_to_string("/proc/uptime")
        .unwrap()
        .split('.')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(up < of_host, "{up} {of_host}");
    let booted: u64 = host
        .sh("web", "sed -n 's/^btime //p' /proc/stat")
        .parse()
        .unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert!(
        booted + of_host > now.as_secs(),
        "{booted} is not of the zone's boot"
    );
    // The zone sees its own pressure.
    if Path::new("/proc/pressure/cpu").exists() {
        assert!(
            host.sh("web", "cat /proc/pressure/cpu")
                .starts_with("some avg10=")
        );
        assert_eq!(covered(&host, "web"), 7);
    }
}

#[test]
fn limits_that_change_show_at_once() {
    let Some(host) = host() else { return };
    host.boot("web");
    assert_eq!(
        covered(&host, "web"),
        0,
        "without limits the files are the kernel's"
    );
    assert_eq!(reader(&host, "web"), None);
    let total: u64 = host.sh("web", HOST_TOTAL).parse().unwrap();
    set(
        &host,
        "web",
        "add capped-memory; set physical=512M; set swap=512M; end",
    );
    let _ = host.zonecfg(&["-z", "web", "-r", "verify"]).ok();
    let _ = host.on("web", &["apply", "-q"]).ok();
    assert_eq!(kib(&host, "web", "MemTotal"), 512 << 10);
    // The limit is changed only for the moment.
    let _ = host
        .zonecfg(&[
            "-z",
            "web",
            "-r",
            "select capped-memory; set physical=256M; set swap=256M; end",
        ])
        .ok();
    wait_for("the lower limit", || {
        kib(&host, "web", "MemTotal") == 256 << 10
    });
    // This zone has another kind of limit.
    set(&host, "web", "add capped-cpu; set ncpus=0.5; end");
    let _ = host.on("web", &["apply", "-q"]).ok();
    let cpus = host.sh("web", "grep -c ^processor /proc/cpuinfo");
    assert_eq!(cpus, "1", "as many as half a CPU keeps busy");
    assert_eq!(host.sh("web", "getconf _NPROCESSORS_ONLN"), "1");
    wait_for("the limit of the configuration", || {
        kib(&host, "web", "MemTotal") == 512 << 10
    });
    // When the updating process is killed, the last values stay readable, and a new process soon
    // writes current ones.
    let old = reader(&host, "web").unwrap();
    host.kill(old);
    assert_eq!(kib(&host, "web", "MemTotal"), 512 << 10);
    wait_for("another reader", || {
        reader(&host, "web").is_some_and(|pid| pid != old)
    });
    // When zoneadmd is killed, the files are still updated, and the next zoneadmd takes them over.
    let old = reader(&host, "web").unwrap();
    host.kill(host.zoneadmd("web").unwrap());
    assert_eq!(kib(&host, "web", "MemTotal"), 512 << 10);
    set(
        &host,
        "web",
        "select capped-memory; set physical=300M; set swap=300M; end",
    );
    let _ = host.on("web", &["apply", "-q"]).ok();
    wait_for("the limit that the next zoneadmd has set", || {
        kib(&host, "web", "MemTotal") == 300 << 10
    });
    wait_for("its own reader", || {
        reader(&host, "web").is_some_and(|pid| pid != old)
    });
    // When both are killed, reads still succeed.
    host.kill(host.zoneadmd("web").unwrap());
    host.kill(reader(&host, "web").unwrap());
    assert_eq!(kib(&host, "web", "MemTotal"), 300 << 10);
    // Without limits the zone sees the values of the host again.
    set(&host, "web", "remove capped-memory; remove capped-cpu");
    let _ = host.on("web", &["apply", "-q"]).ok();
    wait_for("the memory of the host", || {
        kib(&host, "web", "MemTotal") == total
    });
    let _ = host.on("web", &["reboot"]).ok();
    assert_eq!(covered(&host, "web"), 0);
}

#[test]
fn a_frozen_zone_does_not_wait_for_its_reader() {
    let Some(host) = host() else { return };
    set(
        &host,
        "web",
        "add capped-memory; set physical=512M; set swap=512M; end",
    );
    host.boot("web");
    let _ = host.sh(
        "web",
        "for i in 1 2 3 4; do (setsid sh -c 'while :; do cat /proc/meminfo; done' >/dev/null 2>&1 &) ; done",
    );
    // The zone is frozen while its top is copied, and some of its processes are in a read.
    for number in 0..5 {
        let _ = host.on("web", &["snapshot", &format!("s{number}")]).ok();
    }
    assert_eq!(kib(&host, "web", "MemTotal"), 512 << 10);
}
