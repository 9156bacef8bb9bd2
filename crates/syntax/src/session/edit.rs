//! Commands that change the configuration in the session.

use model::State;
use model::brands::Family;
use model::config::{LABEL, Resource, Value};
use model::table::{Brands, Kind, ResourceSpec};
use model::verify::{self, Problem};

use super::{Backing, Console, Done, Mode, Nested, Open, Refused, Session, chain, unknown_filter};
use crate::command::{Argument, Filters};

impl<B: Backing, C: Console> Session<B, C> {
    pub(super) fn add(&mut self, what: &str, value: Option<Value>) -> Done {
        self.config()?;
        if let Some(open) = &mut self.scope {
            let complex = open.resource.spec().property(what);
            let complex = complex.filter(|spec| matches!(spec.kind, Kind::Complex(_)));
            let result = match (value, complex) {
                (Some(value), _) if open.nested.is_none() => open.resource.add_value(what, value),
                (None, Some(spec)) if open.nested.is_none() => {
                    let fields = Vec::new();
                    open.nested = Some(Nested { spec, fields });
                    Ok(())
                }
                _ => {
                    return self.refuse(&format!("add {what}: Insufficient specification"));
                }
            };
            return self.report(result);
        }
        let spec = self.resource_spec(what)?;
        self.check_in_zone(spec.name, spec.brands)?;
        if value.is_some() {
            return self.refuse("A property value only makes sense in the resource scope.");
        }
        if spec.fixed {
            self.check_not_installed(&format!("add {what}"))?;
        }
        let result = self.config()?.check_singleton(spec);
        self.report(result)?;
        self.scope = Some(Open {
            resource: Resource::new(spec),
            nested: None,
            original: None,
        });
        Ok(())
    }

    /// Refuses a property or resource that the global zone does not have. The global zone has few
    /// settings, so a wrong setting is refused at once.
    fn check_in_zone(&mut self, what: &str, brands: Brands) -> Done {
        if self.config()?.family() != Family::Global || brands.has(Family::Global) {
            return Ok(());
        }
        self.refuse(&format!("{what}: the global zone does not have it."))
    }

    /// Leaves the innermost scope and drops the settings made in this scope.
    pub(super) fn cancel(&mut self) {
        match &mut self.scope {
            Some(open) if open.nested.is_some() => open.nested = None,
            _ => self.scope = None,
        }
    }

    pub(super) fn set(&mut self, force: bool, property: &str, value: Value) -> Done {
        self.config()?;
        if force && property != LABEL && !(self.alternate_root && property == "zonepath") {
            return self.refuse(
                "set -F is only for the first label of a host, and for zonepath with an alternate root.",
            );
        }
        if let Some(Open {
            nested: Some(nested),
            ..
        }) = &mut self.scope
        {
            let known =
                matches!(nested.spec.kind, Kind::Complex(names) if names.contains(&property));
            let Value::Simple(text) = value else {
                return self.refuse("A simple value was expected here.");
            };
            if !known {
                return self.refuse(&format!("{property}: No such property type"));
            }
            nested.fields.retain(|(name, _)| name != property);
            nested.fields.push((property.to_owned(), text));
            return Ok(());
        }
        if let Some(open) = &mut self.scope {
            let result = open.resource.set_value(property, value);
            return self.report(result);
        }
        let Value::Simple(text) = value else {
            return self.refuse("A simple value was expected here.");
        };
        if property == "zonename" {
            return self.rename(&text);
        }
        let spec = model::table::global(property);
        if let Some(spec) = spec {
            self.check_in_zone(spec.name, spec.brands)?;
        }
        let text = match property {
            LABEL => self.label(&text)?,
            _ => text,
        };
        let fixed = spec.is_some_and(|spec| spec.fixed);
        // Setting the same value again is not a change, because scripts may do so.
        if fixed && self.config()?.get(property) != text {
            let active = self.state()?.is_some_and(State::is_active);
            if active || !force || property == LABEL {
                self.check_not_installed(&format!("set {property}"))?;
            }
        }
        if property == "ip-type" {
            self.make_room_for_links(text == "shared")?;
        }
        if property == LABEL && !force {
            self.check_first_label(&text)?;
        }
        let result = self.config()?.set(property, &text);
        self.report(result)?;
        self.changed = true;
        self.zonepath_forced |= force && property != LABEL;
        Ok(())
    }

    /// Removes the default link, so that scripts of releases without a default link work unchanged:
    /// they add a `net` or set `ip-type` themselves. An installed zone keeps its link, unless the
    /// link is invalid after the change: `is_shared` is true for a change that needs shared IP.
    fn make_room_for_links(&mut self, is_shared: bool) -> Done {
        if !self.config()?.has_default_link() {
            return Ok(());
        }
        let installed = self.state()?.is_some_and(|state| state > State::Configured);
        if installed && !is_shared {
            return Ok(());
        }
        let result = self.config()?.remove_default_link();
        self.report(result)?;
        self.changed = true;
        if self.mode == Mode::Interactive {
            self.console
                .notice("The default anet net0 was removed; to keep it, add it again.");
        }
        Ok(())
    }

    fn rename(&mut self, text: &str) -> Done {
        let old = self.config()?.name().clone();
        if text == old.as_str() {
            return Ok(());
        }
        if old.is_global() {
            return self.refuse("The name of the global zone cannot be changed.");
        }
        let Ok(name) = text.parse::<model::ZoneName>() else {
            return self.refuse(&format!("{text}: Bogus zone name"));
        };
        let state = self.state()?;
        if state.is_some_and(|state| state.is_active() || state == State::Mounted) {
            return self.refuse(&format!(
                "Zone {} already running; set zonename not allowed.",
                self.zone
            ));
        }
        if name != self.stored_as {
            match self.backing.state(&name) {
                Ok(None) => {}
                Ok(Some(_)) => return self.refuse(&format!("{name}: Zone name already in use")),
                Err(error) => return self.refuse(&chain(&error)),
            }
        }
        let stored_as = self.stored_as.clone();
        let has_files = match self.backing.has_files(&stored_as) {
            Ok(has_files) => has_files,
            Err(error) => return self.refuse(&chain(&error)),
        };
        let config = self.config()?;
        // A rename does not move the files of a zone, so its zonepath stays.
        let mut result = Ok(());
        match has_files {
            true => result = config.rename_in_place(name.clone()),
            false => config.rename(name.clone()),
        }
        self.zone = name;
        self.changed = true;
        self.report(result)
    }

    pub(super) fn clear(&mut self, property: &str) -> Done {
        self.config()?;
        let result = match &mut self.scope {
            Some(open) => open.resource.clear(property),
            None => self.config()?.clear(property),
        };
        self.report(result)?;
        self.changed |= self.scope.is_none();
        Ok(())
    }

    pub(super) fn end(&mut self) -> Done {
        self.config()?;
        let Some(open) = &mut self.scope else {
            return Err(Refused);
        };
        if let Some(nested) = &open.nested {
            let value = Value::Complex(nested.fields.clone());
            let result = open.resource.add_value(nested.spec.name, value);
            if result.is_ok() {
                open.nested = None;
            }
            return self.report(result);
        }
        let problems = verify::resource(&open.resource);
        if !problems.is_empty() {
            for problem in problems {
                // The message omits the resource, because the user is in the scope of this
                // resource.
                let text = match &problem {
                    Problem::NotSpecified(_, property) => format!("{property} not specified"),
                    other => other.to_string(),
                };
                self.fail(&text);
            }
            return Err(Refused);
        }
        let (resource, original) = (open.resource.clone(), open.original.clone());
        if resource.spec().name == "net" && original.is_none() {
            self.make_room_for_links(resource.has("address"))?;
        }
        let config = self.config()?;
        let result = match original {
            Some(original) => config.replace(&original, resource),
            None => config.add(resource),
        };
        self.report(result)?;
        self.scope = None;
        self.changed = true;
        Ok(())
    }

    pub(super) fn select(&mut self, what: &str, filters: &Filters) -> Done {
        let spec = self.resource_spec(what)?;
        if let Some(text) = unknown_filter(spec, filters) {
            return self.refuse(&text);
        }
        if spec.fixed {
            self.check_not_installed(&format!("select {what}"))?;
        }
        let mut matching = self.matching(spec, filters)?;
        let why = match matching[..] {
            [_] => {
                let original = matching.pop();
                let resource = original.clone().unwrap_or_else(|| Resource::new(spec));
                self.scope = Some(Open {
                    resource,
                    nested: None,
                    original,
                });
                return Ok(());
            }
            [] if filters.is_empty() => "No such entry",
            [] => "No such resource with that id",
            [..] => "Insufficient specification",
        };
        self.refuse(&format!("select {what}: {why}"))
    }

    pub(super) fn remove(&mut self, force: bool, what: &str, argument: Argument) -> Done {
        self.config()?;
        let filters = match (&mut self.scope, argument) {
            (Some(open), Argument::Value(value)) => {
                let result = open.resource.remove_value(what, value);
                return self.report(result);
            }
            (Some(_), Argument::Filters(_)) => {
                return self.refuse(&format!("remove {what}: Insufficient specification"));
            }
            (None, Argument::Value(_)) => {
                return self.refuse("A property value only makes sense in the resource scope.");
            }
            (None, Argument::Filters(filters)) => filters,
        };
        let spec = self.resource_spec(what)?;
        if let Some(text) = unknown_filter(spec, &filters) {
            return self.refuse(&text);
        }
        if spec.fixed {
            self.check_not_installed(&format!("remove {what}"))?;
        }
        let matching = self.matching(spec, &filters)?;
        match matching[..] {
            // With force, a missing resource is no error (zonecfg(8)).
            [] if force => return Ok(()),
            [] if filters.is_empty() => {
                return self.refuse(&format!("remove {what}: No such entry"));
            }
            [] => {
                return self.refuse(&format!("remove {what}: No such resource with that id"));
            }
            [_] => {}
            [..] if !filters.is_empty() => {
                return self.refuse(&format!("remove {what}: Insufficient specification"));
            }
            [..] if force => {}
            [..] => {
                let question = format!("Are you sure you want to remove ALL '{what}' resources");
                match self.console.ask(&question) {
                    Some(true) => {}
                    Some(false) => return Ok(()),
                    None => {
                        return self.refuse(
                            "Input not from terminal and -F not specified:\nremove command ignored.",
                        );
                    }
                }
            }
        }
        let config = self.config()?;
        for resource in &matching {
            config.remove(resource);
        }
        self.changed = true;
        Ok(())
    }

    /// Returns the resources that match the filters.
    fn matching(&mut self, spec: &'static ResourceSpec, filters: &Filters) -> Done<Vec<Resource>> {
        let config = self.config()?;
        let mut resources = config.instances(spec);
        resources.retain(|resource| resource.matches(config, filters));
        Ok(resources)
    }

    fn report(&mut self, result: Result<(), model::config::Error>) -> Done {
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.refuse(&error.to_string()),
        }
    }
}
