//! Tests roots that package systems make: of the host's own distribution, and of other releases.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use e2e::roots::DOWNLOAD;
use e2e::{Host, wait_for};

/// Returns true if a program is in the folders of system programs.
fn has(program: &str) -> bool {
    ["/usr/bin", "/usr/sbin"]
        .iter()
        .any(|folder| Path::new(folder).join(program).is_file())
}

/// Returns true if a message says that a mirror cannot be reached, which is not our failure.
fn is_offline(text: &str) -> bool {
    [
        "Temporary failure",
        "Could not resolve",
        "Could not connect",
        "Unable to connect",
        "Failed to fetch",
    ]
    .iter()
    .any(|words| text.contains(words))
}

/// Waits until systemd in a zone has finished its start, and returns its state.
fn settled(host: &Host, zone: &str) -> String {
    wait_for(&format!("systemd of zone {zone}"), || {
        let ran = host.zlogin(&[zone, "systemctl is-system-running"]);
        let state = ran.out.trim().to_owned();
        let over = ["running", "degraded", "maintenance"].contains(&state.as_str());
        over.then_some(state).or_else(|| {
            // Each query slows down the start of the zone.
            std::thread::sleep(std::time::Duration::from_millis(500));
            None
        })
    })
}

/// Boots a zone with systemd, checks it, clones it and halts it.
fn lives(host: &Host, zone: &str) {
    host.boot(zone);
    let state = settled(host, zone);
    let failed = host.zlogin(&[zone, "systemctl --failed --no-legend --plain"]);
    assert_eq!(state, "running", "zone {zone}: {}", failed.out);
    assert_eq!(host.sh(zone, "hostname"), zone);
    assert_eq!(host.sh(zone, "cat /proc/1/comm"), "systemd");
    // Mounts at boot hide no part of the platform's /dev.
    let socket = host.sh(zone, "stat -c '%F %a %u' /dev/zone-beadm");
    assert_eq!(socket, "socket 600 0");
    host.on(zone, &["shutdown"]).quiet();
    assert_eq!(host.state(zone), "installed");
    let copy = format!("{zone}-copy");
    host.clone_from(zone, &copy);
    host.boot(&copy);
    assert_eq!(settled(host, &copy), "running");
    assert_eq!(host.sh(&copy, "hostname"), copy);
    host.halt(&copy);
}

#[test]
fn a_whole_root_is_the_hosts_own_distribution() {
    let Some(host) = Host::new() else { return };
    if !has("mmdebstrap") && !has("debootstrap") {
        return e2e::skip("no mmdebstrap and no debootstrap");
    }
    let template = "create -t SYSsystemd; remove anet";
    host.zonecfg(&["-z", "whole", template]).quiet();
    let blank = "create -b; set zonepath=/zones/second";
    host.zonecfg(&["-z", "second", blank]).quiet();
    let planned = host.on("whole", &["install", "-n"]).ok().out;
    assert!(planned.contains("make image native-"), "{planned}");
    assert_eq!(host.state("whole"), "configured");
    let mut install = host.command("zoneadm", &["-z", "whole", "install"]);
    let first = e2e::run::run_within(DOWNLOAD, &mut install, b"");
    if first.code() != Some(0) && is_offline(&first.err) {
        assert_eq!(host.state("whole"), "configured");
        return e2e::skip("no mirror can be reached");
    }
    let said = first.ok().out;
    let log = said.lines().find_map(|line| line.strip_prefix("Log: "));
    let log = PathBuf::from(log.expect("the name of a log").trim_end_matches('.'));
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(!logged.is_empty() && log.starts_with(host.path("/var/log/zones")));
    // The second zone uses the files of the first one. Its name comes from outside.
    let profile = host.path("/profile");
    std::fs::create_dir_all(profile.join("etc")).unwrap();
    std::fs::write(profile.join("etc/motd"), "from outside\n").unwrap();
    let words = ["install", "-p", &*profile.to_string_lossy()];
    let second = host.on("second", &words).ok().out;
    assert!(!second.contains("Log: "), "{second}");
    let release = std::fs::read_to_string("/etc/os-release").unwrap();
    let id = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("ID="))
            .map(str::to_owned)
    };
    lives(&host, "whole");
    host.boot("second");
    assert_eq!(host.sh("second", "cat /etc/motd"), "from outside");
    let theirs = host.sh("second", "cat /etc/os-release");
    assert_eq!(id(&theirs), id(&release));
    let ids: BTreeSet<String> = ["second", "whole-copy"]
        .iter()
        .map(|zone| std::fs::read_to_string(host.top(zone).join("etc/machine-id")).unwrap())
        .collect();
    assert_eq!(ids.len(), 2);
    host.halt("second");
}

/// Returns the installers that fill a folder below a host's root.
fn installers(host: &Host) -> Vec<i32> {
    let root = host.root().to_string_lossy();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let is_one = ["mmdebstrap", "debootstrap"]
            .iter()
            .any(|name| line.contains(name));
        is_one && line.contains(&*root)
    })
    .collect()
}

/// Starts an install, kills it once `is_time` returns true for its installers, and waits until none
/// of them is left. Returns false if the install has ended before.
fn kill_install(host: &Host, zone: &str, is_time: impl Fn(&[i32]) -> bool) -> bool {
    let mut install = host.command("zoneadm", &["-z", zone, "install"]);
    let mut install = e2e::start(install.stdout(Stdio::null()).stderr(Stdio::null()));
    let end = Instant::now() + DOWNLOAD;
    while !is_time(&installers(host)) {
        if install.try_wait().unwrap().is_some() {
            return false;
        }
        assert!(Instant::now() < end, "the installer did not get that far");
        std::thread::sleep(Duration::from_millis(5));
    }
    install.kill().unwrap();
    install.wait().unwrap();
    wait_for("the end of the installer", || {
        installers(host).is_empty().then_some(())
    });
    true
}

/// Returns true if one of the processes sees a file system that is mounted below a host's root.
fn has_mounted(host: &Host, pids: &[i32]) -> bool {
    let below = format!(" {}", host.root().display());
    pids.iter().any(|pid| {
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap_or_default();
        mounts.contains(&below)
    })
}

#[test]
fn an_installer_ends_with_the_command_that_started_it() {
    let Some(host) = Host::new() else { return };
    if !has("mmdebstrap") && !has("debootstrap") || !has("setpriv") {
        return e2e::skip("no mmdebstrap, no debootstrap, or no setpriv");
    }
    let blank = "create -b; set zonepath=/zones/whole";
    host.zonecfg(&["-z", "whole", blank]).quiet();
    assert!(kill_install(&host, "whole", |pids| !pids.is_empty()));
    // The install had not reached its end: the last packages are missing.
    let graves = host.path("/var/lib/zones/images/.layers/.dead");
    for tree in std::fs::read_dir(graves).into_iter().flatten().flatten() {
        let status = tree.path().join("var/lib/dpkg/status");
        let status = std::fs::read_to_string(status).unwrap_or_default();
        assert!(!status.contains("Package: systemd-sysv"));
    }
    host.on("whole", &["uninstall", "-F"]).quiet();
    assert_eq!(host.state("whole"), "configured");
    let prune = host.command("zoneimg", &["prune"]);
    let _ = e2e::run::run(&mut { prune }, b"").ok();
}

#[test]
fn an_installer_of_a_guest_ends_with_the_command_that_started_it() {
    let Some(host) = Host::new() else { return };
    if !has("mmdebstrap") && !has("debootstrap") || !has("setpriv") || !e2e::machine::has_qemu() {
        return e2e::skip("no mmdebstrap, no debootstrap, no setpriv, or no QEMU");
    }
    e2e::machine::configure(&host, "guest", "");
    if !kill_install(&host, "guest", |pids| has_mounted(&host, pids)) {
        return e2e::skip("no mirror can be reached");
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(".machine-work"), "{mounts}");
    host.on("guest", &["uninstall", "-F"]).quiet();
    assert_eq!(host.state("guest"), "configured");
}

/// Releases of Debian that the machine's mirror has.
const RELEASES: [&str; 3] = ["bullseye", "bookworm", "trixie"];

#[test]
fn other_releases_boot_their_own_systemd() {
    let Some(host) = Host::new() else { return };
    if e2e::left_to_long_runs("three roots are downloaded") {
        return;
    }
    if !has("mmdebstrap") {
        return e2e::skip("no mmdebstrap");
    }
    for release in RELEASES {
        let root = match e2e::roots::root(release, release, "systemd-sysv,dbus") {
            Ok(root) => root,
            Err(why) => {
                e2e::skip(&format!("no root of {release}: {why}"));
                continue;
            }
        };
        host.zonecfg(&["-z", release, "create -t SUNWlx"]).quiet();
        let root = root.to_string_lossy();
        let _ = host.on(release, &["install", "-a", &root]).ok();
        lives(&host, release);
    }
}
