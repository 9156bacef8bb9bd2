//! The resources of a configuration: their order, their keys and their numbers.

use super::{Config, Error, MAX_RESOURCES, Resource};
use crate::table;
use crate::table::{PropertySpec, ResourceSpec};

impl Config {
    /// The resources that are stored, by type in the order of the table. Limits
    /// are among them as the rctl resources that they are.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The stored resources of one type.
    pub fn resources_of<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = &'a Resource> {
        let resources = self.resources.iter();
        resources.filter(move |one| one.spec().name == resource)
    }

    /// The resources of one type as people see them: the aliases of resource controls
    /// are in them.
    #[must_use]
    pub fn instances(&self, spec: &'static ResourceSpec) -> Vec<Resource> {
        if spec.has_aliases() {
            return self.with_aliases(spec).into_iter().collect();
        }
        self.resources_of(spec.name).cloned().collect()
    }

    /// Adds a resource. That it is complete is for [`crate::verify`] to say.
    pub fn add(&mut self, resource: Resource) -> Result<(), Error> {
        let before = self.resources.clone();
        let place = self.end_of(resource.spec());
        let result = self.insert(place, resource);
        if result.is_err() {
            // Some of its aliases may have become rctls already.
            self.resources = before;
        }
        result
    }

    /// Adds a resource as files have it: limits are rctl resources beside it.
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

    /// Resources are kept in the order of the table, those of one type as they were
    /// added: two configurations that say the same are equal.
    fn end_of(&self, spec: &ResourceSpec) -> usize {
        let rank = |spec: &ResourceSpec| table::RESOURCES.iter().position(|row| row == spec);
        self.resources
            .partition_point(|one| rank(one.spec()) <= rank(spec))
    }

    /// Numbers the resources that were added under a brand without numbers.
    pub(super) fn number_all(&mut self) {
        for place in 0..self.resources.len() {
            let mut resource = self.resources[place].clone();
            self.number(&mut resource);
            self.resources[place] = resource;
        }
    }

    /// Gives a resource that has none the lowest free number of its type.
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
        // The table admits more numbers than a zone has resources.
        let _ = resource.set("id", &free.unwrap_or_default().to_string());
    }

    /// Puts `resource` in the place of `old`, which [`Self::instances`] gave; where
    /// that is no longer there it is added.
    pub fn replace(&mut self, old: &Resource, resource: Resource) -> Result<(), Error> {
        let before = self.resources.clone();
        let place = self.resources.iter().position(|one| one.is_same(old));
        self.remove(old);
        let result = match place {
            // Of an instance that is only aliases there is nothing to take the place of.
            Some(place) => self.insert(place, resource),
            None => self.add(resource),
        };
        if result.is_err() {
            self.resources = before;
        }
        result
    }

    /// Keeps only the stored resources for which `keep` holds.
    pub fn retain(&mut self, keep: impl FnMut(&Resource) -> bool) {
        self.resources.retain(keep);
    }

    /// Removes a resource that [`Self::instances`] gave; that it is gone is fine.
    pub fn remove(&mut self, resource: &Resource) {
        let shown = resource.spec().properties.iter();
        let shown = shown.filter(|spec| resource.has(spec.name));
        for alias in shown.filter_map(PropertySpec::alias) {
            self.clear_alias(alias);
        }
        self.resources.retain(|one| !one.is_same(resource));
    }

    /// Refuses a second resource of a singleton type.
    pub fn check_singleton(&self, spec: &'static ResourceSpec) -> Result<(), Error> {
        if spec.singleton && !self.instances(spec).is_empty() {
            return Err(Error::Singleton(
                table::resource(spec.name).map_or("", |spec| spec.name),
            ));
        }
        Ok(())
    }

    /// Refuses `resource` when there is another one with its keys.
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

    /// Returns whether both have the same keys, once they have their numbers.
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
