//! Tests that zones have their own processes, ids, IPC, network, names and clocks.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Instant;

use e2e::Host;
use e2e::inside::{EPERM, all_fail, perl, syscall};

fn uptime() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
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
    // Their inode numbers differ, too.
    let found = host.sh(
        "two",
        &format!(
            "find / -xdev -inum {} 2>/dev/null -name secret",
            secret.ino()
        ),
    );
    assert_eq!(found, "");

    // Their id ranges on the host do not overlap, and are far from the host's own ids.
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

    // Each zone has its own IPC objects, shared memory, abstract sockets, loopback link and names.
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
    // The sockets are AF_INET raw ICMP, AF_PACKET raw, and AF_INET6 raw.
    for arguments in ["2, 3, 1", "17, 3, 768", "10, 3, 58"] {
        assert_eq!(
            host.sh("web", &syscall(libc::SYS_socket, arguments)),
            EPERM,
            "socket {arguments}"
        );
    }
    // The ioctls on an ordinary socket are SIOCSIFADDR, SIOCSIFFLAGS, SIOCSIFHWADDR and SIOCADDRT.
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
    // The start times of the zone's processes also count from the zone's boot.
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
