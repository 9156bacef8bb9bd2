//! Tests the life of a zone: each verb, and the state of the zone after it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use e2e::inside::{perl, syscall};
use e2e::run::run;
use e2e::{Host, Terminal, wait_for};

/// The arguments of reboot(2): the two magic numbers, then a command.
fn reboot(command: u32) -> String {
    syscall(
        libc::SYS_reboot,
        &format!("0xfee1dead, 672274793, {command}, 0"),
    )
}

/// An /etc/rc.zone that records its arguments.
fn write_rc(host: &Host, zone: &str) {
    host.put_program(
        zone,
        "etc/rc.zone",
        "#!/bin/sh\necho \"$1\" >>/var/rc.words\n",
    );
}

fn rc_words(host: &Host, zone: &str) -> String {
    let text = fs::read_to_string(host.top(zone).join("var/rc.words"));
    text.unwrap_or_default().replace('\n', " ")
}

fn wait_for_rc(host: &Host, zone: &str, words: &str) {
    wait_for(&format!("rc.zone called with {words}"), || {
        (rc_words(host, zone) == words).then_some(())
    });
}

/// Waits until the zone runs with another id, as after its own reboot.
fn wait_for_new_id(host: &Host, zone: &str, old: u32) -> u32 {
    wait_for("reboot of the zone", || {
        let row = host.row(zone);
        row.id.filter(|id| row.state == "running" && *id != old)
    })
}

#[test]
fn a_zone_from_create_to_delete() {
    let Some(host) = Host::new() else { return };
    host.configure("web", "");
    assert_eq!(host.state("web"), "configured");
    assert_eq!(host.row("web").uuid, "");
    host.on("web", &["verify"]).mentions(0, "does not exist");
    host.on("web", &["install"]).quiet();
    let row = host.row("web");
    assert_eq!(
        (row.state.as_str(), row.zonepath.as_str()),
        ("installed", "/zones/web")
    );
    assert_eq!(row.uuid.len(), 36);
    let mode = fs::metadata(host.path("/zones/web")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o700);
    host.boot("web");
    let row = host.row("web");
    assert_eq!((row.state.as_str(), row.id), ("running", Some(1)));
    assert_eq!(host.sh("web", "hostname"), "web");
    assert!(!host.groups_of("web").is_empty());
    host.halt("web");
    assert_eq!(host.state("web"), "installed");
    assert_eq!(host.row("web").id, None);
    assert!(host.groups_of("web").is_empty());
    host.on("web", &["uninstall", "-F"]).quiet();
    let row = host.row("web");
    assert_eq!((row.state.as_str(), row.uuid.as_str()), ("configured", ""));
    assert!(!host.path("/zones/web").exists());
    host.zonecfg(&["-z", "web", "delete -F"]).quiet();
    assert_eq!(host.rows(), []);
    host.on("web", &["boot"])
        .says(1, "zoneadm: web: No such zone configured");
}

/// A working copy in the home of a user, which other users cannot enter, as on Debian.
#[test]
fn programs_below_a_folder_of_mode_700_boot_a_zone() {
    let Some(host) = Host::with_web() else { return };
    let closed = host.path("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let usual = host.command("zoneadm", &["-z", "web", "boot"]);
    let programs = Path::new(usual.get_program()).parent().unwrap();
    for program in ["zoneadm", "zoneadmd", "zinit"] {
        e2e::copy_program(programs.join(program), closed.join(program));
    }
    let mut boot = Command::new(closed.join("zoneadm"));
    boot.args(usual.get_args()).env_clear();
    for (name, value) in usual.get_envs() {
        boot.env(name, value.unwrap_or_default());
    }
    run(&mut boot, b"").quiet();
    // This is one of the commands that zinit replaces in a zone.
    host.sh("web", "cmp /proc/1/exe /usr/sbin/poweroff");
}

#[test]
fn ids_rise_past_999_with_every_boot_and_ready() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    assert_eq!(host.row("web").id, Some(1));
    fs::write(host.path("/run/zones/last_id"), "998\n").unwrap();
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.row("web").id, Some(999));
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.row("web").id, Some(1000));
    host.halt("web");
    host.on("web", &["ready"]).quiet();
    assert_eq!(host.row("web").id, Some(1001));
    // A zone in state ready keeps its id when it boots.
    host.boot("web");
    assert_eq!(host.row("web").id, Some(1001));
    assert_eq!(host.state("web"), "running");
}

#[test]
fn reboot_reads_the_configuration_again_and_is_not_orderly() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web");
    host.boot("web");
    wait_for_rc(&host, "web", "start ");
    host.sh("web", "echo kept >/var/kept");
    let set = "add fs; set dir=/mnt; set special=/usr/bin; set type=lofs; add options ro; end";
    host.zonecfg(&["-z", "web", set]).quiet();
    assert_eq!(host.sh("web", "ls /mnt"), "");
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.sh("web", "test -x /mnt/env && cat /var/kept"), "kept");
    wait_for_rc(&host, "web", "start start ");
}

#[test]
fn shutdown_lets_rc_zone_stop_the_services() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web");
    host.boot("web");
    wait_for_rc(&host, "web", "start ");
    host.on("web", &["shutdown"]).quiet();
    assert_eq!(host.state("web"), "installed");
    assert_eq!(rc_words(&host, "web"), "start stop ");
    assert!(host.groups_of("web").is_empty());
    host.boot("web");
    wait_for_rc(&host, "web", "start stop start ");
    let id = host.row("web").id.unwrap();
    host.on("web", &["shutdown", "-r"]).quiet();
    let row = host.row("web");
    assert_eq!((row.state.as_str(), row.id), ("running", Some(id + 1)));
    wait_for_rc(&host, "web", "start stop start stop start ");
    // halt does not ask for confirmation.
    host.halt("web");
    assert_eq!(rc_words(&host, "web"), "start stop start stop start ");
}

#[test]
fn shutdown_ends_what_zlogin_started() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    let mut sleeper =
        Terminal::start(host.command("zlogin", &["-S", "web", "echo here; exec sleep 1000"]));
    sleeper.expect("here");
    host.on("web", &["shutdown"]).quiet();
    assert_eq!(host.state("web"), "installed");
    // The exit status is 128 plus the number of SIGTERM.
    assert_eq!(sleeper.status(), 143);
}

#[test]
fn init_powers_off_and_reboots_on_its_signals() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web");
    host.boot("web");
    wait_for_rc(&host, "web", "start ");
    let _ = host.zlogin(&["web", "kill -INT 1"]);
    let id = wait_for_new_id(&host, "web", 1);
    assert_eq!(id, 2);
    wait_for_rc(&host, "web", "start stop start ");
    let _ = host.zlogin(&["web", "kill -PWR 1"]);
    host.wait_for_state("web", "installed");
    assert_eq!(rc_words(&host, "web"), "start stop start stop ");
    wait_for("end of the zone's groups", || {
        host.groups_of("web").is_empty().then_some(())
    });
}

#[test]
fn the_system_call_reboot_acts_on_the_zone() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    const RESTART: u32 = 0x0123_4567;
    const POWER_OFF: u32 = 0x4321_fedc;
    const HALT: u32 = 0xcdef_0123;
    let _ = host.zlogin(&["web", &reboot(RESTART)]);
    wait_for_new_id(&host, "web", 1);
    let console = fs::read_to_string(host.path("/var/log/zones/web.console")).unwrap();
    assert!(console.contains("[NOTICE: Zone rebooting]"), "{console}");
    for command in [POWER_OFF, HALT] {
        let _ = host.zlogin(&["web", &reboot(command)]);
        host.wait_for_state("web", "installed");
        host.on("web", &["boot"]).quiet();
    }
}

#[test]
fn uninstall_asks_and_takes_no_for_an_answer() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.on("web", &["uninstall"]).says(
        1,
        "zoneadm: Input not from terminal and -F not specified: uninstall not done.",
    );
    assert_eq!(host.state("web"), "installed");
    let ask = |answer: &str| {
        let mut terminal = Terminal::start(host.command("zoneadm", &["-z", "web", "uninstall"]));
        terminal.expect("Are you sure you want to uninstall zone web (y/[n])? ");
        terminal.types(answer);
        assert_eq!(terminal.status(), 0);
        host.state("web")
    };
    assert_eq!(ask("n\n"), "installed");
    assert_eq!(ask("\n"), "installed");
    assert_eq!(ask("y\n"), "configured");
}

#[test]
fn uninstall_keeps_files_of_the_user_and_says_so() {
    let Some(host) = Host::with_web() else {
        return;
    };
    let mine = host.path("/zones/web/notes");
    fs::write(&mine, "mine").unwrap();
    // The mark of a migration is not a file of the user, so another zone may use the zonepath.
    let away = host.path("/zones/web/.migrating");
    fs::write(&away, "id").unwrap();
    let ran = host.on("web", &["uninstall", "-F"]).ok();
    assert!(
        (ran.out + &ran.err).contains("contains additional user data"),
        "no warning"
    );
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    assert!(!away.exists());
    fs::remove_file(&mine).unwrap();
    fs::remove_dir(host.path("/zones/web")).unwrap();
}

#[test]
fn a_ready_zone_has_a_platform_and_no_process_of_its_own() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.on("web", &["ready"]).quiet();
    let row = host.row("web");
    assert_eq!((row.state.as_str(), row.id), ("ready", Some(1)));
    host.zlogin(&["web", "id"]).says(
        1,
        "zlogin: login allowed only to running zones (web is 'ready').",
    );
    host.on("web", &["ready"])
        .says(0, "zoneadm: zone 'web': zone is already ready");
    // A later change of the configuration has an effect from the next ready on.
    let other = "add attr; set name=init; set type=string; set value=/no/init; end";
    host.zonecfg(&["-z", "web", other]).quiet();
    host.boot("web");
    assert_eq!(host.sh("web", "hostname"), "web");
    host.halt("web");
    host.zonecfg(&["-z", "web", "remove attr name=init"])
        .quiet();
    host.on("web", &["ready"]).quiet();
    host.halt("web");
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());
    // For a zone in state ready, reboot is a boot.
    host.on("web", &["ready"]).quiet();
    host.on("web", &["reboot"]).quiet();
    assert_eq!(host.state("web"), "running");
}

#[test]
fn mount_shows_the_whole_root_of_a_clone() {
    let Some(host) = Host::with_own_master() else {
        return;
    };
    fs::write(host.top("master").join("etc/motd"), "of the master\n").unwrap();
    host.clone_from("master", "web");
    let shown = host.path("/zones/web/lu");
    assert!(!host.top("web").join("etc/motd").exists());
    host.on("web", &["mount"]).quiet();
    assert_eq!(host.state("web"), "mounted");
    let motd = shown.join("etc/motd");
    assert_eq!(fs::read_to_string(&motd).unwrap(), "of the master\n");
    fs::write(&motd, "of the clone\n").unwrap();
    fs::remove_file(shown.join("etc/debian_version")).unwrap();
    host.on("web", &["mount"])
        .says(0, "zoneadm: zone 'web': zone is already mounted");
    host.on("web", &["boot"]).says(
        1,
        "zoneadm: zone 'web': boot operation is invalid for mounted zones.",
    );
    host.on("web", &["unmount"]).quiet();
    assert_eq!(host.state("web"), "installed");
    assert!(!shown.exists());
    host.boot("web");
    assert_eq!(
        host.sh(
            "web",
            "cat /etc/motd; ls /etc/debian_version 2>&1 | cut -d: -f3"
        ),
        "of the clone\n No such file or directory"
    );
    let kept = fs::read_to_string(host.path("/zones/master/lu/etc/motd"));
    assert!(kept.is_err());
}

#[test]
fn unmount_waits_for_nobody_who_uses_the_root() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.on("web", &["mount"]).quiet();
    let user = fs::File::open(host.path("/zones/web/lu/etc")).unwrap();
    host.on("web", &["unmount"]).mentions(1, "busy");
    assert_eq!(host.state("web"), "mounted");
    e2e::between_starts(|| drop(user));
    host.on("web", &["unmount"]).quiet();
}

#[test]
fn an_incomplete_zone_accepts_only_uninstall() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.on("web", &["mark", "incomplete"]).quiet();
    assert_eq!(host.state("web"), "incomplete");
    for verb in ["boot", "ready", "halt", "install", "mount", "verify"] {
        host.on("web", &[verb]).says(
            1,
            "zoneadm: zone 'web': zone is incomplete; uninstall required.",
        );
    }
    host.on("web", &["uninstall", "-F"]).quiet();
    host.on("web", &["install"]).quiet();
    assert_eq!(host.state("web"), "installed");
}

#[test]
fn boot_options_go_to_init() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web");
    let first = |host: &Host| host.sh("web", "tr \"\\0\" \" \" </proc/1/cmdline");
    host.on("web", &["boot", "--", "-i", "/bin/sleep", "1000"])
        .quiet();
    assert_eq!(first(&host), "/bin/sleep 1000 ");
    assert_eq!(rc_words(&host, "web"), "");
    host.halt("web");

    host.on("web", &["boot", "--", "-X"])
        .says(0, "zoneadm: WARNING: unused or invalid boot arguments: -X");
    host.halt("web");
    host.on("web", &["boot", "--", "-i"])
        .mentions(2, "boot option -i");
    host.on("web", &["boot", "--", "-i", "/nowhere"])
        .mentions(1, "/nowhere");
    assert_eq!(host.state("web"), "installed");

    // Without boot arguments on the command line, those of the configuration count.
    host.zonecfg(&["-z", "web", "set bootargs=\"-i /bin/sleep 2000\""])
        .quiet();
    host.boot("web");
    assert_eq!(first(&host), "/bin/sleep 2000 ");
    host.on("web", &["reboot", "--", "-i", "/bin/sleep", "3000"])
        .quiet();
    assert_eq!(first(&host), "/bin/sleep 3000 ");
}

#[test]
fn single_user_starts_no_services() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web");
    host.on("web", &["boot", "--", "-s"]).quiet();
    assert_eq!(host.sh("web", "hostname"), "web");
    // Init has started no process. It would have done so before it waits.
    host.on("web", &["shutdown"]).quiet();
    let words = rc_words(&host, "web");
    assert!(!words.contains("start"), "{words}");
}

#[test]
fn a_zone_without_a_working_init_does_not_run() {
    let Some(host) = Host::with_web() else {
        return;
    };
    host.put_program("web", "root/script", "not a program");
    host.on("web", &["boot", "--", "-i", "/root/script"])
        .mentions(1, "zoneadm: zone 'web': call to zoneadmd failed");
    assert_eq!(host.state("web"), "installed");
    assert!(host.groups_of("web").is_empty());
    host.boot("web");
}

#[test]
fn a_command_of_the_zone_may_end_in_the_background() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    // The parent of this process has ended, so process 1 of the zone reaps it.
    host.sh("web", &format!("({} & )", perl("exit 3")));
    wait_for("reaped orphan", || {
        // Some processes may end before their files are read.
        let states = host.sh("web", "cat /proc/[0-9]*/stat 2>/dev/null; :");
        (!states.contains("(perl) Z")).then_some(())
    });
}

#[test]
fn halt_kills_whatever_runs() {
    let Some(host) = Host::with_running_web() else {
        return;
    };
    host.sh(
        "web",
        "for i in 1 2 3 4 5; do setsid sh -c \"trap : TERM HUP INT; while :; do sleep 1000; done\" \
         >/dev/null 2>&1 </dev/null & done",
    );
    let pids = e2e::cgroup::processes(&host.groups_of("web"));
    assert!(pids.len() > 5, "{pids:?}");
    host.halt("web");
    for pid in pids {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        // The process is gone, or is a zombie that the host has not reaped, or its pid belongs to
        // another process.
        assert!(
            status.is_empty() || status.contains("State:\tZ") || !status.contains("NSpid:\t1"),
            "{status}"
        );
    }
    assert!(host.groups_of("web").is_empty());
}
