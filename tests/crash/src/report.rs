//! The table of results.

use std::fmt::Write as _;

use crate::enumerate::Tally;

/// Returns a line about the progress.
#[must_use]
pub fn line(tally: &Tally) -> String {
    format!(
        "{} ({}): {} calls, {} tried, {} kills, {} leaks, {} broken, {:.1} s",
        tally.name,
        tally.who,
        tally.calls,
        tally.tried,
        tally.kills,
        tally.leaks,
        tally.broken,
        tally.took.as_secs_f64()
    )
}

/// Returns all results in Markdown.
#[must_use]
pub fn table(tallies: &[Tally]) -> String {
    let mut text = String::from(
        "| operation | killed | calls | tried | kills | leaks | broken |\n|---|---|--:|--:|--:|--:|--:|\n",
    );
    for one in tallies {
        let _ = write!(text, "| {} | {} |", one.name, one.who);
        for count in counts(one) {
            let _ = write!(text, " {count} |");
        }
        text.push('\n');
    }
    text.push_str("| **all** | |");
    for sum in sums(tallies) {
        let _ = write!(text, " {sum} |");
    }
    text.push('\n');
    text
}

/// Returns the sums in one line.
#[must_use]
pub fn all(tallies: &[Tally]) -> String {
    let [calls, tried, kills, leaks, broken] = sums(tallies);
    format!(
        "all: {} enumerations, {calls} calls, {tried} tried, {kills} kills, {leaks} leaks, {broken} broken",
        tallies.len()
    )
}

const fn counts(one: &Tally) -> [usize; 5] {
    [one.calls, one.tried, one.kills, one.leaks, one.broken]
}

fn sums(tallies: &[Tally]) -> [usize; 5] {
    let mut sums = [0; 5];
    for one in tallies {
        for (sum, count) in sums.iter_mut().zip(counts(one)) {
            *sum += count;
        }
    }
    sums
}

/// Returns the failures; empty if there are none.
#[must_use]
pub fn failures(tallies: &[Tally]) -> String {
    let mut text = String::new();
    for one in tallies {
        for problem in &one.problems {
            let _ = writeln!(text, "FAILED {} ({}): {problem}", one.name, one.who);
        }
    }
    text
}
