//! How far a run is: all zones on one screen of a terminal, a line for each zone that is
//! through elsewhere.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use model::ZoneName;
use patch::report::Event;
use patch::{Outcome, Report};

use crate::render;

/// What is shown of a run.
pub struct Progress {
    /// What is said of each zone, in order; for a terminal with room for all of them.
    screen: Option<Mutex<Screen>>,
    plan: bool,
    silent: bool,
}

struct Screen {
    order: Vec<String>,
    said: BTreeMap<String, String>,
    drawn: usize,
}

impl Progress {
    pub fn new(zones: &[ZoneName], plan: bool, silent: bool) -> Self {
        let stdout = std::io::stdout();
        let room =
            rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_row));
        let fits = stdout.is_terminal() && zones.len() + 2 < room && zones.len() > 1;
        let screen = (fits && !plan && !silent).then(|| {
            Mutex::new(Screen {
                order: zones.iter().map(ToString::to_string).collect(),
                said: BTreeMap::new(),
                drawn: 0,
            })
        });
        Self {
            screen,
            plan,
            silent,
        }
    }

    pub fn tell(&self, event: &Event<'_>) {
        match (&self.screen, event) {
            (Some(screen), Event::Begin(zone)) => {
                let mut screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
                screen.say(zone.as_str(), "patching ...".to_owned());
            }
            (Some(screen), Event::End(report)) => {
                let mut screen = screen.lock().unwrap_or_else(PoisonError::into_inner);
                screen.say(&report.zone, render::ended(report));
            }
            (None, Event::End(report)) => self.line(report),
            (None, Event::Begin(_)) => {}
        }
    }

    fn line(&self, report: &Report) {
        let zone = &report.zone;
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

impl Screen {
    fn say(&mut self, zone: &str, text: String) {
        self.said.insert(zone.to_owned(), text);
        let mut out = String::new();
        if self.drawn > 0 {
            out.push_str(&format!("\x1b[{}A", self.drawn));
        }
        for zone in &self.order {
            let said = self.said.get(zone).map_or("waiting", String::as_str);
            out.push_str(&format!("\x1b[2K{zone:<16} {said}\n"));
        }
        self.drawn = self.order.len();
        let mut stdout = std::io::stdout().lock();
        // Nobody looks any more: the work goes on.
        let _ = stdout.write_all(out.as_bytes());
        let _ = stdout.flush();
    }
}
