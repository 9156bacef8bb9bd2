//! The resources of a configuration: their order, their keys and their numbers.

use super::{Config, Error, MAX_RESOURCES, Resource};
use crate::table;
use crate::table::{PropertySpec, ResourceSpec};

impl Config {
    /// Returns the stored resources, sorted by type in the order of the table. Limits are in the
    /// list as rctl resources.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// Returns the stored resources of one type.
    pub fn resources_of<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a Resource> {
        let resources = self.resources.iter();
        resources.filter(move |one| one.spec().name == resource)
    }

    /// Returns the resources of one type as `info` shows them, with the aliases of resource
    /// controls.
    #[must_use]
    pub fn instances(&self, spec: &'static ResourceSpec) -> Vec<Resource> {
        if spec.has_aliases() {
            return self.with_aliases(spec).into_iter().collect();
        }
        self.resources_of(spec.name).cloned().collect()
    }

    /// Adds a resource, complete or not. [`crate::verify`] checks if a resource is complete.
    pub fn add(&mut self, resource: Resource) -> Result<(), Error> {
        let before = self.resources.clone();
        let place = self.end_of(resource.spec());
        let result = self.insert(place, resource);
        if result.is_err() {
            // The failed call may already have turned some aliases into rctls, so the former list
            // is restored.
            self.resources = before;
        }
        result
    }

    /// Adds a resource that was read from a file. In a file, limits are separate rctl resources.
    pub fn add_stored(&mut self, resource: Resource) -> Result<(), Error> {
        if resource.spec().singleton && self.resources_of(resource.spec().name).next().is_some() {
            return Err(Error::Singleton(resource.spec().name));
        }
        if resource.spec().singleton && self.resources.len() < MAX_RESOURCES {
            let place = self.end_of(resource.spec());
            self.resources.insert(place, resource);
            return Ok(());
        }
        self.add(resource)
    }

    fn insert(&mut self, place: usize, mut resource: Resource) -> Result<(), Error> {
        self.check_unique(&resource)?;
        if self.resources.len() >= MAX_RESOURCES {
            return Err(Error::TooMany {
                what: "resources".to_owned(),
                limit: MAX_RESOURCES,
            });
        }
        if resource.spec().has_aliases() && !self.take_aliases(&mut resource)? {
            return Ok(());
        }
        self.number(&mut resource);
        self.resources
            .insert(place.min(self.resources.len()), resource);
        Ok(())
    }

    /// Returns the position at which to add a resource. Resources are sorted by type in the order
    /// of the table, and within a type in the order in which they were added. Therefore
    /// configurations with the same content are equal.
    fn end_of(&self, spec: &ResourceSpec) -> usize {
        let rank = |spec: &ResourceSpec| table::RESOURCES.iter().position(|row| row == spec);
        self.resources
            .partition_point(|one| rank(one.spec()) <= rank(spec))
    }

    /// Gives numbers to the resources that were added while the brand had no numbers.
    pub(super) fn number_all(&mut self) {
        for place in 0..self.resources.len() {
            let mut resource = self.resources[place].clone();
            self.number(&mut resource);
            self.resources[place] = resource;
        }
    }

    /// Gives the lowest free number of its type to a resource that has no number.
    fn number(&self, resource: &mut Resource) {
        let spec = resource.spec();
        let numbered = spec
            .property("id")
            .is_some_and(|id| id.brands.has(self.family()));
        if !numbered || resource.has("id") {
            return;
        }
        let taken: Vec<&str> = self
            .resources_of(spec.name)
            .map(|one| one.get("id"))
            .collect();
        let free = (0..=taken.len()).find(|id| !taken.contains(&id.to_string().as_str()));
        // The table admits more numbers than a zone can have resources, so a number is free.
        let _ = resource.set("id", &free.unwrap_or_default().to_string());
    }

    /// Replaces `old`, a resource that [`Self::instances`] returned, with `resource`. If `old` is
    /// no longer in the configuration, adds `resource`.
    pub fn replace(&mut self, old: &Resource, resource: Resource) -> Result<(), Error> {
        let before = self.resources.clone();
        let place = self.resources.iter().position(|one| one.is_same(old));
        self.remove(old);
        let result = match place {
            // If `old` consists only of aliases, no stored resource exists whose position could be
            // used.
            Some(place) => self.insert(place, resource),
            None => self.add(resource),
        };
        if result.is_err() {
            self.resources = before;
        }
        result
    }

    /// Keeps only the stored resources for which `keep` returns true.
    pub fn retain(&mut self, keep: impl FnMut(&Resource) -> bool) {
        self.resources.retain(keep);
    }

    /// Removes a resource that [`Self::instances`] returned. Does nothing if the resource is
    /// already gone.
    pub fn remove(&mut self, resource: &Resource) {
        let shown = resource.spec().properties.iter();
        let shown = shown.filter(|spec| resource.has(spec.name));
        for alias in shown.filter_map(PropertySpec::alias) {
            self.clear_alias(alias);
        }
        self.resources.retain(|one| !one.is_same(resource));
    }

    /// Fails if the configuration already has a resource of this singleton type.
    pub fn check_singleton(&self, spec: &'static ResourceSpec) -> Result<(), Error> {
        if spec.singleton && !self.instances(spec).is_empty() {
            return Err(Error::Singleton(
                table::resource(spec.name).map_or("", |spec| spec.name),
            ));
        }
        Ok(())
    }

    /// Fails if another resource has the keys of `resource`.
    fn check_unique(&self, resource: &Resource) -> Result<(), Error> {
        let spec = resource.spec();
        if spec.singleton {
            return self.check_singleton(spec);
        }
        let keyed = spec.keys.iter().any(|key| !resource.get(key).is_empty());
        let mut others = self.resources_of(spec.name);
        if !keyed || !others.any(|other| self.is_taken(resource, other)) {
            return Ok(());
        }
        let keys: Vec<String> = spec
            .keys
            .iter()
            .filter(|key| !resource.get(key).is_empty())
            .map(|key| format!("{key} '{}'", resource.get(key)))
            .collect();
        Err(Error::Duplicate {
            resource: spec.name,
            keys: keys.join(", and "),
        })
    }

    /// Returns true if both resources have the same keys after `new` got its number.
    fn is_taken(&self, new: &Resource, other: &Resource) -> bool {
        let mut new = new.clone();
        self.number(&mut new);
        let key = |of: &Resource, key: &str| {
            let text = of.get(key);
            self.expanded_in(of, key, text)
                .unwrap_or_else(|| text.to_owned())
        };
        let spec = new.spec();
        spec.keys
            .iter()
            .all(|name| key(&new, name) == key(other, name))
    }
}
