//! Tests package managers that do not end: zonepatch is killed, cancelled or reaches its time
//! limit, and scripts of packages ask questions that no user answers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::debian::{self, Archive, Deb};
use e2e::patching::{within, zonepatch};
use e2e::run::run;
use e2e::{Host, Terminal, start, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// Number of seconds that the script of a package sleeps. The test finds the process by this
/// number, so no other program sleeps for the same time.
const SLEEP: &str = "98765";

/// A host with halted zones in which packages of the archive can be installed.
fn zones(names: &str) -> Option<(Host, Archive)> {
    if !debian::can_be_made() {
        return None;
    }
    let host = Host::new()?;
    debian::make(&host.path("/debian"));
    let archive = Archive::new(host.path("/repo"));
    host.zonecfg(&["-z", "master", "create -t SUNWlx"]).quiet();
    let root = host.path("/debian").display().to_string();
    let _ = host.on("master", &["install", "-d", &root]).ok();
    host.clone_from("master", names);
    Some((host, archive))
}

/// Returns the processes, in zones of this host, that run the endless script of a package.
fn scripts(host: &Host) -> Vec<PathBuf> {
    let ours = host.cgroup();
    let is_script = |folder: &PathBuf| {
        let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
        let groups = read("cgroup");
        read("cmdline") == format!("sleep\0{SLEEP}\0").as_bytes()
            && String::from_utf8_lossy(&groups).contains(ours)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|entry| entry.path())
        .filter(is_script)
        .collect()
}

/// Starts a patch whose package has an endless script, and waits until the script runs.
fn begin(host: &Host, deb: &Path, zones: &str) -> Child {
    let deb = deb.display().to_string();
    let words = ["apply", "-z", zones, "-P", "1", &deb];
    let mut command = host.command("zonepatch", &words);
    let child = start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    wait_for("the script of the package", || {
        (!scripts(host).is_empty()).then_some(())
    });
    child
}

/// Checks that the zone is as before the patch, and that nothing of the patch is left.
fn is_old(host: &Host, zone: &str) {
    within(host, zone, |root| {
        assert!(!root.join("opt/slow").exists());
    });
    let snapshots = host.on(zone, &["snapshots"]).ok();
    assert!(!snapshots.out.contains("patch-"), "{snapshots:?}");
    let copy = host.path("/zones").join(format!(".patch-{zone}"));
    assert!(!copy.exists());
}

fn slow(archive: &Archive) -> PathBuf {
    let script = format!("sleep {SLEEP}");
    archive.add(&Deb {
        name: "slow",
        version: "1",
        files: &[("opt/slow", "1")],
        postinst: &script,
        ..Deb::default()
    })
}

#[test]
fn the_package_manager_ends_with_whoever_wants_its_work() {
    let Some((host, archive)) = zones("web[1-2]") else {
        return;
    };
    let deb = slow(&archive);

    // First case: zonepatch is killed.
    let mut child = begin(&host, &deb, "web1");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of the script of the killed zonepatch", || {
        scripts(&host).is_empty().then_some(())
    });
    zonepatch(&host, &["recover"]).quiet();
    is_old(&host, "web1");

    // Second case: zonepatch is cancelled. The zone in progress stays unchanged, and the other zone
    // is not started.
    let child = begin(&host, &deb, "web[1-2]");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("zone 'web1': was cancelled."), "{said}");
    assert!(
        said.contains("zone 'web2': was not begun: cancelled."),
        "{said}"
    );
    assert_eq!(scripts(&host), [] as [PathBuf; 0]);
    for zone in ["web1", "web2"] {
        is_old(&host, zone);
    }

    // Third case: the time limit ends.
    let deb = deb.display().to_string();
    zonepatch(&host, &["apply", "-z", "web1", "--time-limit", "2", &deb]).mentions(
        1,
        "zone 'web1': its package manager had not ended after 2 s (see --time-limit).",
    );
    assert_eq!(scripts(&host), [] as [PathBuf; 0]);
    is_old(&host, "web1");
}

#[test]
fn a_script_that_asks_gets_no_answer_and_waits_for_none() {
    let Some((host, archive)) = zones("web") else {
        return;
    };
    // The script asks as debconf, read and less(1) do.
    let deb = archive.add(&Deb {
        name: "asks",
        version: "1",
        files: &[("opt/asks", "1")],
        postinst: "if read answer </dev/tty; then exit 1; fi\n\
                   if read answer; then exit 1; fi\n\
                   if cat /dev/tty; then exit 1; fi\n\
                   echo nobody >/var/lib/answer",
        ..Deb::default()
    });
    let deb = deb.display().to_string();
    let mut child = start(&mut host.command("zonepatch", &["apply", "-z", "web", &deb]));
    let status = wait_for("the end of a patch whose script asks", || {
        child.try_wait().unwrap()
    });
    assert!(status.success(), "{status}");
    within(&host, "web", |root| {
        let answer = fs::read_to_string(root.join("var/lib/answer")).unwrap();
        assert_eq!(answer, "nobody\n");
    });
    let _ = run(&mut host.command("zonepatch", &["status"]), b"").ok();
}

/// Starts a program on a terminal that is large enough for the screen of zonepatch.
fn on_screen(command: &Command) -> Terminal {
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "stty rows 30 cols 100; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    Terminal::start(shell)
}

#[test]
fn a_screen_shows_the_zones_at_work_and_those_that_were_cancelled() {
    let Some((host, archive)) = zones("web[1-3]") else {
        return;
    };
    // The first zone is done, the second is in progress, and the third waits.
    let deb = archive.add(&Deb {
        name: "slow",
        version: "1",
        files: &[("opt/slow", "1")],
        postinst: &format!(
            "if [ $(hostname) = web1 ]; then exit 0; fi; echo half of it; sleep {SLEEP}"
        ),
        ..Deb::default()
    });
    let deb = deb.display().to_string();
    let words = ["apply", "--no-share", "-z", "web[1-3]", "-P", "1", &deb];
    let mut screen = on_screen(&host.command("zonepatch", &words));
    screen.expect("web1");
    screen.expect("patched");
    screen.expect("patching, ");
    screen.expect("half of it");
    let pid = Pid::from_raw(i32::try_from(screen.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    screen.expect("was cancelled.");
    screen.expect("was not begun: cancelled.");
    assert_eq!(screen.status(), 1);
    assert_eq!(scripts(&host), [] as [PathBuf; 0]);
    within(&host, "web1", |root| {
        assert!(root.join("opt/slow").exists());
    });
    for zone in ["web2", "web3"] {
        is_old(&host, zone);
    }
    let left: Vec<_> = fs::read_dir(host.path("/zones"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with(".patch"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_script_of_ninety_seconds_is_told_of_and_waited_for() {
    if e2e::left_to_long_runs("it takes 90 s") {
        return;
    }
    let Some((host, archive)) = zones("web") else {
        return;
    };
    let deb = archive.add(&Deb {
        name: "long",
        version: "1",
        files: &[("opt/long", "1")],
        postinst: "echo half of it; sleep 90; echo whole >/var/lib/long",
        ..Deb::default()
    });
    let deb = deb.display().to_string();
    let ran = zonepatch(&host, &["apply", "-z", "web", &deb]).ok();
    assert!(ran.err.contains("zone 'web': at work for 6"), "{ran:?}");
    assert!(ran.err.contains("half of it"), "{ran:?}");
    within(&host, "web", |root| {
        let long = fs::read_to_string(root.join("var/lib/long")).unwrap();
        assert_eq!(long, "whole\n");
    });
}
