//! Tests snapshots of the disks of a kernel zone.

use std::fs;

use e2e::guest::{boot_machine, said};
use e2e::{Host, machine};

const FILE: &str = "/root.text";

/// Writes a text to a file on the guest's disk.
fn write(host: &Host, text: &str) {
    assert_eq!(
        said(host, &format!("echo {text} >{FILE}; sync; cat {FILE}")),
        text
    );
}

#[test]
fn the_disks_of_a_halted_kernel_zone_go_back_to_a_snapshot() {
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    write(&host, "first");
    assert_eq!(host.on("k1", &["snapshots", "-p"]).ok().out, "");
    host.halt("k1");

    // A killed command leaves no snapshot, and the next command removes what it made.
    for at in ["snapshot:1:kill", "snapshot:2:kill"] {
        let killed = host.with_fault(at, "k1", &["snapshot", "one"]);
        assert_ne!(killed.code(), Some(0), "{killed:?}");
        assert_eq!(host.on("k1", &["snapshots", "-p"]).ok().out, "");
    }
    host.on("k1", &["snapshot", "one"]).quiet();
    host.on("k1", &["snapshot", "one"])
        .mentions(1, "has a snapshot one already");
    assert!(!host.path("zones/k1/disk-snapshots/.half").exists());
    let listed = host.on("k1", &["snapshots", "-j"]).ok().out;
    for part in ["\"name\": \"one\"", "\"layers\": 1", "\"used_bytes\": "] {
        assert!(listed.contains(part), "{listed}");
    }

    host.on("k2", &["clone", "--create", "-s", "one", "k1"])
        .mentions(1, "whose snapshots cannot be cloned");

    machine::boot(&host, "k1");
    assert_eq!(said(&host, &format!("cat {FILE}")), "first");
    write(&host, "second");
    host.on("k1", &["rollback", "-F", "one"])
        .mentions(1, "rollback operation is invalid");
    host.halt("k1");
    host.on("k1", &["rollback", "-F", "two"])
        .mentions(1, "has no snapshot two");
    host.on("k1", &["rollback", "-F", "one"]).quiet();
    machine::boot(&host, "k1");
    assert_eq!(said(&host, &format!("cat {FILE}")), "first");

    // The snapshot can be removed while the zone runs.
    host.on("k1", &["destroy-snapshot", "one"]).quiet();
    assert_eq!(host.on("k1", &["snapshots", "-p"]).ok().out, "");
    host.halt("k1");
    host.on("k1", &["snapshot", "last"]).quiet();
    host.on("k1", &["uninstall", "-F"]).quiet();
    let left = fs::read_dir(host.path("zones/k1")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files are left in the zonepath");
}
