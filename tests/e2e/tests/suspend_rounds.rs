//! Suspends and resumes kernel zones repeatedly. All memory of the guest must survive, and no disk
//! may be lost if any process is killed at any moment.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use e2e::guest::{
    BOOT_ID, boot_machine, disk_is_whole, fill_memory, image, in_guest, memory_is_refused,
    messages, said, wait_for_guest,
};
use e2e::{Host, Lan, Random, rounds, start, wait_for};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

/// The programs in the guest: a counter with a number of its own, a client that sends a line
/// repeatedly on one connection and records the replies, and a writer that has written half of a
/// file.
const BUSY: &str = "
head -c 20000000 /dev/urandom >/run/data && cp -r /bin/busybox /run/program
sha256sum /run/data /run/program >/run/sums
setsid sh -c 'number=0; while :; do number=$((number + 1)); echo $number >/run/mine; sleep 0.2; done' \
    >/dev/null 2>&1 </dev/null &
echo $! >/run/pid
ip link set eth0 arp off up && ip addr add 10.77.0.2/32 dev eth0
ip route add 169.254.0.1 dev eth0 && ip route add default via 169.254.0.1
setsid sh -c 'while :; do cat /run/mine; sleep 0.2; done | nc 10.0.0.9 PORT >/run/heard' \
    >/dev/null 2>&1 </dev/null &
setsid sh -c '{ head -c 3000000 /run/data; while [ ! -e /run/go ]; do sleep 0.1; done
    tail -c +3000001 /run/data; } >/var/half; sync; touch /run/written' >/dev/null 2>&1 </dev/null &
";

/// The number of the counter and its start time. No other process has both.
const WHO: &str = "pid=$(cat /run/pid); echo $pid $(cut -d' ' -f22 /proc/$pid/stat)";

#[test]
fn all_that_a_guest_holds_stays() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(_lan) = Lan::new() else { return };
    let Some(host) = Host::new() else { return };
    let card = "add anet; set lower-link=auto; set allowed-address=10.77.0.2/32; end";
    if !boot_machine(&host, card) {
        return;
    }
    let listener = TcpListener::bind("10.0.0.9:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let _ = in_guest(&host, &BUSY.replace("PORT", &port.to_string())).ok();
    listener.set_nonblocking(true).expect("a listener");
    let stream = wait_for("connection of the guest", || listener.accept().ok()).0;
    stream.set_nonblocking(false).expect("a connection");
    let mut answers = stream.try_clone().expect("the connection");
    let lines = lines_of(stream);
    let who = said(&host, WHO);
    let boot = said(&host, BOOT_ID);
    let mut number = next(&lines);
    for round in 0..rounds(1).end.max(2) {
        host.on("k1", &["suspend"]).quiet();
        assert_eq!(host.state("k1"), "installed", "round {round}");
        // The data in transit must arrive, too.
        while let Ok(line) = lines.try_recv() {
            number = line;
        }
        let eager: &[&str] = &["boot", "--", "--eager"];
        let words = if round % 2 == 0 { &["boot"] } else { eager };
        let _ = host.on("k1", words).ok();
        assert!(!image(&host).exists(), "round {round}: the image was used");
        let now = next(&lines);
        assert!(now >= number, "round {round}: {number}, then {now}");
        number = now;
        answers
            .write_all(format!("round {round}\n").as_bytes())
            .expect("a connection");
        wait_for_guest(&host);
        assert_eq!(said(&host, BOOT_ID), boot, "round {round}");
        assert_eq!(said(&host, WHO), who, "round {round}");
        let sums = in_guest(&host, "sha256sum -c /run/sums");
        assert_eq!(sums.code(), Some(0), "round {round}: {sums:?}");
        wait_for("what was answered", || {
            let heard = said(&host, "cat /run/heard");
            heard.ends_with(&format!("round {round}")).then_some(())
        });
    }
    if fs::exists("/dev/userfaultfd").is_ok_and(|there| there) {
        let log = messages(&host);
        assert!(log.contains("while the zone ran"), "{log}");
        assert!(!log.contains("WARNING: all memory is restored"), "{log}");
    }
    // The writer writes the other half of the file.
    let _ = in_guest(&host, "touch /run/go").ok();
    wait_for("whole file", || {
        let there = in_guest(&host, "test -e /run/written");
        (there.code() == Some(0)).then_some(())
    });
    let _ = in_guest(&host, "cmp /run/data /var/half").ok();
    host.on("k1", &["shutdown"]).quiet();
    disk_is_whole(&host);
}

/// Returns the numbers that arrive on a connection.
fn lines_of(stream: std::net::TcpStream) -> Receiver<u64> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let numbers = BufReader::new(stream).lines().map_while(Result::ok);
        for number in numbers.filter_map(|line| line.trim().parse().ok()) {
            if sender.send(number).is_err() {
                break;
            }
        }
    });
    lines
}

#[track_caller]
fn next(lines: &Receiver<u64>) -> u64 {
    lines
        .recv_timeout(e2e::WAIT_TIMEOUT)
        .expect("a line on the connection")
}

/// Waits until zoneadmd has finished its earlier requests, or has ended. zoneadmd answers requests
/// one after the other, also one that it does not know.
fn hear_from_zoneadmd(host: &Host) {
    let folder = fs::File::open(host.path("run/zones")).expect("a folder");
    let path = format!("/proc/self/fd/{}/k1.zoneadmd_sock", folder.as_raw_fd());
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    let address = SocketAddrUnix::new(path).expect("an address");
    if connect(&socket, &address).is_ok() && send(&socket, b"?", SendFlags::NOSIGNAL).is_ok() {
        let mut answer = [0; 1024];
        let _ = recv(&socket, answer.as_mut_slice(), RecvFlags::empty());
    }
}

#[test]
fn a_kill_at_any_moment_loses_no_disk() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    let mark = "cat /var/mark";
    let _ = in_guest(&host, "echo there >/var/mark; sync").ok();
    let mut boot = said(&host, BOOT_ID);
    let mut random = Random::new(7);
    let mut cold = 0;
    for round in rounds(5) {
        let resumes = round % 2 == 1;
        if resumes {
            host.on("k1", &["suspend"]).quiet();
        }
        let verb = if resumes { "boot" } else { "suspend" };
        let mut command = host.command("zoneadm", &["-z", "k1", verb]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut command = start(&mut command);
        // The trace of a boot begins with many calls that are not part of the resume.
        let longest = if resumes { 1500 } else { 500 };
        std::thread::sleep(Duration::from_millis(random.below(longest)));
        let victim = ["zoneadm", "zoneadmd", "qemu"][random.index(3)];
        println!("round {round}: {verb}, {victim} dies");
        match victim {
            "zoneadm" => command.kill().expect("a process to kill"),
            "zoneadmd" => {
                if let Some(pid) = host.zoneadmd("k1") {
                    host.kill_if_there(pid);
                }
            }
            _ => {
                if let Some(pid) = host.inits_of("k1").first() {
                    host.kill_if_there(*pid);
                }
            }
        }
        command.wait().expect("an end");
        // A started operation is completed, or the next command finds and removes what is left.
        // Until then the zone may run, and may end at any moment.
        hear_from_zoneadmd(&host);
        let mut said_why = String::new();
        wait_for("zone that runs", || {
            let booted = host.on("k1", &["boot"]);
            if booted.err != said_why {
                println!("{}", booted.err);
                said_why = booted.err;
            }
            (host.state("k1") == "running").then_some(())
        });
        wait_for_guest(&host);
        assert!(
            !image(&host).exists(),
            "round {round}: an image beside a guest that runs"
        );
        assert_eq!(said(&host, mark), "there", "round {round}");
        let now = said(&host, BOOT_ID);
        if now != boot {
            assert_eq!(
                victim, "qemu",
                "round {round}: only with QEMU memory is lost"
            );
            cold += 1;
        }
        boot = now;
    }
    println!("{cold} times QEMU took the memory along");
    host.halt("k1");
    disk_is_whole(&host);
}

#[test]
fn a_guest_survives_the_death_of_one_of_its_pagers() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !fs::exists("/dev/userfaultfd").is_ok_and(|there| there) {
        e2e::skip("no /dev/userfaultfd");
        return;
    }
    if !boot_machine(&host, "") {
        return;
    }
    fill_memory(&host, 60_000_000);
    let sum = "md5sum /run/data";
    let (boot, sum) = (said(&host, BOOT_ID), said(&host, sum));
    for victim in ["pager", "guardian", "pager"] {
        host.on("k1", &["suspend"]).quiet();
        match victim {
            // The kill is at the 20th piece.
            "pager" => {
                let _ = host.with_fault("pager:20:kill", "k1", &["boot"]).ok();
            }
            _ => {
                let _ = host.on("k1", &["boot"]).ok();
                let known = fs::read(host.path("run/zones/k1.state")).expect("a state");
                let known: serde_json::Value = serde_json::from_slice(&known).expect("JSON");
                if let Some(pid) = known["pager"]["pid"].as_i64() {
                    host.kill_if_there(i32::try_from(pid).expect("a number"));
                }
            }
        }
        wait_for_guest(&host);
        assert_eq!(said(&host, "md5sum /run/data"), sum, "{victim}");
        assert_eq!(said(&host, BOOT_ID), boot, "{victim}");
    }
    let told = messages(&host);
    assert_eq!(told.matches("while the zone ran;").count(), 3, "{told}");
    host.halt("k1");
    disk_is_whole(&host);
}

#[test]
fn a_zone_that_loses_its_pager_is_ended() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !fs::exists("/dev/userfaultfd").is_ok_and(|there| there) {
        e2e::skip("no /dev/userfaultfd");
        return;
    }
    if !boot_machine(&host, "") {
        return;
    }
    fill_memory(&host, 60_000_000);
    host.on("k1", &["suspend"]).quiet();
    // The process that reads ahead reaches the same piece, and is killed there, too.
    let booted = host.with_fault("pager:20:fail", "k1", &["boot"]);
    memory_is_refused(&host, &booted);
    // If the guest did not run yet, nothing is lost.
    let used = booted.err.contains("its image is used up");
    let ran = booted.code() == Some(0);
    assert!(ran || used || image(&host).exists(), "{booted:?}");
    println!("boot ended with {:?}", booted.code());
    let _ = host.on("k1", &["boot"]).ok();
    wait_for_guest(&host);
    host.halt("k1");
    disk_is_whole(&host);
}
