//! The measured figures.

use serde::{Deserialize, Serialize};

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    /// The host, the time and the load.
    pub host: String,
    /// The results for each size of memory.
    pub engines: Vec<Engine>,
    /// The measurements that were not made, with the reasons.
    pub left_out: Vec<String>,
    /// The figures of suspend, resume and clone of a zone.
    pub zone: Vec<Row>,
}

/// The output of `zonesuspend bench -j`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Engine {
    pub measured: Measured,
    pub ratios: Vec<Row>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    pub memory_bytes: u64,
    pub nonzero_bytes: u64,
    pub threads: usize,
    pub rows: Vec<Row>,
}

/// A value that is measured once in each round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub name: String,
    pub unit: String,
    pub rounds: Vec<f64>,
}

impl Row {
    pub fn new(name: &str, unit: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            rounds: Vec::new(),
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    pub fn median(&self) -> f64 {
        let sorted = self.sorted();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// Returns the value of the slowest round; for times and their multiples this is the largest.
    pub fn worst(&self) -> f64 {
        let sorted = self.sorted();
        let worst = match self.unit.as_str() {
            "ms" | "times" => sorted.last(),
            _ => sorted.first(),
        };
        worst.copied().unwrap_or_default()
    }
}

impl Engine {
    pub fn gib(&self) -> u64 {
        self.measured.memory_bytes >> 30
    }

    pub fn row(&self, name: &str) -> Option<&Row> {
        self.measured.rows.iter().find(|row| row.name == name)
    }

    pub fn ratio(&self, name: &str) -> Option<&Row> {
        self.ratios.iter().find(|row| row.name == name)
    }
}

/// Adds a value to the row of this name, which is made with the first one.
pub fn put(rows: &mut Vec<Row>, name: &str, unit: &str, value: f64) {
    let at = rows.iter().position(|row| row.name == name);
    let at = at.unwrap_or_else(|| {
        rows.push(Row::new(name, unit));
        rows.len() - 1
    });
    rows[at].rounds.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_times_is_the_longest() {
        let mut row = Row::new("x", "ms");
        row.rounds = vec![3.0, 1.0, 2.0];
        assert_eq!((row.worst(), row.median()), (3.0, 2.0));
        row.unit = "MB/s".to_owned();
        assert_eq!((row.worst(), row.median()), (1.0, 2.0));
        assert_eq!(Row::default().median(), 0.0);
    }
}
