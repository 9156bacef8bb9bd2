//! The link of a zone whose configuration names no network: an `anet` of the pool.

use super::{Config, Error, Resource};
use crate::table;

/// The types of the resources that are links.
const LINKS: [&str; 2] = ["net", "anet"];

impl Config {
    /// Adds the default link, an `anet` without a property that is set, and sets `ip-type` to
    /// `exclusive`. Does nothing if the configuration names a network.
    ///
    /// # Errors
    /// Fails if the configuration has as many resources as it can have.
    pub fn add_default_link(&mut self) -> Result<(), Error> {
        let Some(anet) = table::resource("anet") else {
            return Ok(());
        };
        if self.links().next().is_some() || self.get("ip-type") != "shared" {
            return Ok(());
        }
        self.set("ip-type", "exclusive")?;
        self.add(Resource::new(anet))
    }

    /// Returns true if the only link is the one that [`Config::add_default_link`] adds.
    #[must_use]
    pub fn has_default_link(&self) -> bool {
        let mut links = self.links();
        let (first, second) = (links.next(), links.next());
        self.get("ip-type") == "exclusive" && second.is_none() && first.is_some_and(is_default)
    }

    /// Removes the default link, and sets `ip-type` to its default, `shared`. Does nothing to a
    /// configuration with other links.
    ///
    /// # Errors
    /// Fails if `ip-type` cannot be set.
    pub fn remove_default_link(&mut self) -> Result<(), Error> {
        if !self.has_default_link() {
            return Ok(());
        }
        self.set("ip-type", "shared")?;
        let link = self.links().next().cloned();
        if let Some(link) = link {
            self.remove(&link);
        }
        Ok(())
    }

    /// Returns the names of the links that are made for the zone, in the order of the configuration.
    pub fn anet_names(&self) -> impl Iterator<Item = String> {
        self.resources_of("anet").map(|anet| self.anet_name(anet))
    }

    /// Returns the name of the link of an `anet`.
    #[must_use]
    pub fn anet_name(&self, anet: &Resource) -> String {
        let text = anet.get("linkname");
        let expanded = self.expanded_in(anet, "linkname", text);
        expanded.unwrap_or_else(|| text.to_owned())
    }

    fn links(&self) -> impl Iterator<Item = &Resource> {
        let resources = self.resources().iter();
        resources.filter(|one| LINKS.contains(&one.spec().name))
    }
}

/// Returns true for an `anet` of which no property is set, except the number that brand kz gives
/// to every link.
fn is_default(link: &Resource) -> bool {
    let mut properties = link.spec().properties.iter();
    link.spec().name == "anet" && properties.all(|one| one.name == "id" || !link.is_set(one.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web1() -> Config {
        let mut config = Config::new("web1".parse().unwrap());
        config.set_zonepath("/zones/web1").unwrap();
        config
    }

    fn link(kind: &str, properties: &[(&str, &str)]) -> Resource {
        let mut link = Resource::new(table::resource(kind).unwrap());
        for (property, value) in properties {
            link.set(property, value).unwrap();
        }
        link
    }

    #[test]
    fn the_default_link_can_be_added_and_removed() {
        for brand in ["native", "lx", "kz"] {
            let mut config = web1();
            config.set("brand", brand).unwrap();
            let before = config.clone();
            config.add_default_link().unwrap();
            assert!(config.has_default_link(), "{brand}");
            assert_eq!(config.get("ip-type"), "exclusive");
            assert_eq!(crate::verify::config(&config), [], "{brand}");
            config.remove_default_link().unwrap();
            assert_eq!(config, before);
        }
    }

    #[test]
    fn a_brand_set_later_keeps_the_default_link() {
        let mut config = web1();
        config.add_default_link().unwrap();
        config.set("brand", "kz").unwrap();
        assert!(config.has_default_link());
    }

    #[test]
    fn a_named_network_gets_no_default_link_and_is_not_removed() {
        let mut named = web1();
        named.add(link("net", &[("physical", "eth0")])).unwrap();
        let mut exclusive = web1();
        exclusive.set("ip-type", "exclusive").unwrap();
        let mut changed = exclusive.clone();
        changed.add(link("anet", &[("lower-link", "br0")])).unwrap();
        let mut two = exclusive.clone();
        two.add(link("anet", &[])).unwrap();
        two.add(link("anet", &[])).unwrap();
        for config in [named, exclusive, changed, two] {
            let mut same = config.clone();
            same.add_default_link().unwrap();
            same.remove_default_link().unwrap();
            assert_eq!(same, config);
        }
    }
}
