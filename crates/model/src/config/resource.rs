//! A resource of a configuration, and the values of its properties.

use std::collections::BTreeMap;

use super::{Config, Error, MAX_LIST, checked};
use crate::table::{BadValue, Kind, PropertySpec, ResourceSpec};

/// A value in the zonecfg language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A simple value: `v`
    Simple(String),
    /// A complex value, which has fields: `(n1=v1,n2=v2)`
    Complex(Vec<(String, String)>),
    /// A list of values: `[v1,v2]`
    List(Vec<Self>),
}

impl Value {
    /// Returns the text of a field of a complex value.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let Self::Complex(pairs) = self else {
            return None;
        };
        let mut found = pairs.iter().filter(|(field, _)| field == name);
        found.next().map(|(_, text)| text.as_str())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Simple(text.to_owned())
    }
}

/// A resource. Required properties may still be missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    spec: &'static ResourceSpec,
    simple: BTreeMap<&'static str, String>,
    lists: BTreeMap<&'static str, Vec<Value>>,
}

impl Resource {
    /// Returns an empty resource of one type.
    #[must_use]
    pub const fn new(spec: &'static ResourceSpec) -> Self {
        Self {
            spec,
            simple: BTreeMap::new(),
            lists: BTreeMap::new(),
        }
    }

    /// Returns the row of the resource type in the table.
    #[must_use]
    pub const fn spec(&self) -> &'static ResourceSpec {
        self.spec
    }

    /// Returns the text of a property that is not a list, or its default, or an empty string.
    #[must_use]
    pub fn get(&self, property: &str) -> &str {
        self.simple.get(property).map_or_else(
            || self.spec.property(property).map_or("", |spec| spec.default),
            String::as_str,
        )
    }

    /// Returns the elements of a list. Returns no elements if the property is unset or is not a
    /// list.
    #[must_use]
    pub fn list(&self, property: &str) -> &[Value] {
        self.lists.get(property).map_or(&[], Vec::as_slice)
    }

    /// Sets a property to a simple value.
    pub fn set(&mut self, property: &str, value: &str) -> Result<(), Error> {
        self.set_value(property, Value::from(value))
    }

    /// Sets a property. For a list, a single element needs no brackets. An empty value clears a
    /// property that has no default.
    pub fn set_value(&mut self, property: &str, value: Value) -> Result<(), Error> {
        let spec = self.property(property)?;
        if !spec.is_list() {
            let Value::Simple(text) = value else {
                return Err(Error::Shape(spec.name, "a simple value"));
            };
            if text.is_empty() && spec.default.is_empty() {
                self.simple.remove(spec.name);
                return Ok(());
            }
            let text = checked(spec, &text)?;
            if text == spec.default {
                self.simple.remove(spec.name);
            } else {
                self.simple.insert(spec.name, text);
            }
            return Ok(());
        }
        let elements = match value {
            Value::List(elements) => elements,
            one => vec![one],
        };
        let mut list = Vec::with_capacity(elements.len().min(MAX_LIST));
        for element in elements {
            push(&mut list, spec, element)?;
        }
        self.put_list(spec, list);
        Ok(())
    }

    /// Adds the elements of `value` to a list.
    pub fn add_value(&mut self, property: &str, value: Value) -> Result<(), Error> {
        let spec = self.list_property(property)?;
        let mut list = self.list(spec.name).to_vec();
        match value {
            Value::List(elements) => {
                for element in elements {
                    push(&mut list, spec, element)?;
                }
            }
            one => push(&mut list, spec, one)?,
        }
        self.put_list(spec, list);
        Ok(())
    }

    /// Removes the elements of `value` from a list. Fails if one of the elements is not in the
    /// list.
    pub fn remove_value(&mut self, property: &str, value: Value) -> Result<(), Error> {
        let spec = self.list_property(property)?;
        let mut list = self.list(spec.name).to_vec();
        let elements = match value {
            Value::List(elements) => elements,
            one => vec![one],
        };
        for element in elements {
            let element = check_element(spec, element)?;
            let place = list.iter().position(|other| *other == element);
            list.remove(place.ok_or(Error::NoEntry(spec.name))?);
        }
        self.put_list(spec, list);
        Ok(())
    }

    /// Resets a property to its default.
    pub fn clear(&mut self, property: &str) -> Result<(), Error> {
        let spec = self.property(property)?;
        if !spec.clearable {
            return Err(Error::NotClearable(spec.name));
        }
        self.simple.remove(spec.name);
        self.lists.remove(spec.name);
        Ok(())
    }

    /// Returns true if `property` has a value or a default.
    #[must_use]
    pub fn has(&self, property: &str) -> bool {
        !self.get(property).is_empty() || !self.list(property).is_empty()
    }

    /// Returns true if `property` has a value other than its default.
    #[must_use]
    pub fn is_set(&self, property: &str) -> bool {
        self.simple.contains_key(property) || self.lists.contains_key(property)
    }

    /// Returns true if the two resources have the same type and the same keys.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let keys = self.spec.keys.iter();
        self.spec == other.spec
            // The keys may contain the token `%{id}`, so the numbers of the two resources must be
            // equal too.
            && self.get("id") == other.get("id")
            && keys.clone().all(|key| self.get(key) == other.get(key))
            // If all keys are empty, the resources are the same only if they are equal.
            && (self.spec.singleton || keys.clone().any(|key| self.has(key)) || self == other)
    }

    /// Removes the value of a property, even if the property has a default or is required.
    pub(super) fn take(&mut self, property: &str) -> Option<String> {
        self.simple.remove(property)
    }

    /// Returns true if no property is set.
    pub(super) fn is_empty(&self) -> bool {
        self.simple.is_empty() && self.lists.is_empty()
    }

    /// Returns the required properties that have no value.
    pub fn missing(&self) -> impl Iterator<Item = &'static PropertySpec> {
        self.spec
            .properties
            .iter()
            .filter(|spec| spec.required && !self.has(spec.name))
    }

    /// Returns true if every filter names the value of a property, or elements of its list. A
    /// filter may have the property's value in any form that `set` accepts (`physical=1G`,
    /// `dir=/a/`), and with tokens or with the text to which `config` expands them.
    #[must_use]
    pub fn matches(&self, config: &Config, filters: &[(String, Value)]) -> bool {
        filters.iter().all(|(property, value)| match value {
            Value::Simple(text) if self.list(property).is_empty() => {
                self.has_value(config, property, text)
            }
            Value::List(wanted) => wanted.iter().all(|one| self.list(property).contains(one)),
            one => self.list(property).contains(one),
        })
    }

    fn has_value(&self, config: &Config, property: &str, text: &str) -> bool {
        let value = self.get(property);
        let Some(spec) = self.spec.property(property).filter(|_| text != value) else {
            return text == value;
        };
        // A text that the property does not accept matches no value of the property.
        let Ok(canonical) = spec.kind.check(property, text) else {
            return false;
        };
        let expanded = config.expanded_in(self, property, value);
        canonical == value || expanded.is_some_and(|expanded| expanded == canonical)
    }

    fn put_list(&mut self, spec: &PropertySpec, list: Vec<Value>) {
        // The name comes from the table's own row, which is 'static. `spec` may have a shorter
        // lifetime.
        let name = self.spec.property(spec.name).map_or("", |spec| spec.name);
        if list.is_empty() {
            self.lists.remove(name);
        } else {
            self.lists.insert(name, list);
        }
    }

    fn property(&self, property: &str) -> Result<&'static PropertySpec, Error> {
        let spec = self.spec.property(property);
        spec.ok_or_else(|| Error::NoProperty(property.to_owned()))
    }

    fn list_property(&self, property: &str) -> Result<&'static PropertySpec, Error> {
        let spec = self.property(property)?;
        if spec.is_list() {
            Ok(spec)
        } else {
            Err(Error::Shape(spec.name, "a single value: use set"))
        }
    }
}

fn push(list: &mut Vec<Value>, spec: &'static PropertySpec, element: Value) -> Result<(), Error> {
    let element = check_element(spec, element)?;
    if list.len() >= MAX_LIST {
        return Err(Error::TooMany {
            what: spec.name.to_owned(),
            limit: MAX_LIST,
        });
    }
    list.push(element);
    Ok(())
}

/// Checks one element of a list, and returns it with the fields of complex values in the table's
/// order.
fn check_element(spec: &'static PropertySpec, element: Value) -> Result<Value, Error> {
    match (spec.kind, element) {
        (Kind::List, Value::Simple(text)) => {
            if text.is_empty() {
                return Err(BadValue::new(spec.name, "", "is empty").into());
            }
            Ok(Value::Simple(spec.kind.check(spec.name, &text)?))
        }
        (Kind::List, _) => Err(Error::Shape(spec.name, "a list of simple values")),
        (Kind::Complex(fields), Value::Complex(pairs)) => {
            let mut ordered = Vec::with_capacity(fields.len());
            for field in fields {
                let Some((_, text)) = pairs.iter().find(|(name, _)| name == field) else {
                    let why = format!("has no {field}");
                    return Err(BadValue::new(spec.name, &show(&pairs), why).into());
                };
                ordered.push(((*field).to_owned(), Kind::Text.check(field, text)?));
            }
            if pairs.len() != fields.len() {
                let why = format!("must have exactly {}", fields.join(", "));
                return Err(BadValue::new(spec.name, &show(&pairs), why).into());
            }
            Ok(Value::Complex(ordered))
        }
        (_, _) => Err(Error::Shape(spec.name, "complex values: (name=value,...)")),
    }
}

fn show(pairs: &[(String, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
    format!("({})", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    fn fs() -> Resource {
        Resource::new(table::resource("fs").unwrap())
    }

    fn complex(pairs: &[(&str, &str)]) -> Value {
        Value::Complex(
            pairs
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn lists_grow_shrink_and_vanish() {
        let mut fs = fs();
        fs.set("options", "ro").unwrap();
        fs.add_value("options", Value::List(vec!["nosuid".into(), "a=b".into()]))
            .unwrap();
        fs.remove_value("options", "nosuid".into()).unwrap();
        assert_eq!(fs.list("options"), ["ro".into(), "a=b".into()]);
        assert_eq!(
            fs.remove_value("options", "rw".into()),
            Err(Error::NoEntry("options"))
        );
        fs.set_value("options", Value::List(vec![])).unwrap();
        assert_eq!(fs, self::fs());
        assert!(fs.add_value("dir", "/a".into()).is_err());
        assert!(fs.set_value("dir", Value::List(vec![])).is_err());
        assert!(fs.set("options", "").is_err());
    }

    #[test]
    fn complex_values_have_all_fields_in_order() {
        let mut rctl = Resource::new(table::resource("rctl").unwrap());
        let given = complex(&[("limit", "10"), ("action", "deny"), ("priv", "privileged")]);
        rctl.add_value("value", given).unwrap();
        let stored = complex(&[("priv", "privileged"), ("limit", "10"), ("action", "deny")]);
        assert_eq!(rctl.list("value"), [stored]);
        for bad in [
            complex(&[("limit", "10")]),
            complex(&[("limit", "1"), ("action", "x"), ("priv", "y"), ("z", "")]),
            "10".into(),
        ] {
            assert!(rctl.add_value("value", bad).is_err());
        }
    }

    #[test]
    fn list_length_is_limited() {
        let mut fs = fs();
        let many = Value::List(vec!["ro".into(); MAX_LIST + 1]);
        assert!(matches!(
            fs.set_value("options", many),
            Err(Error::TooMany { .. })
        ));
    }

    #[test]
    fn missing_names_required_properties() {
        let mut fs = fs();
        fs.set("special", "/opt").unwrap();
        let missing: Vec<_> = fs.missing().map(|spec| spec.name).collect();
        assert_eq!(missing, ["dir", "type"]);
    }

    #[test]
    fn filters_look_into_lists() {
        let mut fs = fs();
        fs.set("dir", "/a").unwrap();
        fs.set("options", "ro").unwrap();
        let config = Config::new("web1".parse().unwrap());
        let is =
            |property: &str, value: Value| fs.matches(&config, &[(property.to_owned(), value)]);
        assert!(is("dir", "/a".into()));
        assert!(is("options", "ro".into()));
        assert!(is("options", Value::List(vec!["ro".into()])));
        assert!(!is("dir", "/b".into()));
        assert!(!is("options", "rw".into()));
        assert!(!is("colour", "red".into()));
    }

    #[test]
    fn filters_are_written_as_values_are() {
        let config = Config::new("web1".parse().unwrap());
        let mut fs = fs();
        fs.set("dir", "/data/%{zonename}").unwrap();
        let mut memory = Resource::new(table::resource("capped-memory").unwrap());
        memory.set("physical", "1024M").unwrap();
        let mut anet = Resource::new(table::resource("anet").unwrap());
        anet.set("id", "1").unwrap();
        for (resource, property, value, found) in [
            (&fs, "dir", "/data/%{zonename}", true),
            (&fs, "dir", "/data/web1/", true),
            (&fs, "dir", "/data/web2", false),
            (&fs, "dir", "data", false),
            (&memory, "physical", "1G", true),
            (&memory, "physical", "1073741824", true),
            (&memory, "physical", "1", false),
            (&anet, "linkname", "net1", true),
            (&anet, "linkname", "net0", false),
            (&anet, "lower-link", "auto", true),
        ] {
            let filters = [(property.to_owned(), value.into())];
            assert_eq!(resource.matches(&config, &filters), found, "{value}");
        }
    }
}
