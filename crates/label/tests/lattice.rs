//! The laws of labels, on random labels and words.

use std::cell::Cell;

use label::{Encodings, Label, Relation};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const EXAMPLE: &str = include_str!("label_encodings");

/// Labels with few compartments and classifications, so that many of them are comparable.
fn small() -> impl Strategy<Value = Label> {
    (0u16..4, 0u8..32)
        .prop_map(|(class, set)| format!("0x{class:04x}-08-{set:02x}").parse().unwrap())
}

fn any_label() -> impl Strategy<Value = Label> {
    (0u16..0x8000, proptest::collection::vec(any::<u8>(), 0..=32)).prop_map(|(class, set)| {
        let set: String = set.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("0x{class:04x}-08-{set}").parse().unwrap()
    })
}

proptest! {
    #[test]
    fn dominance_is_a_partial_order(a in small(), b in small(), c in small()) {
        prop_assert!(a.dominates(a));
        prop_assert_eq!(a.dominates(b) && b.dominates(a), a == b);
        prop_assert!(!(a.dominates(b) && b.dominates(c)) || a.dominates(c));
        prop_assert_eq!(a.relation(b) == Relation::Above, b.relation(a) == Relation::Below);
        prop_assert_eq!(a >= b, a.dominates(b));
    }

    #[test]
    fn bounds_are_the_nearest_ones(a in small(), b in small(), c in small()) {
        let (lub, glb) = (a.lub(b), a.glb(b));
        prop_assert!(lub.dominates(a) && lub.dominates(b));
        prop_assert!(a.dominates(glb) && b.dominates(glb));
        prop_assert!(!(c.dominates(a) && c.dominates(b)) || c.dominates(lub));
        prop_assert!(!(a.dominates(c) && b.dominates(c)) || glb.dominates(c));
        prop_assert_eq!(a.lub(b), b.lub(a));
        prop_assert_eq!(a.glb(b.glb(c)), a.glb(b).glb(c));
        prop_assert_eq!(a.lub(a.glb(b)), a);
    }

    #[test]
    fn every_label_is_between_the_administrative_ones(a in any_label()) {
        prop_assert!(a.is_within(Label::ADMIN_LOW, Label::ADMIN_HIGH));
    }

    #[test]
    fn hexadecimal_forms_round_trip(a in any_label()) {
        prop_assert_eq!(a.to_string().parse(), Ok(a));
    }

    #[test]
    fn valid_labels_round_trip_as_text(class in 0usize..5, words in proptest::collection::vec(0usize..11, 0..6)) {
        let encodings = Encodings::read(EXAMPLE).unwrap();
        let class = encodings.classifications().nth(class).unwrap().0;
        let names: Vec<&str> = encodings.words().collect();
        let words: Vec<&str> = words.iter().map(|word| names[*word]).collect();
        if let Ok(label) = encodings.parse(&format!("{class} {}", words.join(" "))) {
            prop_assert_eq!(encodings.parse(&encodings.text(label)), Ok(label));
            prop_assert_eq!(encodings.parse(&encodings.short_text(label)), Ok(label));
            prop_assert_eq!(encodings.check(label), Ok(()));
        }
    }

    #[test]
    fn no_text_makes_the_reader_fail_otherwise_than_with_an_error(cut in 0usize..4000, junk in "[ -~\n]{0,40}") {
        let cut = cut.min(EXAMPLE.len());
        let text = format!("{}{junk}{}", &EXAMPLE[..cut], &EXAMPLE[cut..]);
        if let Err(error) = Encodings::read(&text) {
            prop_assert!(error.line <= text.lines().count() + 1);
        }
    }
}

/// Returns labels near the valid ones of the example: each has the compartments of its
/// classification and of some words, and perhaps one compartment more.
fn near() -> impl Strategy<Value = Label> {
    let encodings = Encodings::read(EXAMPLE).unwrap();
    // The compartments of a label that has this text.
    let set = |text: String| encodings.parse(&text).ok();
    let classes: Vec<&str> = encodings.classifications().map(|(name, _)| name).collect();
    let mut labels: Vec<Vec<Label>> = Vec::new();
    for class in classes {
        let with_words = encodings.words().map(|word| format!("{class} {word}"));
        let valid: Vec<Label> = with_words.filter_map(set).collect();
        labels.push(set(class.to_owned()).into_iter().chain(valid).collect());
    }
    labels.retain(|list| !list.is_empty());
    let of_class = proptest::sample::select(labels);
    (
        of_class,
        proptest::collection::vec(any::<proptest::sample::Index>(), 1..4),
        proptest::option::weighted(0.3, 0u8..32),
    )
        .prop_map(|(list, words, more)| {
            let union = words.iter().map(|word| list[word.index(list.len())]);
            let union = union.reduce(Label::lub).unwrap();
            let set = more.map_or_else(String::new, |byte| {
                format!("{}01", "00".repeat(usize::from(byte)))
            });
            let more: Label = format!("0x0000-08-{set}").parse().unwrap();
            union.lub(more)
        })
}

#[test]
fn any_label_has_a_text_that_is_read_as_the_same_label() {
    let encodings = Encodings::read(EXAMPLE).unwrap();
    let (valid, invalid) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::deterministic();
    let run = runner.run(&prop_oneof![4 => near(), 1 => any_label()], |a| {
        match encodings.check(a) {
            Ok(()) => {
                valid.set(valid.get() + 1);
                prop_assert_eq!(encodings.parse(&encodings.text(a)), Ok(a));
                prop_assert_eq!(encodings.parse(&encodings.short_text(a)), Ok(a));
            }
            Err(_) => {
                invalid.set(invalid.get() + 1);
                prop_assert!(encodings.parse(&encodings.text(a)).is_err());
            }
        }
        Ok(())
    });
    run.unwrap();
    println!("{} valid labels, {} others", valid.get(), invalid.get());
    assert!(valid.get() > 25 && invalid.get() > 25);
}
