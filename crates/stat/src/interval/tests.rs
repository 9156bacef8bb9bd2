//! Tests sums, ends of zones and reboots, and properties over samples that no kernel would return.

use proptest::prelude::*;

use super::*;
use crate::sample::{Counter, HostSample};

const SECOND: u64 = 1_000_000;

fn zone(name: &str, id: u32, at: u64, cpu_usec: u64) -> ZoneSample {
    ZoneSample {
        name: name.into(),
        id,
        booted: Duration::ZERO,
        at: Duration::from_micros(at),
        cpu_usec,
        memory: Some(10 << 20),
        swap: Some(0),
        locked: None,
        processes: None,
        lwps: None,
        ipc: None,
        pressure: None,
        disk: None,
        network: None,
        links: Arc::default(),
        hits: None,
        setting: Arc::default(),
    }
}

fn sample(at: u64, busy_usec: u64, zones: Vec<ZoneSample>) -> Sample {
    Sample {
        at: Duration::from_micros(at),
        unix: 1_763_674_377,
        host: HostSample {
            cpus: 4,
            online: 4,
            busy_usec,
            interrupt_usec: busy_usec / 100,
            memory: 8 << 30,
            free: 4 << 30,
            chargeable: 3 << 30,
            swap: 1 << 30,
            swap_free: 1 << 30,
            ..HostSample::default()
        },
        zones,
        ..Sample::default()
    }
}

fn cpu(interval: &Interval, zone: &str) -> u64 {
    let row = interval.rows.iter().find(|row| &*row.name == zone);
    row.unwrap_or_else(|| panic!("no {zone} in {interval:?}"))
        .used
        .cpu_usec
}

fn used(interval: &Interval, zone: &str, resource: Resource) -> Option<u64> {
    let row = interval.rows.iter().find(|row| &*row.name == zone);
    row.expect("a row").used.figures[resource]
}

#[test]
fn the_rest_of_the_use_belongs_to_the_global_zone() {
    let first = sample(0, 0, vec![zone("web", 1, 0, 0)]);
    let second = sample(SECOND, SECOND, vec![zone("web", 1, SECOND, SECOND / 4)]);
    let interval = Interval::between(&first, &second);
    assert_eq!(cpu(&interval, "web"), 250_000);
    assert_eq!(interval.system.cpu_usec, 10_000);
    assert_eq!(cpu(&interval, "global"), 740_000);
    assert_eq!(interval.total.cpu_usec, SECOND);
    assert_eq!(used(&interval, "web", Resource::Cpu), Some(250_000));
    assert_eq!(used(&interval, "web", Resource::Physical), Some(10 << 20));
    assert_eq!(interval.total.figures[Resource::Physical], Some(4 << 30));
    assert_eq!(interval.system.figures[Resource::Physical], Some(1 << 30));
    assert_eq!(interval.size[Resource::Virtual], Some(9 << 30));
    assert_eq!(interval.rows[0].name.as_ref(), "global");
}

#[test]
fn each_reading_has_its_own_time() {
    // The zone was read 0.1 s late: 1.1 s of CPU time in 1.1 s is one CPU all the same.
    let first = sample(0, 0, vec![zone("web", 1, 0, 0)]);
    let late = zone("web", 1, SECOND * 11 / 10, SECOND * 11 / 10);
    let interval = Interval::between(&first, &sample(SECOND, SECOND, vec![late]));
    assert_eq!(cpu(&interval, "web"), SECOND);
}

#[test]
fn a_zone_that_boots_has_all_it_used_since() {
    let first = sample(SECOND, 0, vec![]);
    let mut new = zone("web", 1234, 2 * SECOND, 70_000);
    new.booted = Duration::from_micros(SECOND * 3 / 2);
    let interval = Interval::between(&first, &sample(2 * SECOND, SECOND, vec![new]));
    assert_eq!(cpu(&interval, "web"), 70_000);
    assert_eq!(interval.rows[1].ran, Duration::from_micros(SECOND / 2));
    assert_eq!(interval.rows[1].id, 1234);
}

#[test]
fn the_end_of_a_zone_is_what_all_have_used_but_not_those_that_live() {
    let group = |at, usec| {
        let at = Duration::from_micros(at);
        Some(Counter { at, usec })
    };
    let mut first = sample(0, 0, vec![zone("a", 1, 0, 0), zone("b", 2, 0, 0)]);
    first.zones_cpu = group(0, 1_000_000);
    let mut second = sample(SECOND, SECOND, vec![zone("b", 2, SECOND, 200_000)]);
    second.ended = vec![zone("a", 1, SECOND / 4, 100_000)];
    second.zones_cpu = group(SECOND, 1_350_000);
    let interval = Interval::between(&first, &second);
    assert_eq!(
        (cpu(&interval, "a"), cpu(&interval, "b")),
        (150_000, 200_000)
    );
    // A zone that has ended has no memory.
    assert_eq!(used(&interval, "a", Resource::Physical), Some(0));
    assert_eq!(interval.rows[1].ran, Duration::from_micros(SECOND / 4));
    // Without a counter of all zones, no CPU time is estimated.
    second.zones_cpu = None;
    assert_eq!(cpu(&Interval::between(&first, &second), "a"), 100_000);
}

#[test]
fn a_reboot_is_one_row_and_a_rename_two() {
    let first = sample(SECOND, 0, vec![zone("web", 7, SECOND, 500_000)]);
    let mut again = zone("web", 1000, 2 * SECOND, 30_000);
    again.booted = Duration::from_micros(SECOND * 3 / 2);
    let mut second = sample(2 * SECOND, SECOND, vec![again]);
    second.ended = vec![zone("web", 7, SECOND * 5 / 4, 600_000)];
    let interval = Interval::between(&first, &second);
    assert_eq!(interval.rows.len(), 2);
    assert_eq!(cpu(&interval, "web"), 130_000);
    assert_eq!(interval.rows[1].id, 1000);
    assert_eq!(interval.rows[1].ran, Duration::from_micros(SECOND * 3 / 4));
    assert_eq!(used(&interval, "web", Resource::Physical), Some(10 << 20));

    second.zones[0].name = "shop".into();
    let interval = Interval::between(&first, &second);
    let cpu = (cpu(&interval, "web"), cpu(&interval, "shop"));
    assert_eq!(cpu, (100_000, 30_000));
}

#[test]
fn use_is_shown_in_percent_of_the_cap() {
    let mut capped = zone("web", 1, SECOND, SECOND / 4);
    capped.setting = Arc::new(Setting {
        controls: Controls {
            cpu_cap: Some(50),
            physical: Some(40 << 20),
            ..Controls::default()
        },
        ..Setting::default()
    });
    let first = sample(0, 0, vec![zone("web", 1, 0, 0)]);
    let interval = Interval::between(&first, &sample(SECOND, SECOND, vec![capped]));
    let row = &interval.rows[1];
    assert_eq!(row.percent_of_cap(Resource::Cpu), Some(5_000));
    assert_eq!(row.percent_of_cap(Resource::Physical), Some(2_500));
    assert_eq!(row.percent_of_cap(Resource::Virtual), None);
}

#[test]
fn an_interval_of_zero_length_has_no_use() {
    let one = sample(SECOND, SECOND, vec![zone("web", 1, SECOND, SECOND)]);
    let interval = Interval::between(&one, &one);
    assert_eq!(interval.total.cpu_usec, 0);
    assert_eq!(interval.total.figures[Resource::Cpu], Some(0));
}

prop_compose! {
    fn any_zone(ids: std::ops::Range<u32>)(
        id in ids,
        name in "[ab]",
        booted in 0..4 * SECOND,
        at in 0..4 * SECOND,
        cpu_usec in prop_oneof![0..10 * SECOND, any::<u64>()],
        memory in prop::option::of(prop_oneof![0u64..1 << 33, any::<u64>()]),
        swap in prop::option::of(0u64..1 << 31),
        lwps in prop::option::of(0u64..1000),
        cpus in 0u64..8,
    ) -> ZoneSample {
        ZoneSample {
            name: format!("{name}{}", id % 5).into(),
            booted: Duration::from_micros(booted),
            memory,
            swap,
            lwps,
            setting: Arc::new(Setting {
                pset: if cpus == 0 {
                    Pset::Default
                } else {
                    Pset::Pool { name: "p".to_owned(), cpus }
                },
                ..Setting::default()
            }),
            ..zone("", id, at, cpu_usec)
        }
    }
}

prop_compose! {
    fn any_sample(at: u64)(
        busy in prop_oneof![0..20 * SECOND, any::<u64>()],
        mut zones in prop::collection::vec(any_zone(1..40), 0..12),
        ended in prop::collection::vec(any_zone(40..60), 0..4),
        group in prop::option::of(prop_oneof![0..20 * SECOND, any::<u64>()]),
        free in 0u64..1 << 34,
        chargeable in 0u64..1 << 34,
        swap_free in 0u64..1 << 32,
        lwps in prop::option::of(0u64..5000),
    ) -> Sample {
        zones.sort_by_key(|zone| zone.id);
        zones.dedup_by_key(|zone| zone.id);
        let mut sample = sample(at, busy, zones);
        sample.ended = ended;
        sample.zones_cpu = group.map(|usec| Counter { at: Duration::from_micros(at), usec });
        sample.host.free = free;
        sample.host.chargeable = chargeable;
        sample.host.swap_free = swap_free;
        sample.host.lwps = lwps;
        sample
    }
}

proptest! {
    /// For any readings, no use is above the host's amount, and totals are sums.
    #[test]
    fn totals_are_sums_and_nothing_is_more_than_there_is(
        first in any_sample(SECOND),
        second in any_sample(2 * SECOND),
    ) {
        let interval = Interval::between(&first, &second);
        let capacity = interval.online * SECOND;
        let sum: u64 = interval.rows.iter().map(|row| row.used.cpu_usec).sum();
        prop_assert_eq!(interval.total.cpu_usec, sum + interval.system.cpu_usec);
        prop_assert!(interval.total.cpu_usec <= capacity);
        for resource in Resource::ALL {
            let sum = interval.rows.iter()
                .filter_map(|row| row.used.figures[resource])
                .sum::<u64>() + interval.system.figures[resource].unwrap_or_default();
            let Some(total) = interval.total.figures[resource] else { continue };
            prop_assert_eq!(total, sum, "{:?}", resource);
            if let Some(size) = interval.size[resource] {
                prop_assert!(total <= size, "{:?}: {} of {}", resource, total, size);
            }
        }
        for row in &interval.rows {
            prop_assert!(row.ran <= interval.elapsed);
            if let (Pset::Pool { cpus, .. }, Some(_)) =
                (&row.setting.pset, first.zones.iter().find(|zone| zone.id == row.id))
            {
                prop_assert!(row.used.cpu_usec <= 8 * SECOND.max(*cpus));
            }
        }
        let mut names: Vec<&str> = interval.rows.iter().map(|row| &*row.name).collect();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), interval.rows.len());
    }

    /// Reports over these intervals have the same properties.
    #[test]
    fn reports_are_within_what_there_is(
        first in any_sample(SECOND),
        second in any_sample(2 * SECOND),
        third in any_sample(3 * SECOND),
    ) {
        let mut report = crate::Report::default();
        for pair in [[&first, &second], [&second, &third]] {
            report.add(&Interval::between(pair[0], pair[1]));
        }
        for kind in crate::report::Kind::ALL {
            let one = report.compute(kind).unwrap();
            for resource in Resource::ALL {
                let total = one.total.figures[resource];
                if let (Some(total), Some(size)) = (total, one.size[resource]) {
                    prop_assert!(total <= size, "{:?} {:?}", kind, resource);
                }
                let rows = one.rows.iter().filter_map(|row| row.used.figures[resource]);
                let sum = rows.sum::<u64>() + one.system.figures[resource].unwrap_or_default();
                match kind {
                    crate::report::Kind::Total => prop_assert_eq!(total.unwrap_or(sum), sum),
                    _ => for row in &one.rows {
                        prop_assert!(row.used.figures[resource] <= one.size[resource].or(Some(u64::MAX)));
                    },
                }
            }
        }
    }
}
