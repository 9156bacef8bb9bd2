//! Tests zonepatch on the host itself, which is a separate root here, the records that dpkg writes
//! there, and package managers that list their packages, which stand-ins replace.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use e2e::debian::{self, Archive, Deb};
use e2e::patching::{more, read, zonepatch};
use e2e::run::run;
use e2e::{Host, Ran};
use serde_json::Value;

/// Runs a command in a root.
fn chroot(root: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new("chroot");
    command
        .arg(root)
        .args(words)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    run(&mut command, b"")
}

#[test]
fn the_host_comes_first_and_dpkg_writes_down_that_it_changed() {
    if !debian::can_be_made() {
        return;
    }
    let Some(host) = Host::new() else { return };
    let root = host.root().to_owned();
    debian::make(&root);
    let archive = Archive::new(host.path("/repo"));
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/dpkg/zones");
    let settings = root.join("etc/dpkg/dpkg.cfg.d");
    fs::create_dir_all(&settings).unwrap();
    fs::copy(hook, settings.join("zones")).unwrap();
    let mark = host.path("/var/lib/zones/patch/host-changed");
    let version = || {
        let ran = chroot(&root, &["dpkg-query", "-W", "-f", "${Version}", "more"]);
        ran.out
    };

    let file = archive.add(&more("1")).display().to_string();
    let _ = zonepatch(&host, &["apply", "-g", &file]).ok();
    assert_eq!(version(), "1");
    assert!(mark.is_file());
    archive.add(&more("2"));
    let ran = zonepatch(&host, &["apply", "--global", "-n"]).ok();
    assert_eq!(version(), "1", "{ran:?}");
    let ran = zonepatch(&host, &["apply", "--global", "-j"]).ok();
    let report: Result<Value, _> = serde_json::from_str(&ran.out);
    assert!(report.is_ok(), "{ran:?}");
    assert_eq!(version(), "2");
    archive.add(&Deb {
        postinst: "exit 1",
        ..more("3")
    });
    zonepatch(&host, &["apply", "-g"]).mentions(1, "no other zone was touched");
    let _ = fs::remove_file(archive.folder().join("more_3_all.deb"));

    // dpkg does not notice an obstacle in the place of its records.
    let deb = "/repo/more_2_all.deb";
    fs::remove_file(&mark).unwrap();
    fs::create_dir(&mark).unwrap();
    let _ = chroot(&root, &["dpkg", "-i", deb]).ok();
    fs::remove_dir(&mark).unwrap();
    let _ = chroot(&root, &["apt-get", "-y", "install", "--reinstall", deb]).ok();
    assert!(mark.is_file());
    let folder = host.path("/var/lib/zones");
    let aside = host.path("/var/lib/zones-aside");
    fs::rename(&folder, &aside).unwrap();
    let ran = chroot(&root, &["dpkg", "-i", deb]).ok();
    assert!(!ran.err.contains("host-changed"), "{ran:?}");
    assert!(!folder.exists());
    fs::rename(&aside, &folder).unwrap();
}

/// A stand-in for apk, whose packages are the lines of a file.
const APK: &str = r#"#!/bin/sh
db=/lib/apk/db/installed
case " $* " in
*" info -v "*) cat $db ;;
*" update "*) [ ! -e /etc/broken ] ;;
*" upgrade "*)
    sed -i 's/^app-1-r0$/app-1.1-r1/' $db
    ;;
esac
"#;

#[test]
fn a_package_manager_that_tells_what_it_has_is_driven() {
    if !debian::can_be_made() {
        return;
    }
    let Some(host) = Host::new() else { return };
    let root = host.path("/other");
    debian::make(&root);
    fs::rename(root.join("var/lib/dpkg"), root.join("var/lib/was-dpkg")).unwrap();
    fs::create_dir_all(root.join("usr/lib/apk/db")).unwrap();
    fs::write(
        root.join("usr/lib/apk/db/installed"),
        "app-1-r0\nlib-x-2-r3\n",
    )
    .unwrap();
    let apk = root.join("usr/sbin/apk");
    fs::write(&apk, APK).unwrap();
    fs::set_permissions(&apk, fs::Permissions::from_mode(0o755)).unwrap();
    host.zonecfg(&["-z", "web", "create -t SUNWlx"]).quiet();
    let _ = host
        .on("web", &["install", "-d", &root.display().to_string()])
        .ok();
    let installed = || read(&host, "web", "usr/lib/apk/db/installed");

    let plan = zonepatch(&host, &["plan", "-z", "web"]).ok();
    let line = "web: 1 package\n\tapp 1-r0 -> 1.1-r1\n";
    assert!(plan.out.contains(line), "{plan:?}");
    assert!(installed().starts_with("app-1-r0\n"));
    let ran = zonepatch(&host, &["apply", "-z", "web"]).ok();
    assert!(ran.out.contains("web: patched real, 1 package"), "{ran:?}");
    assert_eq!(installed(), "app-1.1-r1\nlib-x-2-r3\n");
    let ran = zonepatch(&host, &["apply", "-z", "web"]).ok();
    assert!(ran.out.contains("web: unchanged"), "{ran:?}");
    let _ = zonepatch(&host, &["rollback", "-z", "web"]).ok();
    assert!(installed().starts_with("app-1-r0\n"));
    zonepatch(&host, &["apply", "-z", "web", "--security"]).mentions(1, "no security archive");
    host.put("web", "etc/broken", "");
    zonepatch(&host, &["apply", "-z", "web"]).mentions(1, "apk update failed");
}
