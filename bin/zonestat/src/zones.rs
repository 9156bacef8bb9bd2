//! Selects the zones that are shown.

use std::collections::HashSet;

use model::ZoneName;
use stat::{Interval, Row};
use store::Root;
use store::index::Index;

/// A selection of zones. Zones start and end while zonestat runs: a name need not exist, and
/// patterns are matched again in each interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    names: HashSet<String>,
    globs: Vec<String>,
    /// True without -z: all zones are selected.
    all: bool,
}

impl Zones {
    /// Parses the arguments of -z.
    ///
    /// # Errors
    /// Fails with the first argument that is neither a name nor a pattern.
    pub fn new(words: &[String]) -> Result<Self, String> {
        let mut zones = Self {
            all: words.is_empty(),
            ..Self::default()
        };
        for word in words {
            if word == cli::GLOBAL {
                zones.names.insert(word.clone());
            } else if word.contains(['*', '?']) {
                zones.globs.push(word.clone());
            } else {
                let names = cli::select::resolve([word.as_str()], &[]);
                let names = names.map_err(|error| error.to_string())?;
                zones.names.extend(names.iter().map(ToString::to_string));
            }
        }
        Ok(zones)
    }

    /// Returns the names, in their order, that no configured zone has.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn unknown(&self, root: &Root) -> Result<Vec<&str>, String> {
        let index = Index::load(root).map_err(|error| error.to_string())?;
        let is_known = |name: &str| {
            let found = name.parse().is_ok_and(|name| index.find(&name).is_some());
            found || name == cli::GLOBAL
        };
        let names = self.names.iter().map(String::as_str);
        let mut unknown: Vec<&str> = names.filter(|name| !is_known(name)).collect();
        unknown.sort_unstable();
        Ok(unknown)
    }

    /// Returns whether a zone of this name is selected.
    pub fn has(&self, name: &str) -> bool {
        if self.all || self.names.contains(name) {
            return true;
        }
        let Ok(known) = name.parse::<ZoneName>() else {
            return false;
        };
        let known = [known];
        self.globs
            .iter()
            .any(|glob| cli::select::resolve([glob.as_str()], &known).is_ok())
    }

    /// Returns the selected rows of an interval.
    pub fn choose<'a>(&self, interval: &'a Interval) -> Vec<&'a Row> {
        let rows = interval.rows.iter();
        rows.filter(|row| self.has(&row.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn chosen(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let interval = example::interval();
        let rows = Zones::new(&words).unwrap().choose(&interval);
        rows.iter().map(|row| row.name.to_string()).collect()
    }

    #[test]
    fn names_patterns_and_those_that_are_not_there() {
        assert_eq!(chosen(&[]).len(), example::interval().rows.len());
        assert_eq!(chosen(&["global", "db"]), ["global", "db"]);
        assert_eq!(chosen(&["w*"]), ["web", "web-of-a-long-name"]);
        assert_eq!(chosen(&["none", "no*", "web[1-3]"]), [""; 0]);
        assert!(Zones::new(&["a/b".to_owned()]).is_err());
        assert!(Zones::new(&["web[".to_owned()]).is_err());
    }
}
