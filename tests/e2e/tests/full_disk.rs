//! Tests zones on a full disk, which also holds the index and the state of running zones.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use e2e::run::run;
use e2e::{Host, wait_for};
use sys::process::ns;

/// Size of the disk. Two sparse zones take about 36 MiB.
const DISK: &str = "size=64m,mode=755";

/// A small file system at the root of a host. It must be dropped after the host.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn new(at: &'a Path) -> Self {
        let mut mount = Command::new("mount");
        let words = ["-t", "tmpfs", "-o", DISK, "zones"];
        let _ = run(mount.args(words).arg(at), b"").ok();
        Self(at)
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let lazy = std::thread::panicking().then_some("-l");
        // zoneadmd may still be closing the zone's root after its answer.
        wait_for("the end of the disk", || {
            let done = Command::new("umount").args(lazy).arg(self.0).output();
            done.is_ok_and(|done| done.status.success()).then_some(())
        });
    }
}

/// Writes to a file until the disk is full.
fn fill(file: &mut fs::File) {
    for size in [4096, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
}

#[test]
fn a_full_disk_ends_no_zone_by_itself_and_keeps_none_from_being_halted_and_removed() {
    let Some(host) = Host::new() else { return };
    sys::namespace::unshare(ns::MOUNT).expect("a mount namespace");
    sys::mount::make_private_recursive().expect("private mounts");
    let _disk = Disk::new(host.root());
    host.install("web");
    host.clone_from("web", "other");
    host.boot("web");
    host.boot("other");
    let init = host.init_of("web");
    let filler = host.path("/filler");
    let mut file = fs::File::create(&filler).unwrap();
    fill(&mut file);

    let full = |zone: &str| {
        format!(
            "zone '{zone}': the disk is full: {} has no room for 64 KiB more: remove files",
            host.path("/zones").join(zone).display()
        )
    };
    host.on("web", &["reboot"]).mentions(1, &full("web"));
    assert_eq!(host.init_of("web"), init, "the zone was ended");
    for zone in ["web", "other"] {
        host.halt(zone);
        assert_eq!(host.state(zone), "installed");
        host.on(zone, &["boot"]).mentions(1, &full(zone));
    }
    // The zones' files in /run are gone, which has freed some space.
    fill(&mut file);
    host.on("other", &["uninstall", "-F"]).quiet();
    assert_eq!(host.state("other"), "configured");

    drop(file);
    fs::remove_file(&filler).unwrap();
    host.boot("web");
    let _ = host.on("web", &["reboot"]).ok();
    host.halt("web");
    host.on("web", &["uninstall", "-F"]).quiet();
}
