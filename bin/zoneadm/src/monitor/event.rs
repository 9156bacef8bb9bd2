//! Events of zones, and the lines that print them.

use std::fmt;

use model::State;
use serde::Serialize;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// The time in UTC, in the form of ISO 8601.
    pub time: String,
    /// The zone; `None` for the start of the monitor.
    pub zone: Option<String>,
    #[serde(flatten)]
    pub kind: Kind,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Kind {
    /// The monitor sees every event from here on.
    Start {
        /// True if the monitor can read the messages of zones, which only root can.
        messages: bool,
    },
    /// The state of a zone changed.
    State {
        /// The new state; `None` if the zone was deleted.
        state: Option<State>,
        /// The former state; `None` for a new zone.
        was: Option<State>,
        /// The auxiliary state, for example `panicked`.
        auxiliary: String,
    },
    /// The stored configuration changed.
    Config,
    /// A snapshot was made, removed or rolled back to.
    Snapshot {
        /// The name of the snapshot.
        name: String,
        /// The deed: `taken`, `destroyed` or `rolled back to`.
        change: &'static str,
    },
    /// The zone reached a limit.
    Limit {
        /// The limit and the number of times.
        text: String,
    },
    /// Any other line of the zone's messages.
    Message {
        /// The line without its time and zone.
        text: String,
    },
}

/// The ends of messages about snapshots (`zone::snapshot`).
const SNAPSHOT_CHANGES: [&str; 3] = ["taken", "destroyed", "rolled back to"];

impl Event {
    /// Returns the event with which the monitor begins.
    pub fn start(messages: bool) -> Self {
        Self {
            time: now(),
            zone: None,
            kind: Kind::Start { messages },
        }
    }

    /// Returns an event of a zone at this moment.
    pub fn of(zone: &str, kind: Kind) -> Self {
        Self {
            time: now(),
            zone: Some(zone.to_owned()),
            kind,
        }
    }

    /// Returns the event that a line of a zone's messages reports.
    pub fn of_message(zone: &str, line: &str) -> Self {
        let start = format!(" zone '{zone}': ");
        let (time, text) = line.split_once(&start).unwrap_or(("", line));
        let mut event = Self::of(zone, kind(text));
        if !time.is_empty() {
            time.clone_into(&mut event.time);
        }
        event
    }

    /// Returns the event as a JSON object.
    pub fn json(&self) -> String {
        // These data always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns the kind of event that a text of the messages reports.
fn kind(text: &str) -> Kind {
    if let Some(rest) = text.strip_prefix("snapshot ") {
        let change = |change: &&str| rest.ends_with(&format!(" {change}"));
        if let Some(change) = SNAPSHOT_CHANGES.into_iter().find(change) {
            let name = rest[..rest.len() - change.len()].trim_end().to_owned();
            return Kind::Snapshot { name, change };
        }
    }
    let text = text.to_owned();
    // The form of `limits::Hit`.
    let is_limit = text.starts_with("zone.")
        && (text.contains(" was reached") || text.contains(": the host itself is short"));
    match is_limit {
        true => Kind::Limit { text },
        false => Kind::Message { text },
    }
}

fn now() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    cli::units::utc(now.unwrap_or_default().as_secs())
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.time)?;
        if let Some(zone) = &self.zone {
            write!(f, "{zone}: ")?;
        }
        match &self.kind {
            Kind::Start { messages: true } => f.write_str("waiting for events"),
            Kind::Start { messages: false } => {
                f.write_str("waiting for changes of states; only root can read messages")
            }
            Kind::State { state: None, .. } => f.write_str("deleted"),
            Kind::State {
                state: Some(state),
                was,
                auxiliary,
            } => {
                write!(f, "{state}")?;
                if !auxiliary.is_empty() {
                    write!(f, " ({auxiliary})")?;
                }
                match was {
                    Some(was) => write!(f, ", was {was}"),
                    None => f.write_str(", new"),
                }
            }
            Kind::Config => f.write_str("configuration changed"),
            Kind::Snapshot { name, change } => write!(f, "snapshot {name} {change}"),
            Kind::Limit { text } | Kind::Message { text } => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_events() {
        let of = |text: &str| {
            let line = format!("2026-11-25T09:00:00Z zone 'web': {text}");
            let event = Event::of_message("web", &line);
            assert_eq!(event.time, "2026-11-25T09:00:00Z");
            event.kind
        };
        let snapshot = |name: &str, change| Kind::Snapshot {
            name: name.to_owned(),
            change,
        };
        assert_eq!(of("snapshot monday taken"), snapshot("monday", "taken"));
        assert_eq!(of("snapshot a destroyed"), snapshot("a", "destroyed"));
        assert_eq!(
            of("snapshot a rolled back to"),
            snapshot("a", "rolled back to")
        );
        let text = "snapshots are nice".to_owned();
        assert_eq!(of(&text), Kind::Message { text });
        let text = "booted".to_owned();
        assert_eq!(of(&text), Kind::Message { text });
    }

    #[test]
    fn a_hit_of_a_limit_is_an_event_of_its_own() {
        for limit in [Some(5), None] {
            let hit = limits::Hit {
                control: model::controls::Control::MaxLwps,
                limit,
                more: 2,
                total: 7,
            };
            let text = hit.to_string();
            assert_eq!(kind(&text), Kind::Limit { text: text.clone() }, "{text}");
        }
    }

    #[test]
    fn lines_and_json_name_the_states() {
        let event = Event {
            time: "2026-11-25T09:00:00Z".to_owned(),
            zone: Some("web".to_owned()),
            kind: Kind::State {
                state: Some(State::Running),
                was: Some(State::Ready),
                auxiliary: "panicked".to_owned(),
            },
        };
        assert_eq!(
            event.to_string(),
            "2026-11-25T09:00:00Z web: running (panicked), was ready"
        );
        assert_eq!(
            event.json(),
            r#"{"time":"2026-11-25T09:00:00Z","zone":"web","event":"state","state":"running","was":"ready","auxiliary":"panicked"}"#
        );
    }
}
