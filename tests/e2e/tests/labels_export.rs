//! Tests the files in /export of a zone with a label when the zone is copied, moved, rolled back and
//! removed: no other zone gets them, and no command loses them without a word.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use e2e::run::run;
use e2e::ssh::Server;
use e2e::{Host, Ran};

/// Labels of the example of names: LOW is below HIGH, and ASIDE is incomparable to both.
const LOW: &str = "0x0002-08-08";
const HIGH: &str = "0x0004-08-68";
const ASIDE: &str = "0x0005-08-02";

const NAMES: &str = include_str!("../../../crates/label/tests/label_encodings");
const LOWERS: &str = "lower the label of the files";
const LEFT: &str = "has the exported files of a former zone";

fn put_names(host: &Host) {
    fs::create_dir_all(host.path("/etc/zones")).unwrap();
    fs::write(host.path("/etc/zones/label_encodings"), NAMES).unwrap();
}

fn configure(host: &Host, zone: &str, label: &str) {
    host.configure(zone, &format!("set -F label={label}"));
}

/// Returns a host with zone `low`, which has the file /export/f with the text `one`.
fn with_low() -> Option<Host> {
    let host = Host::with_master()?;
    put_names(&host);
    configure(&host, "low", LOW);
    host.on("low", &["clone", "master"]).quiet();
    host.boot("low");
    host.sh("low", "echo one >/export/f; chmod 640 /export/f");
    Some(host)
}

/// Boots a zone, and expects that its /export is empty.
#[track_caller]
fn boots_without_files(host: &Host, zone: &str) {
    host.boot(zone);
    assert_eq!(host.sh(zone, "ls -A /export"), "", "{zone}");
    host.halt(zone);
}

/// Returns the members of an archive below its folder of exported files.
fn exported_members(archive: &str) -> String {
    let script =
        format!("zstd -dc {archive} | tar tf - | grep -E '^(\\./)?(root/)?export/.' || true");
    run(Command::new("sh").args(["-ec", &script]), b"").ok().out
}

#[test]
fn snapshots_clones_and_archives_have_no_exported_files() {
    let Some(host) = with_low() else { return };
    host.on("low", &["snapshot", "s"]).quiet();
    host.sh("low", "echo two >/export/f; echo two >/root/word");
    let archive = host.path("/low.tar.zst").display().to_string();
    let ran = host.on("low", &["export", &archive]).ok();
    let folder = "save /zones/low/export/root on the host";
    assert!(ran.err.contains(folder), "{ran:?}");
    assert_eq!(exported_members(&archive), "");
    host.halt("low");
    // The root goes back, and the exported files stay.
    host.on("low", &["rollback", "-F", "s"]).quiet();
    host.boot("low");
    let seen = host.sh(
        "low",
        "cat /export/f; stat -c %a /export/f; ls /root/word 2>&1 || true",
    );
    assert!(
        seen.starts_with("two\n640\n") && seen.contains("No such file"),
        "{seen}"
    );
    host.halt("low");
    // Each copy has the label of the zone, or a higher one, and none has the files.
    configure(&host, "high", HIGH);
    host.on("high", &["clone", "low"]).quiet();
    host.on("twin", &["clone", "--create", "low"]).quiet();
    host.on("old", &["clone", "--create", "-s", "s", "low"])
        .quiet();
    let _ = host.on("copy", &["import", &archive]).ok();
    for (zone, label) in [("high", HIGH), ("twin", LOW), ("old", LOW), ("copy", LOW)] {
        let info = host.zonecfg(&["-z", zone, "export"]).ok().out;
        assert!(
            info.contains(&format!("set label={label}")),
            "{zone}: {info}"
        );
        boots_without_files(&host, zone);
    }
    configure(&host, "none", LOW);
    host.zonecfg(&["-z", "none", "clear label"]).quiet();
    host.on("none", &["clone", "low"]).mentions(1, LOWERS);
    // The control: the zone itself still has them, also after a detach.
    host.on("low", &["detach"]).quiet();
    host.on("low", &["attach"]).quiet();
    host.boot("low");
    assert_eq!(host.sh("low", "cat /export/f"), "two");
    host.halt("low");
    host.on("low", &["uninstall", "-F"]).quiet();
    host.on("low", &["clone", "twin"]).quiet();
    boots_without_files(&host, "low");
}

#[test]
fn a_new_zone_does_not_find_the_exported_files_of_a_former_zone() {
    let Some(host) = with_low() else { return };
    let archive = host.path("/low.tar.zst").display().to_string();
    let _ = host.on("low", &["export", &archive]).ok();
    host.halt("low");
    let tree = host.path("/tree");
    fs::create_dir_all(tree.join("etc")).unwrap();
    let tree = tree.display().to_string();
    configure(&host, "new", HIGH);
    let left = host.path("/zones/new/export/root");
    fs::create_dir_all(&left).unwrap();
    fs::set_permissions(host.path("/zones/new"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(left.join("secret"), "secret").unwrap();
    let commands: [&[&str]; 5] = [
        &["clone", "low"],
        &["install"],
        &["attach", "-F", "-d", &tree],
        &["attach", "-F", "-a", &archive],
        &["import", "-F", &archive],
    ];
    for words in commands {
        host.on("new", words).mentions(1, LEFT);
        assert_eq!(
            fs::read(left.join("secret")).unwrap(),
            b"secret",
            "{words:?}"
        );
        assert_eq!(host.state("new"), "configured", "{words:?}");
    }
    fs::remove_dir_all(host.path("/zones/new/export")).unwrap();
    host.on("new", &["clone", "low"]).quiet();
    boots_without_files(&host, "new");
}

#[test]
fn files_in_a_zonepath_are_no_source_for_a_lower_label() {
    let Some(host) = with_low() else { return };
    host.halt("low");
    configure(&host, "high", HIGH);
    host.on("high", &["clone", "low"]).quiet();
    host.boot("high");
    host.sh(
        "high",
        "mkdir -p /export/tree/etc; echo secret >/export/tree/etc/secret",
    );
    host.halt("high");
    let tree = host
        .path("/zones/high/export/root/tree")
        .display()
        .to_string();
    // An archive of a lower zone that lies in the zonepath of a higher one.
    let archive = host.path("/zones/high/export/root/low.tar.zst");
    let archive = archive.display().to_string();
    let _ = host.on("low", &["export", &archive]).ok();
    host.on("copy", &["import", &archive]).mentions(1, LOWERS);
    for (zone, label, admitted) in [("down", LOW, false), ("up", HIGH, true)] {
        configure(&host, zone, label);
        for words in [
            ["attach", "-F", "-d", &tree].as_slice(),
            &["install", "-d", &tree],
        ] {
            let ran = host.on(zone, words);
            assert_eq!(
                ran.err.contains(LOWERS),
                !admitted,
                "{zone} {words:?}: {ran:?}"
            );
            let secret = host.path(&format!("/zones/{zone}/root/etc/secret"));
            assert!(
                admitted || ran.code() == Some(1) && !secret.exists(),
                "{ran:?}"
            );
            if admitted && words[0] == "attach" {
                assert_eq!(ran.code(), Some(0), "{ran:?}");
                host.on(zone, &["uninstall", "-F"]).quiet();
            }
        }
    }
}

#[test]
fn a_backup_is_not_restored_at_a_lower_label() {
    if !Path::new("/usr/bin/restic").exists() {
        e2e::skip("no restic");
        return;
    }
    let Some(host) = with_low() else { return };
    host.halt("low");
    configure(&host, "high", HIGH);
    host.on("high", &["clone", "low"]).quiet();
    host.boot("high");
    host.sh("high", "echo secret >/root/secret; echo words >/export/f");
    let _ = fs::remove_dir_all(host.path("/repository"));
    let repository = host.path("/repository").display().to_string();
    let ran = host.on("high", &["backup", "-r", &repository]).ok();
    assert!(
        ran.err
            .contains("the backup leaves out the files in /export"),
        "{ran:?}"
    );
    host.halt("high");
    let listed = host.zoneadm(&["backups", "-j"]).ok().out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let moment = &listed[0]["id"].as_str().unwrap()[..8];
    // The whole root beside that of a lower zone, a file into it, and a new zone.
    host.on("low", &["restore", "-s", moment])
        .mentions(1, LOWERS);
    let file = ["restore", "-s", moment, "/root/secret"];
    host.on("low", &file).mentions(1, LOWERS);
    host.boot("low");
    host.on("low", &file).mentions(1, LOWERS);
    assert_eq!(
        host.sh("low", "ls /root/secret 2>/dev/null || echo none"),
        "none"
    );
    host.halt("low");
    configure(&host, "new", LOW);
    host.on("new", &["restore", "-s", moment])
        .mentions(1, LOWERS);
    assert_eq!(host.state("new"), "configured");
    // The control: a zone of the same label.
    host.zonecfg(&["-z", "new", &format!("set label={HIGH}")])
        .quiet();
    let _ = host.on("new", &["restore", "-s", moment]).ok();
    host.boot("new");
    assert_eq!(host.sh("new", "cat /root/secret; ls -A /export"), "secret");
    host.halt("new");
    for name in ["/etc/zones/backup", "/etc/zones/backup.key"] {
        let _ = fs::remove_file(host.path(name));
    }
}

#[test]
fn a_migration_loses_no_exported_file_and_lowers_no_label() {
    let (Some(here), Some(there)) = (with_low(), Host::new()) else {
        return;
    };
    let Some(server) = Server::new(&there) else {
        return;
    };
    put_names(&there);
    let is_refused = |ran: Ran, part: &str| {
        assert!(ran.code() == Some(1) && ran.err.contains(part), "{ran:?}");
        assert_eq!(here.state("low"), "running");
        assert_eq!(here.sh("low", "cat /export/f"), "one");
    };
    for words in [["-n"].as_slice(), &[]] {
        is_refused(
            server.migrate(&here, "low", words),
            "has files in /export, which do not migrate",
        );
    }
    let folder = here.path("/zones/low/export/root");
    let saved = here.path("/saved");
    let copy = |from: &Path, to: &Path| {
        let script = "cp -a \"$0/.\" \"$1\"";
        run(
            Command::new("sh").args(["-ec", script]).args([from, to]),
            b"",
        )
        .quiet();
    };
    fs::create_dir_all(&saved).unwrap();
    copy(&folder, &saved);
    here.halt("low");
    fs::remove_file(folder.join("f")).unwrap();
    // Another label, and files of a former zone, on the other host.
    configure(&there, "low", ASIDE);
    server.migrate(&here, "low", &["-n"]).mentions(1, LOWERS);
    server.migrate(&here, "low", &[]).mentions(1, LOWERS);
    there
        .zonecfg(&["-z", "low", &format!("set label={LOW}")])
        .quiet();
    let left = there.path("/zones/low/export/root");
    fs::create_dir_all(&left).unwrap();
    fs::set_permissions(there.path("/zones/low"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(left.join("secret"), "").unwrap();
    server.migrate(&here, "low", &["-n"]).mentions(1, LEFT);
    server.migrate(&here, "low", &[]).mentions(1, LEFT);
    assert!(left.join("secret").exists());
    fs::remove_dir_all(there.path("/zones/low/export")).unwrap();
    assert_eq!(here.state("low"), "installed");
    let _ = server.migrate(&here, "low", &[]).ok();
    assert_eq!(here.state("low"), "configured");
    boots_without_files(&there, "low");
    copy(&saved, &left);
    there.boot("low");
    assert_eq!(
        there.sh("low", "cat /export/f; stat -c '%a %u' /export/f"),
        "one\n640 0"
    );
}
