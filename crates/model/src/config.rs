//! The configuration of one zone: a set of properties and resources that the table describes.
//!
//! A value is stored only if it differs from the property's default. Therefore two configurations
//! with the same meaning compare equal, whatever changes led to them.

mod alias;
pub mod machine;
mod network;
mod relocate;
mod resource;
mod resources;
mod schedule;
mod typed;

pub use resource::{Resource, Value};
pub use schedule::{Period, Schedule};
pub(crate) use typed::published_by;
pub use typed::{
    Admin, Autoshutdown, BootPriority, DedicatedCpu, FileSystem, IpType, LABEL, ON_FAILURE, RESTART,
};

use std::collections::BTreeMap;

use crate::table::{BadValue, Kind, PropertySpec, Tokens};
use crate::{ZoneName, table};

/// Maximum number of resources of all types in one zone.
pub const MAX_RESOURCES: usize = 1024;

/// Maximum number of elements in the list of one property.
pub const MAX_LIST: usize = 64;

/// A change that the configuration refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The table has no such property for the zone or the resource.
    #[error("{0}: No such property type")]
    NoProperty(String),
    /// The property does not accept the value.
    #[error(transparent)]
    BadValue(#[from] BadValue),
    /// The value is a list but the property takes a simple value, or the value is simple but the
    /// property takes a list.
    #[error("{0}: Invalid argument: it takes {1}.")]
    Shape(&'static str, &'static str),
    /// `clear` is not allowed for the property.
    #[error("{0}: Clearing this property is not allowed")]
    NotClearable(&'static str),
    /// The configuration already has a resource with the same keys.
    #[error(
        "{} {resource} resource with the {keys} already exists.",
        article(resource)
    )]
    Duplicate {
        /// The type of the resource.
        resource: &'static str,
        /// The keys of the resource and their values.
        keys: String,
    },
    /// The zone already has a resource of this type, and may have only one.
    #[error("{article} {0} resource already exists.", article = article(.0))]
    Singleton(&'static str),
    /// The number of resources or list elements is at its maximum.
    #[error("{what}: too many: at most {limit}.")]
    TooMany {
        /// The kind of entry that exceeds the maximum.
        what: String,
        /// The maximum number of entries.
        limit: usize,
    },
    /// The list does not have the element to remove.
    #[error("{0}: No such entry")]
    NoEntry(&'static str),
    /// The property is an alias of a resource control, and the alias cannot show the values of this
    /// control.
    #[error("{0}: An incompatible rctl already exists for this property")]
    IncompatibleRctl(&'static str),
}

/// The configuration of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    name: ZoneName,
    properties: BTreeMap<&'static str, String>,
    /// The stored resources. Limits are stored as rctl resources, not as aliases; see
    /// [`Config::instances`].
    resources: Vec<Resource>,
    /// The value of the token `%{global-rootzpool}`.
    root_pool: String,
}

/// Solaris' name for the ZFS pool of the host's root, used if the root of this host is not on ZFS.
pub const ROOT_POOL: &str = "rpool";

impl Config {
    /// Returns a configuration in which only the name is set. (`create -b` starts from the template
    /// SUNWblank instead, which also sets a zonepath.)
    #[must_use]
    pub fn new(name: ZoneName) -> Self {
        Self {
            name,
            properties: BTreeMap::new(),
            resources: Vec::new(),
            root_pool: ROOT_POOL.to_owned(),
        }
    }

    /// Returns the configuration for a host whose root is on the ZFS pool `pool`.
    #[must_use]
    pub fn on_root_pool(mut self, pool: impl Into<String>) -> Self {
        self.root_pool = pool.into();
        self
    }

    /// The zone's name.
    #[must_use]
    pub const fn name(&self) -> &ZoneName {
        &self.name
    }

    /// Renames the zone.
    pub fn rename(&mut self, name: ZoneName) {
        self.name = name;
    }

    /// Returns the value of a global property, or its default. Returns an empty string if the
    /// property has neither, or if the table has no such property.
    #[must_use]
    pub fn get(&self, property: &str) -> &str {
        if property == "zonename" {
            return self.name.as_str();
        }
        if let Some(value) = self.properties.get(property) {
            return value;
        }
        table::global(property).map_or("", |spec| match spec.alias() {
            // A global alias gives its limit in the unit of the resource control.
            Some(alias) => self.limit_of(alias).unwrap_or_default(),
            None => spec.default,
        })
    }

    /// Sets a global property. An empty value clears a property that has no
    /// default.
    pub fn set(&mut self, property: &str, value: &str) -> Result<(), Error> {
        let spec = global(property)?;
        if value.is_empty() && spec.default.is_empty() && !spec.required {
            return self.clear(property);
        }
        let value = checked(spec, value)?;
        if let Some(alias) = spec.alias() {
            self.set_alias(spec.name, alias, &value)?;
            self.set_companion(spec.name, &value)?;
        } else if spec.kind == Kind::ZoneName {
            // The check of the property's kind has just accepted the name.
            self.name = value
                .parse()
                .map_err(|_| Error::NoProperty(property.to_owned()))?;
        } else if value == spec.default {
            self.properties.remove(spec.name);
        } else {
            self.properties.insert(spec.name, value);
        }
        if spec.name == "brand" {
            self.number_all();
        }
        Ok(())
    }

    /// Resets a global property to its default.
    pub fn clear(&mut self, property: &str) -> Result<(), Error> {
        let spec = global(property)?;
        if !spec.clearable {
            return Err(Error::NotClearable(spec.name));
        }
        match spec.alias() {
            Some(alias) => self.clear_alias(alias),
            None => {
                self.properties.remove(spec.name);
            }
        }
        Ok(())
    }

    /// Returns the text of a property with its tokens expanded, or `None` if the text has no
    /// tokens.
    #[must_use]
    pub fn expanded(&self, spec: &PropertySpec, text: &str) -> Option<String> {
        self.expand(spec, text, "")
    }

    /// Returns the text of a resource's property with its tokens expanded, or `None` if the text
    /// has no tokens.
    #[must_use]
    pub fn expanded_in(&self, resource: &Resource, property: &str, text: &str) -> Option<String> {
        let spec = resource.spec().property(property)?;
        self.expand(spec, text, resource.get("id"))
    }

    fn expand(&self, spec: &PropertySpec, text: &str, id: &str) -> Option<String> {
        if spec.tokens.is_empty() || !text.contains('%') {
            return None;
        }
        let tokens = Tokens {
            zonename: self.name.as_str(),
            id: if id.is_empty() { "0" } else { id },
            root_pool: &self.root_pool,
        };
        // The tokens were checked when the property was set. A text that has an unknown token
        // nevertheless stays unexpanded.
        table::expand(spec.name, text, spec.tokens, &tokens).ok()
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

/// Returns the canonical form of a value. Fails if the value has an unknown token.
fn checked(spec: &PropertySpec, value: &str) -> Result<String, BadValue> {
    let value = spec.kind.check(spec.name, value)?;
    if !spec.tokens.is_empty() && value.contains('%') {
        // The check uses the longest possible zone name, so that an accepted path still fits after
        // a rename.
        let longest = "x".repeat(crate::name::MAX_LEN);
        let tokens = Tokens {
            zonename: &longest,
            id: "4095",
            root_pool: ROOT_POOL,
        };
        let expanded = table::expand(spec.name, &value, spec.tokens, &tokens)?;
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
    fn a_brand_that_numbers_disks_numbers_those_that_are_there() {
        let disk = |storage: &str, id: Option<&str>| {
            let mut disk = Resource::new(table::resource("device").unwrap());
            disk.set("storage", storage).unwrap();
            if let Some(id) = id {
                disk.set("id", id).unwrap();
            }
            disk
        };
        let mut config = web1();
        config.add(disk("/a", None)).unwrap();
        config.add(disk("/b", Some("0"))).unwrap();
        config.add(disk("/c", None)).unwrap();
        config.set("brand", "kz").unwrap();
        let ids: Vec<&str> = config
            .resources_of("device")
            .map(|one| one.get("id"))
            .collect();
        assert_eq!(ids, ["1", "0", "2"]);
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
        config.replace(&fs("/a"), fs("/a")).unwrap();
        assert!(config.replace(&fs("/a"), fs("/b")).is_err());
        assert_eq!(config.resources(), [fs("/a"), fs("/b")]);
        config.remove(&fs("/b"));
        config.replace(&fs("/a"), fs("/b")).unwrap();
        assert_eq!(config.resources(), [fs("/b")]);
    }

    #[test]
    fn links_are_numbered_and_their_names_unique() {
        let anet = |properties: &[(&str, &str)]| {
            let mut anet = Resource::new(table::resource("anet").unwrap());
            for (property, value) in properties {
                anet.set(property, value).unwrap();
            }
            anet
        };
        let mut config = web1();
        config.add(anet(&[])).unwrap();
        config.add(anet(&[])).unwrap();
        let names = |config: &Config| -> Vec<String> {
            let anets = config.resources_of("anet");
            let name = |one: &Resource| config.expanded_in(one, "linkname", one.get("linkname"));
            anets.filter_map(name).collect()
        };
        assert_eq!(names(&config), ["net0", "net1"]);
        assert!(config.add(anet(&[("linkname", "net1")])).is_err());
        let first = config.resources()[0].clone();
        config.remove(&first);
        assert_eq!(names(&config), ["net1"]);
        config.add(anet(&[])).unwrap();
        assert_eq!(names(&config), ["net1", "net0"]);
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
