//! The two names of a limit: the rctl resource, which is stored, and the alias, which is a property
//! of the table.

use super::{Config, Error, Resource, Value};
use crate::table;
use crate::table::{Alias, PropertySpec, ResourceSpec};

/// The privilege of each value that an alias sets or shows.
const PRIVILEGED: &str = "privileged";

impl Config {
    /// Returns the limit that an alias shows: the limit of an rctl with exactly one privileged
    /// value.
    pub(super) fn limit_of(&self, alias: &Alias) -> Option<&str> {
        let rctl = self.rctl(alias.rctl)?;
        let [value] = rctl.list("value") else {
            return None;
        };
        let limit = value.field("limit")?;
        let plain = value.field("priv") == Some(PRIVILEGED) && alias.value(limit).is_some();
        plain.then_some(limit)
    }

    /// Sets the rctl of an alias to a value, which must be in canonical form.
    pub(super) fn set_alias(
        &mut self,
        property: &'static str,
        alias: &Alias,
        value: &str,
    ) -> Result<(), Error> {
        if self.rctl(alias.rctl).is_some() && self.limit_of(alias).is_none() {
            return Err(Error::IncompatibleRctl(property));
        }
        let Some(spec) = table::resource("rctl") else {
            return Err(Error::NoProperty(property.to_owned()));
        };
        let mut rctl = Resource::new(spec);
        rctl.set("name", alias.rctl)?;
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let value = Value::Complex(vec![
            pair("priv", PRIVILEGED),
            pair("limit", &alias.limit(value)),
            pair("action", alias.action),
        ]);
        rctl.add_value("value", value)?;
        self.replace(&rctl.clone(), rctl)
    }

    /// Sets max-processes if only max-lwps is set, and the reverse. A user who sets only max-lwps
    /// or only max-processes also limits the other number (zonecfg(8)).
    pub(super) fn set_companion(&mut self, property: &str, value: &str) -> Result<(), Error> {
        let (other, factor) = match property {
            "max-lwps" => ("max-processes", 1),
            "max-processes" => ("max-lwps", 10),
            _ => return Ok(()),
        };
        let spec = super::global(other)?;
        let Some(alias) = spec.alias().filter(|alias| self.rctl(alias.rctl).is_none()) else {
            return Ok(());
        };
        let number = value.parse::<u64>().unwrap_or(1).saturating_mul(factor);
        let most = u64::from(u32::MAX);
        self.set_alias(spec.name, alias, &number.min(most).to_string())
    }

    /// Removes the rctl of an alias.
    pub(super) fn clear_alias(&mut self, alias: &Alias) {
        self.retain(|one| one.spec().name != "rctl" || one.get("name") != alias.rctl);
    }

    /// Returns the one resource of a type that has aliases, with the values of the aliases filled
    /// in.
    pub(super) fn with_aliases(&self, spec: &'static ResourceSpec) -> Option<Resource> {
        let stored = self.resources_of(spec.name).next().cloned();
        let mut seen = stored.unwrap_or_else(|| Resource::new(spec));
        for property in spec.properties {
            let limit = property.alias().and_then(|alias| {
                let limit = self.limit_of(alias)?;
                alias.value(limit)
            });
            if let Some(value) = limit {
                // A file may have a limit that the property does not accept. A limit that the
                // property does not accept is shown only as an rctl.
                let _ = seen.set(property.name, &value);
            }
        }
        (!seen.is_empty()).then_some(seen)
    }

    /// Moves the aliases of a resource into their rctls. Returns true if the resource still has
    /// other properties to store.
    pub(super) fn take_aliases(&mut self, resource: &mut Resource) -> Result<bool, Error> {
        let aliases = resource.spec().properties.iter();
        let aliases: Vec<(&PropertySpec, &Alias)> = aliases
            .filter_map(|spec| Some((spec, spec.alias()?)))
            .collect();
        for (spec, alias) in &aliases {
            let set = !resource.get(spec.name).is_empty();
            if set && self.rctl(alias.rctl).is_some() {
                return Err(Error::IncompatibleRctl(spec.name));
            }
        }
        for (spec, alias) in aliases {
            if let Some(value) = resource.take(spec.name) {
                self.set_alias(spec.name, alias, &value)?;
            }
        }
        Ok(!resource.is_empty())
    }

    fn rctl(&self, name: &str) -> Option<&Resource> {
        self.resources_of("rctl")
            .find(|one| one.get("name") == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web1() -> Config {
        Config::new("web1".parse().unwrap())
    }

    fn resource(name: &str, properties: &[(&str, &str)]) -> Resource {
        let mut resource = Resource::new(table::resource(name).unwrap());
        for (property, value) in properties {
            resource.set(property, value).unwrap();
        }
        resource
    }

    fn rctl(name: &str, values: &[(&str, &str, &str)]) -> Resource {
        let mut rctl = resource("rctl", &[("name", name)]);
        for (privilege, limit, action) in values {
            let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
            let value = Value::Complex(vec![
                pair("priv", privilege),
                pair("limit", limit),
                pair("action", action),
            ]);
            rctl.add_value("value", value).unwrap();
        }
        rctl
    }

    #[test]
    fn a_property_and_its_rctl_are_one() {
        let mut config = web1();
        config.set("cpu-shares", "5").unwrap();
        let stored = rctl("zone.cpu-shares", &[("privileged", "5", "none")]);
        assert_eq!(config.resources(), [stored]);
        config.set("cpu-shares", "7").unwrap();
        assert_eq!(config.rctl_limit("zone.cpu-shares"), Some(7));
        config.clear("cpu-shares").unwrap();
        assert_eq!(config, web1());
        config
            .add(rctl("zone.cpu-shares", &[("privileged", "9", "none")]))
            .unwrap();
        assert_eq!(config.get("cpu-shares"), "9");
    }

    #[test]
    fn an_rctl_that_is_more_is_no_alias() {
        let mut config = web1();
        let two = [("privileged", "9", "deny"), ("privileged", "5", "none")];
        config.add(rctl("zone.max-lwps", &two)).unwrap();
        assert_eq!(config.get("max-lwps"), "");
        assert_eq!(
            config.set("max-lwps", "3"),
            Err(Error::IncompatibleRctl("max-lwps"))
        );
        assert_eq!(config.rctl_limit("zone.max-lwps"), Some(9));
    }

    #[test]
    fn processes_and_threads_set_each_other() {
        let mut config = web1();
        config.set("max-processes", "100").unwrap();
        assert_eq!(config.get("max-lwps"), "1000");
        config.set("max-lwps", "500").unwrap();
        assert_eq!(config.get("max-processes"), "100");
        let mut config = web1();
        config.set("max-lwps", "500").unwrap();
        assert_eq!(config.get("max-processes"), "500");
    }

    #[test]
    fn capped_resources_are_views_of_rctls() {
        let mut config = web1();
        let cpu = table::resource("capped-cpu").unwrap();
        config
            .add(resource("capped-cpu", &[("ncpus", "1.5")]))
            .unwrap();
        assert_eq!(config.rctl_limit("zone.cpu-cap"), Some(150));
        assert_eq!(
            config.instances(cpu),
            [resource("capped-cpu", &[("ncpus", "1.50")])]
        );
        assert_eq!(
            config.check_singleton(cpu),
            Err(Error::Singleton("capped-cpu"))
        );

        let spec = table::resource("capped-memory").unwrap();
        let memory = resource("capped-memory", &[("physical", "50m"), ("swap", "100m")]);
        config.add(memory.clone()).unwrap();
        assert_eq!(config.instances(spec), std::slice::from_ref(&memory));
        assert_eq!(config.capped_memory_physical(), Some(50 << 20));
        let more = resource("capped-memory", &[("swap", "200m"), ("locked", "10m")]);
        config.replace(&memory, more.clone()).unwrap();
        assert_eq!(config.capped_memory_physical(), None);
        assert_eq!(config.instances(spec), std::slice::from_ref(&more));
        config.remove(&more);
        config.remove(&config.instances(cpu)[0].clone());
        assert_eq!(config, web1());
    }

    #[test]
    fn an_alias_does_not_overwrite_another_rctl() {
        let mut config = web1();
        let two = [("privileged", "9", "deny"), ("privileged", "5", "none")];
        config.add(rctl("zone.max-swap", &two)).unwrap();
        let before = config.clone();
        let memory = resource("capped-memory", &[("physical", "50m"), ("swap", "100m")]);
        assert_eq!(config.add(memory), Err(Error::IncompatibleRctl("swap")));
        assert_eq!(config, before);
    }
}
