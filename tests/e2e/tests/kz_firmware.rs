//! Tests kernel zones that boot with firmware: from images of disks, and from an installer CD.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use e2e::machine::{cd, configure, done, has_qemu, hears, loader};
use e2e::run::run;
use e2e::{Host, skip};

/// A disk of 4 MiB whose boot code writes a text.
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

    // The installer writes the disk, so that the zone boots from the disk from now on.
    let disk = fs::File::options()
        .write(true)
        .open(host.path("/zones/cd/disk0"))
        .unwrap();
    disk.write_all_at(&loader("a new system"), 0).unwrap();
    done(host.on("cd", &["boot"]));
    hears(&host, "cd", "a new system");
    host.halt("cd");
    // The CD is no longer needed.
    fs::remove_file(file("x.iso")).unwrap();
    let planned = host.on("cd", &["boot", "-n"]).ok().out;
    assert!(!planned.contains("scsi-cd"), "{planned}");

    // A zone whose disk already holds a system does not boot from the CD of an installer.
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

#[test]
fn a_disk_that_is_added_is_made_at_the_next_boot() {
    let Some(host) = Host::new() else { return };
    if !has_qemu() {
        return;
    }
    fs::write(host.path("/disk.raw"), disk("a raw disk")).unwrap();
    configure(&host, "k1", "");
    // A relative path starts at the working directory.
    let mut install = host.command("zoneadm", &["-z", "k1", "install", "-a", "disk.raw"]);
    install.current_dir(host.root());
    done(run(&mut install, b""));

    let storage = "file:///zones/%{zonename}/disk1";
    let more = format!("add device; set storage={storage}; set id=1; end");
    host.zonecfg(&["-z", "k1", &more]).quiet();
    let added = host.path("/zones/k1/disk1");
    let planned = host.on("k1", &["boot", "-n"]).ok().out;
    assert!(planned.contains("disk1") && !added.exists(), "{planned}");
    // This file is left from an earlier attempt that crashed.
    fs::write(&added, "").unwrap();
    let said = host.on("k1", &["boot"]).ok().err;
    assert!(said.contains("disk1 was added since"), "{said}");
    assert_eq!(fs::metadata(&added).unwrap().len(), 16 << 30);
    let held = fs::read_dir(format!("/proc/{}/fd", host.init_of("k1"))).unwrap();
    let mut held = held.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    assert!(held.any(|file| file == added), "QEMU has it");
    host.halt("k1");
    fs::File::options()
        .write(true)
        .open(&added)
        .and_then(|file| file.write_all_at(b"kept", 0))
        .unwrap();
    let said = host.on("k1", &["boot"]).ok().err;
    assert!(!said.contains("disk1"), "{said}");
    host.halt("k1");
    let mut head = [0; 4];
    let file = fs::File::open(&added).unwrap();
    file.read_exact_at(&mut head, 0).unwrap();
    assert_eq!(&head, b"kept");

    // A disk that an administrator lost is not replaced by a new one.
    fs::rename(&added, host.path("/lost")).unwrap();
    host.on("k1", &["boot"]).mentions(1, "disk1");
    assert!(!added.exists());
    fs::rename(host.path("/lost"), &added).unwrap();
    host.zonecfg(&["-z", "k1", "remove device id=1"]).quiet();
    host.on("k1", &["uninstall", "-F"]).quiet();
    assert!(!host.path("/zones/k1").exists(), "it was the zone's");
}

#[test]
fn limits_of_a_machine_change_while_it_runs() {
    let Some(host) = Host::new() else { return };
    if !has_qemu() {
        return;
    }
    fs::write(host.path("/disk.raw"), disk("a raw disk")).unwrap();
    install(&host, "k1", "-a", &host.path("/disk.raw"));
    done(host.on("k1", &["boot"]));
    let qemu = host.init_of("k1");
    let more = "add capped-cpu; set ncpus=0.5; end; set max-lwps=500; \
                select virtual-cpu; set ncpus=100; end; \
                add device; set storage=file:///zones/k1/disk1; set id=1; end";
    host.zonecfg(&["-z", "k1", more]).quiet();
    let said = host.on("k1", &["apply"]).ok().out;
    for line in [
        "Checking: Adding capped-cpu ncpus=0.50\n",
        "Checking: Adding max-lwps=500\n",
        "Checking: Modifying virtual-cpu ncpus=100: needs a reboot",
        "Checking: Adding device storage=file:///zones/k1/disk1 id=1\n",
    ] {
        assert!(said.contains(line), "{line:?} in {said}");
    }
    let limits = host.groups_of("k1").into_iter().filter_map(|group| {
        let v2 = fs::read_to_string(group.join("cpu.max"));
        v2.or_else(|_| fs::read_to_string(group.join("cpu.cfs_quota_us")))
            .ok()
    });
    let limits: Vec<String> = limits.collect();
    assert!(
        limits.iter().any(|limit| limit.starts_with("50000")),
        "{limits:?}"
    );
    assert_eq!(host.init_of("k1"), qemu, "it runs on");
    assert!(host.path("/zones/k1/disk1").exists(), "the added disk");

    // A change for the running zone alone is refused, and the message names the property.
    let refused = host.zonecfg(&["-z", "k1", "-r", "select virtual-cpu; set ncpus=99; end"]);
    assert!(
        refused
            .err
            .contains("not possible while the zone runs: Modifying virtual-cpu ncpus=99"),
        "{refused:?}"
    );
    done(host.zonecfg(&["-z", "k1", "-r", "select capped-cpu; set ncpus=0.7; end"]));
    host.halt("k1");
}
