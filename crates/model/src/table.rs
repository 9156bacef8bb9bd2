//! The table of all properties and resources.
//!
//! All code that needs the name of a property reads the name from this table: the zonecfg parser,
//! `info`, `export`, `help`, completion, the checks of `verify`, and the XML files. A new property
//! or resource is a new row. The order of the rows is the order in which `info` and `export` print
//! them.

mod address;
mod alias;
mod kind;
mod rows;
mod size;
mod spec;
mod token;

pub use address::{Address, BadAddress};
pub use alias::{Alias, Unit};
pub use kind::{BadValue, Kind, MAX_PATH, MAX_VALUE, cpu_range, is_known_rctl, port_range};
pub use rows::{GLOBAL, IGNORED_ELEMENTS, RESOURCES};
pub use size::{exact_size, short_size};
pub use spec::{Brands, Effect, PropertySpec, ResourceSpec, Show, Xml};
pub use token::{Token, Tokens, expand};

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

/// Returns the property, of the zone or of a resource, that is an alias of a resource control.
#[must_use]
pub fn aliased(rctl: &str) -> Option<&'static PropertySpec> {
    let of_resources = RESOURCES.iter().flat_map(|spec| spec.properties);
    GLOBAL
        .iter()
        .chain(of_resources)
        .find(|spec| spec.alias().is_some_and(|alias| alias.rctl == rctl))
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
                assert_eq!(
                    spec.alias(),
                    None,
                    "{owner} {name}: aliases have no default"
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
                assert!(spec.property(key).is_some(), "{} {key}", spec.name);
            }
            let only_aliases = spec.properties.iter().all(|one| one.alias().is_some());
            assert_eq!(spec.xml.is_empty(), only_aliases, "{}", spec.name);
            assert!(spec.singleton || !spec.has_aliases(), "{}", spec.name);
        }
    }

    #[test]
    fn elements_and_resource_controls_have_one_meaning() {
        let siblings = RESOURCES.iter().flat_map(|spec| spec.properties);
        let siblings = siblings.filter_map(|spec| match spec.xml {
            Xml::Sibling { element, .. } => Some(element),
            _ => None,
        });
        let own = RESOURCES.iter().map(|spec| spec.xml);
        let elements: Vec<_> = own.filter(|xml| !xml.is_empty()).chain(siblings).collect();
        let unique: HashSet<_> = elements.iter().chain(IGNORED_ELEMENTS).collect();
        assert_eq!(unique.len(), elements.len() + IGNORED_ELEMENTS.len());

        let all = RESOURCES.iter().flat_map(|spec| spec.properties);
        let rctls: Vec<_> = GLOBAL
            .iter()
            .chain(all)
            .filter_map(|spec| Some((spec.alias()?.rctl, spec.name)))
            .collect();
        for (rctl, name) in &rctls {
            assert_eq!(aliased(rctl).map(|spec| spec.name), Some(*name), "{rctl}");
        }
    }
}
