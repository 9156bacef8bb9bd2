//! Tests changes of the machine of a kernel zone while the zone runs.

use std::fs;

use e2e::guest::{Kept, boot_machine, said, wait_for_guest};
use e2e::machine::{self, done};
use e2e::{Host, wait_for};

/// Sets the size of the first disk of a zone in its configuration.
#[track_caller]
fn set_size(host: &Host, zone: &str, size: &str) {
    let set = format!("select device id=0; set size={size}; end");
    host.zonecfg(&["-z", zone, &set]).quiet();
}

/// Waits until the guest of `k1` sees its first disk with this number of MiB.
fn sees(host: &Host, mib: u64) {
    let blocks = (mib * 2048).to_string();
    wait_for(&format!("disk of {mib} MiB in the guest"), || {
        (said(host, "cat /sys/block/vda/size") == blocks).then_some(())
    });
}

#[test]
fn disks_grow_and_never_shrink() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    let length = || {
        fs::metadata(host.path("zones/k1/disk0"))
            .expect("a disk")
            .len()
            >> 20
    };
    sees(&host, 256);
    set_size(&host, "k1", "320m");
    let line = "Modifying device storage=file:///zones/%{zonename}/disk%{id} id=0 size=320M";
    let planned = host.on("k1", &["apply", "-n"]).ok();
    assert_eq!(planned.text(), format!("zone 'k1': Checking: {line}"));
    assert_eq!(length(), 256);

    let kept = Kept::of(&host);
    done(host.on("k1", &["apply"]));
    assert_eq!(length(), 320);
    sees(&host, 320);
    host.on("k1", &["apply"]).mentions(0, "nothing to apply");
    // The guest can write to the new part.
    let new = "seek=300 bs=1M count=1 of=/dev/vda conv=notrunc 2>/dev/null";
    let _ = said(&host, &format!("dd if=/run/data {new}; sync"));
    let sum = "dd if=/dev/vda bs=1M skip=300 count=1 2>/dev/null | md5sum";
    let written = said(&host, sum);

    set_size(&host, "k1", "128m");
    host.on("k1", &["apply"]).mentions(
        1,
        "could not verify device id=0 size=128M: the disk has 320M, and a disk never shrinks",
    );
    host.zonecfg(&["-z", "k1", "-r", "select device id=0; set size=64m; end"])
        .mentions(1, "never shrinks");
    assert_eq!(length(), 320);
    done(host.zonecfg(&["-z", "k1", "-r", "select device id=0; set size=352m; end"]));
    sees(&host, 352);

    // A suspended zone keeps the disk that its image knows. The disk grows after the resume.
    set_size(&host, "k1", "384m");
    host.on("k1", &["suspend"]).quiet();
    done(host.on("k1", &["boot"]));
    kept.goes_on(&host);
    assert_eq!((length(), said(&host, sum)), (352, written.clone()));
    done(host.on("k1", &["apply"]));
    sees(&host, 384);
    host.on("k1", &["suspend"]).quiet();
    done(host.on("k1", &["boot"]));
    kept.goes_on(&host);
    sees(&host, 384);

    // A halted zone grows at its boot.
    host.halt("k1");
    set_size(&host, "k1", "300m");
    host.on("k1", &["boot"]).mentions(1, "never shrinks");
    set_size(&host, "k1", "448m");
    let booted = host.on("k1", &["boot"]).ok();
    let told = "has grown from 384M to 448M";
    assert!(
        booted.err.contains(told) || booted.out.contains(told),
        "{booted:?}"
    );
    wait_for_guest(&host);
    sees(&host, 448);
    assert_eq!(said(&host, sum), written);
}

#[test]
fn a_disk_on_a_base_file_grows() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    let Some(guest) = machine::guest(&host) else {
        return;
    };
    machine::configure(&host, "k2", "");
    machine::install(&host, "k2", &guest);
    machine::done(host.on("k1", &["clone", "--create", "k2"]));
    set_size(&host, "k1", "5g");
    let booted = host.on("k1", &["boot"]).ok();
    assert!(
        format!("{booted:?}").contains("has grown from 256M to 5G"),
        "{booted:?}"
    );
    wait_for_guest(&host);
    sees(&host, 5 << 10);
    set_size(&host, "k1", "6g");
    done(host.on("k1", &["apply"]));
    sees(&host, 6 << 10);
    // A clone of the grown zone has the same size.
    host.halt("k1");
    machine::done(host.on("k3", &["clone", "--create", "k1"]));
    let record = fs::read_to_string(host.path("zones/k3/machine.json")).expect("a record");
    assert!(record.contains(&(6_u64 << 30).to_string()), "{record}");
}

/// Adds a second disk of 64 MiB to the configuration of `k1`.
const ADD: &str =
    "add device; set storage=file:///zones/%{zonename}/disk1; set id=1; set size=64m; end";
const REMOVE: &str = "remove device id=1";

/// Changes the stored configuration of `k1` and applies the change to the running zone.
#[track_caller]
fn apply(host: &Host, change: &str) -> String {
    host.zonecfg(&["-z", "k1", change]).quiet();
    host.on("k1", &["apply"]).ok().out
}

/// Waits until the guest of `k1` has a second disk, or has none.
fn has_second(host: &Host, expected: bool) {
    wait_for("change of the second disk in the guest", || {
        let there = said(host, "test -e /sys/block/vdb && echo yes || echo no") == "yes";
        (there == expected).then_some(())
    });
}

#[test]
fn disks_come_and_go() {
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    let kept = Kept::of(&host);
    host.zonecfg(&["-z", "k1", ADD]).quiet();
    let planned = host.on("k1", &["apply", "-n"]).ok();
    let line = "Adding device storage=file:///zones/%{zonename}/disk%{id} id=1 size=64M";
    assert_eq!(
        planned.text(),
        format!("zone 'k1': Checking: {}", line.replace("%{id}", "1"))
    );
    assert!(!host.path("zones/k1/disk1").exists());
    let applied = host.on("k1", &["apply"]).ok().out;
    assert!(applied.contains("was made: empty, of 64M"), "{applied}");
    has_second(&host, true);
    let look = "echo $(cat /sys/block/vdb/serial) $(cat /sys/block/vdb/size)";
    assert_eq!(said(&host, look), "disk1 131072");
    let sum = "dd if=/dev/vdb bs=1M count=3 2>/dev/null | md5sum";
    let write = "dd if=/run/data of=/dev/vdb bs=1M count=3 conv=notrunc 2>/dev/null; sync";
    let written = said(&host, &format!("{write}; {sum}"));
    set_size_of_second(&host);

    // No other QEMU could take the state of this machine.
    host.on("k1", &["suspend"]).mentions(
        1,
        "its machine has changed since it booted (disk1): reboot the zone first",
    );
    kept.goes_on(&host);
    let _ = apply(&host, REMOVE);
    has_second(&host, false);
    host.on("k1", &["suspend"]).quiet();
    done(host.on("k1", &["boot"]));
    kept.goes_on(&host);

    // The disk keeps its content and its port, also after a reboot.
    let _ = apply(&host, &ADD.replace("64m", "96m"));
    has_second(&host, true);
    assert_eq!(said(&host, sum), written);
    let address = "readlink -f /sys/block/vdb | sed 's,/virtio.*,,'";
    let before = said(&host, address);
    host.halt("k1");
    done(host.on("k1", &["boot"]));
    wait_for_guest(&host);
    has_second(&host, true);
    assert_eq!((said(&host, address), said(&host, sum)), (before, written));
    let kept = Kept::of(&host);
    host.on("k1", &["suspend"]).quiet();
    done(host.on("k1", &["boot"]));
    kept.goes_on(&host);
    done(host.zonecfg(&["-z", "k1", "-r", REMOVE]));
    has_second(&host, false);
    for refused in [
        "remove device id=0",
        "select capped-memory; set physical=256m; end",
        "select virtual-cpu; set ncpus=99; end",
    ] {
        host.zonecfg(&["-z", "k1", "-r", refused])
            .mentions(1, "not possible while the zone runs");
    }
    kept.goes_on(&host);
}

/// Grows the second disk, which came while the zone ran.
fn set_size_of_second(host: &Host) {
    let _ = apply(host, "select device id=1; set size=96m; end");
    wait_for("second disk of 96 MiB", || {
        (said(host, "cat /sys/block/vdb/size") == "196608").then_some(())
    });
}
