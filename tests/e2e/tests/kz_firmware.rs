//! Kernel zones that a firmware starts: from images of disks, and from the CD of an
//! installer.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use e2e::machine::{cd, configure, done, has_qemu, hears, loader};
use e2e::run::run;
use e2e::{Host, skip};

/// A disk of 4 MiB that says something when it is started from.
fn disk(says: &str) -> Vec<u8> {
    let mut disk = loader(says);
    disk.resize(4 << 20, 0);
    disk
}

fn install(host: &Host, zone: &str, flag: &str, path: &Path) -> String {
    configure(host, zone, "");
    let path = path.to_string_lossy();
    host.on(zone, &["install", flag, &path]).ok().out
}

#[test]
fn disks_and_cds_are_started_from() {
    let Some(host) = Host::new() else { return };
    if !has_qemu() {
        return;
    }
    let file = |name: &str| host.path(&format!("/{name}"));
    fs::write(file("disk.raw"), disk("a raw disk")).unwrap();
    let said = install(&host, "raw", "-a", &file("disk.raw"));
    assert!(said.contains("disk.raw (raw)"), "{said}");
    done(host.on("raw", &["boot"]));

    fs::write(file("x.iso"), cd("an installer")).unwrap();
    let said = install(&host, "cd", "-a", &file("x.iso"));
    assert!(said.contains("until there is a system on it"), "{said}");
    done(host.on("cd", &["boot"]));

    let packed = Path::new("/usr/bin/qemu-img").exists();
    if packed {
        fs::write(file("other.raw"), disk("a qcow2")).unwrap();
        let mut convert = Command::new("/usr/bin/qemu-img");
        convert.args(["convert", "-f", "raw", "-O", "qcow2", "-c"]);
        convert.args([file("other.raw"), file("disk.qcow2")]);
        run(&mut convert, b"").quiet();
        let said = install(&host, "packed", "-a", &file("disk.qcow2"));
        assert!(said.contains("disk.qcow2 (qcow2)"), "{said}");
        done(host.on("packed", &["boot"]));
    } else {
        skip("qemu-img is not installed (package qemu-utils): qcow2 was left out");
    }
    hears(&host, "raw", "a raw disk");
    host.halt("raw");
    if packed {
        hears(&host, "packed", "a qcow2");
        host.halt("packed");
    }
    hears(&host, "cd", "an installer");
    host.halt("cd");

    // What an installer does: from now on the disk is started from.
    let disk = fs::File::options()
        .write(true)
        .open(host.path("/zones/cd/disk0"))
        .unwrap();
    disk.write_all_at(&loader("a new system"), 0).unwrap();
    done(host.on("cd", &["boot"]));
    hears(&host, "cd", "a new system");
    host.halt("cd");
    // Nobody needs the CD any more.
    fs::remove_file(file("x.iso")).unwrap();
    let planned = host.on("cd", &["boot", "-n"]).ok().out;
    assert!(!planned.contains("scsi-cd"), "{planned}");

    // An installer does not get to a disk that has a system.
    fs::write(file("full.raw"), self::disk("full")).unwrap();
    fs::write(file("x.iso"), cd("an installer")).unwrap();
    let other = file("full.raw");
    let more = format!(
        "remove -F device; add device; set storage=file://{}; set id=0; end",
        other.display()
    );
    configure(&host, "full", &more);
    let iso = file("x.iso");
    let words = ["install", "-b", &iso.to_string_lossy()];
    host.on("full", &words).mentions(1, "it has a system");
    assert_eq!(host.state("full"), "configured");
}
