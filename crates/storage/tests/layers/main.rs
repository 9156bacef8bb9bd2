//! Compares zones on layers with plain folders.
//!
//! The test makes random calls on zones through their mounted stacks, as root of two different id
//! ranges, and the same calls on one plain folder per zone. Between the calls, the test seals,
//! clones and destroys zones, and merges layers. Each call must return the same error number in the
//! zone and in the plain folder, and the trees must be equal after each step.
//!
//! The test needs root. `ZONES_TEST_CASES=N` sets the number of cases, and `ZONES_TEST_DIR` sets
//! the folder to work in (default: the target folder). With `ZONES_TEST_QUOTA=1`, zones have limits
//! on their space, which the file system of the folder must support.

mod generate;
mod ops;
mod worker;
mod world;

use std::path::PathBuf;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use world::{Place, Step, World};

/// This number of cases takes a few seconds.
const CASES: u32 = 100;

fn main() {
    if std::env::args().nth(1).as_deref() == Some(worker::ARGUMENT) {
        if let Err(e) = worker::serve() {
            eprintln!("worker: {e}");
            std::process::exit(1);
        }
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("layers: skipped: mounting needs root");
        return;
    }
    let cases = std::env::var("ZONES_TEST_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(CASES);
    sys::namespace::unshare(sys::process::ns::MOUNT).expect("root may leave its mount namespace");
    sys::mount::make_private_recursive().expect("root may change its own mounts");
    let given = std::env::var_os("ZONES_TEST_DIR").map(PathBuf::from);
    let dir = given
        .clone()
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    let mut world = World::new(&dir, Place::Disk).expect("a folder to work in");
    for (name, steps) in generate::known() {
        if let Err(e) = world.run(&steps) {
            panic!("{name}: {e}\n{steps:#?}");
        }
        println!("layers: {name} ... ok");
    }
    if let Err(e) = world.keeps_what_is_mounted() {
        panic!("{e}");
    }
    println!("layers: a zone with a mount in its root is not destroyed ... ok");
    // An unmount waits for the disk, so many cases run faster in memory. This needs a kernel that
    // can id-map tmpfs (6.3) and has user attributes on tmpfs (6.6).
    if given.is_none() {
        let mut memory = World::new(&dir, Place::Memory).expect("a tmpfs to work in");
        match generate::known()
            .iter()
            .try_for_each(|(_, steps)| memory.run(steps))
        {
            Ok(()) => world = memory,
            Err(e) => println!("layers: random cases on disk, tmpfs does not do: {e}"),
        }
    }
    let world = std::cell::RefCell::new(world);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let started = std::time::Instant::now();
    let result = runner.run(&generate::steps(), |steps: Vec<Step>| {
        world.borrow_mut().run(&steps).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {
            let world = world.borrow();
            println!(
                "layers: {cases} random cases, {} calls ({} of them succeeded), {} mounts, {} merges in {:.1} s ... ok",
                world.calls,
                world.succeeded,
                world.mounts,
                world.merges,
                started.elapsed().as_secs_f32()
            );
        }
        Err(TestError::Fail(reason, steps)) => panic!("{reason}\nsmallest case: {steps:#?}"),
        Err(e) => panic!("{e}"),
    }
}
