//! Tests operations beside a `collect` of another command.
//!
//! `collect` finds that a reference is stale, and removes it a moment later. Each test pauses an
//! operation at each of its points in turn, lets `collect` run until that moment, completes the
//! operation, and only then lets `collect` go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::garbage::{NAMES, OPERATIONS};
use super::{Zones, name, read, write};
use crate::collect::{Lost, collect};
use crate::crash;
use crate::dataset::Dataset;

/// Timeout for the other command to come to its next point. An operation with the lock of the layers
/// makes `collect` wait, and the operation then goes on after this time.
const NEXT_POINT_TIMEOUT: Duration = Duration::from_millis(30);

/// Waits for a message, which may never come.
fn wait(of: &Receiver<()>) {
    let _ = of.recv_timeout(NEXT_POINT_TIMEOUT);
}

/// Runs `work` until its `pause`-th point, then `collect` until it has found a stale reference, then
/// both to their ends. Returns false if `work` has fewer points.
fn race(zones: &Zones, pause: u32, work: impl Fn(&Zones) + Sync) -> bool {
    let (pausing, paused) = channel();
    let (finding, found) = channel();
    let (working, done) = channel::<()>();
    std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            let reached = Arc::new(AtomicBool::new(false));
            let is_reached = Arc::clone(&reached);
            let mut points = 0..=pause;
            let look = move || {
                if points.next() == Some(pause) {
                    is_reached.store(true, Ordering::Relaxed);
                    let _ = pausing.send(());
                    wait(&found);
                }
            };
            crash::watched(look, || work(zones));
            drop(working);
            reached.load(Ordering::Relaxed)
        });
        // Also ends if the operation has fewer points: its end of the channel is then dropped.
        let _ = paused.recv();
        let mut finding = Some(finding);
        let look = move || {
            if let Some(finding) = finding.take() {
                let _ = finding.send(());
                // Ends with the other command, which then drops its end of the channel.
                wait(&done);
            }
        };
        let layers = zones.layers();
        crash::watched(look, || collect(&layers, Lost::Keep)).unwrap();
        work.join().unwrap()
    })
}

/// Calls [`race`] for each point of `work`.
fn race_everywhere(
    prepare: impl Fn(&Zones),
    work: impl Fn(&Zones) + Sync,
    check: impl Fn(&Zones, u32),
) -> u32 {
    for pause in 0.. {
        let zones = Zones::quick();
        prepare(&zones);
        let reached = race(&zones, pause, &work);
        check(&zones, pause);
        if !reached {
            return pause;
        }
    }
    unreachable!("an operation has an end")
}

/// Creates a clone with a layer of its own, and a file above this layer.
fn web(zones: &Zones) -> Dataset {
    let origin = zones.origin();
    let web = origin.clone_to(&zones.zone("web")).unwrap();
    write(&web, "b", "two");
    web.seal().unwrap();
    write(&web, "c", "three");
    web
}

fn is_whole(zones: &Zones, what: &str) {
    let web = Dataset::open(&zones.zone("web")).unwrap();
    for (file, text) in [("a", "one"), ("b", "two"), ("c", "three")] {
        assert_eq!(read(&web, file).as_deref(), Some(text), "{what}");
    }
}

#[test]
fn a_repair_beside_collect_loses_no_layer() {
    for k in 0.. {
        let killed = std::cell::Cell::new(true);
        race_everywhere(
            |zones| {
                let web = web(zones);
                killed.set(crash::run(k, || web.seal()).is_err());
            },
            |zones| drop(Dataset::open(&zones.zone("web"))),
            |zones, pause| is_whole(zones, &format!("killed at {k}, paused at {pause}")),
        );
        if !killed.get() {
            break;
        }
    }
}

/// A zone on another file system stands on a layer in another folder of layers.
#[test]
fn a_repair_beside_collect_of_the_folder_below_loses_no_layer() {
    for k in 0.. {
        let killed = std::cell::Cell::new(true);
        race_everywhere(
            |zones| {
                let origin = zones.origin();
                std::fs::create_dir(zones.zone("data")).unwrap();
                let web = origin.clone_to(&zones.zone("data/web")).unwrap();
                Dataset::destroy(&zones.zone("origin")).unwrap();
                write(&web, "b", "two");
                killed.set(crash::run(k, || web.seal()).is_err());
            },
            |zones| drop(Dataset::open(&zones.zone("data/web"))),
            |zones, pause| {
                let what = format!("killed at {k}, paused at {pause}");
                let web = Dataset::open(&zones.zone("data/web")).expect(&what);
                assert_eq!(read(&web, "a").as_deref(), Some("one"), "{what}");
                assert_eq!(read(&web, "b").as_deref(), Some("two"), "{what}");
            },
        );
        if !killed.get() {
            break;
        }
    }
}

#[test]
fn a_patch_beside_collect_loses_no_layer() {
    // Without layers of its own above the common one, and with one.
    for own in [false, true] {
        let points = race_everywhere(
            |zones| {
                let origin = zones.origin();
                for zone in ["patch", "web"] {
                    origin.clone_to(&zones.zone(zone)).unwrap();
                }
                let patch = Dataset::open(&zones.zone("patch")).unwrap();
                write(&patch, "b", "two");
                patch.seal().unwrap();
                let web = Dataset::open(&zones.zone("web")).unwrap();
                if own {
                    write(&web, "c", "three");
                    web.seal().unwrap();
                }
                web.snapshot(&name("kept")).unwrap();
            },
            |zones| {
                let patch = Dataset::open(&zones.zone("patch")).unwrap();
                let base = patch.stack().unwrap().lowers.pop().unwrap();
                let web = Dataset::open(&zones.zone("web")).unwrap();
                web.put_below(&patch, &base).unwrap();
            },
            |zones, pause| {
                let web = Dataset::open(&zones.zone("web")).unwrap();
                let what = format!("own {own}, paused at {pause}");
                assert_eq!(read(&web, "a").as_deref(), Some("one"), "{what}");
                assert_eq!(read(&web, "b").as_deref(), Some("two"), "{what}");
                assert_eq!(read(&web, "c").is_some(), own, "{what}");
                // The layer is the zone's own, too.
                Dataset::destroy(&zones.zone("patch")).unwrap();
                collect(&zones.layers(), Lost::Keep).unwrap();
                assert_eq!(read(&web, "b").as_deref(), Some("two"), "{what}");
            },
        );
        assert!(points >= 3, "{points}");
    }
}

#[test]
fn each_operation_beside_collect_loses_no_layer() {
    for operation in &OPERATIONS {
        race_everywhere(operation.prepare, operation.work, |zones, pause| {
            let what = format!("{}, paused at {pause}", operation.called);
            for zone in NAMES {
                let zone = Dataset::open(&zones.zone(zone)).expect(&what);
                let others = zone.others().unwrap();
                for dataset in others.iter().chain([&zone]) {
                    let Some(bond) = dataset.bond().unwrap() else {
                        continue;
                    };
                    for layer in bond.layer.chain().expect(&what) {
                        assert!(layer.form().unwrap().is_some(), "{what}");
                    }
                }
            }
        });
    }
}
