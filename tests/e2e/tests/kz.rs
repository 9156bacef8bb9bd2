//! Tests kernel zones with a real guest, which is emulated if the host has no KVM.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;

use e2e::machine::{boot, configure, done, guest, has_qemu, install};
use e2e::{Host, Terminal, wait_for};

fn state(host: &Host, zone: &str) -> String {
    host.row(zone).state
}

/// Returns a line of /proc/PID/status.
fn status(pid: i32, name: &str) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default()
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_guest_lives_as_a_zone() {
    let Some(host) = Host::new() else { return };
    let Some(guest) = guest(&host) else { return };
    configure(&host, "k1", "");
    install(&host, "k1", &guest);
    let planned = host.on("k1", &["boot", "-n"]).ok().out;
    assert!(
        planned.contains("give the machine 192M of memory"),
        "{planned}"
    );
    assert!(planned.contains("keep capabilities \n"), "{planned}");
    boot(&host, "k1");
    assert_eq!(state(&host, "k1"), "running");

    // Tests zlogin commands: output, input, exit status, user.
    let ran = host.zlogin_with(&["k1", "id -u; tr a-z A-Z; echo odd >&2; exit 3"], b"typed");
    assert_eq!(
        (ran.code(), ran.out.as_str(), ran.err.as_str()),
        (Some(3), "0\nTYPED", "odd\n")
    );
    let kernel = host.zlogin(&["-n", "k1", "uname -r"]).ok().out;
    let own = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_ne!(kernel, own, "the guest has a kernel of its own");
    let session = host.zlogin(&["-n", "k1"]);
    assert_eq!(session.code(), Some(1));
    assert!(session.err.contains("zlogin -C k1"), "{session:?}");

    confined(&host);
    console(&host);

    // The guest survives the end of its zoneadmd, and the next command starts another zoneadmd.
    let count = |host: &Host| -> u64 {
        let text = host
            .zlogin(&["-n", "k1", "cat /run/count 2>/dev/null || echo 0"])
            .ok()
            .out;
        text.trim().parse().expect("a count")
    };
    let before = count(&host);
    host.kill(host.zoneadmd("k1").expect("a zoneadmd"));
    assert!(count(&host) >= before);
    done(host.on("k1", &["boot"]));
    assert!(host.zoneadmd("k1").is_some(), "adopted");
    console(&host);

    // A reboot by the guest is a boot of the zone. The guest's power button ends the zone.
    let id = |host: &Host| {
        let file = "cat /proc/sys/kernel/random/boot_id";
        host.zlogin(&["-n", "k1", file]).ok().out
    };
    let first = id(&host);
    let _ = host.zlogin(&["-n", "k1", "sync; (sleep 1; reboot -f) >/dev/null 2>&1 &"]);
    wait_for("another boot", || {
        let ran = host.zlogin(&["-n", "k1", "cat /proc/sys/kernel/random/boot_id"]);
        (ran.code() == Some(0) && ran.out != first).then_some(())
    });
    host.on("k1", &["shutdown"]).quiet();
    assert_eq!(state(&host, "k1"), "installed");
    let console = fs::read_to_string(host.path("/var/log/zones/k1.console")).unwrap();
    assert!(console.contains("guest: the power button"), "{console}");
    let left: Vec<_> = fs::read_dir(host.path("/run/zones"))
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| ["k1.monitor", "k1.console", "k1.agent"].contains(&name.as_str()))
        .collect();
    assert_eq!(left, [""; 0], "sockets");
    host.on("k1", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/k1").exists());
}

/// QEMU runs as an unprivileged user, cannot change this user, and sees no files of the host.
fn confined(host: &Host) {
    let pid = host.init_of("k1");
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    assert!(name.starts_with("qemu"), "{name}");
    for who in status(pid, "Uid:").iter().chain(&status(pid, "Gid:")) {
        assert!(who.parse::<u32>().unwrap() > 100_000, "{who}");
    }
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(status(pid, set), ["0000000000000000"], "{set}");
    }
    assert_eq!(status(pid, "NoNewPrivs:"), ["1"]);
    assert_eq!(status(pid, "Seccomp:"), ["2"]);
    for kind in ["mnt", "net", "pid", "user", "ipc", "uts", "cgroup"] {
        let of = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
        assert_ne!(of(&pid.to_string()), of("self"), "{kind}");
    }
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    for hidden in [
        "zones",
        "home",
        "root",
        "var",
        "etc/shadow",
        "usr/bin/env",
        "dev/kmsg",
    ] {
        assert!(!root.join(hidden).exists(), "{hidden}");
    }
    let ours = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let ours: Vec<_> = ours
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .collect();
    let disk = host.path("/zones/k1/disk0");
    assert!(ours.contains(&disk), "{ours:?}");
    let foreign = ours
        .iter()
        .find(|path| path.starts_with(host.root()) && **path != disk);
    assert_eq!(foreign, None);
}

/// Checks that the console answers typed lines.
fn console(host: &Host) {
    let mut terminal = Terminal::start(host.command("zlogin", &["-C", "k1"]));
    terminal.expect("Connected to zone 'k1' console");
    terminal.types("\recho a-$((6*7))-z\r");
    terminal.expect("a-42-z");
    terminal.types("\r~.");
    assert_eq!(terminal.status(), 0);
}

#[test]
fn a_clone_shares_what_the_origin_was() {
    let Some(host) = Host::new() else { return };
    let Some(guest) = guest(&host) else { return };
    configure(&host, "k1", "");
    install(&host, "k1", &guest);
    boot(&host, "k1");
    done(host.zlogin(&["-n", "k1", "echo first >/etc/mark; sync"]));
    let refused = host.on("k2", &["clone", "--create", "k1"]);
    assert_eq!(refused.code(), Some(1));
    assert!(
        refused
            .err
            .contains("k1 is running; installed is required."),
        "{refused:?}"
    );
    host.on("k1", &["halt"]).quiet();

    let began = Instant::now();
    done(host.on("k2", &["clone", "--create", "k1"]));
    println!("clone of a kernel zone: {:?}", began.elapsed());
    done(host.on("k3", &["clone", "--create", "k2"]));
    let blocks = |path: &str| -> u64 {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(host.path(path)).unwrap().blocks() * 512
    };
    assert!(blocks("/zones/k2/disk0") < 1 << 20, "nothing is copied");

    host.on("k1", &["uninstall", "-F"]).quiet();
    boot(&host, "k2");
    let marks = host.zlogin(&["-n", "k2", "cat /etc/mark"]).ok().out;
    assert_eq!(marks, "first\n");
    done(host.zlogin(&["-n", "k2", "echo second >/etc/mark; sync"]));
    host.on("k2", &["halt"]).quiet();

    // A zone in state ready boots with the configuration with which it was made ready, whatever is
    // configured since.
    done(host.on("k3", &["ready"]));
    let disk = host.path("/more");
    let file = fs::File::create(&disk).expect("a disk");
    file.set_len(1 << 20).expect("its size");
    let more = format!(
        "select capped-memory; set physical=256m; end; add device; set storage=file://{}; set id=5; end",
        disk.display()
    );
    host.zonecfg(&["-z", "k3", &more]).quiet();
    boot(&host, "k3");
    let words = fs::read(format!("/proc/{}/cmdline", host.init_of("k3"))).expect("QEMU");
    let words = String::from_utf8_lossy(&words).into_owned();
    assert!(
        words.split('\0').any(|word| word == "192M") && !words.contains("disk5"),
        "{words}"
    );
    let marks = host.zlogin(&["-n", "k3", "cat /etc/mark"]).ok().out;
    assert_eq!(marks, "first\n", "clones are apart");
    host.on("k3", &["halt"]).quiet();
    boot(&host, "k2");
    let marks = host.zlogin(&["-n", "k2", "cat /etc/mark"]).ok().out;
    assert_eq!(marks, "second\n", "what was written stays");
    host.on("k2", &["halt"]).quiet();
}

#[test]
fn install_refuses_files_that_are_no_disk_or_root() {
    let Some(host) = Host::new() else { return };
    if !has_qemu() {
        return;
    }
    configure(&host, "k1", "");
    let image = host.path("/image");
    let shown = image.to_string_lossy().into_owned();
    let tries = |content: &[u8], expected: &str| {
        fs::write(&image, content).unwrap();
        let ran = host.on("k1", &["install", "-a", &shown]);
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        assert!(ran.err.contains(expected), "{ran:?}");
        assert_eq!(state(&host, "k1"), "configured");
        assert!(!host.path("/zones/k1").exists(), "nothing is left");
    };
    // A qcow2 image whose base is a file of the host.
    let mut header = vec![0; 65536];
    header[..8].copy_from_slice(b"QFI\xfb\0\0\0\x03");
    header[8..16].copy_from_slice(&200u64.to_be_bytes());
    header[16..20].copy_from_slice(&11u32.to_be_bytes());
    header[20..24].copy_from_slice(&16u32.to_be_bytes());
    header[24..32].copy_from_slice(&(1u64 << 20).to_be_bytes());
    header[200..211].copy_from_slice(b"/etc/shadow");
    tries(&header, "backing file");
    tries(b"KDMV", "VMDK");
    tries(&[0; 1024], "neither the archive of a root nor a disk");
    tries(&[0; 1000], "whole number of blocks");

    let empty = host.path("/empty");
    fs::create_dir(&empty).unwrap();
    let ran = host.on("k1", &["install", "-d", &empty.to_string_lossy()]);
    assert_eq!(ran.code(), Some(1));
    assert!(ran.err.contains("no folder boot"), "{ran:?}");
    assert_eq!(host.on("k1", &["install", "-m", "/x.xml"]).code(), Some(2));

    // An existing disk belongs to another user or zone.
    let there = host.path("/zones/k1");
    fs::create_dir_all(&there).unwrap();
    fs::set_permissions(&there, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(there.join("disk0"), "precious").unwrap();
    let ran = host.on("k1", &["install", "-d", &empty.to_string_lossy()]);
    assert!(ran.err.contains("is there already"), "{ran:?}");
    assert_eq!(fs::read(there.join("disk0")).unwrap(), b"precious");
    fs::remove_dir_all(&there).unwrap();

    let keys = "add verified-boot; set policy=enforce; add cert /nowhere.pem; end";
    configure(&host, "k2", keys);
    host.on("k2", &["verify"])
        .mentions(1, "verify verified-boot");
}
