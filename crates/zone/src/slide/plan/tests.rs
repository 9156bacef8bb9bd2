//! Simulates weeks of runs with a clock of the test.

use super::*;
use crate::slide::moment::slot;
use crate::utc;
use proptest::prelude::*;

const QUARTER: u64 = 900;
const DAY: u64 = 86_400;

/// A Monday, the first day of neither a month nor a year.
const MONDAY: &str = "2026-03-09T00:00:00Z";

fn at(text: &str) -> u64 {
    utc::seconds(text).unwrap()
}

fn zone(name: &str, kept: [usize; 5]) -> Scheduled {
    Scheduled {
        zone: name.parse().unwrap(),
        schedule: Schedule {
            kept,
            max_bytes: None,
        },
        known: Vec::new(),
        bytes: 0,
    }
}

impl Scheduled {
    fn add(&mut self, auto: Auto) {
        self.known.push(Known {
            name: auto.name(),
            auto,
            needed: false,
            parts: Vec::new(),
        });
        self.known.sort_by_key(|one| one.auto);
    }

    fn drop_all(&mut self, removals: &[Removal]) {
        let is_gone = |one: &Known| removals.iter().any(|gone| gone.name == one.name);
        self.known.retain(|one| !is_gone(one));
    }

    /// Runs as the service does, and returns the removals.
    fn run(&mut self, now: u64) -> Vec<Removal> {
        let due = self.due(now);
        let removals = self.surplus(now, due);
        self.drop_all(&removals);
        if let Some(due) = due {
            self.add(due);
        }
        removals
    }

    fn times(&self) -> Vec<u64> {
        self.known.iter().map(|one| one.auto.at).collect()
    }

    fn names(&self) -> Vec<String> {
        self.known.iter().map(|one| one.name.to_string()).collect()
    }
}

/// Returns the times that a schedule should keep after runs at `runs`: of each period, the first
/// run in each of the newest slots, and the newest snapshot.
fn expected(schedule: &Schedule, runs: &[u64]) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    let mut newest = None;
    for period in Period::ALL
        .into_iter()
        .filter(|one| schedule.kept(*one) > 0)
    {
        let mut firsts: Vec<u64> = runs.to_vec();
        firsts.dedup_by_key(|at| slot(period, *at));
        newest = newest.max(firsts.last().copied());
        all.extend(firsts.into_iter().rev().take(schedule.kept(period)));
    }
    all.extend(newest);
    all
}

#[test]
fn five_weeks_of_quarters_leave_the_default_schedule() {
    let mut web = zone("web", [4, 24, 31, 7, 12]);
    let begin = at(MONDAY);
    let runs: Vec<u64> = (0..35 * 96).map(|n| begin + n * QUARTER).collect();
    let mut most = 0;
    for now in &runs {
        web.run(*now);
        most = most.max(web.known.len());
    }
    let kept: BTreeSet<u64> = web.times().into_iter().collect();
    assert_eq!(kept, expected(&web.schedule, &runs));
    // The hours of the last day, four quarters of which one is an hour, 31 days of which the
    // last is an hour, five Mondays of which four are days, and two first days: the first one of
    // the simulation, a Monday, and the first of April, a day.
    assert_eq!(web.known.len(), 24 + 3 + 30 + 1);
    assert!(most <= 4 + 24 + 31 + 7 + 12, "{most}");
    let names = web.names();
    assert_eq!(names[0], "auto-monthly-20260309T000000Z");
    assert_eq!(names[57], "auto-frequent-20260412T234500Z");
    assert!(names.contains(&"auto-monthly-20260401T000000Z".to_owned()));
    assert!(names.contains(&"auto-weekly-20260406T000000Z".to_owned()));
    assert!(names.contains(&"auto-daily-20260407T000000Z".to_owned()));
}

#[test]
fn a_host_that_was_off_takes_one_snapshot() {
    let mut web = zone("web", [4, 24, 31, 7, 12]);
    let begin = at(MONDAY);
    for n in 0..40 {
        web.run(begin + n * QUARTER);
    }
    let before = web.times();
    let now = begin + 40 * QUARTER + 20 * 3_600;
    web.run(now);
    assert_eq!(
        web.times()
            .iter()
            .filter(|at| **at > before[before.len() - 1])
            .count(),
        1
    );
    assert_eq!(web.due(now + 60), None, "once in a slot");
    assert_eq!(web.names().last().unwrap(), "auto-daily-20260310T060000Z");
}

#[test]
fn a_clock_that_is_set_back_and_forth_loses_nothing() {
    let mut web = zone("web", [4, 24, 31, 7, 12]);
    let begin = at(MONDAY);
    for n in 0..20 * 96 {
        web.run(begin + n * QUARTER);
    }
    let before: BTreeSet<u64> = web.times().into_iter().collect();
    // The battery of the clock is empty: 1970. Then the host asks its time server.
    let lost = web.run(1_000);
    assert!(lost.is_empty(), "{lost:?}");
    for n in 1..200 {
        web.run(1_000 + n * QUARTER);
    }
    assert!(before.iter().all(|at| web.times().contains(at)));
    let now = begin + 20 * 96 * QUARTER;
    web.run(now);
    // Those of 1970 are the oldest now, so they are surplus apart from their month.
    let stays = web.times();
    let lost: Vec<&u64> = before.iter().filter(|at| !stays.contains(at)).collect();
    assert!(lost.len() <= Period::ALL.len(), "{lost:?}");
}

#[test]
fn a_day_that_was_set_back_is_no_reason_to_thin() {
    let mut web = zone("web", [2, 3, 4, 0, 0]);
    let begin = at(MONDAY) + 30 * DAY;
    for n in 0..10 * 96 {
        web.run(begin + n * QUARTER);
    }
    let before = web.times();
    for n in 0..96 {
        let removed = web.run(begin + 9 * 96 * QUARTER - DAY + n * QUARTER);
        let is_old = |one: &Removal| {
            before.iter().any(|at| {
                one.name
                    == Auto::parse(&one.name)
                        .map(|auto| Auto { at: *at, ..auto })
                        .unwrap()
                        .name()
            })
        };
        let old = removed.iter().filter(|one| is_old(one)).count();
        assert!(old <= 3, "{removed:?}");
    }
    // The future of the clock is as it was.
    let future = |times: &[u64]| -> Vec<u64> {
        times
            .iter()
            .copied()
            .filter(|at| *at >= begin + 9 * 96 * QUARTER)
            .collect()
    };
    assert_eq!(future(&web.times()), future(&before));
}

#[test]
fn snapshots_that_are_needed_and_the_newest_stay() {
    let mut web = zone("web", [0, 1, 0, 0, 0]);
    let begin = at(MONDAY);
    for n in 0..5 {
        web.add(Auto {
            at: begin + n * 3_600,
            period: Period::Hourly,
        });
    }
    web.known[1].needed = true;
    let removed = web.surplus(begin + 5 * 3_600, None);
    let names: Vec<String> = removed.iter().map(|one| one.name.to_string()).collect();
    assert_eq!(
        names,
        [
            "auto-hourly-20260309T000000Z",
            "auto-hourly-20260309T020000Z",
            "auto-hourly-20260309T030000Z"
        ]
    );
    web.schedule.max_bytes = Some(0);
    web.bytes = 10;
    let pressed = web.surplus(begin + 5 * 3_600, None);
    assert_eq!(pressed, removed, "these two stay");
    let all = relief(&[&web], 100, begin + 5 * 3_600);
    assert!(
        all.iter()
            .all(|one| one.name != web.known[1].name && one.name != web.known[4].name)
    );
}

#[test]
fn a_maximum_size_removes_short_periods_first_and_the_oldest_of_them() {
    let mut web = zone("web", [4, 24, 31, 7, 12]);
    let begin = at(MONDAY);
    for n in 0..24 * 35 {
        web.run(begin + n * 3_600);
    }
    let now = begin + 24 * 35 * 3_600 - 1;
    web.bytes = 1_000;
    web.schedule.max_bytes = Some(1_000);
    assert_eq!(web.surplus(now, None), []);
    web.schedule.max_bytes = Some(999);
    let removed = web.surplus(now, None);
    let names: Vec<&str> = removed.iter().map(|one| one.name.as_str()).collect();
    // The first days are weeks or months, or the schedule has no days of that age.
    assert_eq!(names[0], "auto-daily-20260313T000000Z");
    assert_eq!(removed[0].why, Why::Size(999));
    let place = |start: &str| names.iter().position(|name| name.starts_with(start));
    assert!(place("auto-hourly") < place("auto-weekly"), "{names:?}");
    let last = names[names.len() - 1];
    assert!(last.starts_with("auto-monthly"), "{names:?}");
    assert!(
        !names.contains(&"auto-hourly-20260412T230000Z"),
        "the newest stays"
    );
    web.drop_all(&removed);
    assert_eq!(web.names(), ["auto-hourly-20260412T230000Z"]);
}

#[test]
fn a_disk_is_relieved_in_the_order_of_its_limits() {
    let begin = at(MONDAY);
    let mut zones = [zone("a", [0, 24, 31, 7, 12]), zone("b", [0, 0, 31, 7, 12])];
    for n in 0..24 * 35 {
        zones
            .iter_mut()
            .for_each(|one| drop(one.run(begin + n * 3_600)));
    }
    let now = begin + 24 * 35 * 3_600 - 1;
    let both = [&zones[0], &zones[1]];
    assert_eq!(relief(&both, 79, now), []);
    let periods = |percent| -> BTreeSet<String> {
        let removals = relief(&both, percent, now);
        let autos = removals.iter().filter_map(|one| Auto::parse(&one.name));
        autos.map(|one| one.period.as_str().to_owned()).collect()
    };
    let words = |words: &[&str]| {
        words
            .iter()
            .map(|one| (*one).to_owned())
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(periods(80), words(&["daily", "hourly"]));
    assert_eq!(periods(90), words(&["daily", "hourly", "weekly"]));
    assert_eq!(periods(100), periods(90), "months stay");
    let warned = relief(&both, 80, now);
    let times: Vec<u64> = warned
        .iter()
        .map(|one| Auto::parse(&one.name).unwrap().at)
        .collect();
    assert!(times.is_sorted(), "the oldest of all zones first");
    for zone in &zones {
        let newest = &zone.known.last().unwrap().name;
        assert!(
            warned
                .iter()
                .all(|one| one.zone != zone.zone || one.name != *newest)
        );
    }
}

/// Returns a zone with hourly snapshots of its disks, taken while it runs: the files of the first
/// `merged` were merged since, and those of the others are still below its disk. The disk has the
/// file 0 all the time.
fn machine(merged: u64, all: u64) -> Scheduled {
    let mut web = zone("k1", [0, 24, 0, 0, 0]);
    for n in 0..all {
        let at = at(MONDAY) + n * 3_600;
        web.add(Auto {
            at,
            period: Period::Hourly,
        });
        // A snapshot has the files of its disk from the last merge on, and the lowest one.
        let (first, last) = if n < merged {
            (0, merged)
        } else {
            (merged, all)
        };
        let part = |file: u64| Part {
            file: (1, file),
            links: last - file + u64::from(n >= merged),
        };
        let lowest = Part {
            file: (1, 1_000),
            links: all + 1,
        };
        web.known.last_mut().unwrap().parts = (first..=n).map(part).chain([lowest]).collect();
    }
    web
}

#[test]
fn snapshots_whose_removal_frees_nothing_stay_when_space_is_short() {
    let now = at(MONDAY) + 24 * 3_600;
    let removed = |web: &Scheduled| -> Vec<usize> {
        let removals = relief(&[web], 85, now);
        let place = |one: &Removal| web.known.iter().position(|known| known.name == one.name);
        removals.iter().filter_map(place).collect()
    };
    // The disk of the running zone has the files of all snapshots.
    assert_eq!(removed(&machine(0, 6)), [0; 0]);
    // Those of a merge go together, and those of the disk stay.
    assert_eq!(removed(&machine(4, 7)), [0, 1, 2, 3]);
    // All files before a snapshot that stays are needed, but not those after it.
    let mut web = machine(4, 7);
    web.known[2].needed = true;
    assert_eq!(removed(&web), [3]);
    web.schedule.max_bytes = Some(1);
    web.bytes = 2;
    let by_size = web.surplus(now, None);
    assert_eq!(by_size.len(), 1, "{by_size:?}");
    assert_eq!(by_size[0].name, web.known[3].name);
    // The schedule itself removes snapshots in any case.
    web.schedule.kept = [0, 1, 0, 0, 0];
    assert_eq!(web.surplus(now, None).len(), 5);
}

/// A schedule with small numbers, at least one of which is not 0.
fn schedules() -> impl Strategy<Value = [usize; 5]> {
    prop::array::uniform5(0usize..6)
        .prop_filter("keeps something", |kept| kept.iter().any(|n| *n > 0))
}

/// Times of runs in order: mostly each quarter of an hour with some delay, sometimes after hours,
/// days or weeks in which the host was off.
fn runs() -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![
        8 => QUARTER..QUARTER + 60,
        1 => 1u64..QUARTER,
        2 => 3_600u64..8 * 3_600,
        1 => DAY..40 * DAY,
    ];
    (0u64..40 * DAY, prop::collection::vec(gap, 1..200)).prop_map(|(begin, gaps)| {
        let mut now = at(MONDAY) + begin;
        gaps.into_iter()
            .map(|gap| {
                now += gap;
                now
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_run_leaves_exactly_what_the_schedule_says(kept in schedules(), runs in runs()) {
        let mut web = zone("web", kept);
        for n in 0..runs.len() {
            web.run(runs[n]);
            // The comparison reads all runs, so it is not made after each.
            if n % 20 == 0 || n + 1 == runs.len() {
                let expected = expected(&web.schedule, &runs[..=n]);
                prop_assert_eq!(web.times().into_iter().collect::<BTreeSet<_>>(), expected);
            }
            prop_assert_eq!(web.due(runs[n]), None);
        }
    }

    #[test]
    fn a_jump_of_the_clock_costs_one_snapshot_of_each_period(
        kept in schedules(),
        runs in runs(),
        back in 0u64..60 * DAY,
    ) {
        let mut web = zone("web", kept);
        for now in &runs {
            web.run(*now);
        }
        let before = web.times();
        let now = runs[runs.len() - 1].saturating_sub(back);
        let removed = web.run(now);
        prop_assert!(removed.len() <= Period::ALL.len(), "{:?}", removed);
        prop_assert!(removed.iter().all(|one| Auto::parse(&one.name).unwrap().at <= now));
        prop_assert!(web.times().last() >= before.last());
    }

    /// A disk whose other use changes at random, with snapshots of random sizes.
    #[test]
    fn snapshots_do_not_fill_a_disk(
        kept in schedules(),
        runs in runs(),
        others in prop::collection::vec(0u64..700, 300),
        sizes in prop::collection::vec(0u64..120, 300),
    ) {
        let mut web = zone("web", kept);
        let size = |web: &Scheduled| -> u64 {
            web.times().iter().map(|at| sizes[(*at / QUARTER) as usize % sizes.len()]).sum()
        };
        for (n, now) in runs.iter().enumerate() {
            let percent = |web: &Scheduled, more: u64| (others[n] + size(web) + more).div_ceil(10);
            let newest = web.times().last().copied();
            for removal in relief(&[&web], percent(&web, 0), *now) {
                match removal.why {
                    Why::Full(limit) if percent(&web, 0) < limit => continue,
                    _ => web.drop_all(&[removal]),
                }
            }
            prop_assert_eq!(web.times().last().copied(), newest, "the newest stays");
            let more = sizes[(*now / QUARTER) as usize % sizes.len()];
            let due = web.due(*now).filter(|_| percent(&web, more) < FULL_PERCENT);
            let surplus = web.surplus(*now, due);
            web.drop_all(&surplus);
            if let Some(due) = due {
                web.add(due);
                prop_assert!(percent(&web, 0) < FULL_PERCENT);
            }
        }
    }
}
