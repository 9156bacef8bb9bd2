//! Tests `zoneadm migrate` of a kernel zone with a disk that both hosts reach: the disk is not
//! copied, and a host that has other storage at its path is refused.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use e2e::guest::{BOOT_ID, boot_machine, disk_is_whole, said};
use e2e::ssh::{Server, hosts, state};
use e2e::{Host, machine, skip, wait_for};

/// Size of the shared disk in bytes.
const DISK_BYTES: u64 = 64 << 20;

/// Starts a process in the guest that writes numbered blocks to the second disk, each synced,
/// until it is told to stop. The number of the last written block is in /run/written.
const WRITER: &str = "
    cat >/run/writer <<'END'
n=0
while [ ! -e /run/stop ]; do
    n=$((n + 1))
    printf '%-512s' \"block $n\" | dd of=/dev/vdb bs=512 seek=$n conv=fsync,notrunc 2>/dev/null || exit
    echo $n >/run/written.new && mv /run/written.new /run/written
done
touch /run/stopped
END
    setsid sh /run/writer </dev/null >/dev/null 2>&1 &
    while [ ! -s /run/written ]; do sleep 1; done";

fn device(path: &Path) -> String {
    let path = path.display();
    format!("add device; set storage=file://{path}; set id=1; end")
}

fn written(host: &Host) -> u64 {
    said(host, "cat /run/written").parse().expect("a number")
}

/// Waits until the guest has written more blocks.
fn writes_on(host: &Host) {
    let before = written(host);
    wait_for("more blocks", || (written(host) > before).then_some(()));
}

/// The target has a configuration of the zone whose disk is this file: it must refuse the zone, and
/// the guest must go on at the source.
#[track_caller]
fn is_refused(server: &Server, [here, there]: [&Host; 2], disk: &Path, why: &str) {
    machine::configure(there, "k1", &device(disk));
    for words in [&["-n"][..], &["-t", "live"]] {
        server.migrate(here, "k1", words).mentions(1, why);
    }
    assert_eq!(state(there, "k1"), "configured");
    assert!(!there.path("zones/k1").exists());
    there.zonecfg(&["-z", "k1", "delete -F"]).quiet();
    writes_on(here);
}

#[test]
fn a_disk_on_shared_storage_is_not_copied() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some([(here, back), (there, server)]) = hosts() else {
        return;
    };
    let disk = here.path("/shared.raw");
    let file = File::create_new(&disk).expect("a new file");
    file.set_len(DISK_BYTES).expect("its size");
    let mut direct = fs::OpenOptions::new();
    if direct
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(&disk)
        .is_err()
    {
        return skip("no direct I/O on the file system of the test");
    }
    if !boot_machine(&here, &device(&disk)) {
        return;
    }
    let boot = said(&here, BOOT_ID);
    let _ = said(&here, WRITER);

    // Another file of the same size, a file of another size, and none.
    let other = there.path("/other.raw");
    let made = File::create_new(&other).expect("a new file");
    made.set_len(DISK_BYTES).expect("its size");
    let sides = [&here, &there];
    is_refused(
        &server,
        sides,
        &other,
        "does not see the lock that the source holds",
    );
    made.set_len(DISK_BYTES / 2).expect("its size");
    is_refused(
        &server,
        sides,
        &other,
        "its size is 33554432 bytes on the target",
    );
    fs::remove_file(&other).expect("a file");
    is_refused(&server, sides, &other, "No such file");
    // A file in the zonepath is no shared storage either.
    let own = Path::new("/zones/k1/disk1");
    is_refused(
        &server,
        sides,
        own,
        "no device of the zone is disk 1 outside its zonepath",
    );

    // A migration that fails with the guest stopped leaves it here, and it writes on.
    for step in [1, 3] {
        let fault = format!("live:{step}:fail");
        let ran = server.migrate_with(&here, "k1", &["-t", "live"], &fault);
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        assert_eq!(state(&here, "k1"), "running");
        writes_on(&here);
        wait_for("nothing of it there", || {
            (state(&there, "k1") == "none").then_some(())
        });
    }

    let ran = server.migrate(&here, "k1", &["-t", "live"]).ok();
    assert!(ran.out.contains("The guest runs over there"), "{}", ran.out);
    assert_eq!(here.state("k1"), "configured");
    assert_eq!(said(&there, BOOT_ID), boot);
    writes_on(&there);
    // A second QEMU cannot write to the disk: the one of the guest has locked it.
    machine::configure(&here, "k2", &device(&disk));
    let guest = machine::guest(&here).expect("the guest that was installed");
    machine::install(&here, "k2", &guest);
    here.on("k2", &["boot"]).mentions(1, "lock");
    writes_on(&there);

    // A suspended guest finds the same disk.
    let _ = back.migrate(&there, "k1", &["-t", "warm"]).ok();
    assert_eq!(said(&here, BOOT_ID), boot);
    writes_on(&here);

    // All blocks are in the one file, in their order.
    let _ = said(
        &here,
        "touch /run/stop; while [ ! -e /run/stopped ]; do sleep 1; done",
    );
    let last = written(&here);
    here.halt("k1");
    disk_is_whole(&here);
    for number in 1..=last {
        let mut block = [0; 512];
        file.read_exact_at(&mut block, number * 512)
            .expect("a block");
        let text = String::from_utf8_lossy(&block);
        assert_eq!(text.trim_end(), format!("block {number}"));
    }
}

#[test]
fn a_zone_whose_disks_are_elsewhere_is_taken_over() {
    let Some(host) = Host::new() else {
        return;
    };
    if !machine::has_qemu() {
        return;
    }
    let disk = host.path("/shared.raw");
    let content = vec![7; 1 << 20];
    fs::write(&disk, &content).expect("a disk");
    let more = format!(
        "remove -F device; add device; set storage=file://{}; set id=0; end",
        disk.display()
    );
    machine::configure(&host, "k1", &more);
    // Another host may run the zone.
    host.on("k1", &["attach"])
        .mentions(1, "another host may run it");
    assert_eq!(state(&host, "k1"), "configured");
    assert!(!host.path("zones/k1/machine.json").exists());
    // An attach that is killed, with a root and before there is one, is given again.
    for step in [3, 4] {
        let fault = format!("attach:{step}:kill");
        let _ = host.with_fault(&fault, "k1", &["attach", "--take-over"]);
        assert!(host.path("zones/k1/.unfinished-root").exists(), "{fault}");
        machine::done(host.on("k1", &["attach", "--take-over"]));
        assert_eq!(state(&host, "k1"), "installed");
        host.on("k1", &["uninstall", "--shared-disks"]).quiet();
    }
    // Its storage is not mounted.
    let away = host.path("/shared.away");
    fs::rename(&disk, &away).expect("a rename");
    host.on("k1", &["attach", "--take-over"])
        .mentions(1, "is its storage mounted?");
    fs::rename(&away, &disk).expect("a rename");
    machine::done(host.on("k1", &["attach", "--take-over"]));
    assert_eq!(state(&host, "k1"), "installed");
    // A migration to a host that died has been cut off, and one from another host has been.
    let mark = host.path("zones/k1/.migrating");
    fs::write(&mark, "1f2e\ntwo\n").expect("a mark");
    host.on("k1", &["boot"])
        .mentions(1, "may already be on another host");
    host.on("k1", &["uninstall", "--shared-disks"])
        .mentions(1, "may already be on two");
    assert!(mark.exists());
    host.on("k1", &["uninstall", "--shared-disks", "-F"])
        .quiet();
    machine::done(host.on("k1", &["attach", "--take-over"]));
    fs::write(host.path("zones/k1/.incoming"), "1f2e\n").expect("a mark");
    host.on("k1", &["mark", "incomplete"]).quiet();
    host.on("k1", &["uninstall", "--shared-disks"]).quiet();
    machine::done(host.on("k1", &["attach", "--take-over"]));
    // QEMU finds its programs in the root that was made.
    machine::done(host.on("k1", &["boot"]));
    host.halt("k1");
    // Neither the attach, nor a guest that finds no loader, nor the removal changes the disk.
    host.on("k1", &["uninstall", "-F"]).quiet();
    assert!(!host.path("zones/k1").exists());
    assert!(fs::read(&disk).expect("the disk") == content);
    // A disk in the zonepath is no shared storage: it cannot be made anew.
    machine::configure(&host, "k2", "");
    host.on("k2", &["attach", "--take-over"])
        .mentions(1, "nothing to attach");
    // Neither can a block device, which no QEMU locks between hosts.
    let more = "remove -F device; add device; set storage=dev:/dev/loop0; set id=0; end";
    machine::configure(&host, "k3", more);
    let ran = host.on("k3", &["attach", "--take-over"]);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
}

#[test]
fn an_uninstall_with_shared_disks_removes_no_data() {
    let Some(host) = Host::new() else {
        return;
    };
    if !machine::has_qemu() {
        return;
    }
    let uninstall = ["uninstall", "--shared-disks"];
    let image = host.path("/image.raw");
    let mut content = machine::loader("a raw disk");
    content.resize(4 << 20, 0);
    fs::write(&image, &content).expect("an image");
    // The only copy of this disk is in the zonepath.
    machine::configure(&host, "k1", "");
    let words = ["install", "-a", &image.to_string_lossy()];
    let _ = host.on("k1", &words).ok();
    for words in [&uninstall[..], &["uninstall", "--shared-disks", "-F"]] {
        host.on("k1", words)
            .mentions(1, "expected a file outside of the zonepath");
        assert_eq!(state(&host, "k1"), "installed");
        assert!(host.path("zones/k1/machine.json").exists());
    }
    machine::done(host.on("k1", &["boot"]));
    host.halt("k1");

    let more = format!(
        "remove -F device; add device; set storage=file://{}; set id=0; end",
        image.display()
    );
    machine::configure(&host, "k2", &more);
    machine::done(host.on("k2", &["attach", "--take-over"]));
    // A disk that the configuration does not name.
    let left = host.path("zones/k2/disk1");
    fs::write(&left, "data").expect("a file");
    host.on("k2", &uninstall).mentions(1, "disk1");
    host.on("k2", &["uninstall", "--shared-disks", "-n"])
        .mentions(1, "disk1");
    assert_eq!(fs::read_to_string(&left).expect("the file"), "data");
    fs::remove_file(&left).expect("the file");
    // A guest that runs is no data, but it is refused as for every uninstall.
    machine::done(host.on("k2", &["boot"]));
    let ran = host.on("k2", &uninstall);
    assert_eq!(ran.code(), Some(1), "{ran:?}");
    host.halt("k2");
    host.on("k2", &uninstall).quiet();
    assert_eq!(state(&host, "k2"), "configured");
    assert!(!host.path("zones/k2").exists());
    assert!(fs::read(&image).expect("the disk") == content);
    host.on("k2", &["uninstall", "--shared-disks", "--delete"])
        .mentions(2, "not both");
}
