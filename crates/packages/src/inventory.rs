//! Compares the packages of a root with those of another host. The inventory can be sent to that
//! host.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use crate::{Database, Status, version};

/// The identity of a package: its name, and its architecture if packages of several architectures
/// can be installed at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The package's name.
    pub name: String,
    /// The architecture; empty if only one architecture can be installed.
    pub architecture: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        match self.architecture.as_str() {
            "" => Ok(()),
            architecture => write!(f, ":{architecture}"),
        }
    }
}

/// The installed packages of a root, with their versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The name of the package manager; empty if the root has none.
    pub manager: String,
    /// The version of each package.
    pub packages: BTreeMap<Key, String>,
    /// Packages whose installation was started and not finished.
    pub broken: Vec<Key>,
}

/// A package that differs between the source and this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The identity of the package.
    pub package: Key,
    /// The version at the source of the zone; `None` if the package was not installed there.
    pub source: Option<String>,
    /// The version on this host; `None` if the package is not installed here.
    pub here: Option<String>,
}

impl Mismatch {
    /// Compares the version of the source with the version on this host, if both have the package.
    #[must_use]
    pub fn order(&self) -> Option<Ordering> {
        match (&self.source, &self.here) {
            (Some(source), Some(here)) => Some(version::compare(source, here)),
            _ => None,
        }
    }

    /// Returns true if both versions have the same upstream release and differ only in the patches
    /// of the distribution.
    #[must_use]
    pub fn is_patch(&self) -> bool {
        match (&self.source, &self.here) {
            (Some(source), Some(here)) => version::same_upstream(source, here),
            _ => false,
        }
    }
}

/// The packages that must have the same version on both hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All packages: the zone runs programs of this host, and keeps its own records of them.
    All,
    /// Only packages that both hosts have: the zone has its own programs.
    Common,
}

impl Inventory {
    /// Returns the inventory of a package database.
    #[must_use]
    pub fn of(database: &dyn Database) -> Self {
        let mut inventory = Self {
            manager: database.manager().to_owned(),
            ..Self::default()
        };
        for package in database.packages() {
            let architecture = match package.multi_arch_same {
                true => package.architecture.clone(),
                false => String::new(),
            };
            let key = Key {
                name: package.name.clone(),
                architecture,
            };
            match package.status {
                Status::NotInstalled | Status::ConfigFiles => continue,
                Status::Installed | Status::TriggersPending | Status::TriggersAwaited => {}
                Status::HalfInstalled | Status::Unpacked | Status::HalfConfigured => {
                    inventory.broken.push(key.clone());
                }
            }
            inventory.packages.insert(key, package.version.clone());
        }
        inventory
    }

    /// Returns the differences between `self`, the packages of the source, and `here`.
    #[must_use]
    pub fn compare(&self, here: &Self, scope: Scope) -> Vec<Mismatch> {
        let mut all = Vec::new();
        for (package, version) in &self.packages {
            let other = here.packages.get(package);
            let same = other.is_some_and(|other| version::compare(version, other).is_eq());
            if same || (other.is_none() && scope == Scope::Common) {
                continue;
            }
            all.push(Mismatch {
                package: package.clone(),
                source: Some(version.clone()),
                here: other.cloned(),
            });
        }
        if scope == Scope::All {
            let missing = here.packages.iter();
            all.extend(
                missing
                    .filter(|(package, _)| !self.packages.contains_key(package))
                    .map(|(package, version)| Mismatch {
                        package: package.clone(),
                        source: None,
                        here: Some(version.clone()),
                    }),
            );
        }
        all.sort_by(|a, b| a.package.cmp(&b.package));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn inventory(words: &[(&str, &str)]) -> Inventory {
        let packages = words.iter().map(|(name, version)| {
            let key = Key {
                name: (*name).to_owned(),
                architecture: String::new(),
            };
            (key, (*version).to_owned())
        });
        Inventory {
            manager: "dpkg".to_owned(),
            packages: packages.collect(),
            broken: Vec::new(),
        }
    }

    #[test]
    fn differences_name_both_versions() {
        let source = inventory(&[("a", "1-1"), ("b", "2-1"), ("c", "3-1"), ("own", "1")]);
        let here = inventory(&[("a", "1-1"), ("b", "2-2"), ("c", "2.9-1"), ("new", "1")]);
        let all = source.compare(&here, Scope::All);
        let told: Vec<_> = all
            .iter()
            .map(|one| (one.package.to_string(), one.order(), one.is_patch()))
            .collect();
        assert_eq!(
            told,
            [
                ("b".to_owned(), Some(Ordering::Less), true),
                ("c".to_owned(), Some(Ordering::Greater), false),
                ("new".to_owned(), None, false),
                ("own".to_owned(), None, false),
            ]
        );
        let common = source.compare(&here, Scope::Common);
        assert_eq!(common.len(), 2);
        assert!(here.compare(&here, Scope::All).is_empty());
    }
}
