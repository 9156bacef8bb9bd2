//! Decides which period is due, and which automatic snapshots a schedule keeps.
//!
//! A snapshot counts for a period if it is the first automatic snapshot in its slot of the calendar:
//! the first of a day counts for the day, and usually also for its hour and its quarter of an hour.
//! Of each period, the snapshots of the newest slots that have one are kept. A snapshot is surplus
//! if it is kept for no period.
//!
//! Snapshots from the future are counted apart. After a clock was set back, they neither replace
//! new snapshots nor are replaced by them, until the clock has reached them.

use model::config::{Period, Schedule};

use super::moment::slot;

/// Returns the longest period that is due: its slot that contains `now` has no snapshot yet. The
/// times of snapshots are in seconds since 1970, in any order.
pub(super) fn due(schedule: &Schedule, now: u64, times: &[u64]) -> Option<Period> {
    let is_taken = |period: Period| {
        let is_here = |at: &u64| *at <= now && slot(period, *at) == slot(period, now);
        times.iter().any(is_here)
    };
    let mut periods = Period::ALL.into_iter().rev();
    periods.find(|period| schedule.kept(*period) > 0 && !is_taken(*period))
}

/// Returns the longest period for which each snapshot is kept, or `None` for surplus snapshots. The
/// times of snapshots are in seconds since 1970, the oldest first. The newest one is always kept.
pub(super) fn kept(schedule: &Schedule, now: u64, times: &[u64]) -> Vec<Option<Period>> {
    let (past, future) = times.split_at(times.partition_point(|at| *at <= now));
    let mut all = kept_of(schedule, past);
    all.extend(kept_of(schedule, future));
    all
}

fn kept_of(schedule: &Schedule, times: &[u64]) -> Vec<Option<Period>> {
    let mut kept = vec![None; times.len()];
    for period in Period::ALL {
        let slots: Vec<u64> = times.iter().map(|at| slot(period, *at)).collect();
        let is_first = |i: &usize| *i == 0 || slots.get(*i) != slots.get(i.wrapping_sub(1));
        let firsts = (0..times.len()).filter(is_first).collect::<Vec<_>>();
        for i in firsts.into_iter().rev().take(schedule.kept(period)) {
            kept[i] = Some(period);
        }
    }
    if let Some(newest) = kept.last_mut() {
        newest.get_or_insert(Period::Frequent);
    }
    kept
}
