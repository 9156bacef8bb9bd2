//! Plans the snapshots to take and to remove. Pure: from the schedules, the present snapshots, the
//! time and the use of a disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kernelzone::kept::Part;
use model::ZoneName;
use model::config::{Period, Schedule};
use storage::Name;

use super::moment::Auto;
use super::retention;

/// Use of a disk in percent from which frequent, hourly and daily snapshots are removed, the oldest
/// first, until the use is lower. The three figures are those of Solaris' Time Slider.
pub const WARNING_PERCENT: u64 = 80;

/// Use of a disk in percent from which weekly snapshots are removed, too.
pub const CRITICAL_PERCENT: u64 = 90;

/// Use of a disk in percent from which no automatic snapshot is taken.
pub const FULL_PERCENT: u64 = 95;

/// An automatic snapshot of a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name of the snapshot.
    pub name: Name,
    /// The time and the period in its name.
    pub auto: Auto,
    /// True if the zone needs the snapshot: it is mounted, or is the next boot environment.
    pub needed: bool,
    /// The files of the disks in a snapshot of a kernel zone; none for another zone.
    pub parts: Vec<Part>,
}

/// A zone with a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The name of the zone.
    pub zone: ZoneName,
    /// The schedule of the zone.
    pub schedule: Schedule,
    /// The automatic snapshots of the zone, the oldest first.
    pub known: Vec<Known>,
    /// The bytes that all automatic snapshots occupy together. Only a schedule with a maximum size
    /// needs this figure; 0 otherwise.
    pub bytes: u64,
}

/// The reason for the removal of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The schedule does not keep the snapshot any longer.
    Schedule,
    /// The automatic snapshots of the zone are larger than `max-size`, in bytes.
    Size(u64),
    /// The disk is used to this percentage or more.
    Full(u64),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schedule => f.write_str("the schedule keeps newer ones"),
            Self::Size(bytes) => {
                let size = model::table::exact_size(*bytes);
                write!(f, "max-size={size} is exceeded")
            }
            Self::Full(percent) => write!(f, "its disk is {percent} % full or more"),
        }
    }
}

/// The removal of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The name of the zone.
    pub zone: ZoneName,
    /// The name of the snapshot.
    pub name: Name,
    /// The reason for the removal.
    pub why: Why,
}

impl Scheduled {
    /// Returns the automatic snapshot that is due.
    #[must_use]
    pub fn due(&self, now: u64) -> Option<Auto> {
        let times: Vec<u64> = self.known.iter().map(|one| one.auto.at).collect();
        let period = retention::due(&self.schedule, now, &times)?;
        Some(Auto { at: now, period })
    }

    /// Returns the removals that schedule and maximum size require, in their order. `taken` is the
    /// snapshot that was taken or is going to be taken in this run, if any. Before each removal of
    /// [`Why::Size`] the caller measures the space again, and leaves out those that are not needed.
    #[must_use]
    pub fn surplus(&self, now: u64, taken: Option<Auto>) -> Vec<Removal> {
        let kept = self.kept(now, taken);
        let is_surplus =
            |one: &&Known| !one.needed && !kept.iter().any(|(at, _)| *at == one.auto.at);
        let mut removals: Vec<Removal> = self
            .known
            .iter()
            .filter(is_surplus)
            .map(|one| self.removal(one, Why::Schedule))
            .collect();
        let Some(max) = self.schedule.max_bytes.filter(|max| self.bytes > *max) else {
            return removals;
        };
        let gone: BTreeSet<Name> = removals.iter().map(|one| one.name.clone()).collect();
        let candidates = self.candidates(now, taken).into_iter();
        let others = candidates.filter(|(_, one)| !gone.contains(&one.name));
        let others = self.worthwhile(&gone, others.collect());
        removals.extend(
            others
                .into_iter()
                .map(|(_, one)| self.removal(one, Why::Size(max))),
        );
        removals
    }

    /// Returns the time of each snapshot that the schedule keeps, and the longest period for which
    /// it does.
    fn kept(&self, now: u64, taken: Option<Auto>) -> Vec<(u64, Period)> {
        let mut times: Vec<u64> = self.known.iter().map(|one| one.auto.at).collect();
        times.extend(taken.map(|one| one.at));
        times.sort_unstable();
        let kept = retention::kept(&self.schedule, now, &times);
        let both = times.into_iter().zip(kept);
        both.filter_map(|(at, period)| Some((at, period?)))
            .collect()
    }

    /// Returns the snapshots that may be removed for want of space, in the order of their removal:
    /// first those of days and less, then those of weeks, then those of months; of each the oldest
    /// first. The newest snapshot of the zone always stays.
    fn candidates(&self, now: u64, taken: Option<Auto>) -> Vec<(Rank, &Known)> {
        let kept = self.kept(now, taken);
        let times = kept.iter().map(|(at, _)| *at);
        let newest = times.clone().filter(|at| *at <= now).max();
        let newest = newest.or_else(|| times.max());
        let mut found: Vec<(Rank, &Known)> = self
            .known
            .iter()
            .filter(|one| !one.needed && Some(one.auto.at) != newest)
            .map(|one| {
                let mut periods = kept.iter().filter(|(at, _)| *at == one.auto.at);
                (Rank::of(periods.next().map(|(_, period)| *period)), one)
            })
            .collect();
        found.sort_by_key(|(rank, one)| (*rank, one.auto.at));
        found
    }

    /// Returns those of the candidates whose removal frees space if all of them, and the snapshots
    /// with the names `gone`, are removed: those with a file that nothing else has.
    fn worthwhile<'a>(
        &self,
        gone: &BTreeSet<Name>,
        mut candidates: Vec<(Rank, &'a Known)>,
    ) -> Vec<(Rank, &'a Known)> {
        let mut links: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let gone = self.known.iter().filter(|one| gone.contains(&one.name));
        let all = gone.chain(candidates.iter().map(|(_, one)| *one));
        for part in all.flat_map(|one| &one.parts) {
            *links.entry(part.file).or_default() += 1;
        }
        let is_free = |part: &Part| links.get(&part.file) == Some(&part.links);
        candidates.retain(|(_, one)| one.parts.is_empty() || one.parts.iter().any(is_free));
        candidates
    }

    fn removal(&self, one: &Known, why: Why) -> Removal {
        Removal {
            zone: self.zone.clone(),
            name: one.name.clone(),
            why,
        }
    }
}

/// The order in which snapshots are removed for want of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    DayOrLess,
    Week,
    Month,
}

impl Rank {
    const fn of(period: Option<Period>) -> Self {
        match period {
            Some(Period::Monthly) => Self::Month,
            Some(Period::Weekly) => Self::Week,
            _ => Self::DayOrLess,
        }
    }

    /// Returns the use of a disk in percent from which such snapshots are removed; `None` if they
    /// are not removed for the sake of the disk.
    const fn limit(self) -> Option<u64> {
        match self {
            Self::DayOrLess => Some(WARNING_PERCENT),
            Self::Week => Some(CRITICAL_PERCENT),
            Self::Month => None,
        }
    }
}

/// Returns the removals that relieve a disk, in their order. `zones` are all zones with a schedule
/// on the disk, `percent` is its use. Before each removal of [`Why::Full`] the caller measures the
/// use again, and leaves out the removals whose limit is not reached any longer.
#[must_use]
pub fn relief(zones: &[&Scheduled], percent: u64, now: u64) -> Vec<Removal> {
    if percent < WARNING_PERCENT {
        return Vec::new();
    }
    let mut removals: Vec<Removal> = zones
        .iter()
        .flat_map(|zone| zone.surplus(now, None))
        .collect();
    let gone: BTreeSet<(ZoneName, Name)> = removals
        .iter()
        .map(|one| (one.zone.clone(), one.name.clone()))
        .collect();
    let of_zone = |zone: &&Scheduled| {
        let zone: &Scheduled = zone;
        let gone = gone.iter().filter(|(of, _)| *of == zone.zone);
        let gone: BTreeSet<Name> = gone.map(|(_, name)| name.clone()).collect();
        let mut candidates = zone.candidates(now, None);
        candidates.retain(|(rank, one)| {
            !gone.contains(&one.name) && rank.limit().is_some_and(|limit| percent >= limit)
        });
        let candidates = zone.worthwhile(&gone, candidates).into_iter();
        let removals = candidates.filter_map(|(rank, one)| {
            let removal = zone.removal(one, Why::Full(rank.limit()?));
            Some((rank, one.auto.at, removal))
        });
        removals.collect::<Vec<_>>()
    };
    let mut pressed: Vec<(Rank, u64, Removal)> = zones.iter().flat_map(of_zone).collect();
    pressed.sort_by(|a, b| (a.0, a.1, &a.2.zone).cmp(&(b.0, b.1, &b.2.zone)));
    removals.extend(pressed.into_iter().map(|(_, _, one)| one));
    removals
}

#[cfg(test)]
mod tests;
