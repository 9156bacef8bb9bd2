//! Tests a dataset that takes over a root that was prepared beside it, and a dataset that gets a
//! layer below its own layers. Each operation is ended at each crash point, and killed at any
//! moment.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::crashes::{crash_everywhere, leaves_nothing};
use super::{Zones, read, write};
use crate::collect::{Lost, collect};
use crate::dataset::Dataset;
use crate::name::Name;
use crate::patch::{Obstacle, holds, misfit};

fn before() -> Name {
    "before".parse().unwrap()
}

/// Creates a zone with a snapshot of its former state, and a newer copy beside the zone.
fn prepare_take_over(zones: &Zones) {
    let web = zones.origin().clone_to(&zones.zone("web")).unwrap();
    Dataset::destroy(&zones.zone("origin")).unwrap();
    write(&web, "b", "old");
    web.snapshot(&before()).unwrap();
    let copy = web
        .clone_snapshot_to(&before(), &zones.zone("copy"))
        .unwrap();
    write(&copy, "b", "new");
    write(&copy, "c", "new");
    copy.seal_tree().unwrap();
}

fn take_over(at: &dyn Fn(&str) -> PathBuf) {
    let web = Dataset::open(&at("web")).unwrap();
    web.take_over(&Dataset::open(&at("copy")).unwrap()).unwrap();
}

/// Checks that the zone is in its old or its new state. Returns true for the new state.
fn is_new(web: &Dataset) -> bool {
    assert_eq!(read(web, "a").as_deref(), Some("one"));
    match (read(web, "b").as_deref(), read(web, "c").as_deref()) {
        (Some("old"), None) => false,
        (Some("new"), Some("new")) => true,
        other => panic!("half a zone: {other:?}"),
    }
}

fn check_take_over(zones: &Zones, at: Option<u32>) -> bool {
    let web = Dataset::open(&zones.zone("web")).unwrap();
    let is_new = is_new(&web);
    assert!(is_new || at.is_some(), "not done and not cut off");
    // As the recovery does, the test removes the copy, and a rollback still leads to the old state.
    Dataset::destroy(&zones.zone("copy")).unwrap();
    assert_eq!(self::is_new(&web), is_new, "after a crash at {at:?}");
    web.rollback(&before()).unwrap();
    assert!(!self::is_new(&web), "after a crash at {at:?}");
    web.destroy_snapshot(&before()).unwrap();
    leaves_nothing(zones, &["web", "copy", "origin"], at);
    is_new
}

/// Creates two zones on one layer. The first zone has a layer to share. The second zone has one
/// file of its own, in `own` layers.
fn prepare_put_below(zones: &Zones, own: usize) {
    let origin = zones.origin();
    for name in ["patch", "web"] {
        origin.clone_to(&zones.zone(name)).unwrap();
    }
    let patch = Dataset::open(&zones.zone("patch")).unwrap();
    write(&patch, "b", "new");
    patch.seal().unwrap();
    let web = Dataset::open(&zones.zone("web")).unwrap();
    for n in 0..own {
        write(&web, &format!("own{n}"), "mine");
        web.seal().unwrap();
    }
    drop(base_of(&zones.zone("patch")));
}

/// Returns the lowest tree, on which both zones are based.
fn base_of(zonepath: &Path) -> PathBuf {
    let lowers = Dataset::open(zonepath).unwrap().stack().unwrap().lowers;
    lowers.last().unwrap().clone()
}

fn put_below(at: &dyn Fn(&str) -> PathBuf) {
    let web = Dataset::open(&at("web")).unwrap();
    let patch = Dataset::open(&at("patch")).unwrap();
    web.put_below(&patch, &base_of(&at("patch"))).unwrap();
}

fn check_put_below(zones: &Zones, own: usize, at: Option<u32>) -> bool {
    let web = Dataset::open(&zones.zone("web")).unwrap();
    assert_eq!(read(&web, "a").as_deref(), Some("one"), "{at:?}");
    for n in 0..own {
        let name = format!("own{n}");
        assert_eq!(read(&web, &name).as_deref(), Some("mine"), "{at:?}");
    }
    let is_new = read(&web, "b").is_some();
    assert!(is_new || at.is_some(), "not done and not cut off");
    let patch = Dataset::open(&zones.zone("patch")).unwrap();
    assert_eq!(read(&patch, "b").as_deref(), Some("new"), "{at:?}");
    Dataset::destroy(&zones.zone("patch")).unwrap();
    assert_eq!(read(&web, "b").is_some(), is_new, "after a crash at {at:?}");
    leaves_nothing(zones, &["web", "patch", "origin"], at);
    is_new
}

fn mend(zones: &Zones) {
    Dataset::open(&zones.zone("web")).unwrap();
    collect(&zones.layers(), Lost::Keep).unwrap();
}

#[test]
fn a_crash_in_take_over_leaves_the_old_or_the_new_zone() {
    let points = crash_everywhere(
        prepare_take_over,
        |zones| take_over(&|name| zones.zone(name)),
        mend,
        |zones, at| {
            check_take_over(zones, at);
        },
    );
    assert!(points >= 4, "{points}");
}

#[test]
fn a_crash_in_put_below_leaves_the_old_or_the_new_zone() {
    for own in 0..3 {
        let points = crash_everywhere(
            |zones| prepare_put_below(zones, own),
            |zones| put_below(&|name| zones.zone(name)),
            mend,
            |zones, at| {
                check_put_below(zones, own, at);
            },
        );
        assert!(points >= 2, "{points}");
    }
}

#[test]
fn a_part_of_a_layer_goes_on_top() {
    let zones = Zones::quick();
    prepare_take_over(&zones);
    let copy = Dataset::open(&zones.zone("copy")).unwrap();
    write(&copy, "log", "said");
    copy.seal_tree().unwrap();
    let web = Dataset::open(&zones.zone("web")).unwrap();
    let other = web
        .clone_snapshot_to(&before(), &zones.zone("other"))
        .unwrap();
    assert!(other.is_untouched().unwrap());
    other
        .add_part(&copy, &|path| path == Path::new("log"))
        .unwrap();
    assert!(other.is_untouched().unwrap());
    assert_eq!(read(&other, "log").as_deref(), Some("said"));
    assert_eq!(read(&other, "b").as_deref(), Some("old"));
    assert_eq!(read(&other, "c"), None);
    let tree = &other.stack().unwrap().lowers[0];
    assert!(holds(tree, Path::new("log")).unwrap());
    assert!(!holds(tree, Path::new("log/x")).unwrap());
    write(&other, "log", "more");
    assert!(!other.is_untouched().unwrap());
}

/// The environment variable that makes the program a worker. It names the operation, and the folder
/// of the zones.
const WORK: &str = "ZONES_TEST_KILLED";

/// The message that the worker prints at its beginning.
const BEGUN: &str = "the work begins";

/// This is not a test but the operation that a test kills, in its own process.
#[test]
fn child_process_that_is_killed() {
    let Ok(work) = std::env::var(WORK) else {
        return;
    };
    let (work, folder) = work.split_once(' ').unwrap();
    let at = |name: &str| Path::new(folder).join(name);
    println!("{BEGUN}");
    match work {
        "take_over" => take_over(&at),
        "put_below" => put_below(&at),
        _ => loop {
            // [`misfit`] must leave no files, even if it is killed.
            let own = Dataset::open(&at("web")).unwrap().stack().unwrap().lowers;
            let patch = Dataset::open(&at("patch")).unwrap().stack().unwrap().lowers;
            let found = misfit(&patch[0], &own[..own.len() - 1], &|_| false)
                .unwrap()
                .unwrap();
            assert_eq!(found.what, Obstacle::Own);
        },
    }
}

/// Starts the operation and kills it `after` its beginning. Returns true if the operation
/// completed, and its duration.
fn killed(work: &str, zones: &Zones, after: Duration) -> (bool, Duration) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "tests::switches::child_process_that_is_killed",
            "--nocapture",
        ])
        .env(WORK, format!("{work} {}", zones.0.path().display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0);
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.contains(BEGUN)), "{work}");
    let began = Instant::now();
    while began.elapsed() < after && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_micros(50));
    }
    let took = began.elapsed();
    let _ = child.kill();
    (child.wait().unwrap().success(), took)
}

/// Returns the number of kills, which is larger if `ZONES_TEST_LONG` is set.
fn times() -> u32 {
    let long = std::env::var_os("ZONES_TEST_LONG").is_some_and(|value| !value.is_empty());
    if long { 200 } else { 20 }
}

/// Kills the operation at moments spread over the duration that the operation has on this host.
fn kill_often(work: &str, prepare: impl Fn(&Zones), check: impl Fn(&Zones, Option<u32>) -> bool) {
    let mut whole = Duration::MAX;
    for _ in 0..3 {
        let zones = Zones::quick();
        prepare(&zones);
        let (through, took) = killed(work, &zones, Duration::from_secs(60));
        assert!(through && check(&zones, None), "{work}");
        whole = whole.min(took);
    }
    let (mut new, mut cut) = (0, 0);
    for round in 0..times() {
        let zones = Zones::quick();
        prepare(&zones);
        let part = (round * 7919 + 311) % 1000;
        let (through, _) = killed(work, &zones, whole * part / 1000);
        mend(&zones);
        new += u32::from(check(&zones, (!through).then_some(round)));
        cut += u32::from(!through);
    }
    println!("{work}: killed {cut} of {} times, {new} are new", times());
}

#[test]
fn killed_at_any_moment_a_zone_that_takes_over_is_the_old_or_the_new_one() {
    kill_often("take_over", prepare_take_over, check_take_over);
}

#[test]
fn killed_at_any_moment_a_zone_with_a_layer_put_below_is_the_old_or_the_new_one() {
    for own in [0, 2] {
        kill_often(
            "put_below",
            |zones| {
                prepare_put_below(zones, own);
                // The layers contain so many files that the kill does not miss the operation.
                let web = Dataset::open(&zones.zone("web")).unwrap();
                if own > 0 {
                    for n in 0..200 {
                        write(&web, &format!("more{n}"), "mine");
                    }
                    web.seal().unwrap();
                }
            },
            |zones, at| check_put_below(zones, own, at),
        );
    }
}

#[test]
fn a_search_for_conflicts_changes_nothing() {
    let zones = Zones::quick();
    prepare_put_below(&zones, 1);
    let web = Dataset::open(&zones.zone("web")).unwrap();
    write(&web, "b", "mine");
    web.seal().unwrap();
    let files = |zones: &Zones| {
        let mut all = zones.files();
        all.sort();
        all.iter()
            .map(|path| fs::symlink_metadata(path).unwrap().len())
            .collect::<Vec<_>>()
    };
    let then = files(&zones);
    for round in 0..times().min(40) {
        let after = Duration::from_millis(u64::from(1 + round % 10) * 3);
        assert!(!killed("misfit", &zones, after).0, "it has no end");
        assert_eq!(files(&zones), then);
    }
}
