//! Tests orders for a zone that is not ready for them, or that arrive while another order is
//! carried out.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use e2e::{Host, wait_for};

/// An /etc/rc.zone that counts its starts and then runs these commands.
fn write_rc(host: &Host, zone: &str, script: &str) {
    let text = format!("#!/bin/sh\n[ \"$1\" = start ] || exit 0\necho >>/var/starts\n{script}\n");
    host.put_program(zone, "etc/rc.zone", text);
}

fn starts(host: &Host, zone: &str) -> usize {
    let text = fs::read_to_string(host.top(zone).join("var/starts"));
    text.unwrap_or_default().len()
}

fn messages(host: &Host, zone: &str) -> String {
    fs::read_to_string(host.path(&format!("/var/log/zones/{zone}.messages"))).unwrap_or_default()
}

/// Waits until the zone has been down for a moment, and no reboot is pending.
fn stays_down(host: &Host, zone: &str) {
    let before = starts(host, zone);
    for _ in 0..3 {
        assert_eq!(host.state(zone), "installed");
        assert_eq!(host.inits_of(zone), [0; 0]);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(
        starts(host, zone),
        before,
        "it booted again after it was halted"
    );
}

#[test]
fn a_zone_that_reboots_all_the_time_is_halted_when_halt_says_so() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web", "kill -INT 1");
    for round in e2e::rounds(4) {
        let before = starts(&host, "web");
        host.boot("web");
        // The order arrives during a reboot, or during the pause before the next one.
        let wanted = before + 1 + usize::try_from(round % 4).unwrap();
        wait_for("the next start", || {
            (starts(&host, "web") >= wanted).then_some(())
        });
        host.halt("web");
        stays_down(&host, "web");
    }
}

#[test]
fn reboots_in_quick_succession_are_put_off() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web", "kill -INT 1");
    let began = Instant::now();
    host.boot("web");
    wait_for("six starts", || (starts(&host, "web") >= 6).then_some(()));
    // The fourth reboot waits 1 s and the fifth 2 s.
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}");
    wait_for("the pause before the next", || {
        let row = host.row("web");
        (row.state == "shutting_down").then_some(())
    });
    assert!(messages(&host, "web").contains("reboot 4 in quick succession"));
    // A reboot that an administrator orders does not wait.
    write_rc(&host, "web", "");
    host.boot("web");
    assert_eq!(host.state("web"), "running");
    host.halt("web");
}

#[test]
fn a_shutdown_in_the_pause_before_a_reboot_keeps_the_zone_down() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web", "kill -INT 1");
    host.boot("web");
    wait_for("the pause before a reboot", || {
        messages(&host, "web")
            .contains("quick succession")
            .then_some(())
    });
    let _ = host.on("web", &["shutdown"]).ok();
    stays_down(&host, "web");
}

#[test]
fn halt_cuts_a_shutdown_short_that_init_ignores() {
    let Some(host) = Host::with_web() else { return };
    // This init catches the signal and ignores it.
    host.put_program(
        "web",
        "etc/deaf",
        "#!/usr/bin/perl\n$SIG{$_} = sub { open my $f, '>>', '/var/heard'; print $f \"x\\n\" } for qw(PWR TERM INT NUM37 NUM38 NUM39); while (1) { sleep 1 }\n",
    );
    host.on("web", &["boot", "--", "-i", "/etc/deaf"]).quiet();
    let mut shutdown = host.command("zoneadm", &["-z", "web", "shutdown", "-r"]);
    let shutdown = e2e::start(shutdown.stdout(Stdio::piped()).stderr(Stdio::piped()));
    wait_for("the order to be heard", || {
        host.top("web").join("var/heard").exists().then_some(())
    });
    host.halt("web");
    let ended = shutdown.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("another command halts the zone"), "{said}");
    assert_eq!(host.state("web"), "installed");
}

#[test]
fn a_shutdown_waits_for_an_init_that_is_not_ready() {
    let Some(host) = Host::with_web() else { return };
    // Like systemd, this init accepts orders only some time after its start.
    host.put_program(
        "web",
        "etc/slow",
        "#!/usr/bin/perl\nselect undef, undef, undef, 0.7;\n$SIG{$_} = sub { open my $f, '>', '/var/told'; exit 0 } for qw(PWR TERM NUM37 NUM38);\nwhile (1) { sleep 1 }\n",
    );
    host.on("web", &["boot", "--", "-i", "/etc/slow"]).quiet();
    host.on("web", &["shutdown"]).quiet();
    assert_eq!(host.state("web"), "installed");
    assert!(
        host.top("web").join("var/told").exists(),
        "it ended in order"
    );
}

/// Runs a sequence of commands as automation does, without any pause, with systemd as the zone's
/// init.
#[test]
fn systemd_takes_every_order_of_a_sequence_without_pauses() {
    let Some(host) = Host::with_web() else { return };
    if !std::path::Path::new("/lib/systemd/systemd").exists() {
        return e2e::skip("no systemd");
    }
    let init = ["--", "-i", "/lib/systemd/systemd"];
    host.put("web", "etc/machine-id", "");
    for _ in e2e::rounds(1) {
        host.on("web", &[&["boot"], &init[..]].concat()).quiet();
        host.on("web", &["shutdown"]).quiet();
        assert_eq!(host.state("web"), "installed");
        host.on("web", &[&["boot"], &init[..]].concat()).quiet();
        host.on("web", &[&["reboot"], &init[..]].concat()).quiet();
        host.on("web", &["shutdown"]).quiet();
        assert_eq!(host.state("web"), "installed");
        host.on("web", &[&["boot"], &init[..]].concat()).quiet();
        host.halt("web");
        assert_eq!(host.state("web"), "installed");
        host.on("web", &[&["boot"], &init[..]].concat()).quiet();
        host.on("web", &[&["shutdown", "-r"], &init[..]].concat())
            .quiet();
        host.on("web", &["reboot"]).quiet();
        host.halt("web");
    }
}

#[test]
fn the_commands_of_the_host_end_a_sparse_zone() {
    let Some(host) = Host::with_web() else { return };
    write_rc(&host, "web", "");
    for command in ["poweroff", "halt", "shutdown -h now"] {
        host.boot("web");
        let ran = host.zlogin(&["web", command]);
        assert!(!ran.err.contains("systemd"), "{}", ran.err);
        host.wait_for_state("web", "installed");
    }
    let before = starts(&host, "web");
    host.boot("web");
    wait_for("its start", || {
        (starts(&host, "web") > before).then_some(())
    });
    let ran = host.zlogin(&["web", "shutdown +5"]);
    assert_eq!(ran.code(), Some(1));
    assert_eq!(host.state("web"), "running");
    for (more, command) in [(2, "reboot"), (3, "shutdown -r now")] {
        let _ = host.zlogin(&["web", command]);
        wait_for("the start after a reboot", || {
            let up = host.state("web") == "running" && starts(&host, "web") >= before + more;
            up.then_some(())
        });
    }
    // The host's own settings have not changed.
    let own = fs::symlink_metadata("/usr/sbin/reboot");
    assert!(own.is_err() || own.is_ok_and(|own| own.file_type().is_symlink() || own.len() > 0));
    host.halt("web");
}
