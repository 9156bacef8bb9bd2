//! Shows the progress of a run. A terminal shows all zones on one screen, each with the last line
//! of its package manager. Other outputs get one line for each finished zone, and one line per
//! minute for each zone at work.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IsTerminal, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::ZoneName;
use patch::report::Event;
use patch::{Outcome, Report};

use crate::render;

/// Interval between two drawings of a screen.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between progress lines about a zone at work, if the output is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Number of bytes that are read at the end of a log.
const TAIL_BYTES: u64 = 4 << 10;

/// Maximum length of the part of a log line that is shown, in characters.
const MAX_SHOWN_CHARS: usize = 56;

/// The parts of a run that are shown.
pub struct Progress<'a> {
    shown: Mutex<Shown>,
    /// Returns the log of the package manager of a zone.
    log: &'a (dyn Fn(&ZoneName) -> PathBuf + Sync),
    plan: bool,
    silent: bool,
    all: usize,
}

struct Shown {
    /// Zones at work, with the times of their start and of their last progress line.
    at_work: BTreeMap<ZoneName, (Instant, Instant)>,
    /// The screen of a terminal with room for all zones.
    screen: Option<Screen>,
    /// Number of zones that have ended.
    ended: u64,
}

struct Screen {
    order: Vec<String>,
    said: BTreeMap<String, String>,
    drawn: usize,
    /// Lines to print below the screen: logs to read, and programs that continue to run.
    notes: String,
}

impl<'a> Progress<'a> {
    pub fn new(
        zones: &[ZoneName],
        plan: bool,
        silent: bool,
        log: &'a (dyn Fn(&ZoneName) -> PathBuf + Sync),
    ) -> Self {
        let stdout = std::io::stdout();
        let room =
            rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_row));
        let fits = stdout.is_terminal() && zones.len() + 2 < room && !cli::progress::is_json();
        let screen = (fits && !plan && !silent).then(|| Screen {
            order: zones.iter().map(ToString::to_string).collect(),
            said: BTreeMap::new(),
            drawn: 0,
            notes: String::new(),
        });
        Self {
            shown: Mutex::new(Shown {
                at_work: BTreeMap::new(),
                screen,
                ended: 0,
            }),
            all: zones.len(),
            log,
            plan,
            silent,
        }
    }

    /// Shows the progress while `work` runs.
    pub fn while_shown<T>(&self, work: impl FnOnce() -> T) -> T {
        let every = match self.shown().screen {
            Some(_) => REDRAW_INTERVAL,
            None => LINE_INTERVAL.min(Duration::from_secs(5)),
        };
        let (ended, ends) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while ends.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                    self.look();
                }
            });
            let done = work();
            drop(ended);
            if let Some(screen) = &mut self.shown().screen {
                crate::say(&std::mem::take(&mut screen.notes));
            }
            done
        })
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the progress of the zones at work.
    fn look(&self) {
        let now = Instant::now();
        let mut shown = self.shown();
        let Shown {
            at_work, screen, ..
        } = &mut *shown;
        for (zone, (begun, told)) in at_work {
            let took = now.duration_since(*begun).as_secs();
            let last = last_line(&(self.log)(zone)).unwrap_or_default();
            match screen {
                Some(screen) => {
                    let said = &mut screen.said;
                    said.insert(zone.to_string(), format!("patching, {took} s  {last}"));
                }
                None if now.duration_since(*told) >= LINE_INTERVAL => {
                    *told = now;
                    let text = format!("at work for {took} s: {last}");
                    let text = text.trim_end_matches([':', ' ']);
                    // It is no error, and must not be listed as one.
                    if !cli::progress::step(zone.as_str(), text) {
                        crate::complain(&format!("zone '{zone}': {text}"));
                    }
                }
                None => {}
            }
        }
        if let Some(screen) = screen {
            screen.draw();
        }
    }

    pub fn tell(&self, event: &Event<'_>) {
        let mut shown = self.shown();
        match event {
            Event::Begin(zone) => {
                let now = Instant::now();
                shown.at_work.insert((*zone).clone(), (now, now));
                let step = if self.plan { "planning" } else { "patching" };
                let _ = cli::progress::step(zone.as_str(), step);
                if let Some(screen) = &mut shown.screen {
                    screen.say(zone.as_str(), "patching ...".to_owned());
                }
            }
            Event::End(report) => {
                shown.at_work.retain(|zone, _| zone.as_str() != report.zone);
                shown.ended += 1;
                match &mut shown.screen {
                    Some(screen) => {
                        screen.say(&report.zone, render::ended(report));
                        if let (Outcome::Failed, Some(log)) = (report.outcome, &report.log) {
                            let (zone, log) = (&report.zone, log.display());
                            let note = format!("{zone}: all that was said: {log}\n");
                            screen.notes.push_str(&note);
                        }
                        screen.notes.push_str(&render::stale(report));
                    }
                    None => self.line(report, shown.ended),
                }
            }
        }
    }

    fn line(&self, report: &Report, ended: u64) {
        let zone = &report.zone;
        let text = match report.outcome {
            Outcome::Failed => "failed".to_owned(),
            _ if self.plan => render::planned(report),
            _ => render::ended(report),
        };
        let all = Some(self.all as u64);
        let step = text.strip_prefix(&format!("{zone}: ")).unwrap_or(&text);
        let is_json = cli::progress::amount(Some(zone), step.trim_end(), ended, all, "zones");
        if is_json && report.outcome != Outcome::Failed {
            return;
        }
        if report.outcome == Outcome::Failed {
            let why = report.reason.as_deref().unwrap_or("failed");
            let mut text = format!("zone '{zone}': {why}");
            // What came before that line is mostly what tells.
            if let (Some(log), false) = (&report.log, self.plan) {
                text.push_str(&format!("\n\tall that was said: {}", log.display()));
            }
            crate::complain(&text);
        } else if self.plan && !self.silent {
            crate::say(&render::planned(report));
        } else if !self.silent {
            let (ended, stale) = (render::ended(report), render::stale(report));
            crate::say(&format!("{zone}: {ended}\n{stale}"));
        }
    }
}

/// Returns the last line of a log without control characters, because the text comes from the zone.
fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail);
    let lines = tail.lines().rev().map(|line| {
        let shown = line
            .chars()
            .filter(|c| !c.is_control())
            .take(MAX_SHOWN_CHARS);
        shown.collect::<String>()
    });
    lines
        .map(|line| line.trim().to_owned())
        .find(|line| !line.is_empty())
}

impl Screen {
    fn say(&mut self, zone: &str, text: String) {
        self.said.insert(zone.to_owned(), text);
        self.draw();
    }

    fn draw(&mut self) {
        let mut out = String::new();
        if self.drawn > 0 {
            out.push_str(&format!("\x1b[{}A", self.drawn));
        }
        let longest = self.order.iter().map(|zone| zone.chars().count()).max();
        let width = longest.unwrap_or_default().max(16);
        for zone in &self.order {
            let said = self.said.get(zone).map_or("waiting", String::as_str);
            out.push_str(&format!("\x1b[2K{zone:<width$} {said}\n"));
        }
        self.drawn = self.order.len();
        let mut stdout = std::io::stdout().lock();
        // If the output has no reader any more, the work continues.
        let _ = stdout.write_all(out.as_bytes());
        let _ = stdout.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_log_is_shown_without_orders_to_the_terminal() {
        let name = format!("zonepatch-progress-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let long = "x".repeat(5000);
        let text = format!("{long}\nSetting up \x1b]0;owned\x07app (2) ...\n\n  \n");
        std::fs::write(&path, text).unwrap();
        assert_eq!(last_line(&path).unwrap(), "Setting up ]0;ownedapp (2) ...");
        std::fs::write(&path, &long).unwrap();
        assert_eq!(last_line(&path).unwrap().len(), MAX_SHOWN_CHARS);
        std::fs::write(&path, "").unwrap();
        assert_eq!(last_line(&path), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(last_line(&path), None);
    }
}
