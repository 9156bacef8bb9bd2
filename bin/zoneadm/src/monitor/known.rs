//! The last known states of zones, and the events that lead to new ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use host::Host;
use model::{State, ZoneName};
use store::index::Index;

use super::event::{Event, Kind};
use super::watch::{News, Place};
use crate::logs::tail::Tail;

/// The file name of the index.
const INDEX: &str = "index";

/// The ends of the names of configurations, states and messages.
const CONFIG: &str = ".xml";
const STATE: &str = ".state";
const MESSAGES: &str = ".messages";

/// A zone's state and its auxiliary state.
type Seen = (State, String);

/// The zones as the last event left them.
#[derive(Debug)]
pub struct Known {
    host: Host,
    zones: BTreeMap<ZoneName, Seen>,
    /// The lengths that the messages had at the start.
    lengths: HashMap<String, u64>,
    tails: HashMap<String, Tail>,
}

impl Known {
    /// Looks at all zones.
    pub fn new(host: Host) -> Self {
        let lengths = lengths(&host.root.log());
        let mut known = Self {
            host,
            zones: BTreeMap::new(),
            lengths,
            tails: HashMap::new(),
        };
        known.zones = known.look_at_all();
        known
    }

    /// Returns the events that changes of files tell.
    pub fn events(&mut self, news: &News) -> Vec<Event> {
        let mut events = Vec::new();
        let mut zones = BTreeSet::new();
        let mut all = news.missed;
        let mut logs = BTreeSet::new();
        for (place, file) in &news.files {
            match place {
                Place::Etc if file == INDEX => all = true,
                Place::Etc => {
                    if let Some(zone) = zone_of(file, CONFIG) {
                        if self.zones.contains_key(&zone) && self.host.root.xml(&zone).exists() {
                            events.push(Event::of(zone.as_str(), Kind::Config));
                        }
                    }
                }
                Place::Run => zones.extend(zone_of(file, STATE)),
                Place::Log => logs.extend(zone_of(file, MESSAGES)),
            }
        }
        if news.missed {
            let names = lengths(&self.host.root.log()).into_keys();
            logs.extend(names.filter_map(|file| zone_of(&file, MESSAGES)));
        }
        match all {
            true => self.compare_all(&mut events),
            false => self.compare(&zones, &mut events),
        }
        for zone in logs {
            self.read_messages(&zone, &mut events);
        }
        events
    }

    fn look_at_all(&self) -> BTreeMap<ZoneName, Seen> {
        // An index that cannot be read now is read at its next change.
        let index = Index::load(&self.host.root).unwrap_or_default();
        let names = index.entries().iter().map(|entry| entry.name.clone());
        names
            .filter_map(|zone| Some((zone.clone(), self.look(&index, &zone)?)))
            .collect()
    }

    fn look(&self, index: &Index, zone: &ZoneName) -> Option<Seen> {
        let entry = index.find(zone)?;
        // A state file that is damaged leaves the last known state.
        let (state, runtime) = match subject::state(&self.host, entry) {
            Ok(found) => found,
            Err(_) => return self.zones.get(zone).cloned(),
        };
        let auxiliary = runtime.map(|runtime| runtime.auxiliary);
        Some((state, auxiliary.unwrap_or_default()))
    }

    fn compare_all(&mut self, events: &mut Vec<Event>) {
        let now = self.look_at_all();
        let before = std::mem::take(&mut self.zones);
        let names: BTreeSet<&ZoneName> = before.keys().chain(now.keys()).collect();
        for zone in names {
            events.extend(change(zone, before.get(zone), now.get(zone)));
        }
        self.zones = now;
    }

    fn compare(&mut self, zones: &BTreeSet<ZoneName>, events: &mut Vec<Event>) {
        if zones.is_empty() {
            return;
        }
        let index = Index::load(&self.host.root).unwrap_or_default();
        for zone in zones {
            let now = self.look(&index, zone);
            events.extend(change(zone, self.zones.get(zone), now.as_ref()));
            match now {
                Some(now) => self.zones.insert(zone.clone(), now),
                None => self.zones.remove(zone),
            };
        }
    }

    fn read_messages(&mut self, zone: &ZoneName, events: &mut Vec<Event>) {
        let path = self.host.root.messages(zone);
        let file = format!("{zone}{MESSAGES}");
        if !self.tails.contains_key(&file) {
            let length = self.lengths.get(&file).copied().unwrap_or_default();
            // A file that cannot be opened is tried again at its next change.
            let Ok(tail) = Tail::open_at(&path, length) else {
                return;
            };
            self.tails.insert(file.clone(), tail);
        }
        let Some(tail) = self.tails.get_mut(&file) else {
            return;
        };
        let lines = tail.more().unwrap_or_default();
        let lines = lines.iter().filter(|line| !line.is_empty());
        events.extend(lines.map(|line| Event::of_message(zone.as_str(), line)));
    }
}

/// Returns the event of a zone whose state has changed.
fn change(zone: &ZoneName, before: Option<&Seen>, now: Option<&Seen>) -> Option<Event> {
    if before == now {
        return None;
    }
    let kind = Kind::State {
        state: now.map(|(state, _)| *state),
        was: before.map(|(state, _)| *state),
        auxiliary: now.map(|(_, text)| text.clone()).unwrap_or_default(),
    };
    Some(Event::of(zone.as_str(), kind))
}

/// Returns the zone to which a file belongs.
fn zone_of(file: &str, suffix: &str) -> Option<ZoneName> {
    file.strip_suffix(suffix)?.parse().ok()
}

/// Returns the lengths of the files with messages, in bytes.
fn lengths(folder: &Path) -> HashMap<String, u64> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let length = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().ok()?;
        zone_of(&name, MESSAGES)?;
        Some((name, file.metadata().ok()?.len()))
    };
    files.filter_map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::Root;
    use store::index::{self, Entry};

    fn host(folder: &Path) -> Host {
        Host::new(Root::new(folder), "/none".into(), None)
    }

    fn store(host: &Host, name: &str, state: Option<State>) {
        index::update(&host.root, |index| {
            let zone: ZoneName = name.parse().unwrap();
            index.remove(&zone);
            if let Some(state) = state {
                let mut entry = Entry::configured(zone, format!("/zones/{name}").into());
                entry.state = state;
                index.put(entry);
            }
            Ok::<(), store::Error>(())
        })
        .unwrap();
    }

    fn states(events: &[Event]) -> Vec<(String, Option<State>, Option<State>)> {
        let one = |event: &Event| match &event.kind {
            Kind::State { state, was, .. } => {
                (event.zone.clone().unwrap_or_default(), *was, *state)
            }
            other => panic!("{other:?}"),
        };
        events.iter().map(one).collect()
    }

    #[test]
    fn new_changed_and_deleted_zones_are_events() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        std::fs::create_dir_all(host.root.etc()).unwrap();
        store(&host, "web", Some(State::Configured));
        let mut known = Known::new(host.clone());
        let index = News {
            files: vec![(Place::Etc, INDEX.to_owned())],
            missed: false,
        };
        assert!(known.events(&index).is_empty());
        store(&host, "web", Some(State::Incomplete));
        store(&host, "db", Some(State::Configured));
        let of = |name: &str, was, state| (name.to_owned(), was, state);
        assert_eq!(
            states(&known.events(&index)),
            [
                of("db", None, Some(State::Configured)),
                of("web", Some(State::Configured), Some(State::Incomplete)),
            ]
        );
        store(&host, "db", None);
        assert_eq!(
            states(&known.events(&index)),
            [of("db", Some(State::Configured), None)]
        );
    }

    #[test]
    fn only_new_messages_are_events() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        let zone: ZoneName = "web".parse().unwrap();
        control::log::message(&host.root, &zone, "old");
        let mut known = Known::new(host.clone());
        control::log::message(&host.root, &zone, "snapshot monday taken");
        let news = News {
            files: vec![(Place::Log, "web.messages".to_owned())],
            missed: false,
        };
        let events = known.events(&news);
        assert_eq!(events.len(), 1);
        assert!(matches!(&events[0].kind, Kind::Snapshot { name, .. } if name == "monday"));
        assert!(known.events(&news).is_empty());
    }
}
