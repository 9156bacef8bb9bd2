//! Tests kernel zones that start with UEFI firmware, and signatures.

use std::fs;

use e2e::machine::{configure, done, has_qemu, hears};
use e2e::{Host, efi, wait_for};

const SAYS: &str = "a loader for UEFI";

fn console(host: &Host, zone: &str) -> String {
    let path = host.path(&format!("/var/log/zones/{zone}.console"));
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

#[test]
fn verified_boot_does_not_start_unsigned_programs() {
    let Some(host) = Host::new() else { return };
    if !has_qemu() || !efi::has_tools() {
        return;
    }
    let file = |name: &str| host.path(&format!("/{name}"));
    let key = efi::key(&host.path("/"));
    let program = efi::program(SAYS);
    efi::disk(&file("plain.raw"), &program);
    efi::disk(&file("signed.raw"), &efi::sign(&program, &key));
    efi::cd(&file("cd.iso"), &program);
    let enforced = format!(
        "add verified-boot; set policy=enforce; add cert file://{}; end; \
         select virtual-cpu; set ncpus=2; end",
        key.1.display()
    );
    for (zone, disk, more) in [
        ("plain", "plain.raw", ""),
        ("cd", "cd.iso", ""),
        ("locked", "plain.raw", &enforced),
        ("signed", "signed.raw", &enforced),
    ] {
        configure(&host, zone, more);
        let disk = file(disk);
        let words = ["install", "-a", &disk.to_string_lossy()];
        let said = host.on(zone, &words).ok().out;
        assert!(said.contains("Firmware: UEFI"), "{said}");
        done(host.on(zone, &["boot"]));
    }
    hears(&host, "plain", SAYS);
    hears(&host, "signed", SAYS);
    hears(&host, "cd", SAYS);
    hears(&host, "locked", "Access Denied");
    assert!(!console(&host, "locked").contains(SAYS));
    host.halt("signed");
    host.halt("locked");
    host.halt("cd");
    goes_on(&host);
    stays_checked(&host);
    without_a_loader(&host, &enforced);
}

/// The guest resumes from its image, and only with the variables that its firmware stored.
fn goes_on(host: &Host) {
    let nvram = host.path("/zones/plain/uefi.nvram");
    done(host.on("plain", &["suspend"]));
    let then = fs::metadata(&nvram).unwrap().modified().unwrap();
    let set = |to| {
        let file = fs::File::options().write(true).open(&nvram).unwrap();
        file.set_modified(to).unwrap();
    };
    set(std::time::UNIX_EPOCH);
    host.on("plain", &["boot"]).mentions(1, "uefi.nvram");
    set(then);
    let said = console(host, "plain").len();
    done(host.on("plain", &["boot"]));
    wait_for("it goes on", || {
        let text = console(host, "plain");
        (text.len() > said + 2).then_some(())
    });
    assert_eq!(console(host, "plain").matches(SAYS).count(), 1);
    host.halt("plain");
}

/// Tests that Secure Boot is on again at the next boot after it was switched off in the firmware's
/// menu, and that a clone has the keys, too.
fn stays_checked(host: &Host) {
    let nvram = |zone: &str| host.path(&format!("/zones/{zone}/uefi.nvram"));
    configure(host, "clone", "");
    done(host.on("clone", &["clone", "signed"]));
    let of_origin = fs::read(nvram("signed")).unwrap();
    assert_eq!(fs::read(nvram("clone")).unwrap(), of_origin);
    let template = fs::read(nvram("plain")).unwrap();
    fs::write(nvram("signed"), template).unwrap();
    let said = host.on("signed", &["boot"]).ok().err;
    assert!(said.contains("signatures are checked again"), "{said}");
    host.halt("signed");
    // A policy that checks nothing prints a message.
    let words = "select verified-boot; set policy=warning; end";
    host.zonecfg(&["-z", "signed", words]).quiet();
    let said = host.on("signed", &["boot"]).ok().err;
    assert!(said.contains("nothing is checked"), "{said}");
    host.halt("signed");
}

/// A kernel that QEMU starts directly has no signature check.
fn without_a_loader(host: &Host, enforced: &str) {
    let root = host.path("/root-of-k");
    fs::create_dir_all(root.join("boot")).unwrap();
    fs::write(root.join("boot/vmlinuz"), "a kernel").unwrap();
    let root = root.to_string_lossy();
    let words = ["install", "-d", &root, "-x", "install-size=16M"];
    configure(host, "direct", enforced);
    host.on("direct", &words).mentions(1, "started directly");
    let words_bios = ["install", "-d", &root, "-x", "firmware=bios"];
    host.on("direct", &words_bios).mentions(1, "no BIOS checks");
    host.zonecfg(&["-z", "direct", "remove -F verified-boot"])
        .quiet();
    done(host.on("direct", &words));
    host.zonecfg(&["-z", "direct", enforced]).quiet();
    for verb in ["verify", "boot"] {
        host.on("direct", &[verb])
            .mentions(1, "outside of its disk");
    }
}
