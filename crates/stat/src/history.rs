//! Keeps the last figures of each zone.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::interval::Interval;
use crate::resource::{Figures, Resource};

/// The stored form of a point: CPUs in millionths, and bytes of memory.
#[derive(Serialize, Deserialize)]
struct Stored {
    total: Vec<(u64, u64)>,
    zones: std::collections::BTreeMap<String, Vec<(u64, u64)>>,
}

/// The resources that a zone used in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// CPUs in millionths.
    pub cpu: u64,
    /// Memory in bytes.
    pub memory: u64,
}

impl Point {
    fn of(figures: &Figures) -> Self {
        Self {
            cpu: figures[Resource::Cpu].unwrap_or_default(),
            memory: figures[Resource::Physical].unwrap_or_default(),
        }
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
        push(&mut self.total, Point::of(&interval.total.figures));
        for row in &interval.rows {
            let points = self
                .zones
                .entry(Arc::clone(&row.name))
                .or_insert_with(|| VecDeque::from(vec![Point::default(); before]));
            // A zone that the interval lists twice already has its point.
            if points.len() <= before {
                push(points, Point::of(&row.used.figures));
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

    /// Returns the points of the total: all zones and the system.
    pub fn total(&self) -> impl Iterator<Item = Point> + '_ {
        self.total.iter().copied()
    }

    /// Returns the history as JSON: `{"total":[[cpu,memory],...],"zones":{"web":[...]}}`, the
    /// oldest point first.
    #[must_use]
    pub fn write(&self) -> String {
        let pairs = |points: &VecDeque<Point>| points.iter().map(|p| (p.cpu, p.memory)).collect();
        let stored = Stored {
            total: pairs(&self.total),
            zones: self
                .zones
                .iter()
                .map(|(name, points)| (name.to_string(), pairs(points)))
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
        let points = |pairs: Vec<(u64, u64)>| -> VecDeque<Point> {
            let pairs = pairs.into_iter().skip(skipped);
            pairs.map(|(cpu, memory)| Point { cpu, memory }).collect()
        };
        for (name, pairs) in stored.zones {
            if pairs.len() != length {
                return None;
            }
            history.zones.insert(name.into(), points(pairs));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{Row, Use};
    use std::time::Duration;

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
