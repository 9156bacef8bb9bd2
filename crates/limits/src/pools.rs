//! Computes how the CPUs of a host are assigned to pools. This module changes nothing.

use model::controls::Control;

use crate::{CpuSet, Error};

/// The request of a pool for CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub number: Number,
    /// The importance, for the case that the host has more CPUs than the minimums of all pools.
    pub importance: u32,
    /// The CPUs that the pool has now and that still exist. The pool keeps as many of them as
    /// possible.
    pub held: CpuSet,
}

/// The requested CPUs, by number or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    /// A minimum and a maximum number of CPUs.
    Between(usize, usize),
    /// These CPUs.
    Named(CpuSet),
}

/// Assigns CPUs: each pool gets its minimum, and then the more important pools get CPUs up to their
/// maximum. One CPU is left for the host and for the zones that share CPUs.
///
/// # Errors
/// Fails with [`Error::NoCpus`] or [`Error::CpusTaken`] for the last pool, for which `control`
/// asks: the other pools had their minimums before the last one was added.
pub(crate) fn deal(all: &CpuSet, wants: &[Want], control: Control) -> Result<Vec<CpuSet>, Error> {
    let mut sets = vec![CpuSet::default(); wants.len()];
    let mut free = all.clone();
    for (want, set) in wants.iter().zip(&mut sets) {
        if let Number::Named(named) = &want.number {
            let is_all = named.len() == free.len();
            if named.is_empty() || is_all || !named.is_within(&free) {
                return Err(Error::CpusTaken {
                    control,
                    wanted: named.to_string(),
                    free: free.to_string(),
                });
            }
            free = free.without(named);
            set.clone_from(named);
        }
    }
    let ranges = || {
        let ranges = wants.iter().enumerate();
        ranges.filter_map(|(at, want)| match want.number {
            Number::Between(least, most) => Some((at, least, most.max(least))),
            Number::Named(_) => None,
        })
    };
    let least: usize = ranges().map(|(_, least, _)| least).sum();
    let spare = free.len().saturating_sub(1);
    let Some(mut more) = spare.checked_sub(least) else {
        return Err(too_few(all, wants, least, spare, control));
    };
    // Among pools of equal importance, the pool with more CPUs keeps them.
    let mut order: Vec<(usize, usize, usize)> = ranges().collect();
    order.sort_by_key(|(at, ..)| {
        let want = &wants[*at];
        std::cmp::Reverse((want.importance, want.held.len()))
    });
    let mut numbers = vec![0; wants.len()];
    for (at, least, most) in order {
        let extra = more.min(most - least);
        more -= extra;
        numbers[at] = least + extra;
    }
    for (at, ..) in ranges() {
        let taken = free.without(&wants[at].held);
        sets[at] = free.without(&taken).last(numbers[at]);
        free = free.without(&sets[at]);
    }
    for (at, ..) in ranges() {
        let missing = free.last(numbers[at] - sets[at].len());
        free = free.without(&missing);
        sets[at] = sets[at].with(&missing);
    }
    Ok(sets)
}

fn too_few(all: &CpuSet, wants: &[Want], least: usize, spare: usize, control: Control) -> Error {
    match wants.last().map(|want| &want.number) {
        // Pools with a range of numbers give up CPUs that another pool requests by name.
        Some(Number::Named(named)) => Error::CpusTaken {
            control,
            wanted: named.to_string(),
            free: wants[..wants.len() - 1]
                .iter()
                .fold(all.clone(), |free, want| free.without(&want.held))
                .to_string(),
        },
        Some(Number::Between(wanted, _)) => Error::NoCpus {
            control,
            wanted: u32::try_from(*wanted).unwrap_or(u32::MAX),
            free: (spare + wanted).saturating_sub(least),
        },
        None => Error::NoCpus {
            control,
            wanted: 0,
            free: 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> CpuSet {
        CpuSet::parse(text)
    }

    fn between(least: usize, most: usize, importance: u32, held: &str) -> Want {
        Want {
            number: Number::Between(least, most),
            importance,
            held: set(held),
        }
    }

    fn named(list: &str) -> Want {
        Want {
            number: Number::Named(set(list)),
            importance: 1,
            held: set(""),
        }
    }

    fn dealt(all: &str, wants: &[Want]) -> Result<Vec<String>, String> {
        let sets =
            deal(&set(all), wants, Control::DedicatedCpu).map_err(|error| error.to_string())?;
        Ok(sets.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn deals_from_the_end_and_leaves_one() {
        assert_eq!(dealt("0-7", &[between(2, 2, 1, "")]).unwrap(), ["6-7"]);
        assert_eq!(dealt("0-5", &[between(1, 2, 1, "")]).unwrap(), ["4-5"]);
        assert_eq!(dealt("0-3", &[between(1, 9, 1, "")]).unwrap(), ["1-3"]);
        assert_eq!(
            dealt("0", &[between(1, 1, 1, "")]).unwrap_err(),
            "dedicated-cpu: 1 CPU is wanted, and 0 are free: take fewer, or give up those of other zones"
        );
        assert_eq!(
            dealt("0-3", &[between(2, 2, 1, "2-3"), between(2, 4, 9, "")]).unwrap_err(),
            "dedicated-cpu: 2 CPUs are wanted, and 1 is free: take fewer, or give up those of other zones"
        );
    }

    #[test]
    fn cpu_ranges_shrink_for_minimums_and_for_importance() {
        // The first pool had three CPUs and keeps two, because the second pool needs one.
        assert_eq!(
            dealt("0-3", &[between(1, 3, 1, "1-3"), between(1, 1, 1, "")]).unwrap(),
            ["2-3", "1"]
        );
        // The second pool is more important.
        assert_eq!(
            dealt("0-3", &[between(1, 3, 1, "1-3"), between(1, 3, 5, "")]).unwrap(),
            ["3", "1-2"]
        );
        // When the second pool is gone, the first one gets all CPUs back.
        assert_eq!(dealt("0-3", &[between(1, 3, 1, "3")]).unwrap(), ["1-3"]);
    }

    #[test]
    fn named_ones_must_be_free_and_leave_one() {
        let alone = |list: &str| dealt("0-3", &[named(list)]);
        assert_eq!(alone("1,3").unwrap(), ["1,3"]);
        assert_eq!(
            alone("3-4").unwrap_err(),
            "dedicated-cpu: CPUs 3-4 are wanted, and 0-3 are free, of which one must stay so: name others, or give up those of other zones"
        );
        assert!(alone("0-3").is_err());
        assert!(alone("").is_err());
        assert!(dealt("0-3", &[named("1-2"), named("2-3")]).is_err());
        // A pool with a range of numbers moves to other CPUs, as long as it has its minimum.
        let range = between(1, 1, 1, "3");
        assert_eq!(dealt("0-3", &[range, named("2-3")]).unwrap(), ["1", "2-3"]);
        let range = between(2, 2, 1, "2-3");
        assert!(dealt("0-3", &[range, named("2-3")]).is_err());
    }

    /// Checks random requests: no CPU is assigned twice, each pool gets its minimum, and one CPU is
    /// left.
    #[test]
    fn every_cpu_goes_to_one_zone_and_minimums_hold() {
        let mut state = 12_345_u64;
        let mut random = |below: u32| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            u32::try_from(state >> 33).unwrap() % below
        };
        for _ in 0..2_000 {
            let all = set(&format!("0-{}", random(12)));
            let mut wants = Vec::new();
            for _ in 0..random(5) {
                let least = random(4) as usize;
                let held = set(&format!("{}-{}", random(6), 6 + random(6)));
                wants.push(between(least, least + random(4) as usize, random(3), ""));
                if let Some(last) = wants.last_mut() {
                    last.held = held;
                }
            }
            if random(3) == 0 {
                let first = random(12);
                wants.insert(0, named(&format!("{first}-{}", first + random(3))));
            }
            let Ok(sets) = deal(&all, &wants, Control::Pool) else {
                continue;
            };
            let mut free = all.clone();
            for (want, set) in wants.iter().zip(&sets) {
                assert!(set.is_within(&free), "{all} {wants:?} {sets:?}");
                free = free.without(set);
                match &want.number {
                    Number::Between(least, most) => {
                        assert!((*least..=*most).contains(&set.len()), "{wants:?} {sets:?}");
                    }
                    Number::Named(named) => assert_eq!(set, named),
                }
            }
            assert!(!free.is_empty(), "{all} {wants:?} {sets:?}");
        }
    }
}
