//! Tests the image store: an image is imported once, used by many zones, and removed when nothing
//! uses it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::run::run;
use e2e::{Host, Ran};
use serde_json::Value;

/// Makes a small root. `word` makes it different from other roots.
fn tree(host: &Host, word: &str) -> PathBuf {
    let tree = host.path("/trees").join(word);
    for name in ["bin", "sbin", "etc", "usr/bin", "var"] {
        fs::create_dir_all(tree.join(name)).unwrap();
    }
    fs::write(tree.join("sbin/init"), "#!/bin/sh\nsleep 1000\n").unwrap();
    fs::set_permissions(tree.join("sbin/init"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(tree.join("etc/word"), word).unwrap();
    tree
}

fn archive(host: &Host, tree: &Path, options: &str, name: &str) -> String {
    let path = host.path(name).to_string_lossy().into_owned();
    let mut tar = Command::new("tar");
    tar.args([options, path.as_str(), "-C"]).arg(tree).arg(".");
    run(&mut tar, b"").quiet();
    path
}

fn zoneimg(host: &Host, words: &[&str]) -> Ran {
    run(&mut host.command("zoneimg", words), b"")
}

/// Imports an image and returns its digest.
#[track_caller]
fn import(host: &Host, words: &[&str]) -> String {
    let ran = zoneimg(host, &[&["import"], words].concat()).ok();
    let digest = ran.text().to_owned();
    assert!(
        digest.starts_with("sha256:") && digest.len() == 71,
        "{ran:?}"
    );
    digest
}

#[track_caller]
fn listed(host: &Host) -> Vec<Value> {
    let ran = zoneimg(host, &["list", "-j"]).ok();
    serde_json::from_str(&ran.out).unwrap()
}

/// Returns the entries of the folder of images, and the number of their layers.
fn stored(host: &Host) -> (Vec<String>, usize) {
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != ".layers" && name != ".dead")
            .collect()
    };
    let images = host.path("/var/lib/zones/images");
    (names(&images), names(&images.join(".layers")).len())
}

#[track_caller]
fn install(host: &Host, zone: &str, image: &str) {
    host.zonecfg(&["-z", zone, "create -t SUNWlx"]).quiet();
    host.on(zone, &["install", "-i", image]).quiet();
}

/// Returns a file of a halted zone as the zone would see it.
#[track_caller]
fn content(host: &Host, zone: &str, path: &str) -> String {
    host.on(zone, &["mount"]).quiet();
    let at = host.path("/zones").join(zone).join("lu").join(path);
    let text = fs::read_to_string(at).unwrap_or_default();
    host.on(zone, &["unmount"]).quiet();
    text
}

#[test]
fn equal_trees_in_any_compression_are_one_image() {
    let Some(host) = Host::new() else { return };
    let tree = tree(&host, "one");
    let plain = archive(&host, &tree, "-cf", "/one.tar");
    let packed = archive(&host, &tree, "-czf", "/packed.tar.gz");
    let digest = import(&host, &["-n", "tiny", &plain]);
    assert_eq!(import(&host, &[&packed]), digest);
    assert_eq!(import(&host, &[&tree.to_string_lossy()]), digest);
    if Path::new("/usr/bin/zstd").exists() {
        let zstd = host.path("/one.tar.zst");
        let mut program = Command::new("zstd");
        program.args(["-q", &plain, "-o"]).arg(&zstd);
        run(&mut program, b"").quiet();
        assert_eq!(import(&host, &[&zstd.to_string_lossy()]), digest);
    }
    let all = listed(&host);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["name"], "tiny");
    assert_eq!(all[0]["digest"], *digest);
    assert_eq!(stored(&host).1, 1);
    zoneimg(&host, &["verify", "tiny"]).quiet();
    zoneimg(&host, &["prune"]).quiet();
    assert_eq!(stored(&host), (vec![], 0));
}

#[test]
fn import_refuses_a_file_with_another_digest() {
    let Some(host) = Host::new() else { return };
    let tree = tree(&host, "one");
    let file = archive(&host, &tree, "-cf", "/one.tar");
    let wrong = "0".repeat(64);
    zoneimg(&host, &["import", "--digest", &wrong, &file])
        .mentions(1, &format!("not sha256:{wrong}"));
    assert_eq!(stored(&host).0.len(), 0);
    let sum = run(Command::new("sha256sum").arg(&file), b"").ok();
    let of_archive = sum.text().split(' ').next().unwrap().to_owned();
    let digest = import(&host, &["--digest", &of_archive, &file]);
    assert_ne!(digest, format!("sha256:{of_archive}"));
    assert_eq!(listed(&host)[0]["archive"], format!("sha256:{of_archive}"));
    zoneimg(&host, &["remove", &digest]).quiet();
    assert_eq!(import(&host, &["--digest", &digest, &file]), digest);
    zoneimg(&host, &["import", "--digest", "junk", &file]).mentions(2, "not a digest");
    // A file that is not an archive leaves nothing.
    let noise = host.path("/noise.tar");
    fs::write(&noise, vec![7; 4096]).unwrap();
    zoneimg(&host, &["import", &noise.to_string_lossy()]).mentions(1, "noise.tar");
    zoneimg(&host, &["import", "/nowhere.tar"]).mentions(1, "/nowhere.tar");
    assert_eq!(stored(&host), (vec![digest[7..].to_owned()], 1));
}

#[test]
fn zones_share_an_image_and_keep_it_alive() {
    let Some(host) = Host::new() else { return };
    let tree = tree(&host, "shared");
    fs::write(tree.join("var/big"), vec![1; 8 << 20]).unwrap();
    let digest = import(&host, &["-n", "tiny", &tree.to_string_lossy()]);
    install(&host, "web", "tiny");
    install(&host, "db", &digest[..20]);
    host.put("web", "etc/own", "of web");
    host.clone_from("web", "deep");
    host.on("db", &["snapshot", "fresh"]).quiet();
    let used = run(
        Command::new("du").args(["-sk"]).arg(host.path("/zones")),
        b"",
    )
    .ok();
    let kib: u64 = used
        .text()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(kib < 4 << 10, "three zones on one image take {kib} KiB");
    assert!(listed(&host)[0]["users"].as_array().unwrap().len() >= 2);
    zoneimg(&host, &["remove", "tiny"]).mentions(1, "in use by");
    zoneimg(&host, &["prune"]).quiet();
    assert_eq!(listed(&host).len(), 1);
    zoneimg(&host, &["remove", "-f", "tiny"]).quiet();
    assert_eq!(listed(&host).len(), 0);
    zoneimg(&host, &["inspect", "tiny"]).mentions(1, "tiny: no such image");
    for zone in ["web", "db", "deep"] {
        assert_eq!(content(&host, zone, "etc/word"), "shared", "{zone}");
    }
    assert_eq!(content(&host, "deep", "etc/own"), "of web");
    assert_eq!(content(&host, "db", "etc/own"), "");
    for (zone, left) in [("web", 1), ("db", 1), ("deep", 0)] {
        host.on(zone, &["uninstall", "-F"]).quiet();
        assert_eq!(stored(&host).1, left, "after {zone}");
    }
}

#[test]
fn an_image_is_installed_only_where_it_fits() {
    let Some(host) = Host::new() else { return };
    host.configure("sparse", "");
    host.on("sparse", &["install", "-i", "tiny"])
        .mentions(2, "inherit-pkg-dir");
    host.zonecfg(&["-z", "web", "create -t SUNWlx"]).quiet();
    host.on("web", &["install", "-i", "tiny"])
        .mentions(1, "tiny: this host has no image of this name");
    host.on("web", &["install", "-i"]).mentions(2, "-i takes");
    host.on("web", &["install", "-i", "tiny", "-d", "/"])
        .mentions(2, "-i takes");
    assert_eq!(host.state("web"), "configured");
    host.zonecfg(&["-z", "whole", "create -b; set zonepath=/zones/whole"])
        .quiet();
    let tree = tree(&host, "one");
    import(&host, &["-n", "tiny", &tree.to_string_lossy()]);
    host.on("whole", &["install", "-i", "tiny"]).quiet();
    assert_eq!(content(&host, "whole", "etc/word"), "one");
}

#[test]
fn a_changed_image_is_found_out() {
    let Some(host) = Host::new() else { return };
    let tree = tree(&host, "one");
    let digest = import(&host, &["-n", "tiny", &tree.to_string_lossy()]);
    let ran = zoneimg(&host, &["inspect", "-j", "tiny"]).ok();
    let shown: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(shown["digest"], *digest);
    let plain = zoneimg(&host, &["inspect", "tiny"]).ok();
    let files = plain
        .out
        .lines()
        .find_map(|line| line.trim().strip_prefix("files: "));
    let word = Path::new(files.unwrap()).join("etc/word");
    fs::set_permissions(&word, fs::Permissions::from_mode(0o600)).unwrap();
    zoneimg(&host, &["verify", "tiny"]).mentions(1, "damaged");
}

#[test]
fn prune_removes_leftovers_of_a_killed_import() {
    let Some(host) = Host::new() else { return };
    let tree = tree(&host, "one");
    for step in 1..=2 {
        let mut command = host.command("zoneimg", &["import", &tree.to_string_lossy()]);
        command.env("ZONES_FAULT", format!("import:{step}:kill"));
        let ran = run(&mut command, b"");
        assert!(ran.was_killed(), "{ran:?}");
        assert_eq!(listed(&host).len(), 0);
        let mut command = host.command("zoneimg", &["import", &tree.to_string_lossy()]);
        command.env("ZONES_FAULT", format!("import:{step}:fail"));
        run(&mut command, b"").mentions(1, "a fault was asked for");
    }
    let dead = host.path("/var/lib/zones/images/.layers/.dead");
    assert!(fs::read_dir(&dead).unwrap().count() > 0);
    zoneimg(&host, &["prune"]).quiet();
    assert!(!dead.exists());
    // The same command again completes the work.
    import(&host, &[&tree.to_string_lossy()]);
    assert_eq!(listed(&host).len(), 1);
}

#[test]
fn install_from_an_image_killed_or_failed_at_every_step() {
    let Some(host) = Host::new() else { return };
    let tree = tree(&host, "one");
    import(&host, &["-n", "tiny", &tree.to_string_lossy()]);
    host.zonecfg(&["-z", "web", "create -t SUNWlx"]).quiet();
    for kind in ["kill", "fail"] {
        for step in 1..16 {
            let fault = format!("install:{step}:{kind}");
            let ran = host.with_fault(&fault, "web", &["install", "-i", "tiny"]);
            let state = host.state("web");
            assert!(
                ["configured", "incomplete", "installed"].contains(&state.as_str()),
                "{fault}: {state}"
            );
            if state != "configured" {
                host.on("web", &["uninstall", "-F"]).quiet();
            }
            assert!(
                listed(&host)[0]["users"].as_array().unwrap().is_empty(),
                "{fault}"
            );
            if ran.code() == Some(0) {
                assert!(step > 3, "{fault} did not strike");
                break;
            }
        }
    }
    install_again(&host);
}

#[track_caller]
fn install_again(host: &Host) {
    host.on("web", &["install", "-i", "tiny"]).quiet();
    assert_eq!(content(host, "web", "etc/word"), "one");
}

#[test]
fn a_hostile_archive_does_nothing_outside() {
    let Some(host) = Host::new() else { return };
    let tree = tree(&host, "one");
    let outside = host.path("/outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, tree.join("way")).unwrap();
    let file = archive(&host, &tree, "-cf", "/hostile.tar");
    fs::remove_file(tree.join("way")).unwrap();
    fs::create_dir(tree.join("way")).unwrap();
    fs::write(tree.join("way/through"), "").unwrap();
    let mut append = Command::new("tar");
    append
        .args(["-rf", &file, "-C"])
        .arg(&tree)
        .arg("./way/through");
    run(&mut append, b"").quiet();
    let ran = zoneimg(&host, &["import", &file]);
    assert!(matches!(ran.code(), Some(0 | 1)), "{ran:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{ran:?}");
    // Attributes of overlay in an archive would change what the zone sees of other layers.
    let tree = host.path("/marked");
    fs::create_dir_all(tree.join("usr/bin")).unwrap();
    for name in ["trusted.overlay.opaque", "user.overlay.opaque"] {
        let folder = tree.join("usr");
        rustix::fs::setxattr(&folder, name, b"y", rustix::fs::XattrFlags::empty()).unwrap();
    }
    import(&host, &["-n", "marked", &tree.to_string_lossy()]);
    let plain = zoneimg(&host, &["inspect", "marked"]).ok();
    let files = plain
        .out
        .lines()
        .find_map(|line| line.trim().strip_prefix("files: "));
    let mut names = vec![0; 4096];
    let length = rustix::fs::listxattr(Path::new(files.unwrap()).join("usr"), &mut names).unwrap();
    assert_eq!(length, 0, "{}", String::from_utf8_lossy(&names[..length]));
}
