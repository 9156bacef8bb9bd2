//! What root in a zone cannot do to the host, to other zones, and to its own walls.

use std::fs;
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use e2e::inside::{EPERM, perl, syscall};
use e2e::{Host, cgroup};

/// Runs a script of which each line must fail, and says which did not.
#[track_caller]
fn all_fail(host: &Host, zone: &str, lines: &[&str]) {
    let script: String = lines
        .iter()
        .map(|line| {
            format!(
                "if ( {line} ) >/dev/null 2>&1; then echo DONE: '{}'; fi\n",
                line.replace('\'', "\"")
            )
        })
        .collect();
    let ran = host.zlogin_with(&[zone], script.as_bytes()).ok();
    assert_eq!(ran.text(), "", "root in the zone could do this");
}

/// A folder of the host that only root reaches, to be shared with a zone.
fn closed_folder(host: &Host) -> PathBuf {
    let shared = host.path("/shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
    shared
}

fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// A process of the host, ended when dropped.
struct Victim(std::process::Child);

impl Victim {
    fn start() -> Self {
        let mut command = Command::new("sleep");
        command.arg("4321").env("MARK", "of-the-host");
        let quiet = std::process::Stdio::null;
        command.stdin(quiet()).stdout(quiet()).stderr(quiet());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_process_of_the_host_is_seen_killed_or_traced() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // A process of the host that anybody could see.
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
            // PTRACE_ATTACH
            libc::SYS_ptrace => format!("16, {pid}, 0, 0"),
            _ => format!("{pid}, 0"),
        };
        assert_eq!(
            host.sh("web", &syscall(call, &arguments)),
            "-1 No such process"
        );
    }
    // Everybody it can see is its own.
    host.sh("web", &syscall(libc::SYS_kill, "-1, 0"));
    assert!(victim.0.try_wait().unwrap().is_none(), "the zone killed it");
}

#[test]
fn no_device_but_harmless_ones() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let shared = closed_folder(&host);
    // The disk that this very folder is on, as a node that somebody left lying.
    let disk = fs::metadata(&shared).unwrap().dev();
    let (major, minor) = (libc::major(disk).to_string(), libc::minor(disk).to_string());
    let mknod = |path: &Path, kind: &str, major: &str, minor: &str| {
        let status = Command::new("mknod")
            .arg("-m666")
            .arg(path)
            .args([kind, major, minor])
            .status();
        assert!(status.unwrap().success());
    };
    mknod(&shared.join("disk"), "b", &major, &minor);
    mknod(&shared.join("kmsg"), "c", "1", "11");
    host.configure(
        "web",
        &format!(
            "add fs; set dir=/shared; set special={0}; set type=lofs; end; \
             add fs; set dir=/read; set special={0}; set type=lofs; add options ro; end",
            shared.display()
        ),
    );
    host.on("web", &["clone", "master"]).quiet();
    host.put("web", "root/here", "");
    mknod(&host.top("web").join("root/disk"), "b", &major, &minor);
    mknod(&host.top("web").join("root/mem"), "c", "1", "1");
    host.boot("web");
    let names = host.sh("web", "ls /dev");
    assert_eq!(
        names.replace('\n', " "),
        "console fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero"
    );
    let new_disk = format!("mknod /root/new b {major} {minor} && cat /root/new");
    let shared_disk = format!("mknod /shared/new b {major} {minor} && cat /shared/new");
    let dev_disk = format!("mknod /dev/new b {major} {minor} && cat /dev/new");
    all_fail(
        &host,
        "web",
        &[
            "test -e /dev/vda",
            "cat /shared/disk",
            "cat /read/disk",
            "cat /root/disk",
            "cat /root/mem",
            "head -c 1 /shared/kmsg",
            &new_disk,
            &shared_disk,
            &dev_disk,
            "mknod /root/kmsg c 1 11 && head -c 1 /root/kmsg",
            "mount -o remount,dev /dev && mknod /dev/mem c 1 1 && cat /dev/mem",
            "mount -o remount,dev /shared && cat /shared/disk",
            "mount -t tmpfs tmpfs /mnt && mknod /mnt/mem c 1 1 && cat /mnt/mem",
            "mount -t devtmpfs dev /mnt",
            "mount /shared/disk /mnt",
        ],
    );
    host.sh(
        "web",
        "echo ok >/dev/null && head -c 8 /dev/zero /dev/urandom /dev/random | wc -c",
    );
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
            // Opened for writing through /proc, or overmounted from below.
            "sh -c \"exec 3</usr; touch /proc/self/fd/3/x\"",
            "chattr +i /usr/bin/env",
        ],
    );
    assert!(!Path::new("/usr").join(&marker).exists());
    assert!(!host.sh("web", "ls /usr").is_empty());
    // A layer above is its own business, and the host does not see it.
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
            // A view of its own shows no more than the zone's /proc does.
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
fn no_path_of_the_host_is_in_reach() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.clone_after_halt();
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

    // The way out of a chroot: keep a folder outside, go up from there.
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
    // And with the mount namespace of its own taken apart.
    let code = format!(
        "unshare -m sh -c \"umount -l / ; cd / ; {}\"",
        "ls / >/dev/null; ls -d ROOT".replace("ROOT", &root)
    );
    assert_ne!(host.zlogin(&["web", &code]).code(), Some(0));
}

/// Small helpers only this file needs.
trait More {
    fn clone_after_halt(&self);
}

impl More for Host {
    /// Makes the zone stand on a sealed layer: its root is then an overlay of several.
    fn clone_after_halt(&self) {
        self.halt("web");
        self.clone_from("web", "other");
        self.boot("web");
    }
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
    // Mounting may work: it shows the zone's own part.
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

#[test]
fn zones_do_not_see_each_other() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "one");
    host.clone_from("master", "two");
    host.boot("one");
    host.boot("two");
    host.sh("one", "echo mine >/root/secret; chmod 644 /root/secret; setsid sleep 987654 >/dev/null 2>&1 </dev/null &");
    let secret = fs::metadata(host.top("one").join("root/secret")).unwrap();
    assert_eq!(
        host.sh("two", "ls /root/secret 2>/dev/null || echo none"),
        "none"
    );
    assert_eq!(
        host.sh("two", "cat /proc/[0-9]*/comm | grep -c sleep || true"),
        "0"
    );
    // Not by inode number either.
    let found = host.sh(
        "two",
        &format!(
            "find / -xdev -inum {} 2>/dev/null -name secret",
            secret.ino()
        ),
    );
    assert_eq!(found, "");

    // Their ids on the host are apart, and far from the host's own.
    let range = |zone: &str| {
        let map = fs::read_to_string(format!("/proc/{}/uid_map", host.init_of(zone))).unwrap();
        let fields: Vec<u64> = map
            .split_whitespace()
            .map(|field| field.parse().unwrap())
            .collect();
        assert_eq!((fields[0], fields[2]), (0, 65536), "{map}");
        let status = fs::read_to_string(format!("/proc/{}/status", host.init_of(zone))).unwrap();
        let uid = format!("Uid:\t{0}\t{0}\t{0}\t{0}\n", fields[1]);
        assert!(status.contains(&uid), "{status}");
        assert_eq!(
            fs::read_to_string(format!("/proc/{}/gid_map", host.init_of(zone))).unwrap(),
            map
        );
        fields[1]
    };
    let (one, two) = (range("one"), range("two"));
    assert!(
        one >= 65536 && two >= 65536 && one.abs_diff(two) >= 65536,
        "{one} {two}"
    );

    // IPC, shared memory, abstract sockets, loopback and names are each one's own.
    host.sh("one", "ipcmk -M 4096 >/dev/null; ipcmk -S 1 >/dev/null; echo here >/dev/shm/mine; hostname changed");
    assert_eq!(
        host.sh(
            "two",
            "ipcs -m | grep -c 0x; ipcs -s | grep -c 0x; ls /dev/shm; hostname"
        ),
        "0\n0\ntwo"
    );
    assert_eq!(host.sh("one", "hostname"), "changed");
    let listen = "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\", LocalPort => 7777) or die; ";
    let serve = |zone: &str| {
        let code = format!(
            "{listen} if (!fork) {{ open STDOUT, \">\", \"/dev/null\"; open STDERR, \">\", \"/dev/null\"; while (my $c = $s->accept) {{ print $c \"{zone}\\n\"; close $c; }} }}"
        );
        host.sh(zone, &perl(&code));
    };
    serve("one");
    serve("two");
    let ask = "use IO::Socket::INET; my $s = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => 7777) or die; print <$s>;";
    assert_eq!(
        (host.sh("one", &perl(ask)), host.sh("two", &perl(ask))),
        ("one".into(), "two".into())
    );
    assert!(std::net::TcpStream::connect(("127.0.0.1", 7777)).is_err());
}

#[test]
fn abstract_sockets_and_ipc_of_the_host_are_not_the_zones() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let name = format!("{}-socket", host.cgroup());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _listener = UnixListener::bind_addr(&address).unwrap();
    let code = format!(
        "use Socket; socket my $s, PF_UNIX, SOCK_STREAM, 0; print connect($s, pack(\"S a*\", AF_UNIX, \"\\0{name}\")) ? \"connected\" : $!"
    );
    assert_eq!(host.sh("web", &perl(&code)), "Connection refused");
    let seen = host.sh("web", "cat /proc/net/unix");
    assert!(!seen.contains(&name), "{seen}");
    let shared = format!("/dev/shm/{name}");
    fs::write(&shared, "of the host").unwrap();
    let listed = host.sh("web", "ls /dev/shm");
    fs::remove_file(&shared).unwrap();
    assert_eq!(listed, "");
}

#[test]
fn a_shared_network_is_used_and_not_administered() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // AF_INET raw ICMP, AF_PACKET raw, AF_INET6 raw.
    for arguments in ["2, 3, 1", "17, 3, 768", "10, 3, 58"] {
        assert_eq!(
            host.sh("web", &syscall(libc::SYS_socket, arguments)),
            EPERM,
            "socket {arguments}"
        );
    }
    // SIOCSIFADDR, SIOCSIFFLAGS, SIOCSIFHWADDR, SIOCADDRT on an ordinary socket.
    for number in ["0x8916", "0x8914", "0x8924", "0x890B"] {
        let code = format!(
            "use Socket; socket my $s, PF_INET, SOCK_DGRAM, 0; my $r = pack(\"a16 S a100\", \"lo\", AF_INET, \"\"); print ioctl($s, {number}, $r) ? \"done\" : $!"
        );
        assert_eq!(
            host.sh("web", &perl(&code)),
            "Operation not permitted",
            "ioctl {number}"
        );
    }
    assert_eq!(host.sh("web", "ls /sys/class/net"), "lo");
    let code = "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die $!; print \"bound\"";
    assert_eq!(host.sh("web", &perl(code)), "bound");
    if host.zlogin(&["web", "command -v ip"]).code() == Some(0) {
        all_fail(
            &host,
            "web",
            &[
                "ip link add dummy0 type dummy",
                "ip addr add 10.9.9.9/8 dev lo",
                "ip link set lo down",
                "ip route add 10.0.0.0/8 dev lo",
            ],
        );
    }
}

#[test]
fn names_and_clocks_are_the_zones_own() {
    let Some(host) = Host::with_web() else { return };
    let hostname = rustix::system::uname().nodename().to_owned();
    let before = Instant::now();
    host.boot("web");
    let of_zone: f64 = host
        .sh("web", "cut -d ' ' -f 1 /proc/uptime")
        .parse()
        .unwrap();
    assert!(
        of_zone <= before.elapsed().as_secs_f64() + 1.0 && of_zone < uptime(),
        "{of_zone}"
    );
    // Start times of its processes count from there, too.
    let started: f64 = host
        .sh("web", "cut -d ' ' -f 22 /proc/self/stat")
        .parse()
        .unwrap();
    assert!(
        started / 100.0 <= before.elapsed().as_secs_f64() + 1.0,
        "{started}"
    );
    host.on("web", &["reboot"]).quiet();
    let again: f64 = host
        .sh("web", "cut -d ' ' -f 1 /proc/uptime")
        .parse()
        .unwrap();
    assert!(again <= of_zone + before.elapsed().as_secs_f64(), "{again}");
    host.sh("web", "hostname again");
    assert_eq!(host.sh("web", "hostname"), "again");
    assert_eq!(rustix::system::uname().nodename().to_owned(), hostname);
}

#[test]
fn set_id_programs_work_in_the_zone_and_nowhere_else() {
    let Some(host) = Host::with_master() else {
        return;
    };
    let shared = closed_folder(&host);
    host.configure(
        "web",
        &format!(
            "add fs; set dir=/shared; set special={}; set type=lofs; end",
            shared.display()
        ),
    );
    host.on("web", &["clone", "master"]).quiet();
    host.boot("web");
    host.sh(
        "web",
        "echo joe:x:1000:1000::/var:/bin/sh >>/etc/passwd; echo joe:x:1000: >>/etc/group; echo 'joe:*:1::::::' >>/etc/shadow; \
         cp /usr/bin/id /var/tmp/id; chmod 4755 /var/tmp/id",
    );
    let id = host.zlogin(&["-l", "joe", "web", "/var/tmp/id"]).ok();
    assert!(
        id.out.contains("uid=1000(joe)") && id.out.contains("euid=0(root)"),
        "{id:?}"
    );
    // One of the host's: it reads the shadow of the zone, which joe may not.
    let status = host
        .zlogin(&["-l", "joe", "web", "cat /etc/shadow 2>/dev/null; passwd -S"])
        .ok();
    assert!(status.out.starts_with("joe L "), "{status:?}");
    // In a folder of the host that the zone may write they do not work...
    let _ = host.zlogin(&["web", "cp /usr/bin/id /shared/id && chmod 4755 /shared/id"]);
    let id = host.zlogin(&["-l", "joe", "web", "/shared/id"]);
    assert!(!id.out.contains("euid=0"), "{id:?}");
    // ... and no user of the host may reach what the zone leaves there.
    host.halt("web");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
    host.on("web", &["boot"]).mentions(1, "users of this host");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
    host.boot("web");
}

#[test]
fn a_root_full_of_traps_boots_or_is_refused() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "trap");
    let outside = host.path("/outside");
    fs::create_dir(&outside).unwrap();
    let target = outside.to_string_lossy().into_owned();
    let devices = fs::read_dir("/dev").unwrap().count();
    for name in ["proc", "dev", "sys", "run", "usr", "etc"] {
        host.on("trap", &["mount"]).quiet();
        let path = host.path("/zones/trap/lu").join(name);
        let kept = host.path("/zones/trap/lu").join(format!("{name}.kept"));
        let _ = fs::rename(&path, &kept);
        std::os::unix::fs::symlink(&target, &path).unwrap();
        host.on("trap", &["unmount"]).quiet();
        let ran = host.on("trap", &["boot"]);
        assert!(matches!(ran.code(), Some(0 | 1)), "{ran:?}");
        assert_eq!(
            fs::read_dir(&outside).unwrap().count(),
            0,
            "{name}: {ran:?}"
        );
        if host.state("trap") == "running" {
            host.halt("trap");
        }
        host.on("trap", &["mount"]).quiet();
        fs::remove_file(&path).unwrap();
        let _ = fs::rename(&kept, &path);
        host.on("trap", &["unmount"]).quiet();
    }
    assert_eq!(fs::read_dir("/dev").unwrap().count(), devices);
    host.boot("trap");
    assert_eq!(host.sh("trap", "hostname"), "trap");
}

#[test]
fn files_that_a_zone_leaves_for_the_host_are_only_files() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // What programs on the host read of a zone, replaced by ways out.
    host.sh("web", "cd /etc && for name in hostname hosts machine-id passwd; do mv $name $name.kept; ln -s /../../../../../../etc/$name $name; done");
    let mut before = String::new();
    fs::File::open("/etc/hosts")
        .and_then(|mut file| file.read_to_string(&mut before))
        .unwrap();
    host.halt("web");
    host.clone_from("web", "next");
    assert_eq!(fs::read_to_string("/etc/hosts").unwrap(), before);
    assert_ne!(
        fs::read_to_string("/etc/hostname")
            .unwrap_or_default()
            .trim(),
        "next"
    );
    host.boot("next");
    assert_eq!(host.zlogin(&["-S", "next", "hostname"]).ok().text(), "next");
}

#[test]
fn a_full_zone_is_killed_whole_and_quickly_taken_down() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let _ = host.zlogin(&[
        "web",
        "for i in $(seq 200); do setsid sleep 100000 >/dev/null 2>&1 </dev/null & done",
    ]);
    assert!(cgroup::processes(&host.groups_of("web")).len() > 150);
    host.halt("web");
    assert!(host.groups_of("web").is_empty());
}
