//! The differences between two states of the templates and multilevel ports.

use model::ZoneName;

use super::Network;

/// A template or the ports of a zone, with the values that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The changed part, as `template=NAME` or `zone=NAME`.
    pub part: String,
    /// The values that are no longer there, as `PROPERTY=VALUE`.
    pub old: Vec<String>,
    /// The values that were not there before, as `PROPERTY=VALUE`.
    pub new: Vec<String>,
}

impl Change {
    /// Returns a change of the multilevel ports of a zone.
    pub(super) fn of_zone(zone: &ZoneName, old: Vec<String>, new: Vec<String>) -> Self {
        Self {
            part: format!("zone={zone}"),
            old,
            new,
        }
    }
}

impl Network {
    /// Returns the parts that differ from an earlier state, in the order of their names.
    #[must_use]
    pub fn changes_since(&self, before: &Self) -> Vec<Change> {
        let (old, new) = (before.lines(), self.lines());
        let mut parts: Vec<&String> = old.iter().chain(&new).map(|(part, _)| part).collect();
        parts.sort();
        parts.dedup();
        let values = |lines: &[(String, Vec<String>)], part: &String| {
            let found = lines.iter().find(|(name, _)| name == part);
            found.map_or_else(Vec::new, |(_, values)| values.clone())
        };
        let change = |part: &String| {
            let (old, new) = (values(&old, part), values(&new, part));
            let without = |list: &[String], others: &[String]| {
                let rest = list.iter().filter(|value| !others.contains(value));
                rest.cloned().collect::<Vec<_>>()
            };
            Change {
                part: part.clone(),
                old: without(&old, &new),
                new: without(&new, &old),
            }
        };
        let changes = parts.into_iter().map(change);
        changes
            .filter(|change| !change.old.is_empty() || !change.new.is_empty())
            .collect()
    }

    /// Returns each part with its values, as the lines of the file have them.
    fn lines(&self) -> Vec<(String, Vec<String>)> {
        let templates = self.templates.iter().map(ToString::to_string);
        let zones = self.zones.iter().map(ToString::to_string);
        let read = |line: String| {
            let mut words = line.split(' ').map(str::to_owned);
            let (kind, name) = (words.next()?, words.next()?);
            Some((format!("{kind}={name}"), words.collect()))
        };
        templates.chain(zones).filter_map(read).collect()
    }
}
