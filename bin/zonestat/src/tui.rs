//! The full-screen view: the running zones, sorted and filtered, with their last minutes.
//!
//! The view can be read without colour. It has no colour if `NO_COLOR` is set.

mod app;
mod draw;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};
use stat::{Interval, Wants};

use crate::args::Tui;
use crate::run::{sampler, take_signals};
use crate::zones::Zones;
use app::{App, Next};

/// Maximum wait for a key. After it the view looks for new and ended zones, and for signals.
const MAX_KEY_WAIT: Duration = Duration::from_millis(250);

/// Shows the view until the user leaves it.
///
/// # Errors
/// Fails without a terminal, or with an error of the options or the root.
pub fn run(options: &Tui) -> Result<(), String> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err("--tui needs a terminal".to_owned());
    }
    let zones = Zones::new(&options.common.zones)?;
    let signals = take_signals()?;
    let wants = Wants {
        counts: true,
        disk: true,
        hits: true,
        network: true,
        pressure: true,
        ..Wants::default()
    };
    let mut sampler = sampler(&options.common, wants)?;
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut app = App::new(zones, Duration::from_secs(options.interval), colour);
    let mut last = sampler.sample();
    // The first figures come after at most one second.
    let mut due = Instant::now() + Duration::from_secs(1).min(app.interval);
    let mut terminal = ratatui::try_init().map_err(|error| format!("no screen: {error}"))?;
    let mut is_new = true;
    let result = loop {
        if is_new {
            if let Err(error) = terminal.draw(|frame| draw::draw(frame, &mut app)) {
                break Err(format!("cannot draw: {error}"));
            }
        }
        if signals.next().is_some() {
            break Ok(());
        }
        sampler.notice();
        let left = due.saturating_duration_since(Instant::now());
        is_new = match event::poll(left.min(MAX_KEY_WAIT)) {
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    match app.press(key) {
                        Next::Leave => break Ok(()),
                        Next::Sooner => due = due.min(Instant::now() + app.interval),
                        Next::Go => {}
                    }
                    true
                }
                Ok(_) => true,
                Err(error) => break Err(format!("cannot read the keyboard: {error}")),
            },
            Ok(false) => false,
            Err(error) => break Err(format!("cannot read the keyboard: {error}")),
        };
        if Instant::now() >= due {
            let sample = sampler.sample();
            app.show(Interval::between(&last, &sample));
            last = sample;
            due = Instant::now() + app.interval;
            is_new = true;
        }
    };
    ratatui::restore();
    result
}
