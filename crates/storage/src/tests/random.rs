//! Random sequences of operations on several zones. Each operation may be killed before any of its
//! effects. The test supplies its own list of mounts.
//!
//! After each operation, every zone is in its old state, in its new state, or removed if the
//! operation removes it. No file in a mounted folder is lost. After the next command looks at the
//! zone, no unused file is left.

mod model;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};

use model::{Act, Model};

/// The names of the zones; one name contains a blank.
const ZONES: [&str; 3] = ["origin", "a b", "web"];
const SNAPSHOTS: [&str; 2] = ["one", "two"];
const FILES: [&str; 3] = ["a", "b", "c"];

/// An operation, and the effect before which it is killed.
#[derive(Debug, Clone)]
struct Deed {
    act: Act,
    killed_at: Option<u32>,
}

fn act() -> impl Strategy<Value = Act> {
    let zone = || prop::sample::select(&ZONES[..]);
    let name = || prop::sample::select(&SNAPSHOTS[..]);
    let file = || prop::sample::select(&FILES[..]);
    prop_oneof![
        2 => zone().prop_map(Act::Create),
        2 => (zone(), zone()).prop_map(|(from, to)| Act::Clone(from, to)),
        1 => (zone(), name(), zone()).prop_map(|(from, name, to)| Act::CloneSnapshot(from, name, to)),
        4 => (zone(), file()).prop_map(|(zone, file)| Act::Write(zone, file)),
        2 => zone().prop_map(Act::Seal),
        2 => (zone(), name()).prop_map(|(zone, name)| Act::Snapshot(zone, name)),
        4 => (zone(), name()).prop_map(|(zone, name)| Act::SnapshotRunning(zone, name)),
        1 => (zone(), name()).prop_map(|(zone, name)| Act::DestroySnapshot(zone, name)),
        1 => (zone(), name()).prop_map(|(zone, name)| Act::Rollback(zone, name)),
        1 => zone().prop_map(Act::Shorten),
        3 => zone().prop_map(Act::ShortenBeside),
        2 => (zone(), file()).prop_map(|(zone, file)| Act::Patch(zone, file)),
        8 => (zone(), zone()).prop_map(|(zone, patch)| Act::Share(zone, patch)),
        2 => zone().prop_map(Act::Destroy),
        3 => zone().prop_map(Act::Boot),
        1 => zone().prop_map(Act::Halt),
    ]
}

fn deed() -> impl Strategy<Value = Deed> {
    let killed_at = prop_oneof![1 => Just(None), 2 => (0..70_u32).prop_map(Some)];
    (act(), killed_at).prop_map(|(act, killed_at)| Deed { act, killed_at })
}

/// Carries out operations on new zones. Returns true if the last operation completed.
fn carry_out(deeds: &[Deed]) -> Result<bool, TestCaseError> {
    let mut model = Model::new(&ZONES);
    let mut is_through = true;
    for (number, deed) in deeds.iter().enumerate() {
        let at = |text: String| TestCaseError::fail(format!("deed {number}, {deed:?}: {text}"));
        is_through = model.carry_out(&deed.act, deed.killed_at).map_err(at)?;
    }
    model.end().map_err(TestCaseError::fail)?;
    Ok(is_through)
}

/// Operations that create zones which share a layer; one of these zones has an additional layer.
const SHARING: [Act; 6] = [
    Act::Create("origin"),
    Act::Write("origin", "a"),
    Act::Clone("origin", "a b"),
    Act::Clone("origin", "web"),
    Act::Write("origin", "b"),
    Act::Seal("origin"),
];

fn unkilled(act: Act) -> Deed {
    let killed_at = None;
    Deed { act, killed_at }
}

#[test]
fn an_operation_is_killed_before_each_of_its_effects() {
    let snapshot = Act::Snapshot("origin", "one");
    for before_and_last in [
        vec![Act::Clone("origin", "web")],
        vec![Act::Seal("web")],
        vec![snapshot.clone()],
        vec![Act::Boot("origin"), Act::SnapshotRunning("origin", "one")],
        vec![snapshot.clone(), Act::DestroySnapshot("origin", "one")],
        vec![snapshot.clone(), Act::Rollback("origin", "one")],
        vec![snapshot.clone(), Act::CloneSnapshot("origin", "one", "web")],
        vec![Act::Shorten("origin")],
        vec![Act::Boot("origin"), Act::ShortenBeside("origin")],
        vec![Act::Patch("a b", "c")],
        vec![Act::Share("a b", "origin")],
        vec![Act::Write("a b", "a"), Act::Share("a b", "origin")],
        vec![Act::Destroy("origin")],
        vec![Act::Boot("a b"), Act::Destroy("a b")],
    ] {
        let deeds: Vec<Deed> = SHARING
            .into_iter()
            .chain(before_and_last)
            .map(unkilled)
            .collect();
        for killed_at in 0.. {
            let mut deeds = deeds.clone();
            let through = deeds.pop().map(|last| Deed {
                killed_at: Some(killed_at),
                ..last
            });
            deeds.extend(through);
            match carry_out(&deeds) {
                Ok(true) => break,
                Ok(false) => {}
                Err(why) => panic!("{why}"),
            }
        }
    }
}

/// Returns the number of cases. `ZONES_TEST_CASES` sets a smaller number, for example on an
/// emulated host, which needs ten times as long for each case. Otherwise returns the number that
/// proptest uses, see PROPTEST_CASES.
fn cases() -> u32 {
    let few = std::env::var("ZONES_TEST_CASES").ok();
    few.and_then(|text| text.parse().ok())
        .unwrap_or(Config::default().cases)
}

proptest! {
    #![proptest_config(Config { cases: cases(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn zones_are_the_old_ones_or_the_new_ones_and_nothing_is_left(
        deeds in prop::collection::vec(deed(), 1..16)
    ) {
        carry_out(&deeds)?;
    }

    /// Tests a few operations on zones that share layers from the beginning.
    #[test]
    fn zones_on_one_layer_are_the_old_ones_or_the_new_ones(
        deeds in prop::collection::vec(deed(), 1..5)
    ) {
        let before: Vec<Deed> = SHARING.into_iter().map(unkilled).collect();
        carry_out(&[before, deeds].concat())?;
    }
}
