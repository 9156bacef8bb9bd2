//! Computes which zones share which CPUs, and the value of their shares.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::interval::{Interval, MILLION, Row, Use, percent};
use crate::resource::Resource;
use crate::sample::Pset;

/// A set of CPUs and the use of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PsetUse<'a> {
    /// The kind of the set.
    pub pset: &'a Pset,
    /// The number of CPUs in the set.
    pub cpus: u64,
    /// The minimum number of CPUs in the set.
    pub least: u64,
    /// The maximum number of CPUs in the set.
    pub most: u64,
    /// The use by the zones of the set, and for the default set also by the system.
    pub total: Use,
    /// The use by the system.
    pub system: Use,
    /// The sum of the shares of the set's zones; `None` if no zone sets shares.
    pub shares: Option<u64>,
    /// The zones of the set, as positions in [`Interval::rows`].
    pub rows: Vec<usize>,
}

/// The part of a set of CPUs that a zone has. Percentages are in hundredths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The part of the set that the zone used, in percent.
    pub percent: Option<u64>,
    /// The shares of the zone; `None` if no zone of the set has shares.
    pub shares: Option<u64>,
    /// The zone's shares as a part of all shares in the set.
    pub percent_of_shares: Option<u64>,
    /// The part of its entitlement that the zone used, in percent: more than 100 percent if other zones left CPU
    /// time to it.
    pub percent_of_entitled: Option<u64>,
}

impl Interval {
    /// Returns the sets of CPUs: first the default set, then those of pools, then those of single
    /// zones.
    #[must_use]
    pub fn psets(&self) -> Vec<PsetUse<'_>> {
        const DEFAULT: &Pset = &Pset::Default;
        let mut sets: BTreeMap<&Pset, Vec<usize>> = BTreeMap::new();
        sets.insert(DEFAULT, Vec::new());
        for (place, row) in self.rows.iter().enumerate() {
            sets.entry(&row.setting.pset).or_default().push(place);
        }
        // No other zone uses the CPUs of a pool or of a single zone.
        let taken: u64 = sets.keys().map(|pset| pset.cpus()).sum();
        let left = self.online.saturating_sub(taken).max(1);
        sets.into_iter()
            .map(|(pset, rows)| self.pset(pset, rows, left))
            .collect()
    }

    fn pset<'a>(&self, pset: &'a Pset, rows: Vec<usize>, left: u64) -> PsetUse<'a> {
        let zones = || rows.iter().map(|place| &self.rows[*place]);
        let (cpus, least, most) = match pset {
            Pset::Default => (left, 1, self.online),
            Pset::Pool { cpus, .. } => (*cpus, *cpus, *cpus),
            Pset::Dedicated {
                cpus, least, most, ..
            } => (*cpus, *least, *most),
        };
        let system = match pset {
            Pset::Default => self.system,
            _ => Use::default(),
        };
        let mut total = system;
        for row in zones() {
            total.figures = total.figures.plus(&row.used.figures);
            total.cpu_usec = total.cpu_usec.saturating_add(row.used.cpu_usec);
        }
        let any = zones().any(|row| row.setting.controls.cpu_shares.is_some());
        let sum = zones().filter_map(shares_of).sum();
        PsetUse {
            pset,
            cpus,
            least,
            most,
            total,
            system,
            shares: any.then_some(sum),
            rows,
        }
    }
}

/// Returns the shares of a zone, if any zone has set shares. A zone that sets none has one share.
fn shares_of(row: &Row) -> Option<u64> {
    let set = row.setting.controls.cpu_shares;
    set.or((!row.is_global()).then_some(1))
}

impl Pset {
    /// Returns the number of CPUs that are in this set and not in the default set.
    fn cpus(&self) -> u64 {
        match self {
            Self::Default => 0,
            Self::Pool { cpus, .. } | Self::Dedicated { cpus, .. } => *cpus,
        }
    }

    /// Returns the name for reports: that of the pool, or that of the only zone that uses the CPUs.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Default => "pset_default",
            Self::Pool { name, .. } => name,
            Self::Dedicated { zone, .. } => zone,
        }
    }

    /// Returns the name that Solaris gives the set. On Solaris, the CPUs of one zone are in a
    /// temporary pool.
    #[must_use]
    pub fn solaris_name(&self) -> Cow<'_, str> {
        match self {
            Self::Dedicated { zone, .. } => Cow::Owned(format!("{}{zone}", limits::TEMPORARY_POOL)),
            Self::Default | Self::Pool { .. } => Cow::Borrowed(self.name()),
        }
    }

    /// Returns the name of the kind in zonestat(8).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Default => "default-pset",
            Self::Pool { .. } => "pool-pset",
            Self::Dedicated { .. } => "dedicated-cpu",
        }
    }
}

impl PsetUse<'_> {
    /// Returns how much of the set was used, in hundredths of a percent. The kernel and the host's
    /// own processes may run on CPUs of other sets, so the use of the default set may be above 100
    /// percent. The result is then 100 percent.
    #[must_use]
    pub fn percent(&self, used: &Use) -> Option<u64> {
        let used = used.figures[Resource::Cpu]?;
        let percent = percent(used, self.cpus.saturating_mul(MILLION))?;
        Some(percent.min(10_000))
    }

    /// Returns the part of the set that a zone has. The global zone has no shares unless they are
    /// set, because to the host all zones together are one group.
    #[must_use]
    pub fn part(&self, row: &Row) -> Part {
        let percent_used = self.percent(&row.used);
        let shares = match self.shares {
            Some(_) => shares_of(row),
            None => None,
        };
        let (Some(own), Some(all)) = (shares, self.shares) else {
            return Part {
                percent: percent_used,
                ..Part::default()
            };
        };
        let size = self.cpus.saturating_mul(MILLION);
        let entitled = (u128::from(size) * u128::from(own)).checked_div(all.into());
        let entitled = u64::try_from(entitled.unwrap_or_default()).unwrap_or(u64::MAX);
        Part {
            percent: percent_used,
            shares,
            percent_of_shares: percent(own, all),
            percent_of_entitled: row.used.figures[Resource::Cpu]
                .and_then(|used| percent(used, entitled)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Setting;
    use model::controls::Controls;
    use std::sync::Arc;
    use std::time::Duration;

    fn row(name: &str, id: u32, cpu: u64, shares: Option<u64>, pset: Pset) -> Row {
        let mut used = Use::default();
        used.figures[Resource::Cpu] = Some(cpu);
        let controls = Controls {
            cpu_shares: shares,
            ..Controls::default()
        };
        Row {
            name: name.into(),
            id,
            used,
            setting: Arc::new(Setting {
                controls,
                pset,
                ..Setting::default()
            }),
            ran: Duration::ZERO,
            pressure: None,
            disk: None,
            network: None,
            links: Vec::new(),
            hits: None,
        }
    }

    fn interval(rows: Vec<Row>) -> Interval {
        Interval {
            online: 8,
            cpus: 8,
            rows,
            ..Interval::default()
        }
    }

    #[test]
    fn cpus_of_pools_and_zones_are_not_in_the_default_set() {
        let pool = || Pset::Pool {
            name: "batch".to_owned(),
            cpus: 2,
        };
        let own = Pset::Dedicated {
            zone: "db".to_owned(),
            cpus: 1,
            least: 1,
            most: 2,
        };
        let interval = interval(vec![
            row("global", 0, 500_000, None, Pset::Default),
            row("db", 1, 900_000, None, own),
            row("one", 2, 100_000, None, pool()),
            row("two", 3, 100_000, None, pool()),
        ]);
        let psets = interval.psets();
        let shown: Vec<(&str, &str, u64, usize)> = psets
            .iter()
            .map(|set| (set.pset.name(), set.pset.kind(), set.cpus, set.rows.len()))
            .collect();
        assert_eq!(
            shown,
            [
                ("pset_default", "default-pset", 5, 1),
                ("batch", "pool-pset", 2, 2),
                ("db", "dedicated-cpu", 1, 1)
            ]
        );
        assert_eq!(psets[1].percent(&psets[1].total), Some(1_000));
        assert_eq!((psets[2].least, psets[2].most), (1, 2));
        assert_eq!(psets[2].part(&interval.rows[1]).percent, Some(9_000));
    }

    #[test]
    fn shares_are_among_zones() {
        let zone = |name, id, cpu, shares| row(name, id, cpu, shares, Pset::Default);
        let interval = interval(vec![
            zone("global", 0, 500_000, None),
            zone("three", 1, 3_000_000, Some(3)),
            zone("one", 2, 4_000_000, None),
        ]);
        let psets = interval.psets();
        assert_eq!(psets[0].shares, Some(4));
        let three = psets[0].part(&interval.rows[1]);
        assert_eq!(three.shares, Some(3));
        assert_eq!(three.percent_of_shares, Some(7_500));
        assert_eq!(three.percent_of_entitled, Some(5_000));
        // The zone has also used the CPU time that the other zone left.
        let one = psets[0].part(&interval.rows[2]);
        assert_eq!(
            (one.shares, one.percent_of_entitled),
            (Some(1), Some(20_000))
        );
        assert_eq!(psets[0].part(&interval.rows[0]).shares, None);
    }

    #[test]
    fn the_global_zone_may_have_some() {
        let interval = interval(vec![
            row("global", 0, 500_000, Some(3), Pset::Default),
            row("web", 1, 500_000, None, Pset::Default),
        ]);
        let psets = interval.psets();
        let global = psets[0].part(&interval.rows[0]);
        assert_eq!((psets[0].shares, global.shares), (Some(4), Some(3)));
        assert_eq!(global.percent_of_shares, Some(7_500));
    }

    #[test]
    fn a_set_without_shares_has_no_percentages() {
        let interval = interval(vec![row("web", 1, 1, None, Pset::Default)]);
        let psets = interval.psets();
        assert_eq!(psets[0].shares, None);
        assert_eq!(psets[0].part(&interval.rows[0]).percent_of_entitled, None);
    }
}
