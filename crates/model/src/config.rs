//! The configuration of one zone: a bag of properties that the table describes.
//!
//! A value is stored only where it differs from the property's default, so two
//! configurations that mean the same compare equal whatever route they came by.

mod resource;
mod typed;

pub use resource::{Resource, Value};
pub use typed::{FileSystem, IpType};

use std::collections::BTreeMap;

use crate::ZoneName;
use crate::table::{self, BadValue, Kind, PropertySpec, ResourceSpec};

/// Most resources of all types in one zone.
pub const MAX_RESOURCES: usize = 1024;

/// Most elements in the list of one property.
pub const MAX_LIST: usize = 64;

/// A change that the configuration refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The table has no such property here.
    #[error("{0}: No such property type")]
    NoProperty(String),
    /// The value is not one that the property takes.
    #[error(transparent)]
    BadValue(#[from] BadValue),
    /// A list where a simple value belongs, or the other way round.
    #[error("{0}: Invalid argument: it takes {1}.")]
    Shape(&'static str, &'static str),
    /// `clear` is not allowed for this property.
    #[error("{0}: Clearing this property is not allowed")]
    NotClearable(&'static str),
    /// A resource with the same keys is there.
    #[error(
        "{} {resource} resource with the {keys} already exists.",
        article(resource)
    )]
    Duplicate {
        /// The resource type.
        resource: &'static str,
        /// Its keys and their values.
        keys: String,
    },
    /// A second resource of a type that a zone has at most once.
    #[error("{article} {0} resource already exists.", article = article(.0))]
    Singleton(&'static str),
    /// A limit on the number of things is reached.
    #[error("{what}: too many: at most {limit}.")]
    TooMany {
        /// What there are too many of.
        what: String,
        /// How many there may be.
        limit: usize,
    },
    /// The list has no such element.
    #[error("{0}: No such entry")]
    NoEntry(&'static str),
}

/// The configuration of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    name: ZoneName,
    properties: BTreeMap<&'static str, String>,
    resources: Vec<Resource>,
}

impl Config {
    /// A configuration in which nothing but the name is set (`create -b`
    /// starts from the template SUNWblank, which sets a zonepath as well).
    #[must_use]
    pub const fn new(name: ZoneName) -> Self {
        Self {
            name,
            properties: BTreeMap::new(),
            resources: Vec::new(),
        }
    }

    /// The zone's name.
    #[must_use]
    pub const fn name(&self) -> &ZoneName {
        &self.name
    }

    /// Gives the zone another name.
    pub fn rename(&mut self, name: ZoneName) {
        self.name = name;
    }

    /// The value of a global property as it was set, or its default; empty
    /// where it has neither or the table has no such property.
    #[must_use]
    pub fn get(&self, property: &str) -> &str {
        if property == "zonename" {
            return self.name.as_str();
        }
        self.properties.get(property).map_or_else(
            || table::global(property).map_or("", |spec| spec.default),
            String::as_str,
        )
    }

    /// Sets a global property. An empty value clears a property that has no
    /// default.
    pub fn set(&mut self, property: &str, value: &str) -> Result<(), Error> {
        let spec = global(property)?;
        if value.is_empty() && spec.default.is_empty() && !spec.required {
            self.properties.remove(spec.name);
            return Ok(());
        }
        let value = checked(spec, value)?;
        if spec.kind == Kind::ZoneName {
            // The kind's check has just parsed it.
            self.name = value
                .parse()
                .map_err(|_| Error::NoProperty(property.to_owned()))?;
        } else if value == spec.default {
            self.properties.remove(spec.name);
        } else {
            self.properties.insert(spec.name, value);
        }
        Ok(())
    }

    /// Puts a global property back to its default.
    pub fn clear(&mut self, property: &str) -> Result<(), Error> {
        let spec = global(property)?;
        if !spec.clearable {
            return Err(Error::NotClearable(spec.name));
        }
        self.properties.remove(spec.name);
        Ok(())
    }

    /// All resources in the order in which they were added.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The resources of one type, with their places in [`Self::resources`].
    pub fn resources_of<'a>(
        &'a self,
        resource: &'a str,
    ) -> impl Iterator<Item = (usize, &'a Resource)> {
        self.resources
            .iter()
            .enumerate()
            .filter(move |(_, one)| one.spec().name == resource)
    }

    /// Adds a resource. That it is complete is for [`crate::verify`] to say.
    pub fn add(&mut self, resource: Resource) -> Result<(), Error> {
        self.check_unique(&resource, None)?;
        if self.resources.len() >= MAX_RESOURCES {
            return Err(Error::TooMany {
                what: "resources".to_owned(),
                limit: MAX_RESOURCES,
            });
        }
        self.resources.push(resource);
        Ok(())
    }

    /// Puts `resource` in the place of the one at `place`; past the end it is added.
    pub fn replace(&mut self, place: usize, resource: Resource) -> Result<(), Error> {
        self.check_unique(&resource, Some(place))?;
        match self.resources.get_mut(place) {
            Some(slot) => *slot = resource,
            None => return self.add(resource),
        }
        Ok(())
    }

    /// Keeps only the resources for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&Resource) -> bool) {
        self.resources.retain(keep);
    }

    /// Removes the resource at `place`, if there is one.
    pub fn remove(&mut self, place: usize) {
        if place < self.resources.len() {
            self.resources.remove(place);
        }
    }

    /// Refuses a second resource of a singleton type.
    pub fn check_singleton(&self, spec: &ResourceSpec) -> Result<(), Error> {
        if spec.singleton && self.resources_of(spec.name).next().is_some() {
            return Err(Error::Singleton(
                table::resource(spec.name).map_or("", |spec| spec.name),
            ));
        }
        Ok(())
    }

    /// Refuses `resource` when another one than that at `place` has its keys.
    fn check_unique(&self, resource: &Resource, place: Option<usize>) -> Result<(), Error> {
        let spec = resource.spec();
        let mut others = self
            .resources_of(spec.name)
            .filter(|(other, _)| Some(*other) != place);
        if spec.singleton {
            return others
                .next()
                .map_or(Ok(()), |_| Err(Error::Singleton(spec.name)));
        }
        let same = |other: &Resource| spec.keys.iter().all(|k| other.get(k) == resource.get(k));
        if !others.any(|(_, other)| same(other)) {
            return Ok(());
        }
        let keys: Vec<String> = spec
            .keys
            .iter()
            .map(|key| format!("{key} '{}'", resource.get(key)))
            .collect();
        Err(Error::Duplicate {
            resource: spec.name,
            keys: keys.join(", and "),
        })
    }
}

fn article(resource: &str) -> &'static str {
    if resource.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "An"
    } else {
        "A"
    }
}

fn global(property: &str) -> Result<&'static PropertySpec, Error> {
    table::global(property).ok_or_else(|| Error::NoProperty(property.to_owned()))
}

/// The canonical form of a value, whose tokens must be known ones.
fn checked(spec: &PropertySpec, value: &str) -> Result<String, BadValue> {
    let value = spec.kind.check(spec.name, value)?;
    if spec.tokens {
        // The longest name: what fits now still fits after a rename.
        let longest = "x".repeat(crate::name::MAX_LEN);
        let expanded = table::expand(spec.name, &value, &longest)?;
        if let Err(BadValue::Invalid { why, .. }) = spec.kind.check(spec.name, &expanded) {
            return Err(BadValue::new(spec.name, &value, why));
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web1() -> Config {
        Config::new("web1".parse().unwrap())
    }

    fn fs(dir: &str) -> Resource {
        let mut fs = Resource::new(table::resource("fs").unwrap());
        fs.set("dir", dir).unwrap();
        fs
    }

    #[test]
    fn a_value_equal_to_the_default_is_not_stored() {
        let mut config = web1();
        config.set("autoboot", "true").unwrap();
        assert_eq!(config.get("autoboot"), "true");
        config.set("autoboot", "false").unwrap();
        config.set("brand", "native").unwrap();
        config.set("bootargs", "-s").unwrap();
        config.set("bootargs", "").unwrap();
        assert_eq!(config, web1());
    }

    #[test]
    fn refuses_unknown_and_illegal() {
        let mut config = web1();
        let text = |result: Result<(), Error>| result.map_err(|error| error.to_string());
        assert_eq!(
            text(config.set("colour", "red")),
            Err("colour: No such property type".to_owned())
        );
        assert_eq!(
            text(config.set("autoboot", "maybe")),
            Err("autoboot value must be 'true' or 'false'.".to_owned())
        );
        assert_eq!(
            text(config.clear("brand")),
            Err("brand: Clearing this property is not allowed".to_owned())
        );
        assert_eq!(
            text(config.set("zonepath", "")),
            Err("zonepath: Invalid argument: '' is not an absolute path.".to_owned())
        );
        assert!(config.set("zonepath", "/zones/%{id}").is_err());
        assert_eq!(config, web1());
    }

    #[test]
    fn a_path_that_a_rename_would_make_too_long_is_refused() {
        let mut config = web1();
        let path = format!("/{}/%{{zonename}}", "x".repeat(table::MAX_PATH - 40));
        assert!(config.set("zonepath", &path).is_err());
    }

    #[test]
    fn keys_are_unique() {
        let mut config = web1();
        config.add(fs("/a")).unwrap();
        config.add(fs("/b")).unwrap();
        let error = config.add(fs("/a")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "A fs resource with the dir '/a' already exists."
        );
        config.replace(0, fs("/a")).unwrap();
        assert!(config.replace(0, fs("/b")).is_err());
        config.remove(1);
        config.replace(0, fs("/b")).unwrap();
        assert_eq!(config.resources(), [fs("/b")]);
    }

    #[test]
    fn counts_are_limited() {
        let mut config = web1();
        for i in 0..MAX_RESOURCES {
            config.add(fs(&format!("/{i}"))).unwrap();
        }
        assert!(matches!(config.add(fs("/x")), Err(Error::TooMany { .. })));
    }
}
