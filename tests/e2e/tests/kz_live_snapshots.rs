//! Tests snapshots of the disks of a running kernel zone.

use std::process::Command;

use e2e::guest::{BOOT_ID, boot_machine, in_guest, messages, said};
use e2e::run::run;
use e2e::{Host, machine, skip, wait_for};

const FILE: &str = "/root.text";

/// Writes a text to a file on the guest's disk.
#[track_caller]
fn write(host: &Host, text: &str) {
    let script = format!("echo {text} >{FILE}; sync; cat {FILE}");
    assert_eq!(said(host, &script), text);
}

#[track_caller]
fn has(host: &Host, text: &str) {
    assert_eq!(said(host, &format!("cat {FILE}")), text);
}

/// Takes a snapshot of the running zone, with frozen file systems.
#[track_caller]
fn take(host: &Host, name: &str) {
    let ran = host.on("k1", &["snapshot", name]).ok();
    assert!(ran.out.contains("The guest stood still for "), "{ran:?}");
    assert_eq!(ran.err, "");
    print!("{name}: {}", ran.out);
    let line = format!("snapshot {name} of its disks: paused for ");
    let log = messages(host);
    let line = log.lines().find(|one| one.contains(&line));
    let frozen = line.is_some_and(|one| one.ends_with(" us, with frozen file systems"));
    assert!(frozen, "{log}");
}

/// Returns the number of files of the zone's disk.
fn files(host: &Host) -> usize {
    let record = std::fs::read_to_string(host.path("zones/k1/machine.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    record["disks"][0]["bases"].as_array().unwrap().len() + 1
}

/// Takes the first snapshot of the running zone. Returns false, and prints the reason, if the disk
/// got no new file because the file system of the tests shares blocks.
#[track_caller]
fn take_first(host: &Host) -> bool {
    take(host, "one");
    let has_new_file = files(host) == 2;
    if !has_new_file {
        skip("the file system shares blocks, so disks get no new files");
    }
    has_new_file
}

/// Returns the names of the snapshots.
fn names(host: &Host) -> Vec<String> {
    let listed = host.on("k1", &["snapshots", "-p"]).ok().out;
    let names = listed.lines().filter_map(|line| line.split(':').nth(1));
    names.map(str::to_owned).collect()
}

#[test]
fn a_running_kernel_zone_goes_on_after_a_snapshot_of_its_disks() {
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    write(&host, "first");
    let boot = said(&host, BOOT_ID);
    if !take_first(&host) {
        return;
    }
    host.on("k1", &["snapshot", "one"])
        .mentions(1, "has a snapshot one already");
    // The journal of a frozen file system is empty, so the file system is complete.
    let disk = host.path("zones/k1/disk-snapshots/one/disk0");
    let head = run(Command::new("dumpe2fs").arg("-h").arg(&disk), b"")
        .ok()
        .out;
    assert!(head.contains("has_journal"), "{head}");
    assert!(!head.contains("needs_recovery"), "{head}");

    write(&host, "second");
    take(&host, "two");
    write(&host, "third");
    assert_eq!((files(&host), names(&host).len()), (3, 2));
    host.on("k1", &["rollback", "-F", "one"])
        .mentions(1, "rollback operation is invalid");

    // Another QEMU takes over the machine, with more files than QEMU had at the boot.
    machine::done(host.on("k1", &["suspend"]));
    machine::done(host.on("k1", &["boot"]));
    has(&host, "third");
    assert_eq!(said(&host, BOOT_ID), boot);
    take(&host, "three");
    write(&host, "fourth");

    host.halt("k1");
    machine::boot(&host, "k1");
    has(&host, "fourth");
    // A snapshot goes while the zone runs, and the disk keeps its files.
    host.on("k1", &["destroy-snapshot", "three"]).quiet();
    assert_eq!(files(&host), 4);
    host.halt("k1");
    for (name, text) in [("one", "first"), ("two", "second")] {
        host.on("k1", &["rollback", "-F", name]).quiet();
        machine::boot(&host, "k1");
        has(&host, text);
        host.halt("k1");
    }
    // A rolled back disk has the files of its snapshot.
    assert_eq!(files(&host), 2);
    host.on("k1", &["uninstall", "-F"]).quiet();
    let left = std::fs::read_dir(host.path("zones/k1")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "files are left in the zonepath");
}

/// Steps of a snapshot at which zoneadmd fails or is killed: before the new files, before the record,
/// before the freeze, before QEMU has the new files, after the thaw, before the snapshot exists.
const STEPS: std::ops::RangeInclusive<usize> = 1..=6;

/// The first step after which the disk has one more file.
const FIRST_WITH_FILE: usize = 5;

#[test]
fn a_snapshot_that_is_cut_at_any_step_loses_nothing() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    if !take_first(&host) {
        return;
    }
    host.on("k1", &["destroy-snapshot", "one"]).quiet();
    let mut expected = files(&host);
    for how in ["fail", "kill"] {
        for step in STEPS {
            let text = format!("{how}{step}");
            write(&host, &text);
            // The next zoneadmd has the fault.
            host.kill(host.zoneadmd("k1").expect("a zoneadmd"));
            let fault = format!("live-snapshot:{step}:{how}");
            let ran = host.with_fault(&fault, "k1", &["snapshot", "cut"]);
            assert_eq!(ran.code(), Some(1), "{ran:?}");
            expected += usize::from(step >= FIRST_WITH_FILE);
            // After a kill the next command starts a zoneadmd without a fault, which clears up.
            if how == "fail" {
                host.kill(host.zoneadmd("k1").expect("a zoneadmd"));
            }
            assert_eq!(names(&host), [""; 0], "{fault}");
            let again = format!("{text}-again");
            wait_for(&format!("thaw after {fault}"), || {
                let ran = in_guest(&host, &format!("echo {again} >{FILE}; sync; cat {FILE}"));
                (ran.code() == Some(0)).then_some(())
            });
            take(&host, "next");
            expected += 1;
            assert_eq!(files(&host), expected, "{fault}");
            host.on("k1", &["destroy-snapshot", "next"]).quiet();
            has(&host, &again);
            let mark = host.path("run/zones/k1.frozen");
            assert!(!mark.exists(), "{fault}");
        }
    }
    write(&host, "last");
    host.halt("k1");
    machine::boot(&host, "k1");
    has(&host, "last");
}

#[test]
fn a_zone_that_is_cut_off_during_a_snapshot_boots_with_all_data() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    for step in [4, 5] {
        let text = format!("step{step}");
        write(&host, &text);
        host.kill(host.zoneadmd("k1").expect("a zoneadmd"));
        let fault = format!("live-snapshot:{step}:kill");
        let ran = host.with_fault(&fault, "k1", &["snapshot", "cut"]);
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        // Like a power failure: QEMU ends before another zoneadmd can clear up.
        for pid in host.inits_of("k1") {
            host.kill(pid);
        }
        wait_for("end of the zone", || {
            (host.state("k1") == "installed").then_some(())
        });
        machine::boot(&host, "k1");
        has(&host, &text);
        assert_eq!(names(&host), [""; 0], "{fault}");
        take(&host, "next");
        host.on("k1", &["destroy-snapshot", "next"]).quiet();
    }
}

#[test]
fn disks_grow_and_go_after_a_snapshot() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    let second =
        "add device; set storage=file:///zones/%{zonename}/disk1; set id=1; set size=64m; end";
    host.zonecfg(&["-z", "k1", second]).quiet();
    let _ = host.on("k1", &["apply"]).ok();
    let disks = |expected: &str| {
        wait_for(
            &format!("disks with {expected} blocks in the guest"),
            || {
                let sizes = said(&host, "echo $(cat /sys/block/vd*/size)");
                (sizes == expected).then_some(())
            },
        );
    };
    disks("524288 131072");
    let sum = "dd if=/dev/vdb bs=1M count=2 2>/dev/null | md5sum";
    let fill = "dd if=/dev/urandom of=/dev/vdb bs=1M count=2 2>/dev/null; sync";
    let before = said(&host, &format!("{fill}; {sum}"));
    take(&host, "both");
    let after = said(&host, &format!("{fill}; {sum}"));
    assert_ne!(before, after);

    // The file that QEMU got at the snapshot grows, not the one that it got at the boot.
    for id in ["0", "1"] {
        let grow = format!("select device id={id}; set size=320m; end");
        host.zonecfg(&["-z", "k1", &grow]).quiet();
    }
    let _ = host.on("k1", &["apply"]).ok();
    disks("655360 655360");
    take(&host, "grown");
    host.zonecfg(&["-z", "k1", "remove device id=1"]).quiet();
    let _ = host.on("k1", &["apply"]).ok();
    disks("655360");
    // The snapshot has the disks that are in the machine.
    take(&host, "one");
    host.zonecfg(&["-z", "k1", &second.replace("64m", "320m")])
        .quiet();
    let _ = host.on("k1", &["apply"]).ok();
    disks("655360 655360");
    assert_eq!(said(&host, sum), after);
    host.halt("k1");
    host.on("k1", &["rollback", "-F", "one"]).quiet();
    machine::boot(&host, "k1");
    assert_eq!(said(&host, sum), after);
    host.halt("k1");
    // The configuration asks for 320M, so the disks grow again at the boot.
    host.on("k1", &["rollback", "-F", "both"]).quiet();
    machine::boot(&host, "k1");
    disks("655360 655360");
    assert_eq!(said(&host, sum), before);
}

#[test]
fn files_of_many_snapshots_are_merged_while_the_zone_runs() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    write(&host, "text1");
    if !take_first(&host) {
        return;
    }
    host.on("k1", &["merge"])
        .mentions(0, "zone has few files below its disks already");
    for number in 2..=4 {
        write(&host, &format!("text{number}"));
        take(&host, &format!("number{number}"));
    }
    write(&host, "last");
    let sum = "md5sum </dev/vda";
    let planned = host.on("k1", &["merge", "-n"]).ok().out;
    assert!(
        planned.contains("merge the files below its disks"),
        "{planned}"
    );
    assert_eq!(files(&host), 5);
    let boot = said(&host, BOOT_ID);
    let words = ["--progress=json", "-z", "k1", "merge"];
    let ran = run(&mut host.command("zoneadm", &words), b"").ok();
    let tells = |line: &str| line.contains(r#""step":"merge""#) && line.contains(r#""total":"#);
    assert!(ran.out.lines().any(tells), "{ran:?}");
    assert_eq!(files(&host), 2);
    let tops = || {
        let entries = std::fs::read_dir(host.path("zones/k1")).unwrap().flatten();
        let names = entries.map(|one| one.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("top-")).count()
    };
    assert_eq!(tops(), 1);
    let drop = "sync; echo 3 >/proc/sys/vm/drop_caches";
    has(&host, "last");
    assert!(!said(&host, &format!("{drop}; {sum}")).is_empty());
    has(&host, "last");

    // Another QEMU, and another snapshot, find the merged disk.
    take(&host, "merged");
    assert_eq!(files(&host), 3);
    machine::done(host.on("k1", &["suspend"]));
    machine::done(host.on("k1", &["boot"]));
    has(&host, "last");
    assert_eq!(said(&host, BOOT_ID), boot);
    host.halt("k1");
    host.on("k1", &["merge"])
        .mentions(0, "zone has few files below its disks already");
    // The snapshots keep the merged files.
    host.on("k1", &["rollback", "-F", "number3"]).quiet();
    machine::boot(&host, "k1");
    has(&host, "text3");
    host.halt("k1");
    // A halted zone has no QEMU that could merge.
    host.on("k1", &["rollback", "-F", "number4"]).quiet();
    assert_eq!(files(&host), 4);
    host.on("k1", &["merge"]).mentions(1, "boot the zone first");
    // A merge whose command is killed harms nothing: the next operation ends it.
    machine::boot(&host, "k1");
    let mut child = e2e::start(&mut host.command("zoneadm", &["-z", "k1", "merge"]));
    child.kill().unwrap();
    let _ = child.wait();
    write(&host, "more");
    take(&host, "after");
    host.halt("k1");
    machine::boot(&host, "k1");
    has(&host, "more");
}

/// Takes a snapshot, and returns its warning and the seconds that it took.
#[track_caller]
fn warned(host: &Host, name: &str) -> (String, u64) {
    let begun = std::time::Instant::now();
    let ran = host.on("k1", &["snapshot", name]).ok();
    (ran.err, begun.elapsed().as_secs())
}

#[test]
fn a_guest_that_does_not_answer_gets_its_snapshot_with_a_warning() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    let Some(host) = Host::new() else { return };
    if !boot_machine(&host, "") {
        return;
    }
    write(&host, "first");
    // The agent stands still, and goes on after a while.
    let stop = "pid=$(pidof zoneagent); \
        setsid sh -c \"sleep 2; kill -STOP $pid; touch /run/stopped; sleep 25; kill -CONT $pid\" \
        </dev/null >/dev/null 2>&1 & sleep 0; echo $pid";
    assert!(!said(&host, stop).is_empty());
    std::thread::sleep(std::time::Duration::from_secs(4));
    let (warning, seconds) = warned(&host, "hung");
    let expected = "WARNING: the file systems of the guest were not frozen \
        (the agent in the zone: no answer within 10 s)";
    assert!(warning.contains(expected), "{warning}");
    assert!((10..60).contains(&seconds), "{seconds} s");
    // zoneadmd asks for a thaw until the agent answers.
    let mark = host.path("run/zones/k1.frozen");
    assert!(mark.exists());
    wait_for("thaw of the guest", || (!mark.exists()).then_some(()));
    assert!(messages(&host).contains("the file systems of the guest were thawed"));
    has(&host, "first");
    take(&host, "frozen");

    // Without an agent nothing is waited for.
    let kill = "pid=$(pidof zoneagent); \
        setsid sh -c \"sleep 1; kill -9 $pid\" </dev/null >/dev/null 2>&1 & echo $pid";
    assert!(!said(&host, kill).is_empty());
    std::thread::sleep(std::time::Duration::from_secs(3));
    let (warning, seconds) = warned(&host, "without");
    assert!(
        warning.contains("(no agent runs in the guest)"),
        "{warning}"
    );
    assert!(seconds < 10, "{seconds} s");
    host.halt("k1");
    host.on("k1", &["rollback", "-F", "without"]).quiet();
    machine::boot(&host, "k1");
    has(&host, "first");
}
