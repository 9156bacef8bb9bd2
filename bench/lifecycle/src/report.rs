//! Tables in Markdown.

use std::fmt::Write;
use std::time::Duration;

use crate::options::Options;
use crate::run::{Results, Times};
use crate::tools::{FLOOR, Step};

/// Least and middle of some times, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Summary {
    min: f64,
    median: f64,
}

impl Summary {
    fn of(times: &[Duration]) -> Option<Self> {
        let mut sorted: Vec<f64> = times.iter().map(|t| t.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => return None,
            n if n % 2 == 0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Self {
            min: sorted[0],
            median,
        })
    }

    fn cell(self) -> String {
        format!("{:.2} / {:.2}", self.min, self.median)
    }
}

pub fn markdown(options: &Options, results: &Results) -> String {
    let mut out = String::new();
    let row = options.row;
    times_table(
        &mut out,
        &format!("One zone at a time, {} rounds", options.rounds),
        results,
        &results.single,
    );
    times_table(
        &mut out,
        &format!("{row} zones in a row: all cloned, then all booted, then all halted"),
        results,
        &results.row,
    );
    if !results.weights.is_empty() {
        let _ = writeln!(
            out,
            "### Memory of the program that stays with a running zone, KiB\n"
        );
        let _ = writeln!(
            out,
            "| | PSS, 1 zone | private dirty, 1 zone | PSS, {row} zones | private dirty, {row} zones |\n|---|--:|--:|--:|--:|"
        );
        for (tool, [one, many]) in &results.weights {
            let _ = writeln!(
                out,
                "| {} | {:.0} | {:.0} | {:.0} | {:.0} |",
                results.titles[*tool], one.pss, one.private_dirty, many.pss, many.private_dirty
            );
        }
        out.push('\n');
    }
    out
}

fn times_table(out: &mut String, title: &str, results: &Results, times: &Times) {
    let _ = writeln!(out, "### {title}\n\nmin / median, ms\n");
    let titles = &results.titles;
    // How much faster than a peer, and how much slower than the floor.
    let ratios: Vec<(usize, usize)> = if titles.first().is_some_and(|t| t == "zones") {
        let pair = |tool| {
            if titles[tool] == FLOOR {
                (0, tool)
            } else {
                (tool, 0)
            }
        };
        (1..titles.len()).map(pair).collect()
    } else {
        Vec::new()
    };
    let _ = write!(out, "| | {} |", titles.join(" | "));
    for (above, below) in &ratios {
        let _ = write!(out, " {} : {} |", titles[*above], titles[*below]);
    }
    let _ = writeln!(out, "\n|---|{}", "--:|".repeat(titles.len() + ratios.len()));
    for step in Step::ALL {
        let summary = |tool: usize| times.get(&(step, tool)).and_then(|t| Summary::of(t));
        let _ = write!(out, "| {} |", step.name());
        for tool in 0..titles.len() {
            let cell = summary(tool).map_or_else(|| "-".to_owned(), Summary::cell);
            let _ = write!(out, " {cell} |");
        }
        for (above, below) in &ratios {
            let cell = match (summary(*above), summary(*below)) {
                (Some(a), Some(b)) => {
                    format!("{:.2} / {:.2}", a.min / b.min, a.median / b.median)
                }
                _ => "-".to_owned(),
            };
            let _ = write!(out, " {cell} |");
        }
        out.push('\n');
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(values: &[u64]) -> Vec<Duration> {
        values.iter().map(|v| Duration::from_millis(*v)).collect()
    }

    #[test]
    fn summaries_of_odd_even_and_nothing() {
        let odd = Summary {
            min: 1.0,
            median: 2.0,
        };
        assert_eq!(Summary::of(&ms(&[9, 1, 2])), Some(odd));
        let even = Summary {
            min: 1.0,
            median: 2.5,
        };
        assert_eq!(Summary::of(&ms(&[3, 1, 2, 9])), Some(even));
        assert_eq!(Summary::of(&[]), None);
    }
}
