//! The one table of properties and resources.
//!
//! Everything that knows a property by name reads it from here: the zonecfg
//! parser, `info`, `export`, `help` and completion, the checks of `verify`, and
//! the XML files. A new property or resource is a new row; the order of the
//! rows is the order in which `info` and `export` print them.

mod kind;
mod rows;

pub use kind::{BadValue, Kind, MAX_PATH, MAX_VALUE, expand};
pub use rows::{GLOBAL, RESOURCES};

use crate::brands::Family;

/// Which brands have a property or resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brands {
    /// All of them.
    All,
    /// Those of these families.
    Only(&'static [Family]),
}

impl Brands {
    /// True when a brand of `family` has it.
    #[must_use]
    pub fn has(self, family: Family) -> bool {
        match self {
            Self::All => true,
            Self::Only(families) => families.contains(&family),
        }
    }
}

/// How a property is written in `/etc/zones/<zone>.xml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xml {
    /// An attribute of the element of its zone or resource.
    Attribute(&'static str),
    /// A child element for each list element. Simple values stand in the named
    /// attribute, complex ones in an attribute for each of their fields.
    Children {
        /// The element's name.
        element: &'static str,
        /// The attribute of simple values; unused for complex ones.
        attribute: &'static str,
    },
}

/// One property, of the zone or of a resource.
#[derive(Clone, Copy, Debug)]
pub struct PropertySpec {
    /// The name in the zonecfg language.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// The value when none is set; empty where there is none.
    pub default: &'static str,
    /// True when a resource or zone without it is incomplete.
    pub required: bool,
    /// True when `clear` is allowed.
    pub clearable: bool,
    /// True when a running zone takes a new value without a reboot.
    pub live: bool,
    /// True when it cannot change once the zone is installed.
    pub fixed: bool,
    /// True when `%{zonename}` and `%%` are expanded in it.
    pub tokens: bool,
    /// The brands that have it.
    pub brands: Brands,
    /// How the XML file names it.
    pub xml: Xml,
    /// One line of help.
    pub help: &'static str,
}

impl PropertySpec {
    /// True for properties that hold a list of values.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List | Kind::Complex(_))
    }
}

/// One resource type.
#[derive(Clone, Copy, Debug)]
pub struct ResourceSpec {
    /// The name in the zonecfg language.
    pub name: &'static str,
    /// True when a zone has at most one.
    pub singleton: bool,
    /// The properties whose values together tell two instances apart.
    pub keys: &'static [&'static str],
    /// Its properties, in printing order.
    pub properties: &'static [PropertySpec],
    /// True when it cannot be added, changed or removed once the zone is installed.
    pub fixed: bool,
    /// The brands that have it.
    pub brands: Brands,
    /// Its element in the XML file.
    pub xml: &'static str,
    /// One line of help.
    pub help: &'static str,
}

impl ResourceSpec {
    /// Finds a property of this resource by name.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&'static PropertySpec> {
        self.properties.iter().find(|spec| spec.name == name)
    }
}

impl PartialEq for ResourceSpec {
    fn eq(&self, other: &Self) -> bool {
        // Rows are unique by name (tested below).
        self.name == other.name
    }
}

/// Finds a global property by name.
#[must_use]
pub fn global(name: &str) -> Option<&'static PropertySpec> {
    GLOBAL.iter().find(|spec| spec.name == name)
}

/// Finds a resource type by name.
#[must_use]
pub fn resource(name: &str) -> Option<&'static ResourceSpec> {
    RESOURCES.iter().find(|spec| spec.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn check_properties(owner: &str, properties: &[PropertySpec]) {
        let names: HashSet<_> = properties.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), properties.len(), "{owner}: names are unique");
        for spec in properties {
            let name = spec.name;
            assert!(!spec.help.is_empty(), "{owner} {name}: has help");
            assert!(
                !(spec.required && spec.clearable),
                "{owner} {name}: required ones cannot be cleared"
            );
            assert_eq!(
                spec.is_list(),
                matches!(spec.xml, Xml::Children { .. }),
                "{owner} {name}: lists, and only lists, are children in XML"
            );
            if !spec.default.is_empty() {
                assert_eq!(
                    spec.kind.check(name, spec.default).as_deref(),
                    Ok(spec.default),
                    "{owner} {name}: the default is a legal value in canonical form"
                );
            }
        }
    }

    #[test]
    fn rows_are_consistent() {
        check_properties("global", GLOBAL);
        let names: HashSet<_> = RESOURCES.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), RESOURCES.len());
        for spec in RESOURCES {
            check_properties(spec.name, spec.properties);
            assert_eq!(spec.singleton, spec.keys.is_empty(), "{}", spec.name);
            for key in spec.keys {
                assert!(spec.property(key).is_some_and(|key| key.required), "{key}");
            }
        }
    }
}
