//! The layer algebra against plain folders.
//!
//! Random calls are made on zones through their mounted stacks, as root of two
//! different id ranges, and likewise on a plain folder per zone. Between them zones are sealed, cloned and destroyed. Each call must give the
//! same error number on both sides, and the trees must be equal after each step.
//!
//! Needs root. `ZONES_TEST_CASES=N` asks for more cases than the default,
//! `ZONES_TEST_DIR` for another folder than the target folder to work in.

mod generate;
mod ops;
mod worker;
mod world;

use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use world::{Step, World};

/// Enough for a few seconds.
const CASES: u32 = 60;

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
    let mut world = World::new().expect("a mount namespace and a scratch folder");
    for (name, steps) in generate::known() {
        if let Err(e) = world.run(&steps) {
            panic!("{name}: {e}\n{steps:#?}");
        }
        println!("layers: {name} ... ok");
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
                "layers: {cases} random cases, {} calls ({} of them succeeded), {} mounts in {:.1} s ... ok",
                world.calls,
                world.succeeded,
                world.mounts,
                started.elapsed().as_secs_f32()
            );
        }
        Err(TestError::Fail(reason, steps)) => panic!("{reason}\nsmallest case: {steps:#?}"),
        Err(e) => panic!("{e}"),
    }
}
