//! Reports the slowest and the median round, and ratios within rounds.

use std::fmt::Write as _;

use serde::Serialize;
use suspend::Saved;

use super::Plan;
use super::trial::{Felt, Rate};

/// A value that is measured once in each round.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    unit: &'static str,
    rounds: Vec<f64>,
}

/// All values and ratios of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    memory_bytes: usize,
    nonzero_bytes: usize,
    threads: usize,
    rows: Vec<Row>,
    #[serde(skip)]
    round: usize,
}

/// The ratios: name, measured row, and the rows with which it is compared. `{}` stands for the
/// number of all threads.
const RATIOS: [(&str, &str, &[&str]); 11] = [
    (
        "adaptive / slower of disk and memory",
        "save adaptive, {} thr, unsynced",
        &["roofline disk, {} thr", "roofline memory copy, {} thr"],
    ),
    (
        "adaptive / same, synced",
        "save adaptive, {} thr",
        &[
            "roofline disk, synced, {} thr",
            "roofline memory copy, {} thr",
        ],
    ),
    (
        "raw / slower of disk and memory",
        "save raw, {} thr, unsynced",
        &["roofline disk, {} thr", "roofline memory copy, {} thr"],
    ),
    (
        "lz4, all threads / one thread",
        "save lz4, {} thr, unsynced",
        &["save lz4, 1 thr, unsynced"],
    ),
    (
        "zstd, all threads / one thread",
        "save zstd, {} thr, unsynced",
        &["save zstd, 1 thr, unsynced"],
    ),
    (
        "restore lz4, all threads / one thread",
        "restore lz4, {} thr",
        &["restore lz4, 1 thr"],
    ),
    (
        "adaptive / QEMU plain, synced",
        "save adaptive, {} thr",
        &["QEMU plain"],
    ),
    (
        "adaptive / QEMU zstd -T0, synced",
        "save adaptive, {} thr",
        &["QEMU zstd -T0"],
    ),
    (
        "lz4 / QEMU zstd -T0, synced",
        "save lz4, {} thr",
        &["QEMU zstd -T0"],
    ),
    (
        "zstd / QEMU zstd -T0, synced",
        "save zstd, {} thr",
        &["QEMU zstd -T0"],
    ),
    (
        "zstd / QEMU zstd -1 -T0, synced",
        "save zstd, {} thr",
        &["QEMU zstd -1 -T0"],
    ),
];

impl Report {
    pub fn new(plan: &Plan<'_>, nonzero: usize) -> Self {
        Self {
            memory_bytes: plan.memory,
            nonzero_bytes: nonzero,
            threads: plan.threads.get(),
            rows: Vec::new(),
            round: 0,
        }
    }

    /// Starts a round.
    pub fn begin(&mut self) {
        self.round += 1;
        eprintln!("zonesuspend: round {}", self.round);
    }

    pub fn add(&mut self, name: &str, rate: Rate) {
        self.put(name, "MB/s", rate.megabytes());
        if let Some(took) = rate.cpu {
            let rate = Rate::new(rate.bytes, took);
            self.put(&format!("{name}, a CPU"), "MB/s", rate.megabytes());
        }
    }

    pub fn saved(&mut self, name: &str, (saved, cpu): &(Saved, Rate)) {
        let rate = |bytes: u64, took| Rate::new(usize::try_from(bytes).unwrap_or(0), took);
        self.add(&format!("{name}, unsynced"), rate(saved.raw, saved.written));
        self.add(name, *cpu);
        let stored = rate(saved.stored, saved.total);
        self.add(&format!("{name}, as stored"), stored);
    }

    pub fn paged(&mut self, name: &str, nonzero: usize, felt: &Felt) {
        self.add(
            &format!("{name}, complete"),
            Rate::new(nonzero, felt.paged.took),
        );
        let millis = felt.hundred.as_secs_f64() * 1e3;
        self.put(&format!("{name}, 100 pages wanted"), "ms", millis);
        let longest = felt.paged.longest.as_secs_f64() * 1e3;
        self.put(&format!("{name}, longest fault"), "ms", longest);
    }

    fn put(&mut self, name: &str, unit: &'static str, value: f64) {
        let row = match self.rows.iter().position(|row| row.name == name) {
            Some(at) => &mut self.rows[at],
            None => {
                self.rows.push(Row {
                    name: name.to_owned(),
                    unit,
                    rounds: Vec::new(),
                });
                let last = self.rows.len() - 1;
                &mut self.rows[last]
            }
        };
        row.rounds.push(value);
    }

    fn rounds(&self, name: &str) -> Option<&[f64]> {
        let name = name.replace("{}", &self.threads.to_string());
        let row = self.rows.iter().find(|row| row.name == name)?;
        Some(&row.rounds)
    }

    /// Returns the ratios of each round.
    fn ratios(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, what, with) in RATIOS {
            let with: Option<Vec<&[f64]>> = with.iter().map(|one| self.rounds(one)).collect();
            let (Some(what), Some(with)) = (self.rounds(what), with) else {
                continue;
            };
            let slowest = |round: usize| {
                let all = with.iter().filter_map(|one| one.get(round));
                all.fold(f64::INFINITY, |least, one| least.min(*one))
            };
            let rounds = what.iter().enumerate();
            rows.push(Row {
                name: name.to_owned(),
                unit: "",
                rounds: rounds
                    .map(|(round, value)| value / slowest(round))
                    .collect(),
            });
        }
        rows
    }

    pub fn render(&self, json: bool) -> String {
        let ratios = self.ratios();
        if json {
            return crate::show::to_json(&serde_json::json!({
                "measured": self,
                "ratios": ratios,
            }));
        }
        let mut text = format!(
            "{} MiB of memory, {} MB of it not zeros; {} rounds\n\n",
            self.memory_bytes >> 20,
            self.nonzero_bytes / 1_000_000,
            self.round
        );
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<44} {:>9} {:>9}", "", "WORST", "MEDIAN");
        for row in &self.rows {
            let (worst, median) = row.summary();
            let _ = writeln!(
                text,
                "{:<44} {worst:>9.1} {median:>9.1} {}",
                row.name, row.unit
            );
        }
        let _ = writeln!(text);
        for row in &ratios {
            let (worst, median) = row.summary();
            let _ = writeln!(text, "{:<44} {worst:>9.2} {median:>9.2}", row.name);
        }
        text
    }
}

impl Row {
    /// Returns the worst round and the median round.
    fn summary(&self) -> (f64, f64) {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let worst = match self.unit {
            // The worst time is the longest.
            "ms" => sorted.last(),
            _ => sorted.first(),
        };
        let median = sorted.get(sorted.len() / 2);
        (
            worst.copied().unwrap_or_default(),
            median.copied().unwrap_or_default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZero;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn ratios_are_taken_within_rounds() {
        let plan = Plan {
            file: Path::new("/x"),
            memory: 1 << 20,
            rounds: 2,
            threads: NonZero::new(2).unwrap(),
            folder: None,
            qemu: false,
            brief: false,
        };
        let mut report = Report::new(&plan, 1 << 19);
        for (disk, copy, saved) in [(2000, 9000, 1800), (500, 9000, 490), (4000, 9000, 3000)] {
            report.begin();
            let rate = |megabytes: usize| Rate::new(megabytes * 1_000_000, Duration::from_secs(1));
            report.add("roofline disk, 2 thr", rate(disk));
            report.add("roofline memory copy, 2 thr", rate(copy));
            report.add("save adaptive, 2 thr, unsynced", rate(saved));
        }
        let text = report.render(false);
        assert!(
            text.contains("adaptive / slower of disk and memory              0.75      0.90\n"),
            "{text}"
        );
        assert!(text.contains("500.0    2000.0 MB/s\n"), "{text}");
        assert!(report.render(true).contains("\"ratios\""));
    }
}
