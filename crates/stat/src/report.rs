//! Combines many intervals into one: total, average, high.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::interval::{Interval, MILLION, Row, Use};
use crate::resource::{Figures, Resource};

/// The way in which many intervals are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The average over the whole time, also while a zone did not run.
    Total,
    /// The average over the time in which the zone ran.
    Average,
    /// The maximum of all intervals.
    High,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Total, Self::Average, Self::High];

    /// Returns the name of the kind in zonestat(8).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Average => "average",
            Self::High => "high",
        }
    }
}

/// The sum of many intervals, as far as reports need it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    count: u64,
    elapsed: Duration,
    /// The last interval, for figures that cannot be added: sizes and settings.
    last: Interval,
    total: Sum,
    system: Sum,
    rows: HashMap<Arc<str>, (Row, Sum)>,
}

/// The figures of one user of resources over many intervals.
#[derive(Clone, Debug, Default)]
struct Sum {
    cpu_usec: u64,
    /// The total length of the intervals in which the user was active, and their number.
    elapsed: Duration,
    count: u64,
    /// The sums of all figures except CPUs, and the maximum of each figure.
    figures: Figures,
    high: Figures,
}

impl Sum {
    fn add(&mut self, used: &Use, elapsed: Duration) {
        self.cpu_usec = self.cpu_usec.saturating_add(used.cpu_usec);
        self.elapsed += elapsed;
        self.count += 1;
        self.figures = self.figures.plus(&used.figures);
        self.high = self.high.merge(&used.figures, u64::max);
    }

    fn mean(&self, count: u64, elapsed: Duration) -> Use {
        let mut figures = self.figures;
        for resource in Resource::ALL {
            let mean = |sum: u64| sum.checked_div(count);
            figures[resource] = figures[resource].and_then(mean);
        }
        figures[Resource::Cpu] = Some(rate(self.cpu_usec, elapsed));
        Use {
            figures,
            cpu_usec: self.cpu_usec,
        }
    }

    fn report(&self, kind: Kind, count: u64, elapsed: Duration) -> Use {
        match kind {
            Kind::Total => self.mean(count, elapsed),
            Kind::Average => self.mean(self.count, self.elapsed),
            Kind::High => Use {
                figures: self.high,
                cpu_usec: self.cpu_usec,
            },
        }
    }
}

/// Returns millionths of CPUs.
fn rate(usec: u64, elapsed: Duration) -> u64 {
    let millionths = u128::from(usec) * u128::from(MILLION);
    let rate = millionths.checked_div(elapsed.as_micros());
    u64::try_from(rate.unwrap_or_default()).unwrap_or(u64::MAX)
}

impl Report {
    /// Adds an interval to the report.
    pub fn add(&mut self, interval: &Interval) {
        self.count += 1;
        self.elapsed += interval.elapsed;
        self.total.add(&interval.total, interval.elapsed);
        self.system.add(&interval.system, interval.elapsed);
        for row in &interval.rows {
            let (last, sum) = self
                .rows
                .entry(Arc::clone(&row.name))
                .or_insert_with(|| (row.clone(), Sum::default()));
            let before = std::mem::replace(last, row.clone());
            // Bytes are summed, because reports show them for the whole time.
            if sum.count > 0 {
                last.add_traffic(&before);
            }
            sum.add(&row.used, interval.elapsed);
        }
        self.last.clone_from(interval);
    }

    /// Returns the number of intervals.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns all intervals as one; `None` if there was no interval. CPU times are sums in each
    /// kind.
    #[must_use]
    pub fn compute(&self, kind: Kind) -> Option<Interval> {
        if self.count == 0 {
            return None;
        }
        let of = |sum: &Sum| sum.report(kind, self.count, self.elapsed);
        let mut rows: Vec<Row> = self
            .rows
            .values()
            .map(|(row, sum)| Row {
                used: of(sum),
                ..row.clone()
            })
            .collect();
        rows.sort_by_key(|row| row.id);
        let mut interval = Interval {
            unix: self.last.unix,
            elapsed: self.elapsed,
            cpus: self.last.cpus,
            online: self.last.online,
            size: self.last.size,
            total: of(&self.total),
            system: of(&self.system),
            rows,
        };
        if kind == Kind::Total {
            interval.add_up();
        }
        Some(interval)
    }
}

impl Interval {
    /// Sets the total to the sum of its parts, because each part was rounded.
    fn add_up(&mut self) {
        let mut sum = self.system.figures;
        for row in &self.rows {
            sum = sum.plus(&row.used.figures);
        }
        for resource in Resource::ALL {
            let figure = &mut self.total.figures[resource];
            *figure = figure.and(sum[resource]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{LinkTraffic, Setting, Traffic};

    fn row(name: &str, id: u32, cpu_usec: u64, memory: u64) -> Row {
        let mut figures = Figures::default();
        figures[Resource::Cpu] = Some(cpu_usec);
        figures[Resource::Physical] = Some(memory);
        Row {
            name: name.into(),
            id,
            used: Use { figures, cpu_usec },
            setting: Arc::new(Setting::default()),
            ran: Duration::from_secs(1),
            pressure: None,
            disk: None,
            network: None,
            links: Vec::new(),
            hits: None,
        }
    }

    fn interval(rows: Vec<Row>) -> Interval {
        let mut interval = Interval {
            elapsed: Duration::from_secs(1),
            rows,
            ..Interval::default()
        };
        for row in &interval.rows {
            interval.total.cpu_usec += row.used.cpu_usec;
            interval.total.figures = interval.total.figures.plus(&row.used.figures);
        }
        interval
    }

    /// The zone web runs in one of two intervals.
    fn report(kind: Kind) -> Interval {
        let mut report = Report::default();
        assert_eq!(report.compute(kind), None);
        report.add(&interval(vec![row("global", 0, 100_000, 10)]));
        report.add(&interval(vec![
            row("global", 0, 300_000, 20),
            row("web", 1000, 500_000, 200),
        ]));
        assert_eq!(report.count(), 2);
        report.compute(kind).unwrap()
    }

    fn figures(report: &Interval, zone: &str) -> (Option<u64>, Option<u64>) {
        let row = report.rows.iter().find(|row| &*row.name == zone).unwrap();
        (
            row.used.figures[Resource::Cpu],
            row.used.figures[Resource::Physical],
        )
    }

    #[test]
    fn bytes_add_up() {
        let mut report = Report::default();
        for (bytes, link) in [(10, "net0"), (30, "net1"), (2, "net0")] {
            let traffic = Traffic {
                bytes_in: bytes,
                bytes_out: 2 * bytes,
            };
            let mut one = row("web", 1000, 0, 0);
            (one.network, one.disk) = (Some(traffic), Some(traffic));
            one.links = vec![LinkTraffic {
                name: link.to_owned(),
                traffic,
            }];
            report.add(&interval(vec![one]));
        }
        let total = report.compute(Kind::Total).unwrap();
        let row = &total.rows[0];
        let all = Traffic {
            bytes_in: 42,
            bytes_out: 84,
        };
        assert_eq!((row.network, row.disk), (Some(all), Some(all)));
        let links = row.links.iter();
        let links: Vec<(&str, u64)> = links
            .map(|link| (link.name.as_str(), link.traffic.bytes_in))
            .collect();
        assert_eq!(links, [("net0", 12), ("net1", 30)]);
    }

    #[test]
    fn total_counts_time_in_which_a_zone_did_not_run() {
        let total = report(Kind::Total);
        assert_eq!(figures(&total, "web"), (Some(250_000), Some(100)));
        assert_eq!(figures(&total, "global"), (Some(200_000), Some(15)));
        assert_eq!(total.total.figures[Resource::Cpu], Some(450_000));
        assert_eq!(total.elapsed, Duration::from_secs(2));
    }

    #[test]
    fn average_ignores_time_in_which_a_zone_did_not_run() {
        let average = report(Kind::Average);
        assert_eq!(figures(&average, "web"), (Some(500_000), Some(200)));
        assert_eq!(figures(&average, "global"), (Some(200_000), Some(15)));
    }

    #[test]
    fn high_is_the_most() {
        let high = report(Kind::High);
        assert_eq!(figures(&high, "web"), (Some(500_000), Some(200)));
        assert_eq!(figures(&high, "global"), (Some(300_000), Some(20)));
        assert_eq!(high.total.figures[Resource::Cpu], Some(800_000));
    }
}
