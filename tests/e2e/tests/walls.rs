//! Tests kernel objects that zones share in spite of their namespaces: leases and locks on files of
//! the host, socket families, counters for each user, terminals, and device messages.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::Host;
use e2e::inside::{call_of_32_bits, perl, syscall};

const EINVAL: i32 = libc::EINVAL;
const ENOSYS: i32 = libc::ENOSYS;
const EAFNOSUPPORT: i32 = libc::EAFNOSUPPORT;

/// A system call by the table of i386.
const FCNTL: [u32; 2] = [55, 221];
const SOCKETCALL: u32 = 102;
const SOCKET: u32 = 359;

/// Returns true if this machine can run i386 programs.
fn runs_32_bits(host: &Host) -> bool {
    let path = host.path("/call32");
    // The program calls getpid; any exit status means that it ran.
    fs::write(&path, call_of_32_bits(20, [Some(0); 3], [0; 3])).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let runs = e2e::between_starts(|| Command::new(&path).status()).is_ok();
    if !runs {
        e2e::skip("this kernel runs no program for i386");
    }
    runs
}

/// Returns the error number with which a system call in a zone fails. The command exits with this
/// number.
fn failed(host: &Host, zone: &str, command: &str) -> i32 {
    host.zlogin(&[zone, command]).code().unwrap()
}

#[test]
fn a_zone_cannot_block_the_host_with_a_file_lease() {
    let Some(host) = Host::with_web() else { return };
    for number in FCNTL {
        // The call is F_SETLEASE with F_WRLCK on the standard input.
        let program = call_of_32_bits(number, [Some(0), Some(1024), Some(1)], [0; 3]);
        host.put_program("web", &format!("root/lease{number}"), program);
    }
    host.boot("web");
    for path in [
        "/usr/bin/env",
        "/usr/bin/dpkg",
        "/root/.profile",
        "/etc/passwd",
    ] {
        for (command, value) in [(1024, 1), (1024, 0), (1040, 1), (1026, 1)] {
            let code = format!(
                "open my $f, \"<\", \"{path}\" or exit 200; fcntl($f, {command}, {value}) and exit 0; exit $!"
            );
            assert_eq!(
                failed(&host, "web", &perl(&code)),
                EINVAL,
                "{command} of {path}"
            );
        }
    }
    if runs_32_bits(&host) {
        for number in FCNTL {
            let lease = format!("/root/lease{number} </usr/bin/env");
            assert_eq!(failed(&host, "web", &lease), EINVAL, "compat {number}");
        }
    }
    // Other commands of fcntl work: locks of a process, locks of an open file, the size of a pipe.
    let code = "use Fcntl; open my $f, \"+>\", \"/root/locked\" or die; my $l = pack(\"ssqqi\", 1, 0, 0, 0, 0); \
                fcntl($f, F_SETLK, $l) or die; fcntl($f, 37, $l) and die \"locked twice\"; \
                pipe my $r, my $w; print fcntl($w, 1031, 65536)";
    assert_eq!(host.sh("web", &perl(code)), "65536");
}

#[test]
fn sockets_are_of_families_that_namespaces_keep_apart() {
    let Some(host) = Host::with_web() else { return };
    let vsock = libc::AF_VSOCK.unsigned_abs();
    let direct = call_of_32_bits(SOCKET, [Some(vsock), Some(1), Some(0)], [0; 3]);
    host.put_program("web", "root/direct", direct);
    for family in [vsock, 1] {
        // The subcall 1 of socketcall is SYS_SOCKET, whose arguments are in memory.
        let program = call_of_32_bits(SOCKETCALL, [Some(1), None, Some(0)], [family, 1, 0]);
        host.put_program("web", &format!("root/call{family}"), program);
    }
    host.boot("web");
    // The families are AF_AX25, AF_X25, AF_KEY, AF_RDS, AF_CAN, AF_TIPC, AF_BLUETOOTH, AF_ALG,
    // AF_VSOCK, AF_QIPCRTR.
    for family in [3, 9, 15, 21, 29, 30, 31, 38, 40, 42] {
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            let code = format!(
                "my $to = \"\\0\" x 8; my $made = syscall({call}, {family}, 5, 0, $to); exit($made < 0 ? $! : 0)"
            );
            let error = failed(&host, "web", &perl(&code));
            assert_eq!(error, EAFNOSUPPORT, "call {call}, family {family}");
        }
    }
    for family in [1, 2, 10, 16] {
        let made = host.sh(
            "web",
            &syscall(
                libc::SYS_socket,
                &format!("{family}, 3 - ({family} < 16), 0"),
            ),
        );
        assert!(made.parse::<u32>().is_ok(), "family {family}: {made}");
    }
    let ring = perl(&format!(
        "my $words = \"\\0\" x 120; exit(syscall({}, 8, $words) < 0 ? $! : 0)",
        libc::SYS_io_uring_setup
    ));
    assert_eq!(failed(&host, "web", &ring), ENOSYS);
    if runs_32_bits(&host) {
        assert_eq!(failed(&host, "web", "/root/direct"), EAFNOSUPPORT);
        assert_eq!(failed(&host, "web", &format!("/root/call{vsock}")), ENOSYS);
        assert_eq!(failed(&host, "web", "/root/call1"), ENOSYS);
    }
    // A privilege allows these families to a zone that needs them.
    host.halt("web");
    host.zonecfg(&[
        "-z",
        "web",
        "set limitpriv=default,net_socketcall,proc_io_uring",
    ])
    .quiet();
    host.boot("web");
    assert_ne!(failed(&host, "web", &ring), ENOSYS);
    if runs_32_bits(&host) {
        // On success the program exits with a descriptor of 3 or more, negated.
        let status = failed(&host, "web", "/root/call1");
        assert!((200..=253).contains(&status), "{status}");
        assert_eq!(failed(&host, "web", "/root/direct"), EAFNOSUPPORT);
    }
}

/// Runs a Perl script on the host and returns its output.
fn on_host(code: &str) -> String {
    let mut command = Command::new("perl");
    e2e::run::run(command.args(["-e", code]), b"")
        .ok()
        .text()
        .to_owned()
}

#[test]
fn a_zone_spends_its_own_counts_and_not_those_of_the_hosts_root() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let pid = host.init_of("web");
    let map = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap();
    let first: u32 = map.split_whitespace().nth(1).unwrap().parse().unwrap();
    // The ioctl is NS_GET_OWNER_UID.
    let owner = format!(
        "open my $f, \"<\", \"/proc/{pid}/ns/user\" or die; my $id = \"\\0\" x 4; \
         ioctl($f, 0xb704, $id) or die $!; print unpack \"L\", $id"
    );
    assert_eq!(on_host(&owner), first.to_string());

    // Creates as many message queues as the zone's root may have; they exist as long as the zone.
    // 240 is mq_open, and 0x42 is O_CREAT and O_RDWR.
    let code = "my $made = 0; while ($made < 1000) { my $name = \"q$made\"; \
                my $q = syscall(240, $name, 0x42, 0600, 0); last if $q < 0; syscall(3, $q); $made++ } \
                print \"$made $!\"";
    let said = host.sh("web", &perl(code));
    let (made, error) = said.split_once(' ').unwrap();
    assert_eq!(error, "Too many open files", "{said}");
    assert!(made.parse::<u32>().unwrap() > 1, "{said}");
    // The system call 241 is mq_unlink.
    let code = format!(
        "my $name = \"{}\"; my $q = syscall(240, $name, 0x42, 0600, 0); \
         print $q < 0 ? $! : \"made\"; syscall(241, $name)",
        host.cgroup().replace('/', "-")
    );
    assert_eq!(on_host(&code), "made");
}

#[test]
fn terminals_of_a_zone_have_an_end() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let code = "my @all; while (open my $f, \"+<\", \"/dev/ptmx\") { push @all, $f; last if @all == 600 } \
                print scalar(@all), \" $!\"";
    let said = host.sh("web", &format!("ulimit -n 1000; {}", perl(code)));
    assert_eq!(said, "512 No space left on device");
}

#[test]
fn locks_of_other_zones_are_not_listed() {
    let Some(host) = Host::with_master() else {
        return;
    };
    host.clone_from("master", "one");
    host.clone_from("master", "two");
    host.boot("one");
    host.boot("two");
    // A lock of an open file, which /proc/locks lists without a process. The byte range of the lock
    // encodes a text.
    let code = "open my $f, \"<\", \"/usr/bin/env\" or die; my $l = pack(\"ssx4qqix4\", 0, 0, 123454321, 77, 0); \
                fcntl($f, 37, $l) or die $!; open my $ready, \">\", \"/root/ready\"; close $ready; sleep 1000";
    host.sh(
        "one",
        &format!("setsid {} >/dev/null 2>&1 </dev/null &", perl(code)),
    );
    e2e::wait_for("lock in zone one", || {
        host.zlogin(&["one", "test -e /root/ready"])
            .code()
            .filter(|code| *code == 0)
    });
    let locks = fs::read_to_string("/proc/locks").unwrap();
    assert!(
        locks.contains("OFDLCK") && locks.contains("123454321"),
        "{locks}"
    );
    let tries = [
        "cat /proc/locks",
        "mkdir -p /mnt/p; mount -t proc p /mnt/p && cat /mnt/p/locks",
        "unshare -pfm --mount-proc cat /proc/locks",
        "unshare -Urpfm --mount-proc cat /proc/locks",
        "chmod 444 /proc/locks; cat /proc/locks",
        "umount /proc; mount -t proc p /proc; cat /proc/locks",
    ];
    for one in tries {
        let ran = host.zlogin(&["two", one]);
        assert!(
            !ran.out.contains("123454321") && ran.err.contains("Permission denied"),
            "{ran:?}"
        );
    }
}

#[test]
fn a_shared_network_hears_nothing_of_the_hosts_devices() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let device = Path::new("/sys/class/mem/null/uevent");
    if !device.exists() {
        return e2e::skip("no /sys/class/mem/null");
    }
    // 15 is NETLINK_KOBJECT_UEVENT, and 1 is the group of the kernel's own messages. The received
    // messages are printed when a message in the zone marks the end of the test.
    let code = "socket my $s, 16, 3, 15 or die $!; bind $s, pack(\"SSLL\", 16, 0, 0, 1) or die $!; \
                open my $ready, \">\", \"/root/ready\"; close $ready; \
                select undef, undef, undef, 0.01 until -e \"/root/done\"; \
                my $r = \"\"; vec($r, fileno $s, 1) = 1; \
                print select($r, undef, undef, 0) ? \"heard\" : \"nothing\"";
    let listener = host.command("zlogin", &["web", &perl(code)]);
    let listener = std::thread::spawn(move || {
        let mut listener = listener;
        e2e::run::run(&mut listener, b"")
    });
    e2e::wait_for("listener in the zone", || {
        let there = host.zlogin(&["web", "test -e /root/ready"]);
        (there.code() == Some(0)).then_some(())
    });
    fs::write(device, "change").unwrap();
    host.sh("web", "touch /root/done");
    let heard = listener.join().unwrap().ok();
    assert_eq!(heard.text(), "nothing");
}
