//! Tests automatic snapshots by the schedules of zones, with a clock of the test. Each host has a
//! disk of its own, because a run looks at the use of the disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::run::run;
use e2e::{Host, Ran, skip, wait_for};
use rustix::fs::{FlockOperation, flock, fstatvfs};
use sys::process::ns;

/// A file system at `/zones` of a host.
struct Disk(PathBuf);

impl Disk {
    /// Makes and mounts a file system. Prints the reason if this is impossible.
    fn new(host: &Host, fstype: &str, mib: u64) -> Option<Self> {
        let at = host.path("/zones");
        let image = host.path("/disk.img");
        fs::File::create(&image)
            .unwrap()
            .set_len(mib << 20)
            .unwrap();
        let program = format!("mkfs.{fstype}");
        let found = ["/usr/sbin", "/sbin", "/usr/bin"].map(|dir| Path::new(dir).join(&program));
        let Some(program) = found.iter().find(|path| path.exists()) else {
            skip(&format!("no {program}"));
            return None;
        };
        let options: &[&str] = if fstype == "ext4" { &["-m", "0"] } else { &[] };
        let _ = run(
            Command::new(program).arg("-q").args(options).arg(&image),
            b"",
        )
        .ok();
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        let ran = run(mount.args(["-o", "loop"]).args([&image, &at]), b"");
        if ran.code() != Some(0) {
            skip(&format!("{fstype} cannot be mounted: {}", ran.err.trim()));
            return None;
        }
        Some(Self(at))
    }

    /// Returns the use of the disk in percent, as df(1) prints it.
    fn percent(&self) -> u64 {
        let folder = fs::File::open(&self.0).unwrap();
        rustix::fs::syncfs(&folder).unwrap();
        let vfs = fstatvfs(&folder).unwrap();
        let used = vfs.f_blocks - vfs.f_bfree;
        (used * 100).div_ceil(used + vfs.f_bavail)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // zoneadmd may still be closing the zone's root after its answer.
        let lazy = std::thread::panicking().then_some("-l");
        let end = std::time::Instant::now() + e2e::WAIT_TIMEOUT;
        loop {
            let done = Command::new("umount").args(lazy).arg(&self.0).output();
            if done.is_ok_and(|done| done.status.success()) || std::time::Instant::now() > end {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// Runs a test on a host with a disk of type ext4 and this size in MiB.
fn on_disk(mib: u64, test: impl FnOnce(&Host, &Disk) + Send) {
    on("ext4", mib, test);
}

/// Runs a test on a host with a disk of this type and size in MiB, in a mount namespace of its own.
fn on(fstype: &str, mib: u64, test: impl FnOnce(&Host, &Disk) + Send) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let alone = || {
        let Some(host) = Host::new() else { return };
        sys::namespace::unshare(ns::MOUNT).expect("a mount namespace");
        sys::mount::make_private_recursive().expect("private mounts");
        let Some(disk) = Disk::new(&host, fstype, mib) else {
            return;
        };
        test(&host, &disk);
        // The disk goes before the host.
        for row in host.rows() {
            if row.state == "running" {
                host.halt(&row.name);
            }
            if row.state != "configured" {
                host.on(&row.name, &["uninstall", "-F"]).quiet();
            }
        }
    };
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name(name);
        let thread = builder.spawn_scoped(scope, alone).unwrap();
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Runs the schedules at a time of March 2026, which begins on a Sunday.
fn slide(host: &Host, day: u64, hour: u64, more: &[&str]) -> Ran {
    let now = format!("2026-03-{day:02}T{hour:02}:00:00Z");
    slide_at(host, &now, more)
}

fn slide_at(host: &Host, now: &str, more: &[&str]) -> Ran {
    let words = [&["slide", "--now", now], more].concat();
    run(&mut host.command("zones-service", &words), b"")
}

/// Returns the names of the snapshots of a zone.
#[track_caller]
fn names(host: &Host, zone: &str) -> BTreeSet<String> {
    let ran = host.on(zone, &["snapshots", "-p"]).ok();
    let second = |line: &str| line.split(':').nth(1).unwrap_or_default().to_owned();
    ran.out.lines().map(second).collect()
}

fn auto(period: &str, day: u64, hour: u64) -> String {
    format!("auto-{period}-202603{day:02}T{hour:02}0000Z")
}

fn messages(host: &Host, zone: &str) -> String {
    fs::read_to_string(host.path(&format!("/var/log/zones/{zone}.messages"))).unwrap_or_default()
}

const SCHEDULE: &str =
    "add snapshots; set frequent=0; set hourly=3; set daily=5; set weekly=2; set monthly=1; end";

#[test]
fn four_weeks_of_a_schedule_keep_exactly_what_they_should() {
    on_disk(300, |host, _| {
        host.install("web");
        host.zonecfg(&["-z", "web", SCHEDULE]).quiet();
        host.on("web", &["snapshot", "mine"]).quiet();
        // A name of the same form, but no automatic snapshot.
        let alike = auto("hourly", 3, 0);
        host.on("web", &["snapshot", &alike]).quiet();
        for day in 2..=29 {
            for hour in [0, 8, 16] {
                host.put("web", "var/word", format!("{day} {hour}\n"));
                if (day, hour) == (9, 8) {
                    let planned = slide(host, day, hour, &["-n"]).ok();
                    let took = format!("  take snapshot {} of zone web\n", auto("hourly", 9, 8));
                    assert!(planned.out.contains(&took), "{planned:?}");
                    assert!(!names(host, "web").contains(&auto("hourly", 9, 8)));
                    let from = auto("weekly", 9, 0);
                    host.on("copy", &["clone", "--create", "-s", &from, "web"])
                        .quiet();
                }
                let ran = slide(host, day, hour, &[]).ok();
                assert!(ran.out.contains("zone 'web': took auto-"), "{ran:?}");
                assert_eq!(ran.err, "");
            }
        }
        let expected = [
            "mine".to_owned(),
            alike.clone(),
            auto("monthly", 2, 0),
            auto("weekly", 16, 0),
            auto("weekly", 23, 0),
            auto("daily", 25, 0),
            auto("daily", 26, 0),
            auto("daily", 27, 0),
            auto("daily", 28, 0),
            auto("daily", 29, 0),
            auto("hourly", 29, 8),
            auto("hourly", 29, 16),
        ];
        assert_eq!(names(host, "web"), BTreeSet::from(expected.clone()));
        // The clone has the schedule of its source. It never changed, so one snapshot is enough.
        assert_eq!(names(host, "copy"), BTreeSet::from([auto("monthly", 9, 8)]));
        let info = host.zonecfg(&["-z", "copy", "info snapshots"]).ok();
        assert!(info.out.contains("hourly: 3"), "{info:?}");
        let word = |name: &str| {
            host.on("look", &["clone", "--create", "-s", name, "web"])
                .quiet();
            host.on("look", &["mount"]).quiet();
            let text = fs::read_to_string(host.path("/zones/look/lu/var/word")).unwrap();
            host.on("look", &["unmount"]).quiet();
            host.on("look", &["uninstall", "-F"]).quiet();
            host.zonecfg(&["-z", "look", "delete -F"]).quiet();
            text
        };
        assert_eq!(word(&auto("weekly", 16, 0)), "16 0\n");
        assert_eq!(word(&auto("hourly", 29, 8)), "29 8\n");

        // No file has changed since the last snapshot.
        let planned = slide(host, 29, 20, &["-n"]).ok();
        assert_eq!(planned.out, "slide:\n  nothing to do\n");
        let idle = slide(host, 29, 20, &[]).ok();
        assert_eq!(idle.text(), "zones-service: slide: nothing to do");
        let json = host.on("web", &["snapshots", "-j", "--no-size"]).ok();
        let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
        let rows = json.as_array().unwrap();
        let period = |name: &str| &rows.iter().find(|row| row["name"] == name).unwrap()["period"];
        assert_eq!(*period(&auto("weekly", 16, 0)), "weekly");
        assert!(period("mine").is_null() && period(&alike).is_null());

        // Twice in an hour, or with a clock that was set back to the day before: nothing is lost.
        host.put("web", "var/word", "twice\n");
        let again = slide_at(host, "2026-03-29T16:20:00Z", &[]).ok();
        assert_eq!(again.text(), "zones-service: slide: nothing to do");
        let back = slide_at(host, "2026-03-28T16:00:00Z", &[]).ok();
        assert!(names(host, "web").is_superset(&expected.into()), "{back:?}");
        // A host that was off for three weeks takes one snapshot.
        host.put("web", "var/word", "late\n");
        let late = slide_at(host, "2026-04-20T10:05:00Z", &[]).ok();
        let took = "zone 'web': took auto-monthly-20260420T100500Z\n";
        assert!(late.out.contains(took), "{late:?}");
        assert_eq!(late.out.matches("zone 'web': took").count(), 1);
        assert!(names(host, "web").contains("mine"));
        assert!(names(host, "web").contains(&alike));
        let log = messages(host, "web");
        assert!(
            log.contains("snapshot auto-monthly-20260420T100500Z taken"),
            "{log}"
        );
        let why = "automatic snapshots: auto-monthly-20260302T000000Z removed: the schedule keeps newer ones";
        assert!(log.contains(why), "{log}");
    });
}

#[test]
fn a_running_zone_takes_a_new_schedule_at_once_and_a_busy_zone_is_skipped() {
    on_disk(300, |host, _| {
        host.install("web");
        host.clone_from("web", "db");
        host.clone_from("web", "bad");
        host.boot("web");
        // The stored schedule is for the next boot, or for `apply`.
        for zone in ["web", "db", "bad"] {
            host.zonecfg(&["-z", zone, SCHEDULE]).quiet();
        }
        let bad = host.path("/etc/zones/bad.xml");
        let whole = fs::read(&bad).unwrap();
        fs::write(&bad, "damaged").unwrap();
        host.sh("web", "echo one >/var/word");
        host.put("db", "var/word", "one\n");
        let ran = slide(host, 2, 0, &["-j"]);
        assert_eq!(ran.code(), Some(1), "{ran:?}");
        let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let zones = json["zones"].as_array().unwrap();
        let of = |name: &str| zones.iter().find(|one| one["zone"] == name);
        assert!(of("bad").unwrap()["error"].is_string(), "{json}");
        assert_eq!(of("db").unwrap()["taken"], auto("monthly", 2, 0));
        assert!(of("web").is_none(), "{json}");
        assert!(messages(host, "bad").contains("automatic snapshots: failed: "));

        let applied = host.on("web", &["apply"]).ok();
        assert!(applied.out.contains("Adding snapshots"), "{applied:?}");
        let lock = fs::File::open(host.path("/run/zones/db.zoneadm.lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        host.put("db", "var/word", "two\n");
        let ran = slide(host, 3, 0, &[]);
        assert_eq!(ran.code(), Some(1), "for zone bad: {ran:?}");
        assert!(
            ran.out
                .contains(&format!("zone 'web': took {}\n", auto("monthly", 3, 0)))
        );
        assert!(
            ran.err.contains("zones-service: zone 'db': skipped: "),
            "{ran:?}"
        );
        assert!(messages(host, "db").contains("automatic snapshots: skipped: "));
        drop(lock);
        let _ = slide(host, 3, 1, &[]);
        assert!(names(host, "db").contains(&auto("daily", 3, 1)));

        let set = "select snapshots; set hourly=1; set daily=0; end";
        host.zonecfg(&["-z", "web", "-r", set]).ok().out.clear();
        host.sh("web", "echo two >/var/word");
        let _ = slide(host, 3, 2, &[]);
        host.sh("web", "echo three >/var/word");
        let _ = slide(host, 3, 3, &[]);
        assert_eq!(
            names(host, "web"),
            BTreeSet::from([auto("monthly", 3, 0), auto("hourly", 3, 3)])
        );
        // Another run holds the lock of all runs.
        let lock = fs::File::open(host.path("/run/zones/slide.lock")).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        slide(host, 4, 0, &[]).mentions(0, "another run is under way");
        assert_eq!(names(host, "web").len(), 2);
        fs::write(&bad, whole).unwrap();
    });
}

#[test]
fn an_automatic_snapshot_that_was_booted_belongs_to_the_user() {
    on_disk(300, |host, _| {
        host.install("web");
        let only = "add snapshots; set frequent=0; set hourly=1; set daily=0; set weekly=0; set monthly=0; end";
        host.zonecfg(&["-z", "web", only]).quiet();
        host.put("web", "var/word", "first\n");
        let first = auto("hourly", 2, 0);
        let _ = slide(host, 2, 0, &[]).ok();
        host.on("web", &["beadm", "activate", &first]).quiet();
        host.put("web", "var/word", "second\n");
        let planned = slide(host, 2, 1, &["-n"]).ok();
        assert!(
            !planned.out.contains("remove"),
            "the next boot needs it: {planned:?}"
        );
        host.on("web", &["beadm", "activate", "--now", &first])
            .quiet();
        host.put("web", "var/word", "work of the user\n");
        host.on("web", &["beadm", "activate", "--now", "initial"])
            .quiet();
        for hour in 2..6 {
            host.put("web", "var/word", format!("{hour}\n"));
            let _ = slide(host, 2, hour, &[]).ok();
        }
        assert_eq!(
            names(host, "web"),
            BTreeSet::from([first, auto("hourly", 2, 5)])
        );
    });
}

/// Writes to a file until the disk has this use in percent.
fn fill(disk: &Disk, name: &str, percent: u64) -> PathBuf {
    let path = disk.0.join(name);
    let mut file = fs::File::create(&path).unwrap();
    let block = vec![1; 256 << 10];
    while disk.percent() < percent {
        std::io::Write::write_all(&mut file, &block).unwrap();
    }
    path
}

/// The hours in which a full disk loses all snapshots that a run may remove. Each run removes as few as
/// it needs; how many that are depends on the file system's layout.
const LAST_HOUR: u64 = 22;

/// Runs a schedule for four weeks on a small disk, with so many MiB of new files each day, and then
/// fills the disk.
fn four_weeks_on_a_small_disk(host: &Host, disk: &Disk, daily: u64) {
    host.install("master");
    host.clone_from("master", "web");
    let default = "add snapshots; end";
    host.zonecfg(&["-z", "web", default]).quiet();
    host.boot("web");
    let mut newest = String::new();
    let (mut most, mut removed) = (0, 0);
    for day in 2..=29 {
        // 28 snapshots of these files need more than the disk has.
        let write = format!("head -c {} /dev/urandom >/var/data; sync", daily << 20);
        host.sh("web", &write);
        let ran = slide(host, day, 0, &[]).ok();
        removed += ran.out.matches("its disk is 80 % full or more").count();
        most = most.max(disk.percent());
        assert!(most < 95, "{most} % on day {day}: {ran:?}");
        let now = names(host, "web");
        assert!(
            newest.is_empty() || now.contains(&newest),
            "{newest}: {ran:?}"
        );
        let taken = now
            .iter()
            .find(|name| name.ends_with(&format!("202603{day:02}T000000Z")));
        newest = taken.unwrap().clone();
    }
    println!("use at most {most} %, {removed} snapshots removed for the disk");
    assert!(removed > 5, "{removed}");
    assert!(messages(host, "web").contains("removed: its disk is 80 % full or more"));

    // The runs make room as long as snapshots are left that they may remove.
    let mut fillers = Vec::new();
    for hour in 0..LAST_HOUR {
        host.sh("web", &format!("echo {hour} >/var/word"));
        fillers.push(fill(disk, &format!("filler-{hour}"), 97));
        let before = names(host, "web");
        let ran = slide(host, 30, hour, &[]).ok();
        if ran.err.contains("no automatic snapshot is taken from 95 %") {
            let after = names(host, "web");
            assert!(after.is_subset(&before) && !after.is_empty(), "{ran:?}");
            break;
        }
        assert!(ran.out.contains("took"), "{ran:?}");
        assert!(hour + 1 < LAST_HOUR, "the disk is never full: {ran:?}");
    }
    for filler in fillers {
        fs::remove_file(filler).unwrap();
    }
    // btrfs frees the space of removed files in the background.
    wait_for("room on the disk", || (disk.percent() < 94).then_some(()));
    host.sh("web", "echo room >/var/word");
    let ran = slide(host, 31, 9, &[]).ok();
    let now = names(host, "web");
    let is_taken = now.iter().any(|name| name.ends_with("20260331T090000Z"));
    assert!(is_taken, "{ran:?}");
    host.sh("web", "echo still writes >/var/word");
}

#[test]
fn snapshots_of_a_running_zone_do_not_fill_a_small_disk() {
    on_disk(160, |host, disk| four_weeks_on_a_small_disk(host, disk, 6));
}

#[test]
fn snapshots_of_a_running_zone_do_not_fill_a_small_btrfs() {
    on("btrfs", 400, |host, disk| {
        four_weeks_on_a_small_disk(host, disk, 16);
    });
}

#[test]
fn a_maximum_size_removes_the_oldest_snapshots() {
    on_disk(300, |host, _| {
        host.install("master");
        host.clone_from("master", "web");
        let limited = "add snapshots; set max-size=10m; end";
        host.zonecfg(&["-z", "web", limited]).quiet();
        host.boot("web");
        for hour in 0..6 {
            let write = "head -c 4194304 /dev/urandom >/var/data; sync";
            host.sh("web", write);
            let _ = slide(host, 3, hour, &[]).ok();
        }
        // Two of them fit. The first is that of the month, so the hours went before it.
        let left = [auto("monthly", 3, 0), auto("hourly", 3, 5)];
        assert_eq!(names(host, "web"), BTreeSet::from(left));
        assert!(messages(host, "web").contains("removed: max-size=10M is exceeded"));
    });
}

#[test]
fn schedules_that_keep_nothing_are_refused() {
    let Some(host) = Host::new() else { return };
    let nothing = "create; add snapshots; set frequent=0; set hourly=0; set daily=0; set weekly=0; set monthly=0; end";
    host.zonecfg(&["-z", "web", nothing]).mentions(
        1,
        "one of frequent, hourly, daily, weekly and monthly must be more than 0",
    );
    let mut command = host.command("zones-service", &["slide", "--now", "yesterday"]);
    assert_eq!(run(&mut command, b"").code(), Some(2));
}

/// Writes a text to a file on the disk of the kernel zone.
#[track_caller]
fn write_in_guest(host: &Host, text: &str) {
    let script = format!("echo {text} >/root.text; sync; cat /root.text");
    assert_eq!(e2e::guest::said(host, &script), text);
}

#[test]
fn the_disks_of_a_kernel_zone_have_a_schedule() {
    on("btrfs", 2000, |host, _| {
        if !e2e::guest::boot_machine(host, SCHEDULE) {
            return;
        }
        write_in_guest(host, "first");
        let _ = host.on("k1", &["snapshot", "mine"]).ok();
        let _ = slide(host, 2, 8, &[]).ok();
        let first = auto("monthly", 2, 8);
        let expected = BTreeSet::from(["mine".to_owned(), first.clone()]);
        assert_eq!(names(host, "k1"), expected);
        let log = messages(host, "k1");
        let frozen = "paused for ";
        assert_eq!(log.matches(frozen).count(), 2, "{log}");
        assert_eq!(log.matches("with frozen file systems").count(), 2, "{log}");
        // The copies share their blocks, so the disk keeps its one file.
        let record = fs::read_to_string(host.path("/zones/k1/machine.json")).unwrap();
        assert!(record.contains("\"bases\": []"), "{record}");

        write_in_guest(host, "second");
        host.halt("k1");
        let _ = slide(host, 2, 9, &[]).ok();
        assert_eq!(names(host, "k1").len(), 3);
        // A halted zone that has not changed gets no snapshot.
        for hour in 10..13 {
            let ran = slide(host, 2, hour, &[]).ok();
            assert_eq!(names(host, "k1").len(), 3, "{ran:?}");
        }
        host.on("k1", &["rollback", "-F", &first]).quiet();
        e2e::machine::boot(host, "k1");
        assert_eq!(e2e::guest::said(host, "cat /root.text"), "first");
        // Only automatic snapshots are removed.
        for day in 3..20 {
            let _ = slide(host, day, 8, &[]).ok();
        }
        let now = names(host, "k1");
        assert!(now.contains("mine") && now.contains(&first), "{now:?}");
        assert!(!now.contains(&auto("hourly", 2, 9)), "{now:?}");
        let dailies = now.iter().filter(|name| name.starts_with("auto-daily-"));
        assert!((4..=5).contains(&dailies.count()), "{now:?}");
        host.halt("k1");
        host.on("k1", &["uninstall", "-F"]).quiet();
        let left = fs::read_dir(host.path("/zones/k1")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "files are left in the zonepath");
    });
}

/// Returns the number of files below the disk of the kernel zone.
#[track_caller]
fn below(host: &Host) -> u64 {
    let record = fs::read_to_string(host.path("/zones/k1/machine.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    record["disks"][0]["bases"].as_array().unwrap().len() as u64
}

/// Number of files below a disk after which a schedule merges them.
const DEEP: u64 = 8;

#[test]
fn a_running_kernel_zone_on_ext4_has_a_schedule_and_few_files_below_its_disk() {
    if e2e::left_to_long_runs("an emulated guest takes minutes") {
        return;
    }
    on_disk(700, |host, disk| {
        let schedule = "add snapshots; set frequent=0; set hourly=3; set daily=2; set weekly=0; set monthly=0; end";
        if !e2e::guest::boot_machine(host, schedule) {
            return;
        }
        // A merge copies this, and so do the snapshots.
        let fill = "head -c 16777216 /dev/urandom >/root.data; sync; echo full";
        let taken = |hours: &[u64]| -> BTreeSet<String> {
            let period = |hour| if hour == 0 { "daily" } else { "hourly" };
            hours
                .iter()
                .map(|hour| auto(period(*hour), 2, *hour))
                .collect()
        };
        for hour in 0..DEEP {
            write_in_guest(host, &format!("hour{hour}"));
            if hour == 1 {
                assert_eq!(e2e::guest::said(host, fill), "full");
            }
            let _ = slide(host, 2, hour, &[]).ok();
            assert_eq!(below(host), hour + 1);
        }
        assert_eq!(names(host, "k1"), taken(&[0, 5, 6, 7]));

        // On a full disk there is no room for a merge. The removal of snapshots would free nothing,
        // because the disk of the zone and the newest snapshot have their files.
        let filler = fs::File::create(host.path("/zones/filler")).unwrap();
        let fill_to = |percent: u64| {
            let flags = rustix::fs::FallocateFlags::empty();
            for step in 0.. {
                if disk.percent() >= percent {
                    return;
                }
                rustix::fs::fallocate(&filler, flags, step << 22, 1 << 22).unwrap();
            }
        };
        fill_to(93);
        for _ in 0..2 {
            let ran = slide(host, 2, DEEP, &[]);
            let why = "skipped: a merge of the files below its disks would copy up to ";
            assert!(ran.err.contains(why), "{ran:?}");
            assert_eq!(names(host, "k1"), taken(&[0, 5, 6, 7]));
            // An unchanged reason is noted once.
            assert_eq!(messages(host, "k1").matches(why).count(), 1);
        }
        assert_eq!(below(host), DEEP);

        filler.set_len(0).unwrap();
        let planned = slide(host, 2, DEEP, &["-n"]).ok().out;
        let merge = "merge the files below the disks of zone k1\n  take snapshot";
        assert!(planned.contains(merge), "{planned}");
        // A merge that takes too long is stopped, and the next run goes on with it.
        let now = format!("2026-03-02T{DEEP:02}:00:00Z");
        let mut command = host.command("zones-service", &["slide", "--now", &now]);
        let ran = run(command.env("ZONES_FAULT", "scheduled-merge:1:fail"), b"");
        let why = "took more than 10 minutes and was stopped";
        assert!(ran.err.contains(why), "{ran:?}");
        assert_eq!(names(host, "k1"), taken(&[0, 5, 6, 7]));
        for hour in DEEP..DEEP + 2 {
            write_in_guest(host, &format!("hour{hour}"));
            let _ = slide(host, 2, hour, &[]).ok();
            assert_eq!(below(host), hour + 2 - DEEP);
        }
        assert!(messages(host, "k1").contains("the files below its disks were merged"));
        assert_eq!(names(host, "k1"), taken(&[0, 7, 8, 9]));
        back_to(host, &auto("hourly", 2, 7), "hour7");

        // Only a snapshot that has a file for itself is removed for want of space.
        fill_to(84);
        let _ = slide(host, 2, 10, &[]).ok();
        assert_eq!(names(host, "k1"), taken(&[0, 8, 9, 10]));
        let full: Vec<String> = messages(host, "k1")
            .lines()
            .filter_map(|line| Some(line.split_once(" removed: its disk is 80 %")?.0.to_owned()))
            .collect();
        assert_eq!(full.len(), 1, "{full:?}");
        assert!(full[0].ends_with(&auto("hourly", 2, 7)), "{full:?}");
        back_to(host, &auto("hourly", 2, 8), "hour8");
    });
}

/// Halts the kernel zone, returns its disk to a snapshot, and expects a text in its file.
#[track_caller]
fn back_to(host: &Host, snapshot: &str, text: &str) {
    host.halt("k1");
    host.on("k1", &["rollback", "-F", snapshot]).quiet();
    e2e::machine::boot(host, "k1");
    assert_eq!(e2e::guest::said(host, "cat /root.text"), text);
}
