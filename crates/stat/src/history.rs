//! Keeps the last figures of each zone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::interval::{Interval, Row};
use crate::resource::{Figures, Resource};
use crate::sample::Traffic;

/// The stored form of a history.
#[derive(Serialize, Deserialize)]
struct Stored {
    total: Vec<Point>,
    zones: std::collections::BTreeMap<String, Vec<Point>>,
}

/// Number of figures of a point.
const FIGURES: usize = 6;

/// Number of figures that are always stored: CPU and memory. Earlier releases stored no others.
const ALWAYS_STORED: usize = 2;

/// The resources that a zone used in an interval. The stored form is a list of the figures in this order,
/// without zeros at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub struct Point {
    /// CPUs in millionths.
    pub cpu: u64,
    /// Memory in bytes.
    pub memory: u64,
    /// Bytes per second through links.
    pub network: Traffic,
    /// Bytes per second from and to disks.
    pub disk: Traffic,
}

impl Point {
    fn of(figures: &Figures, network: Traffic, disk: Traffic, elapsed: Duration) -> Self {
        Self {
            cpu: figures[Resource::Cpu].unwrap_or_default(),
            memory: figures[Resource::Physical].unwrap_or_default(),
            network: per_second(network, elapsed),
            disk: per_second(disk, elapsed),
        }
    }
}

impl From<Point> for Vec<u64> {
    fn from(point: Point) -> Self {
        let (network, disk) = (point.network, point.disk);
        let mut figures = vec![
            point.cpu,
            point.memory,
            network.bytes_in,
            network.bytes_out,
            disk.bytes_in,
            disk.bytes_out,
        ];
        while figures.len() > ALWAYS_STORED && figures.last() == Some(&0) {
            figures.pop();
        }
        figures
    }
}

impl TryFrom<Vec<u64>> for Point {
    type Error = String;

    fn try_from(mut figures: Vec<u64>) -> Result<Self, String> {
        let count = figures.len();
        if !(ALWAYS_STORED..=FIGURES).contains(&count) {
            return Err(format!("a point has 2 to {FIGURES} figures, not {count}"));
        }
        figures.resize(FIGURES, 0);
        Ok(Self {
            cpu: figures[0],
            memory: figures[1],
            network: Traffic {
                bytes_in: figures[2],
                bytes_out: figures[3],
            },
            disk: Traffic {
                bytes_in: figures[4],
                bytes_out: figures[5],
            },
        })
    }
}

/// Returns bytes per second for the bytes of an interval.
fn per_second(bytes: Traffic, elapsed: Duration) -> Traffic {
    let millis = elapsed.as_millis().max(1);
    let rate = |bytes: u64| u64::try_from(u128::from(bytes) * 1000 / millis).unwrap_or(u64::MAX);
    Traffic {
        bytes_in: rate(bytes.bytes_in),
        bytes_out: rate(bytes.bytes_out),
    }
}

/// The figures of the last intervals, of limited number. A zone that was not active in an interval
/// has `None` there. A zone that was active in none of the intervals is removed.
#[derive(Clone, Debug)]
pub struct History {
    most: usize,
    zones: HashMap<Arc<str>, VecDeque<Point>>,
    total: VecDeque<Point>,
}

impl History {
    /// Returns a history that keeps at most this number of intervals.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            zones: HashMap::new(),
            total: VecDeque::new(),
        }
    }

    /// Adds an interval to the history.
    pub fn add(&mut self, interval: &Interval) {
        let most = self.most;
        let before = self.total.len();
        let push = |points: &mut VecDeque<Point>, point| {
            if points.len() == most {
                points.pop_front();
            }
            points.push_back(point);
        };
        // The global zone has the traffic of the host, which that of the zones passes through.
        let zones = interval.rows.iter().filter(|row| row.id != 0);
        let (network, disk) = zones.fold(<(Traffic, Traffic)>::default(), |sum, row| {
            let (network, disk) = traffic(row);
            (sum.0.plus(network), sum.1.plus(disk))
        });
        let elapsed = interval.elapsed;
        let total = Point::of(&interval.total.figures, network, disk, elapsed);
        push(&mut self.total, total);
        for row in &interval.rows {
            let points = self
                .zones
                .entry(Arc::clone(&row.name))
                .or_insert_with(|| VecDeque::from(vec![Point::default(); before]));
            // A zone that the interval lists twice already has its point.
            if points.len() <= before {
                let (network, disk) = traffic(row);
                push(points, Point::of(&row.used.figures, network, disk, elapsed));
            }
        }
        let length = self.total.len();
        let full = before == most;
        let shown: std::collections::HashSet<&str> =
            interval.rows.iter().map(|row| &*row.name).collect();
        self.zones.retain(|name, points| {
            if !shown.contains(&**name) {
                if full || points.len() == length {
                    points.pop_front();
                }
                points.push_back(Point::default());
            }
            points.iter().any(|point| *point != Point::default()) || shown.contains(&**name)
        });
    }

    /// Returns the points of a zone, the oldest first.
    pub fn zone(&self, name: &str) -> impl Iterator<Item = Point> + '_ {
        self.zones.get(name).into_iter().flatten().copied()
    }

    /// Returns the points of the total: CPUs and memory of all zones and the system, and the traffic of
    /// all zones except the global zone.
    pub fn total(&self) -> impl Iterator<Item = Point> + '_ {
        self.total.iter().copied()
    }

    /// Returns the history as JSON, the oldest point first:
    /// `{"total":[[cpu,memory,received,sent,read,written],...],"zones":{"web":[...]}}`. Zeros at the end
    /// of a point are left out, except those of CPU and memory.
    #[must_use]
    pub fn write(&self) -> String {
        let all = |points: &VecDeque<Point>| points.iter().copied().collect();
        let stored = Stored {
            total: all(&self.total),
            zones: self
                .zones
                .iter()
                .map(|(name, points)| (name.to_string(), all(points)))
                .collect(),
        };
        // Plain data can always be converted to JSON.
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// Reads the last `most` intervals from a text of [`History::write`]. Returns `None` for any
    /// other text.
    #[must_use]
    pub fn read(text: &str, most: usize) -> Option<Self> {
        let stored: Stored = serde_json::from_str(text).ok()?;
        let length = stored.total.len();
        let mut history = Self::new(most);
        let skipped = length.saturating_sub(history.most);
        let points = |all: Vec<Point>| all.into_iter().skip(skipped).collect();
        for (name, all) in stored.zones {
            if all.len() != length {
                return None;
            }
            history.zones.insert(name.into(), points(all));
        }
        history.total = points(stored.total);
        Some(history)
    }

    /// Returns the number of intervals.
    #[must_use]
    pub fn len(&self) -> usize {
        self.total.len()
    }

    /// Returns true if the history has no interval.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total.is_empty()
    }
}

/// Returns the bytes of a zone through its links, and those from and to disks.
fn traffic(row: &Row) -> (Traffic, Traffic) {
    (
        row.network.unwrap_or_default(),
        row.disk.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Use;

    fn interval(zones: &[(&str, u64)]) -> Interval {
        let rows = zones.iter().map(|(name, cpu)| {
            let mut figures = Figures::default();
            figures[Resource::Cpu] = Some(*cpu);
            Row {
                name: (*name).into(),
                id: 1,
                used: Use {
                    figures,
                    cpu_usec: 0,
                },
                setting: Arc::default(),
                ran: Duration::ZERO,
                pressure: None,
                disk: None,
                network: None,
                links: Vec::new(),
                hits: None,
            }
        });
        Interval {
            rows: rows.collect(),
            ..Interval::default()
        }
    }

    fn cpu(history: &History, zone: &str) -> Vec<u64> {
        history.zone(zone).map(|point| point.cpu).collect()
    }

    #[test]
    fn a_history_reads_back_as_stored() {
        let mut history = History::new(9);
        history.add(&interval(&[("a", 1)]));
        history.add(&interval(&[("a", 2), ("b", 9)]));
        let text = history.write();
        let again = History::read(&text, 9).unwrap();
        assert_eq!((again.len(), again.write()), (2, text.clone()));
        let short = History::read(&text, 1).unwrap();
        assert_eq!((cpu(&short, "a"), short.len()), (vec![2], 1));
        for bad in ["", "{}", "{\"total\":[[1,2]],\"zones\":{\"a\":[]}}"] {
            assert!(History::read(bad, 9).is_none(), "{bad}");
        }
    }

    #[test]
    fn traffic_is_in_bytes_per_second_and_the_total_has_that_of_the_zones() {
        let mut minute = interval(&[("global", 1), ("web", 2), ("db", 3)]);
        minute.elapsed = Duration::from_secs(60);
        let traffic = |bytes_in, bytes_out| {
            Some(Traffic {
                bytes_in,
                bytes_out,
            })
        };
        minute.rows[0].id = 0;
        minute.rows[0].network = traffic(99_000, 99_000);
        minute.rows[1].network = traffic(6_000, 600);
        minute.rows[1].disk = traffic(0, 120);
        minute.rows[2].network = traffic(60, 0);
        let mut history = History::new(9);
        history.add(&minute);
        let text = history.write();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            json["zones"]["web"][0],
            serde_json::json!([2, 0, 100, 10, 0, 2])
        );
        assert_eq!(json["zones"]["db"][0], serde_json::json!([3, 0, 1]));
        assert_eq!(json["total"][0], serde_json::json!([0, 0, 101, 10, 0, 2]));
        assert_eq!(History::read(&text, 9).unwrap().write(), text);
    }

    #[test]
    fn a_history_of_an_earlier_release_is_read() {
        let text = "{\"total\":[[5,6]],\"zones\":{\"a\":[[1,2]]}}";
        let history = History::read(text, 9).unwrap();
        let point = history.zone("a").next().unwrap();
        assert_eq!(
            (point.cpu, point.memory, point.disk),
            (1, 2, Traffic::default())
        );
        for bad in ["[1]", "[1,2,3,4,5,6,7]", "[1,-2]", "7"] {
            let text = format!("{{\"total\":[{bad}],\"zones\":{{}}}}");
            assert!(History::read(&text, 9).is_none(), "{bad}");
        }
    }

    #[test]
    fn every_zone_is_as_long_as_the_whole() {
        let mut history = History::new(3);
        history.add(&interval(&[("a", 1)]));
        history.add(&interval(&[("a", 2), ("b", 9)]));
        assert_eq!(cpu(&history, "a"), [1, 2]);
        assert_eq!(cpu(&history, "b"), [0, 9]);
        history.add(&interval(&[("b", 8)]));
        assert_eq!(cpu(&history, "a"), [1, 2, 0]);
        history.add(&interval(&[("b", 7)]));
        assert_eq!(cpu(&history, "a"), [2, 0, 0]);
        assert_eq!(cpu(&history, "b"), [9, 8, 7]);
        // No point of this zone is left, so the zone is removed.
        history.add(&interval(&[("b", 6)]));
        assert_eq!(cpu(&history, "a"), [0; 0]);
        assert_eq!((history.len(), history.total().count()), (3, 3));
    }
}
