//! Tests the environment of a zone's programs: shared memory, limits, the boot id.

use std::process::Command;

use e2e::{Host, run::run, wait_for};

/// The folder of PostgreSQL's programs on Debian.
const POSTGRES: &str = "/usr/lib/postgresql";

#[test]
fn shared_memory_is_as_large_as_the_memory_of_the_zone_allows() {
    let Some(host) = Host::new() else { return };
    host.install("web");
    host.configure("small", "add capped-memory; set physical=64M; end");
    host.on("small", &["install"]).quiet();
    for zone in ["web", "small"] {
        host.boot(zone);
        let found = host.sh(
            zone,
            "findmnt -n -o TARGET,FSTYPE,OPTIONS /dev/shm; stat -c %a /dev/shm",
        );
        assert!(
            found.contains("tmpfs") && found.contains("nosuid") && found.contains("nodev"),
            "{found}"
        );
        assert!(
            !found.contains("noexec") && found.ends_with("1777"),
            "{found}"
        );
        // A program in the zone writes more than /dev itself may hold.
        let wrote = host.sh(
            zone,
            "cp /usr/bin/dd /dev/shm/dd && /dev/shm/dd if=/dev/zero of=/dev/shm/block bs=1M count=16 2>&1 && rm /dev/shm/dd /dev/shm/block",
        );
        assert!(wrote.contains("16777216 bytes"), "{wrote}");
    }
    assert_eq!(
        host.sh("small", "df --output=size -B1M /dev/shm | tail -n 1")
            .trim(),
        "32"
    );
}

#[test]
fn python_shares_memory_between_processes() {
    let Some(host) = Host::with_web() else { return };
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return e2e::skip("no python3 in /usr/bin");
    }
    let program = "\
from multiprocessing import Process, shared_memory
def fill(name):
    block = shared_memory.SharedMemory(name=name)
    block.buf[:] = b'x' * len(block.buf)
    block.close()
block = shared_memory.SharedMemory(create=True, size=32 << 20)
other = Process(target=fill, args=(block.name,))
other.start()
other.join()
print(other.exitcode, bytes(block.buf).count(b'x') == len(block.buf))
block.close()
block.unlink()
";
    host.put("web", "root/share.py", program);
    host.boot("web");
    assert_eq!(host.sh("web", "/usr/bin/python3 /root/share.py"), "0 True");
}

#[test]
fn postgresql_answers_a_query_by_several_processes() {
    let Some(host) = Host::with_web() else { return };
    let found = std::fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    let Some(bin) = found
        .map(|one| one.path().join("bin"))
        .find(|bin| bin.join("initdb").is_file())
    else {
        return e2e::skip("no PostgreSQL of Debian (package postgresql-15)");
    };
    // A hash join by several processes puts its table into /dev/shm.
    let script = format!(
        "#!/bin/sh -e
PATH={}:$PATH
export LC_ALL=C
cd /tmp
initdb -D /tmp/pg -A trust -U pg --no-sync >/dev/null
echo \"listen_addresses = ''
unix_socket_directories = '/tmp'
fsync = off\" >>/tmp/pg/postgresql.conf
pg_ctl -D /tmp/pg -w -l /tmp/pg.log start >/dev/null
trap 'pg_ctl -D /tmp/pg -m immediate stop >/dev/null' EXIT
psql -h /tmp -U pg -d postgres -X -A -t -q <<'END' 2>&1
set client_min_messages = error;
create table a as select n, md5(n::text) as word from generate_series(1, 200000) n;
analyze a;
set parallel_setup_cost = 0;
set parallel_tuple_cost = 0;
set min_parallel_table_scan_size = 0;
set max_parallel_workers_per_gather = 2;
set work_mem = '64MB';
set enable_mergejoin = off;
set enable_nestloop = off;
select count(*) from a x join a y using (word);
explain select count(*) from a x join a y using (word);
END
",
        bin.display()
    );
    host.put_program("web", "usr-pg", script);
    host.boot("web");
    let said = host.sh(
        "web",
        "useradd -m pg 2>/dev/null || adduser -D pg; su pg -s /bin/sh -c /usr-pg",
    );
    assert!(
        said.contains("\n200000\n") || said.starts_with("200000\n"),
        "{said}"
    );
    assert!(said.contains("Parallel Hash Join"), "{said}");
}

/// Returns the settings that the zone's first process and a login inherit to their children.
fn handed_down(host: &Host) -> String {
    let of = |process: &str| {
        format!(
            "cat /proc/{process}/limits /proc/{process}/coredump_filter /proc/{process}/oom_score_adj /proc/{process}/personality /proc/{process}/timerslack_ns 2>/dev/null
             grep -E '^(Umask|SigBlk|SigIgn|Cpus_allowed|NoNewPrivs|THP_enabled):' /proc/{process}/status
             cut -d ' ' -f 19,40,41 /proc/{process}/stat
             tr '\\0' '\\n' </proc/{process}/environ | grep ODD"
        )
    };
    let script = format!(
        "{}; cat /proc/1/loginuid; {}; readlink /proc/1/cwd",
        of("1"),
        of("self")
    );
    // The last command of the script may fail.
    host.sh("web", &format!("{script}; true"))
}

#[test]
fn a_zone_does_not_depend_on_who_booted_it() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let ordinary = handed_down(&host);
    host.halt("web");
    let boot = host.command("zoneadm", &["-z", "web", "boot"]);
    // Only a process with CAP_SYS_RESOURCE can raise a hard limit again. Root of a container may
    // not have this capability.
    let hard = if can_raise_limits() { "" } else { "-S" };
    let script = format!(
        "\
for limit in '-n 256' '-c 0' '-s 1024' '-l 32' '-q 4096' '-i 77'; do ulimit {hard} $limit; done
umask 077; trap '' TERM HUP USR1 PIPE; cd /tmp; export ODD=1
echo 0x7f >/proc/self/coredump_filter; echo 500 >/proc/self/oom_score_adj
exec setarch -R chrt -b 0 ionice -c 3 taskset -c 0 nice -n 7 \"$@\""
    );
    let mut odd = Command::new("bash");
    odd.args(["-c", &script, "bash"]).arg(boot.get_program());
    odd.args(boot.get_args()).current_dir("/tmp");
    for (name, value) in boot.get_envs() {
        odd.env(name, value.unwrap_or_default());
    }
    run(&mut odd, b"").quiet();
    assert_eq!(handed_down(&host), ordinary);
    // The settings are those of a fresh system.
    for (name, soft) in [
        ("Max open files", "1024"),
        ("Max stack size", "8388608"),
        ("Max cpu time", "unlimited"),
    ] {
        let line = ordinary.lines().find_map(|line| line.strip_prefix(name));
        let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        assert_eq!(words.first(), Some(&soft), "{name}");
    }
}

/// Returns true if this test may set a hard limit of a process higher than its own.
fn can_raise_limits() -> bool {
    const CAP_SYS_RESOURCE: u32 = 24;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    held.is_some_and(|bits| bits >> CAP_SYS_RESOURCE & 1 != 0)
}

#[test]
fn each_boot_has_an_id_of_its_own() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let path = "/proc/sys/kernel/random/boot_id";
    let read = || host.sh("web", &format!("cat {path}"));
    let first = read();
    assert_eq!(first.len(), 36, "{first}");
    assert_eq!(read(), first);
    assert_ne!(std::fs::read_to_string(path).unwrap().trim_end(), first);
    host.on("web", &["reboot"]).quiet();
    assert_ne!(read(), first);
    // The zone cannot change the boot id to that of another boot.
    let write = host.zlogin(&["web", &format!("echo {first} >{path}")]);
    assert_ne!(write.code(), Some(0));
}

#[test]
fn a_login_finds_its_own_control_group() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let group = host.sh("web", "sed -n 's/^0:://p' /proc/self/cgroup");
    assert!(!group.contains(".."), "{group}");
    let found = host.sh(
        "web",
        &format!("mount -t cgroup2 none /mnt && grep -c . /mnt{group}/cgroup.procs; umount /mnt"),
    );
    assert_ne!(found, "0");
    // zlogin still works if the zone freezes the group.
    host.sh(
        "web",
        &format!("mount -t cgroup2 none /mnt; (sleep 0.2; echo 1 >/mnt{group}/cgroup.freeze) >/dev/null 2>&1 &"),
    );
    let procs = host.groups_of("web");
    let frozen = procs.iter().find(|path| path.ends_with("zone/login"));
    let frozen = frozen.expect("the group of logins").join("cgroup.freeze");
    std::fs::write(&frozen, "1").unwrap();
    assert_eq!(host.sh("web", "echo in"), "in");
    std::fs::write(&frozen, "0").unwrap();
}

/// A bash service: the first terminal that it opens would become its controlling terminal, the
/// console.
const SERVICE: &str = "#!/bin/bash
[ \"$1\" = start ] || exit 0
(while sleep 0.1; do echo said || echo failed >/var/failed; echo >>/var/beats; done) &
";

#[test]
fn services_outlive_their_zoneadmd() {
    let Some(host) = Host::with_web() else { return };
    host.put_program("web", "etc/rc.zone", SERVICE);
    host.boot("web");
    let beats = || {
        let text = std::fs::read_to_string(host.top("web").join("var/beats"));
        text.unwrap_or_default().len()
    };
    let goes_on = |what: &str| {
        let before = beats();
        wait_for(what, || (beats() > before + 2).then_some(()));
    };
    // The program that was put into the background last is started, too.
    goes_on("a service of rc.zone");
    let console = || {
        let text = std::fs::read_to_string(host.path("/var/log/zones/web.console"));
        text.unwrap_or_default().matches("said").count()
    };
    host.kill(host.zoneadmd("web").expect("a zoneadmd"));
    goes_on("the service after the end of zoneadmd");
    // The next zoneadmd has the same console.
    let before = console();
    let _ = host.zlogin(&["web", "true"]).ok();
    wait_for("what the service says", || {
        (console() > before + 2).then_some(())
    });
    goes_on("the service with a new zoneadmd");
    assert!(!host.top("web").join("var/failed").exists());
    host.halt("web");
}
