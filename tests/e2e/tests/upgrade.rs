//! Tests zones of older programs under the present ones, and state of newer programs under the
//! present ones. `ZONES_OLD_BIN` names the folder of the older programs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use e2e::guest::{Kept, image, wait_for_guest};
use e2e::run::run;
use e2e::{Host, Ran, machine, skip};

/// Returns the older programs, if the variable names them.
fn older() -> Option<PathBuf> {
    let folder = std::env::var_os("ZONES_OLD_BIN").map(PathBuf::from);
    if folder.is_none() {
        skip("ZONES_OLD_BIN names no folder with older programs");
    }
    folder
}

/// Runs an older program, which must succeed.
fn old(host: &Host, folder: &Path, program: &str, words: &[&str]) -> Ran {
    let like = host.command(program, words);
    let mut command = std::process::Command::new(folder.join(program));
    command.args(words).env_clear();
    for (name, value) in like.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    run(&mut command, b"").ok()
}

#[test]
fn zones_of_older_programs_live_on() {
    let Some(folder) = older() else { return };
    let Some(host) = Host::new() else { return };
    let old = |program: &str, words: &[&str]| old(&host, &folder, program, words);
    old("zonecfg", &["-z", "base", "create"]);
    old("zoneadm", &["-z", "base", "install"]);
    old("zoneadm", &["-z", "web", "clone", "--create", "base"]);
    old("zoneadm", &["-z", "away", "clone", "--create", "base"]);
    old("zoneadm", &["-z", "web", "boot"]);
    old("zlogin", &["web", "echo one >/etc/mark"]);
    old("zoneadm", &["-z", "web", "snapshot", "first"]);
    old("zlogin", &["web", "echo two >/etc/mark"]);
    old("zoneadm", &["-z", "away", "detach"]);
    let id = host.row("web").id;
    assert!(id.is_some(), "the running zone is not found");
    assert_eq!(host.state("away"), "configured");
    // The zoneadmd of the running zone is of the older version.
    assert_eq!(host.sh("web", "cat /etc/mark"), "two");
    let _ = host.on("away", &["attach"]).ok();
    host.boot("away");
    let _ = host.on("copy", &["clone", "--create", "base"]).ok();
    host.boot("copy");
    let _ = host.on("web", &["reboot"]).ok();
    host.halt("web");
    host.boot("web");
    assert_eq!(host.sh("web", "cat /etc/mark"), "two");
    host.halt("web");
    let _ = host.on("web", &["rollback", "-F", "first"]).ok();
    host.boot("web");
    assert_eq!(host.sh("web", "cat /etc/mark"), "one");
    let index = fs::read_to_string(host.path("/etc/zones/index")).unwrap();
    assert!(index.contains("\n# format: 1\n"), "{index}");
    for zone in ["web", "away", "copy"] {
        host.halt(zone);
    }
    // The older programs can use the zone again, because no file has a newer format.
    old("zoneadm", &["-z", "web", "boot"]);
    old("zoneadm", &["-z", "web", "halt"]);
}

#[test]
fn a_machine_that_older_programs_suspended_goes_on() {
    let Some(folder) = older() else { return };
    let Some(host) = Host::new() else { return };
    let Some(guest) = machine::guest(&host) else {
        return;
    };
    machine::configure(&host, "k1", "");
    machine::install(&host, "k1", &guest);
    let _ = old(&host, &folder, "zoneadm", &["-z", "k1", "boot"]);
    wait_for_guest(&host);
    let kept = Kept::of(&host);
    let _ = old(&host, &folder, "zoneadm", &["-z", "k1", "suspend"]);
    assert!(image(&host).exists());
    let _ = host.on("k1", &["boot"]).ok();
    kept.goes_on(&host);
    // A kernel zone that runs under an older zoneadmd can be suspended by the present programs.
    host.halt("k1");
    let _ = old(&host, &folder, "zoneadm", &["-z", "k1", "boot"]);
    wait_for_guest(&host);
    let kept = Kept::of(&host);
    let _ = host.on("k1", &["suspend"]).ok();
    let _ = host.on("k1", &["boot"]).ok();
    kept.goes_on(&host);
    host.halt("k1");
}

#[test]
fn state_of_newer_programs_is_refused_and_unchanged() {
    let Some(host) = Host::with_web() else { return };
    let link = host.path("/zones/web/format");
    symlink("2", &link).unwrap();
    for words in [&["boot"][..], &["uninstall", "-F"], &["snapshot", "one"]] {
        let ran = host.on("web", words);
        assert_ne!(ran.code(), Some(0), "{ran:?}");
        assert!(ran.err.contains("has format 2"), "{ran:?}");
        assert!(host.top("web").exists(), "{ran:?}");
    }
    fs::remove_file(link).unwrap();
    let index = host.path("/etc/zones/index");
    let text = fs::read_to_string(&index).unwrap();
    let newer = format!("# format: 2\nelse\n{text}");
    fs::write(&index, &newer).unwrap();
    for words in [&["list", "-cv"][..], &["-z", "web", "boot"]] {
        let ran = host.zoneadm(words);
        assert!(ran.err.contains("use newer programs"), "{ran:?}");
    }
    let ran = host.zonecfg(&["-z", "more", "create"]);
    assert!(ran.err.contains("use newer programs"), "{ran:?}");
    assert_eq!(fs::read_to_string(&index).unwrap(), newer);
    fs::write(&index, text).unwrap();
    host.boot("web");
    host.halt("web");
}
