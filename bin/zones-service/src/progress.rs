//! Prints messages, and a progress line on a terminal.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::time::Instant;

use model::ZoneName;

/// Prints lines on standard output.
pub fn say(text: &str) {
    println!("{text}");
}

/// Prints lines on standard error.
pub fn complain(text: &str) {
    eprintln!("{text}");
}

/// Maximum number of zone names in the progress line.
const MAX_NAMES: usize = 4;

/// The progress line on a terminal; prints nothing if standard output is no terminal.
pub struct Line {
    shown: bool,
    action: &'static str,
    all: usize,
    done: usize,
    busy: BTreeSet<ZoneName>,
    began: Instant,
}

impl Line {
    /// Creates the progress line for `all` jobs.
    pub fn new(action: &'static str, all: usize, wanted: bool) -> Self {
        Self {
            shown: wanted && std::io::stdout().is_terminal(),
            action,
            all,
            done: 0,
            busy: BTreeSet::new(),
            began: Instant::now(),
        }
    }

    pub fn begun(&mut self, zone: ZoneName) {
        self.busy.insert(zone);
        self.draw();
    }

    pub fn done(&mut self, zone: &ZoneName) {
        self.busy.remove(zone);
        self.done += 1;
    }

    /// Redraws the progress line over the former one.
    pub fn draw(&self) {
        if self.shown {
            let text = text(self.action, self.done, self.all, &self.busy);
            let seconds = self.began.elapsed().as_secs();
            let mut out = std::io::stdout();
            let _ = write!(out, "\r\x1b[K{text}, {seconds} s");
            let _ = out.flush();
        }
    }

    /// Clears the progress line before permanent output.
    pub fn clear(&self) {
        if self.shown {
            let mut out = std::io::stdout();
            let _ = write!(out, "\r\x1b[K");
            let _ = out.flush();
        }
    }
}

fn text(action: &str, done: usize, all: usize, busy: &BTreeSet<ZoneName>) -> String {
    let mut text = format!("{action}: {done} of {all}");
    let names: Vec<&str> = busy.iter().take(MAX_NAMES).map(ZoneName::as_str).collect();
    if !names.is_empty() {
        text.push_str(&format!(", waiting for {}", names.join(" ")));
    }
    if busy.len() > MAX_NAMES {
        text.push_str(&format!(" and {} more", busy.len() - MAX_NAMES));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_stays_short() {
        let busy = |count: usize| -> BTreeSet<ZoneName> {
            (1..=count)
                .map(|number| format!("web{number}").parse().unwrap())
                .collect()
        };
        assert_eq!(text("stop", 2, 2, &busy(0)), "stop: 2 of 2");
        assert_eq!(
            text("stop", 0, 2, &busy(2)),
            "stop: 0 of 2, waiting for web1 web2"
        );
        assert_eq!(
            text("stop", 1, 9, &busy(8)),
            "stop: 1 of 9, waiting for web1 web2 web3 web4 and 4 more"
        );
    }
}
