//! Runs random sequences of verbs on several zones. Each verb may fail at any of its steps, or be
//! killed before any of its effects.
//!
//! The verbs, the index, the configurations and the roots are real and are in a temporary folder.
//! After each verb, every zone is in its old state, in its new state, or incomplete. The index
//! agrees with the disk, the next command continues, and no unused file is left.
//!
//! The test needs no root: another user becomes root of a user namespace. `ZONES_TEST_CASES=N` sets
//! the number of random cases.

mod world;

use std::fs;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use world::{Act, Harm, World};

/// Default number of random cases, which take a few seconds.
const CASES: u32 = 60;

/// The names of the zones. The zonepath of db contains a blank.
const ZONES: [&str; 3] = ["web", "db", "mail"];

/// A verb, and its injected failure.
#[derive(Debug, Clone)]
struct Deed {
    act: Act,
    harm: Harm,
}

fn act() -> impl Strategy<Value = Act> {
    let zone = || prop::sample::select(&ZONES[..]);
    prop_oneof![
        3 => zone().prop_map(Act::Install),
        3 => (zone(), zone()).prop_map(|(from, to)| Act::Clone(from, to)),
        2 => zone().prop_map(Act::Uninstall),
        1 => zone().prop_map(Act::Detach),
        2 => zone().prop_map(Act::Attach),
        1 => zone().prop_map(Act::Mark),
        3 => zone().prop_map(Act::Write),
        2 => zone().prop_map(Act::Snapshot),
        1 => zone().prop_map(Act::Rollback),
        1 => zone().prop_map(Act::DestroySnapshot),
        1 => zone().prop_map(Act::Merge),
        2 => zone().prop_map(Act::Move),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    let harm = prop_oneof![
        2 => Just(Harm::None),
        2 => (1..10_usize).prop_map(Harm::Fails),
        4 => (0..50_u32).prop_map(Harm::Killed),
    ];
    (act(), harm).prop_map(|(act, harm)| Deed { act, harm })
}

/// Carries out verbs on new zones. Returns true if the last verb ended without the injected
/// failure.
fn carry_out(deeds: &[Deed]) -> Result<bool, String> {
    let mut world = World::new(&ZONES).map_err(|error| error.to_string())?;
    let mut is_through = true;
    for (number, deed) in deeds.iter().enumerate() {
        is_through = world
            .carry_out(&deed.act, deed.harm)
            .map_err(|text| format!("deed {number}, {deed:?}: {text}"))?;
    }
    world.end().map(|()| is_through)
}

/// Returns lists of verbs. The last verb of each list is tested with a failure at each of its steps
/// and effects, after the verbs before it.
fn known() -> Vec<Vec<Act>> {
    let with = |more: &[Act]| {
        let before = [Act::Install("web"), Act::Write("web")];
        before.iter().chain(more).cloned().collect()
    };
    vec![
        vec![Act::Install("web")],
        vec![Act::Install("db")],
        with(&[Act::Clone("web", "db")]),
        with(&[
            Act::Clone("web", "mail"),
            Act::Write("mail"),
            Act::Clone("mail", "db"),
        ]),
        with(&[Act::Uninstall("web")]),
        with(&[Act::Clone("web", "db"), Act::Uninstall("web")]),
        with(&[Act::Clone("web", "db"), Act::Uninstall("db")]),
        with(&[Act::Mark("web"), Act::Uninstall("web")]),
        with(&[Act::Mark("web")]),
        with(&[Act::Detach("web")]),
        with(&[Act::Detach("web"), Act::Attach("web")]),
        with(&[Act::Snapshot("web")]),
        with(&[
            Act::Snapshot("web"),
            Act::Write("web"),
            Act::Rollback("web"),
        ]),
        with(&[Act::Snapshot("web"), Act::DestroySnapshot("web")]),
        with(&[Act::Snapshot("web"), Act::Write("web"), Act::Merge("web")]),
        with(&[Act::Move("web")]),
        with(&[
            Act::Clone("web", "db"),
            Act::Snapshot("web"),
            Act::Move("web"),
        ]),
        with(&[
            Act::Clone("web", "db"),
            Act::Move("db"),
            Act::Uninstall("db"),
        ]),
    ]
}

fn harm_at_each_step(acts: &[Act]) -> Result<(), String> {
    let harms: [&dyn Fn(u32) -> Harm; 2] = [&|n| Harm::Fails(n as usize + 1), &Harm::Killed];
    for harm in harms {
        for n in 0.. {
            let last = acts.len() - 1;
            let deeds = acts.iter().enumerate().map(|(at, act)| Deed {
                act: act.clone(),
                harm: if at == last { harm(n) } else { Harm::None },
            });
            if carry_out(&deeds.collect::<Vec<_>>())? {
                break;
            }
        }
    }
    Ok(())
}

/// Makes a process that is not root the root of a user namespace.
fn become_root() -> Result<(), Box<dyn std::error::Error>> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() {
        return Ok(());
    }
    sys::namespace::unshare(sys::process::ns::USER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))?;
    Ok(())
}

fn main() {
    if let Err(error) = become_root() {
        println!("skipped: verbs: no user namespace: {error}");
        return;
    }
    // The folders above zonepaths must be writable only for their owner.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    for acts in known() {
        if let Err(text) = harm_at_each_step(&acts) {
            panic!("{text}\nafter {acts:?}");
        }
        println!("verbs: harm at each step of {:?} ... ok", acts.last());
    }
    let cases = std::env::var("ZONES_TEST_CASES");
    let config = Config {
        cases: cases
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(CASES),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let cases = config.cases;
    let deeds = prop::collection::vec(deed(), 1..10);
    let result = TestRunner::new(config).run(&deeds, |deeds| {
        carry_out(&deeds).map(drop).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => println!("verbs: {cases} random cases ... ok"),
        Err(TestError::Fail(reason, deeds)) => panic!("{reason}\nsmallest case: {deeds:#?}"),
        Err(error) => panic!("{error}"),
    }
}
