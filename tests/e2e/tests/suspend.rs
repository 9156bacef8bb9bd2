//! Tests kernel zones that are suspended and resumed: the contents of their memory, and the refused
//! cases.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};

use e2e::guest::{BOOT_ID, boot_machine, image, memory_is_refused, said, wait_for_guest};
use e2e::run::run;
use e2e::{Host, rounds, wait_for};

/// A host with a running kernel zone `k1`.
fn with_machine() -> Option<Host> {
    let host = Host::new()?;
    boot_machine(&host, "").then_some(host)
}

fn auxiliary(host: &Host) -> String {
    e2e::machine::auxiliary(host, "k1")
}

#[test]
fn a_guest_goes_on_where_it_was() {
    let Some(host) = with_machine() else { return };
    let boot = said(&host, BOOT_ID);
    let sum = said(
        &host,
        "head -c 8000000 /dev/urandom >/run/data; for i in 1 2 3; do echo MARK-in-memory-$i; done >/run/mark; \
         md5sum /run/data /run/mark",
    );
    let _ = host.on("k1", &["suspend", "-n"]).ok();
    assert_eq!(host.state("k1"), "running");
    // suspend_rounds has many more rounds.
    for round in rounds(1) {
        let count = wait_for_guest(&host);
        host.on("k1", &["suspend"]).quiet();
        assert_eq!(host.state("k1"), "installed", "round {round}");
        assert_eq!(auxiliary(&host), "suspended");
        let bytes = fs::read(image(&host)).expect("an image");
        let plain = bytes.windows(15).any(|part| part == b"MARK-in-memory-");
        assert!(!plain, "the image shows what was in memory");
        host.on("k1", &["ready"]).mentions(1, "zone is suspended");
        let planned = host.on("k1", &["boot", "-n"]).ok();
        assert!(planned.out.contains("  resume from "), "{planned:?}");

        let _ = host.on("k1", &["boot"]).ok();
        assert_eq!(host.state("k1"), "running");
        assert!(!image(&host).exists(), "an image that was used is there");
        let now = wait_for_guest(&host);
        assert!(
            now >= count,
            "round {round}: the counter was {count} and is {now}"
        );
        assert_eq!(said(&host, BOOT_ID), boot, "round {round}");
        assert_eq!(
            said(&host, "md5sum /run/data /run/mark"),
            sum,
            "round {round}"
        );
        assert_eq!(auxiliary(&host), "");
    }
    wait_for("clock of the guest that is right", || {
        let theirs: u64 = said(&host, "date +%s").parse().ok()?;
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        (since.expect("after 1970").as_secs().abs_diff(theirs) < 60).then_some(())
    });
    let log = fs::read_to_string(host.path("var/log/zones/k1.messages")).expect("a log");
    for line in [
        "suspend: raw ",
        "suspend: compressed ",
        "suspend without fsync: raw ",
        "suspend without fsync: compressed ",
        "resume: raw ",
    ] {
        assert!(log.contains(line), "{line:?} in {log}");
    }
}

#[test]
fn a_kernel_zone_is_suspended_and_resumed_with_the_host() {
    let Some(host) = with_machine() else { return };
    host.zonecfg(&["-z", "k1", "set autoboot=true; set autoshutdown=suspend"])
        .quiet();
    let boot = said(&host, BOOT_ID);
    let service = |words: &[&str]| run(&mut host.command("zones-service", words), b"").ok();
    let stopped = service(&["stop", "-t", "280"]);
    assert!(
        stopped.out.starts_with("zone 'k1': suspended\n"),
        "{stopped:?}"
    );
    let started = service(&["start"]);
    assert!(
        started.out.starts_with("zone 'k1': resumed\n"),
        "{started:?}"
    );
    wait_for_guest(&host);
    assert_eq!(said(&host, BOOT_ID), boot);
}

#[test]
fn an_image_that_is_not_what_was_written_is_refused() {
    let Some(host) = with_machine() else { return };
    let boot = said(&host, BOOT_ID);
    host.on("k1", &["suspend"]).quiet();
    let image = image(&host);
    let whole = fs::read(&image).expect("an image");
    let refused = |what: &str| {
        host.on("k1", &["boot"])
            .mentions(1, "cannot go on from where it was suspended: ");
        assert_eq!(host.state("k1"), "installed", "{what}");
        assert!(image.exists(), "{what}");
    };
    // The damaged bytes are in the header, the index and the end, and a few anywhere, which only a
    // full read finds.
    let ends = [0, 9, 50, 70, whole.len() - 1, whole.len() - 100];
    for at in ends {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&image, &changed).expect("a changed image");
        refused(&format!("bit at {at}"));
    }
    for length in [0, 100, 4096, whole.len() / 2, whole.len() - 4096] {
        fs::write(&image, &whole[..length]).expect("a cut image");
        refused(&format!("cut at {length}"));
    }
    let parts = rounds(3).end.min(12);
    for part in 1..=parts {
        fs::write(&image, &whole).expect("the image");
        let file = fs::File::options().write(true).open(&image).expect("it");
        let at = part * (whole.len() as u64 / (parts + 1));
        let byte = whole[usize::try_from(at).expect("a place")] ^ 0x40;
        file.write_all_at(&[byte], at).expect("a changed byte");
        // Only a full read finds this damage before the guest runs.
        host.on("k1", &["boot", "--", "--eager"])
            .mentions(1, "could not resume: ");
        assert_eq!(host.state("k1"), "installed", "byte at {at}");
        assert!(image.exists(), "byte at {at}");
    }
    for part in 1..=parts {
        fs::write(&image, swapped(&whole, part, parts)).expect("a changed image");
        host.on("k1", &["boot", "--", "--eager"])
            .mentions(1, "could not resume: ");
        assert_eq!(host.state("k1"), "installed", "swap {part}");
        assert!(image.exists(), "swap {part}");
    }
    fs::write(&image, &whole).expect("the image");

    // A guest with another configuration is not the guest that was suspended.
    let memory = |size: &str| {
        let command = format!("select capped-memory; set physical={size}; end");
        host.zonecfg(&["-z", "k1", &command]).quiet();
    };
    memory("256M");
    host.on("k1", &["boot"])
        .mentions(1, "cannot go on from where it was suspended: ");
    memory("192M");
    // A guest whose disk was written since is refused, too.
    let disk = fs::File::options()
        .write(true)
        .open(host.path("zones/k1/disk0"))
        .expect("a disk");
    let written = disk
        .metadata()
        .and_then(|meta| meta.modified())
        .expect("a time");
    disk.set_modified(std::time::UNIX_EPOCH).expect("a time");
    host.on("k1", &["boot"]).mentions(1, "disks");
    disk.set_modified(written).expect("a time");

    // An error before the image is used up leaves the image.
    host.with_fault("resume:1:fail", "k1", &["boot"])
        .mentions(1, "could not resume: a fault was asked for");
    assert_eq!(host.state("k1"), "installed");
    // The image also survives a killed zoneadmd. A guest that was not resumed is not a running
    // zone, and the next boot resumes from the image, even if processes of the killed boot still
    // exist.
    let died = host.with_fault("resume:1:kill", "k1", &["boot"]);
    assert_ne!(died.code(), Some(0), "{died:?}");
    assert_eq!(host.state("k1"), "installed");
    assert_eq!(auxiliary(&host), "suspended");
    let _ = host.with_fault("resume:1:kill", "k1", &["boot"]);
    let _ = host.on("k1", &["boot"]).ok();
    wait_for_guest(&host);
    assert_eq!(said(&host, BOOT_ID), boot);

    // An image that cannot be used can be discarded.
    host.on("k1", &["suspend"]).quiet();
    fs::write(&image, "nonsense").expect("a broken image");
    refused("nonsense");
    host.on("k1", &["boot", "--", "--discard-suspend"])
        .mentions(0, "was thrown away");
    wait_for_guest(&host);
    assert_ne!(said(&host, BOOT_ID), boot);
    assert!(!image.exists());

    // Damage that is found only while the guest runs ends the guest, so that it does not wait
    // forever.
    host.on("k1", &["suspend"]).quiet();
    let whole = fs::read(&image).expect("an image");
    let written = disk.metadata().and_then(|meta| meta.modified());
    fs::write(&image, swapped(&whole, 3, 3)).expect("a changed image");
    let booted = host.on("k1", &["boot"]);
    memory_is_refused(&host, &booted);

    // An image of an earlier start is refused, even if the disks look the same.
    let _ = host.on("k1", &["boot", "--", "--discard-suspend"]).code();
    host.halt("k1");
    fs::write(&image, &whole).expect("the image");
    disk.set_modified(written.expect("a time")).expect("a time");
    host.on("k1", &["boot"])
        .mentions(1, "the zone was started again since this was made");
    assert!(image.exists());
}

/// Returns an image in which two stretches, each longer than a chunk, are swapped.
fn swapped(whole: &[u8], part: u64, parts: u64) -> Vec<u8> {
    const LENGTH: usize = 512 << 10;
    let mut changed = whole.to_vec();
    let place = |part: u64| {
        let at = part * (whole.len() as u64 / (parts + 2));
        usize::try_from(at).expect("a place") / 4096 * 4096
    };
    let (one, other) = (place(part), place(part + 1));
    assert!(one + LENGTH <= other, "an image of {} bytes", whole.len());
    let (before, behind) = changed.split_at_mut(other);
    before[one..one + LENGTH].swap_with_slice(&mut behind[..LENGTH]);
    assert!(changed != whole, "the same at {one} and at {other}");
    changed
}

#[test]
fn suspend_says_why_it_is_refused() {
    let Some(host) = with_machine() else { return };
    // A key file must exist, must be readable only by root, and must have the same content at
    // resume.
    let key = host.path("key");
    let command = format!("add keysource; set file={}; end", key.display());
    host.zonecfg(&["-z", "k1", &command]).quiet();
    host.on("k1", &["suspend"])
        .mentions(1, "cannot read the key");
    fs::write(&key, "07".repeat(32)).expect("a key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("a mode");
    host.on("k1", &["suspend"]).mentions(1, "chmod 600");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
    host.on("k1", &["suspend"]).quiet();
    assert!(!host.path("zones/k1/suspend.key").exists());
    let mut verify = host.command("zonesuspend", &["verify", "-k"]);
    let _ = run(verify.arg(&key).arg(image(&host)), b"").ok();
    fs::remove_file(&key).expect("to be removed");
    host.on("k1", &["boot"])
        .mentions(1, "could not verify keysource: cannot read the key");
    let raw = |text: &str| {
        let command = format!("select keysource; clear file; set raw={text}; end");
        host.zonecfg(&["-z", "k1", &command])
    };
    raw(&"08".repeat(32)).quiet();
    host.on("k1", &["boot"])
        .mentions(1, "made with another key");
    raw("short").mentions(1, "is no key");
    raw(&"07".repeat(32)).quiet();
    let shown = host.zonecfg(&["-z", "k1", "info keysource"]).ok();
    assert!(shown.out.contains("raw redacted"), "{shown:?}");
    let stored = fs::metadata(host.path("etc/zones/k1.xml")).expect("a file");
    assert_eq!(stored.permissions().mode() & 0o777, 0o600);
    let _ = host.on("k1", &["boot"]).ok();
    wait_for_guest(&host);

    host.zonecfg(&["-z", "k1", "remove suspend"]).quiet();
    host.on("k1", &["suspend"])
        .mentions(1, "it has no place for an image");
    host.halt("k1");
    host.on("k1", &["suspend"])
        .says(1, "zoneadm: zone 'k1': not running");
}
