//! Tests that root in a zone cannot see or do anything to the machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::Host;
use e2e::inside::{EPERM, all_fail, perl, syscall};

/// A process of the host, ended when dropped.
struct Victim(std::process::Child);

impl Victim {
    fn start() -> Self {
        let mut command = Command::new("sleep");
        command.arg("4321").env("MARK", "of-the-host");
        let quiet = std::process::Stdio::null;
        command.stdin(quiet()).stdout(quiet()).stderr(quiet());
        Self(e2e::start(&mut command))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_zone_cannot_see_kill_or_trace_processes_of_the_host() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // Starts a process of the host that every user can see.
    let mut victim = Victim::start();
    let pid = victim.0.id();
    let seen = host.sh(
        "web",
        "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '",
    );
    assert!(!seen.contains("of-the-host"), "{seen}");
    let seen = host.sh("web", "ls /proc");
    let pids: Vec<u32> = seen.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(pids.contains(&1) && pids.len() < 12, "{pids:?}");
    if pids.contains(&pid) {
        e2e::skip("a process of the zone has the number of one of the host");
        return;
    }
    for call in [libc::SYS_kill, libc::SYS_ptrace, libc::SYS_pidfd_open] {
        let arguments = match call {
            libc::SYS_kill => format!("{pid}, 9"),
            // The request is PTRACE_ATTACH.
            libc::SYS_ptrace => format!("16, {pid}, 0, 0"),
            _ => format!("{pid}, 0"),
        };
        assert_eq!(
            host.sh("web", &syscall(call, &arguments)),
            "-1 No such process"
        );
    }
    // Every process that the zone sees is its own.
    host.sh("web", &syscall(libc::SYS_kill, "-1, 0"));
    assert!(victim.0.try_wait().unwrap().is_none(), "the zone killed it");
}

#[test]
fn the_hosts_software_stays_as_it_is() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let marker = format!("of-{}", host.cgroup());
    all_fail(
        &host,
        "web",
        &[
            &format!("touch /usr/{marker}"),
            &format!("touch /bin/{marker}"),
            "chmod 777 /usr/bin/env",
            "chown 1 /usr/bin/env",
            "rm /usr/bin/env",
            "mv /usr/bin /usr/nib",
            "setfattr -n user.mark -v 1 /usr/bin",
            "mount -o remount,rw /usr",
            "mount -o remount,bind,rw /usr",
            "umount /usr",
            "umount -l /usr",
            "mount --bind -o rw /usr /mnt && touch /mnt/x",
            "mount --bind /usr /mnt && mount -o remount,bind,rw /mnt",
            "unshare -m umount -l /usr",
            "unshare -Urm mount -o remount,bind,rw /usr",
            "unshare -Urm umount -l /usr",
            "unshare -Urm sh -c \"mount --rbind /usr /mnt && mount -o remount,bind,rw /mnt && touch /mnt/x\"",
            // The zone tries to open files for writing through /proc, and to mount over them.
            "sh -c \"exec 3</usr; touch /proc/self/fd/3/x\"",
            "chattr +i /usr/bin/env",
        ],
    );
    assert!(!Path::new("/usr").join(&marker).exists());
    assert!(!host.sh("web", "ls /usr").is_empty());
    // The zone may mount over its own mounts, and the host does not see this.
    let over = "mkdir /var/u /var/w && mount -t overlay overlay -o lowerdir=/usr,upperdir=/var/u,workdir=/var/w /mnt";
    let _ = host.zlogin(&["web", &format!("{over} && touch /mnt/{marker}")]);
    assert!(!Path::new("/usr").join(&marker).exists());
}

#[test]
fn the_machine_is_not_administered_from_a_zone() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let calls = [
        ("init_module", libc::SYS_init_module, "0, 0, 0"),
        ("finit_module", libc::SYS_finit_module, "0, 0, 0"),
        ("delete_module", libc::SYS_delete_module, "0, 0"),
        ("kexec_load", libc::SYS_kexec_load, "0, 0, 0, 0"),
        ("swapon", libc::SYS_swapon, "0, 0"),
        ("swapoff", libc::SYS_swapoff, "0"),
        ("acct", libc::SYS_acct, "0"),
        (
            "settimeofday",
            libc::SYS_settimeofday,
            "pack(\"qq\", 1, 1), 0",
        ),
        (
            "clock_settime",
            libc::SYS_clock_settime,
            "0, pack(\"qq\", 1, 1)",
        ),
        (
            "open_by_handle_at",
            libc::SYS_open_by_handle_at,
            "-100, pack(\"LlQ\", 8, 1, 2), 0",
        ),
        ("bpf", libc::SYS_bpf, "0, 0, 0"),
        (
            "perf_event_open",
            libc::SYS_perf_event_open,
            "0, 0, 0, 0, 0",
        ),
        ("quotactl", libc::SYS_quotactl, "0, 0, 0, 0"),
    ];
    let script: Vec<String> = calls
        .iter()
        .map(|(_, number, arguments)| format!("{}; echo", syscall(*number, arguments)))
        .collect();
    let said = host.sh("web", &script.join("\n"));
    let refused: Vec<String> = calls
        .iter()
        .map(|(name, ..)| format!("{name}: {EPERM}"))
        .collect();
    let said: Vec<String> = calls
        .iter()
        .zip(said.lines())
        .map(|((name, ..), line)| format!("{name}: {line}"))
        .collect();
    assert_eq!(said, refused);
    let now = std::time::SystemTime::now();
    assert!(now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() > 1_000_000_000);
}

/// A program that makes the system calls with which a machine is administered, with valid
/// arguments, and prints the result of each. The filter must refuse the calls, not only their
/// arguments.
const RIGHT_CALLS: &str = r#"
sub try { my ($name, $number, @words) = @_; my $result = syscall($number, @words);
          print "$name: ", ($result < 0 ? "$!" : "done"), "\n" }
my ($text, $file, $time) = ("x" x 256, "/etc/hostname", pack("qq", 1000000000, 0));
my $handle = pack("LlQ", 8, 1, 2);
my $array = pack("LLLL", 2, 4, 4, 1) . "\0" x 56;
my $exit = pack("CCss", 0xb7, 0, 0, 0) . "\0\0" . pack("CCss", 0x95, 0, 0, 0) . "\0\0";
try("syslog", SYSLOG, 3, $text, 256);
try("syslog clear", SYSLOG, 5, 0, 0);
try("bpf", BPF, 0, $array, 72);
try("open_by_handle_at", HANDLE, -100, $handle, 0);
try("swapon", SWAPON, $file, 0);
try("swapoff", SWAPOFF, $file);
try("acct", ACCT, $file);
try("settimeofday", SETTIME, $time, 0);
try("clock_settime", CLOCK, 0, $time);
try("init_module", MODULE, $text, 256, $file);
try("delete_module", DELETE, $file, 2048);
try("kexec_load", KEXEC, 0, 0, 0, 0);
"#;

/// With `sys_unfiltered` in `limitpriv` there is no filter, and the capabilities still refuse these
/// calls.
#[test]
fn a_zone_without_the_filter_cannot_administer_the_machine() {
    let Some(host) = Host::with_web() else { return };
    let open = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim() == "0"
    };
    host.zonecfg(&["-z", "web", "set limitpriv=default,sys_unfiltered"])
        .quiet();
    if open("dmesg_restrict") || open("unprivileged_bpf_disabled") {
        return host.on("web", &["boot"]).mentions(1, "sys_unfiltered");
    }
    host.boot("web");
    let filters = host.sh(
        "web",
        "cat /proc/1/status /proc/self/status | grep Seccomp:",
    );
    assert_eq!(filters, "Seccomp:\t0\nSeccomp:\t0");
    let numbers = [
        ("SYSLOG", libc::SYS_syslog),
        ("BPF", libc::SYS_bpf),
        ("HANDLE", libc::SYS_open_by_handle_at),
        ("SWAPON", libc::SYS_swapon),
        ("SWAPOFF", libc::SYS_swapoff),
        ("ACCT", libc::SYS_acct),
        ("SETTIME", libc::SYS_settimeofday),
        ("CLOCK", libc::SYS_clock_settime),
        ("MODULE", libc::SYS_init_module),
        ("DELETE", libc::SYS_delete_module),
        ("KEXEC", libc::SYS_kexec_load),
    ];
    let mut program = RIGHT_CALLS.to_owned();
    for (name, number) in numbers {
        program = program.replace(&format!(" {name},"), &format!(" {number},"));
    }
    let said = host.sh("web", &perl(&program));
    assert_eq!(said.lines().count(), 12, "{said}");
    for line in said.lines() {
        // A kernel may be built without modules, accounting or kexec.
        let refused = line.ends_with(": Operation not permitted")
            || line.ends_with(": Function not implemented");
        assert!(refused, "{said}");
    }
    let now = std::time::SystemTime::now();
    assert!(now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() > 1_500_000_000);
    // The next boot is under the filter again.
    host.halt("web");
    host.zonecfg(&["-z", "web", "clear limitpriv"]).quiet();
    host.boot("web");
    let filters = host.sh(
        "web",
        "cat /proc/1/status /proc/self/status | grep Seccomp:",
    );
    assert_eq!(filters, "Seccomp:\t2\nSeccomp:\t2");
}

#[test]
fn the_kernels_settings_are_out_of_reach() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let settings = [
        "kernel/core_pattern",
        "kernel/modprobe",
        "kernel/panic",
        "kernel/sysrq",
        "kernel/pid_max",
        "kernel/dmesg_restrict",
        "kernel/randomize_va_space",
        "kernel/unprivileged_bpf_disabled",
        "vm/drop_caches",
        "vm/overcommit_memory",
        "vm/swappiness",
        "fs/file-max",
        "fs/suid_dumpable",
        "net/ipv4/ip_forward",
        "net/ipv4/ip_unprivileged_port_start",
        "net/core/somaxconn",
    ];
    let before: Vec<_> = settings
        .iter()
        .map(|name| fs::read(format!("/proc/sys/{name}")).ok())
        .collect();
    let mut lines: Vec<String> = settings
        .iter()
        .map(|name| format!("echo 1 >/proc/sys/{name}"))
        .collect();
    lines.extend(
        [
            "echo b >/proc/sysrq-trigger",
            "umount /proc/sysrq-trigger; echo h >/proc/sysrq-trigger",
            "umount /proc/kcore; head -c 1 /proc/kcore | grep -q .",
            "head -c 1 /proc/kcore | grep -q .",
            "head -c 1 /proc/kmsg | grep -q .",
            "dmesg | grep -q .",
            "cat /proc/timer_list | grep -q .",
            "umount /proc/timer_list; cat /proc/timer_list | grep -q .",
            "find /sys/firmware /sys/kernel/debug /sys/kernel/security -mindepth 1 | grep -q .",
            "touch /sys/x",
            "echo 1 >/sys/kernel/mm/ksm/run",
            "echo 1 >/sys/kernel/profiling",
            "for file in /sys/block/*/queue/nr_requests; do echo 64 >$file && exit 0; done; exit 1",
            "for file in /sys/module/*/parameters/*; do cat $file >$file && exit 0; done; exit 1",
            "for file in /sys/devices/system/cpu/cpu[1-9]*/online; do echo 0 >$file && exit 0; done; exit 1",
            "mount -o remount,rw /sys",
            "mount -o remount,bind,rw /sys",
            "umount /sys && mount -t sysfs sysfs /sys",
            "mount -t sysfs sysfs /mnt",
            // A proc mount of the zone itself shows no more than the zone's /proc.
            "mount -t proc proc /mnt; head -c 1 /mnt/kcore | grep -q .",
            "echo h >/mnt/sysrq-trigger",
            "echo 1 >/mnt/sys/kernel/panic",
            "cat /mnt/timer_list | grep -q .",
            "umount /mnt && cat /mnt/uptime",
            "mount -t debugfs debugfs /mnt",
            "mount -t tracefs tracefs /mnt",
            "mount -t securityfs securityfs /mnt",
            "mount -t bpf bpf /mnt",
            "mount -t ext4 /dev/vda /mnt",
        ]
        .map(str::to_owned),
    );
    all_fail(
        &host,
        "web",
        &lines.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let after: Vec<_> = settings
        .iter()
        .map(|name| fs::read(format!("/proc/sys/{name}")).ok())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn a_zone_cannot_reach_paths_of_the_host() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // The zone has a sealed layer, so that its root is an overlay of several layers.
    host.halt("web");
    host.clone_from("web", "other");
    host.boot("web");
    let root = host.root().to_string_lossy().into_owned();
    assert_eq!(
        host.sh("web", &format!("ls -d {root} 2>/dev/null || echo none")),
        "none"
    );
    let mounts = host.sh(
        "web",
        "cat /proc/self/mountinfo /proc/self/mounts /proc/1/mountinfo",
    );
    assert!(!mounts.contains(&root), "{mounts}");
    assert!(!mounts.contains("/zones/"), "{mounts}");
    assert!(!mounts.contains("unified"), "{mounts}");
    assert_eq!(
        host.sh(
            "web",
            "ls -A /zones /sys/fs/cgroup 2>/dev/null | grep -v : || true"
        ),
        ""
    );
    let groups = host.sh("web", "cat /proc/1/cgroup");
    assert!(!groups.contains(host.cgroup()), "{groups}");

    // The known way out of a chroot: keep a folder open outside, and go up from there.
    let up = "chdir \"..\" for 1 .. 64; chroot \".\" or die; opendir my $d, \"/\"; print join \" \", sort readdir $d;";
    let inside = host.sh(
        "web",
        &perl("opendir my $d, \"/\"; print join \" \", sort readdir $d;"),
    );
    let code = format!(
        "mkdir \"/var/jail\"; open my $out, \"<\", \"/\"; chroot \"/var/jail\" or die; chdir $out or die; {up}"
    );
    assert_eq!(host.sh("web", &perl(&code)), inside);
    assert_eq!(
        host.sh("web", &perl(&format!("chdir \"/proc/1/root/..\"; {up}"))),
        inside
    );
    assert_eq!(
        host.sh("web", &perl(&format!("chdir \"/proc/1/cwd\"; {up}"))),
        inside
    );
    // The same is tried after the zone has detached mounts of its mount namespace.
    let code = format!(
        "unshare -m sh -c \"umount -l / ; cd / ; {}\"",
        "ls / >/dev/null; ls -d ROOT".replace("ROOT", &root)
    );
    assert_ne!(host.zlogin(&["web", &code]).code(), Some(0));
}

#[test]
fn control_groups_of_the_host_are_not_administered() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh(
        "web",
        "mkdir -p /mnt/v2 /mnt/memory /mnt/devices /mnt/freezer /mnt/pids",
    );
    // The mount may succeed: then it shows only the zone's own part.
    let _ = host.zlogin(&[
        "web",
        "mount -t cgroup2 x /mnt/v2; for one in memory devices freezer pids; do mount -t cgroup -o $one x /mnt/$one; done",
    ]);
    let seen = host.sh("web", "find /mnt -maxdepth 3");
    assert!(
        !seen.contains(host.cgroup()) && !seen.contains(".zoneadmd"),
        "{seen}"
    );
    all_fail(
        &host,
        "web",
        &[
            "echo a >/mnt/devices/devices.allow",
            "echo -1 >/mnt/memory/memory.limit_in_bytes",
            "echo max >/mnt/pids/pids.max",
            "mkdir /mnt/memory/mine",
            "echo max >/mnt/v2/memory.max",
            "echo 1 >/mnt/v2/cgroup.kill && test -e /mnt/v2/../../cgroup.procs",
        ],
    );
    assert_eq!(host.state("web"), "running");
}
