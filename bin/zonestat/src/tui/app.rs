//! The state of the full-screen view, and the effect of keys.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use stat::history::History;
use stat::{Interval, Resource, Row};

use crate::zones::Zones;

/// Maximum number of intervals in the memory of the view.
const MAX_INTERVALS: usize = 600;

/// The intervals that keys can set, in seconds.
const INTERVALS: [u64; 7] = [1, 2, 5, 10, 30, 60, 300];

/// The key by which rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Cpu,
    Memory,
    Virtual,
    Lwps,
    Name,
    Id,
}

impl Order {
    const ALL: [Self; 6] = [
        Self::Cpu,
        Self::Memory,
        Self::Virtual,
        Self::Lwps,
        Self::Name,
        Self::Id,
    ];

    /// Returns the name of the column.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Memory => "MEMORY",
            Self::Virtual => "VIRTUAL",
            Self::Lwps => "LWPS",
            Self::Name => "ZONE",
            Self::Id => "ID",
        }
    }

    fn compare(self, one: &Row, two: &Row) -> std::cmp::Ordering {
        let most_first = |resource| two.used.figures[resource].cmp(&one.used.figures[resource]);
        match self {
            Self::Cpu => most_first(Resource::Cpu),
            Self::Memory => most_first(Resource::Physical),
            Self::Virtual => most_first(Resource::Virtual),
            Self::Lwps => most_first(Resource::Lwps),
            Self::Name => one.name.cmp(&two.name),
            Self::Id => one.id.cmp(&two.id),
        }
        .then_with(|| one.name.cmp(&two.name))
    }
}

/// The view that is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// The list of all zones.
    List,
    /// The selected zone.
    Zone,
    /// The list of keys.
    Help,
}

/// The action that follows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    /// The interval was made shorter.
    Sooner,
    Leave,
}

/// The state of the full-screen view.
#[derive(Debug)]
pub(super) struct App {
    zones: Zones,
    pub interval: Duration,
    pub colour: bool,
    pub shown: Option<Interval>,
    pub history: History,
    pub view: View,
    pub order: Order,
    pub reverse: bool,
    pub paused: bool,
    /// The list shows only zones whose name contains this text.
    pub filter: String,
    /// True while the user types the filter.
    pub typing: bool,
    /// The name of the selected zone, which stays selected when the rows change places.
    pub chosen: Option<String>,
}

impl App {
    pub(super) fn new(zones: Zones, interval: Duration, colour: bool) -> Self {
        Self {
            zones,
            interval,
            colour,
            shown: None,
            history: History::new(MAX_INTERVALS),
            view: View::List,
            order: Order::Cpu,
            reverse: false,
            paused: false,
            filter: String::new(),
            typing: false,
            chosen: None,
        }
    }

    /// Stores an interval, and shows it unless the view is paused.
    pub(super) fn show(&mut self, interval: Interval) {
        self.history.add(&interval);
        if !self.paused {
            self.shown = Some(interval);
        }
    }

    /// Returns the rows of the list in their order.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let Some(interval) = &self.shown else {
            return Vec::new();
        };
        let mut rows = self.zones.choose(interval);
        let filter = self.filter.to_lowercase();
        rows.retain(|row| row.name.to_lowercase().contains(&filter));
        rows.sort_by(|one, two| self.order.compare(one, two));
        if self.reverse {
            rows.reverse();
        }
        rows
    }

    /// Returns the position of the selected zone in the list; the first position if the zone is not
    /// in the list.
    pub(super) fn place(&self, rows: &[&Row]) -> usize {
        let chosen = self.chosen.as_deref();
        let place = rows.iter().position(|row| Some(&*row.name) == chosen);
        place.unwrap_or_default()
    }

    /// Performs the action of a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Next::Leave,
                _ => Next::Go,
            };
        }
        if self.typing {
            self.type_filter(key.code);
            return Next::Go;
        }
        match key.code {
            KeyCode::Char('q') => return Next::Leave,
            KeyCode::Esc if self.view != View::List => self.view = View::List,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') => {
                self.view = match self.view {
                    View::Help => View::List,
                    _ => View::Help,
                };
            }
            KeyCode::Enter => {
                self.view = match self.view {
                    View::List => View::Zone,
                    _ => View::List,
                };
            }
            KeyCode::Down | KeyCode::Char('j') => self.choose(1),
            KeyCode::Up | KeyCode::Char('k') => self.choose(-1),
            KeyCode::PageDown => self.choose(10),
            KeyCode::PageUp => self.choose(-10),
            KeyCode::Home => self.choose(isize::MIN),
            KeyCode::End => self.choose(isize::MAX),
            KeyCode::Char('s') => {
                let place = Order::ALL.iter().position(|order| *order == self.order);
                let next = place.map_or(0, |place| (place + 1) % Order::ALL.len());
                self.order = Order::ALL[next];
            }
            KeyCode::Char('c') => self.order = Order::Cpu,
            KeyCode::Char('m') => self.order = Order::Memory,
            KeyCode::Char('v') => self.order = Order::Virtual,
            KeyCode::Char('l') => self.order = Order::Lwps,
            KeyCode::Char('n') => self.order = Order::Name,
            KeyCode::Char('i') => self.order = Order::Id,
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('+') => return self.change_interval(true),
            KeyCode::Char('-') => return self.change_interval(false),
            _ => {}
        }
        Next::Go
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            // The filter need not be longer than a zone's name.
            KeyCode::Char(character) if self.filter.len() < 64 => self.filter.push(character),
            _ => {}
        }
    }

    fn choose(&mut self, by: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let place = self.place(&rows).saturating_add_signed(by).min(last);
        self.chosen = rows.get(place).map(|row| row.name.to_string());
    }

    fn change_interval(&mut self, longer: bool) -> Next {
        let now = self.interval.as_secs();
        let other = if longer {
            INTERVALS.into_iter().find(|one| *one > now)
        } else {
            INTERVALS.into_iter().rev().find(|one| *one < now)
        };
        self.interval = Duration::from_secs(other.unwrap_or(now));
        if longer { Next::Go } else { Next::Sooner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn app() -> App {
        let mut app = App::new(Zones::new(&[]).unwrap(), Duration::from_secs(2), false);
        app.show(example::interval());
        app
    }

    fn press(app: &mut App, keys: &str) -> Next {
        let mut next = Next::Go;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '<' => KeyCode::Backspace,
                other => KeyCode::Char(other),
            };
            next = app.press(KeyEvent::new(code, KeyModifiers::NONE));
        }
        next
    }

    fn names(app: &App) -> Vec<&str> {
        app.rows().iter().map(|row| &*row.name).collect()
    }

    #[test]
    fn orders() {
        let mut app = app();
        let long = "web-of-a-long-name";
        assert_eq!(names(&app), ["db", "global", "web", "guest", long]);
        press(&mut app, "n");
        assert_eq!(names(&app), ["db", "global", "guest", "web", long]);
        press(&mut app, "ir");
        assert_eq!(names(&app), ["guest", long, "db", "web", "global"]);
        press(&mut app, "rs");
        assert_eq!((app.order, names(&app)[0]), (Order::Cpu, "db"));
        press(&mut app, "m");
        assert_eq!(names(&app)[0], "db");
    }

    #[test]
    fn a_filter_is_typed_and_taken_back() {
        let mut app = app();
        press(&mut app, "/WEq<");
        assert!(app.typing);
        assert_eq!(names(&app), ["web", "web-of-a-long-name"]);
        press(&mut app, "\n");
        assert!(!app.typing);
        assert_eq!(names(&app).len(), 2);
        press(&mut app, "\u{1b}");
        assert_eq!(names(&app).len(), 5);
        // In the filter, q is a letter.
        assert_eq!(press(&mut app, "/q"), Next::Go);
        assert_eq!(press(&mut app, "\u{1b}q"), Next::Leave);
    }

    #[test]
    fn the_chosen_zone_stays_chosen() {
        let mut app = app();
        press(&mut app, "jj");
        assert_eq!(app.chosen.as_deref(), Some("web"));
        press(&mut app, "n");
        assert_eq!(app.place(&app.rows()), 3);
        press(&mut app, "kkkkkk");
        assert_eq!(app.chosen.as_deref(), Some("db"));
        app.press(KeyEvent::new(KeyCode::End, KeyModifiers::NONE));
        assert_eq!(app.chosen.as_deref(), Some("web-of-a-long-name"));
        app.press(KeyEvent::new(KeyCode::Home, KeyModifiers::NONE));
        assert_eq!(app.chosen.as_deref(), Some("db"));
    }

    #[test]
    fn keys_change_view_pause_and_interval() {
        let mut app = app();
        press(&mut app, "\n");
        assert_eq!(app.view, View::Zone);
        press(&mut app, "?");
        assert_eq!(app.view, View::Help);
        press(&mut app, "\u{1b}");
        assert_eq!(app.view, View::List);
        press(&mut app, "p");
        let before = app.shown.clone();
        app.show(Interval::default());
        assert_eq!((app.shown.clone(), app.history.len()), (before, 2));
        assert_eq!(press(&mut app, "-"), Next::Sooner);
        assert_eq!(app.interval, Duration::from_secs(1));
        press(&mut app, "+++");
        assert_eq!(app.interval, Duration::from_secs(10));
        let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(app.press(control), Next::Leave);
    }
}
