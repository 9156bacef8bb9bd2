//! Builds the JSON that `info -j` and `export -j` print.
//!
//! A boolean is a JSON boolean. Whole numbers and sizes (in bytes) are numbers. All other values
//! are strings. A list is an array. A resource type is an array of objects, or one object if a zone
//! has at most one such resource. If a value has tokens, `<property>.template` holds the value
//! without expansion. The schema of the JSON is docs/zone.schema.json.

use model::Config;
use model::config::{Resource, Value};
use model::table::{GLOBAL, Kind, PropertySpec, RESOURCES, ResourceSpec, Show};
use serde_json::{Map, Value as Json};

use crate::command::Filters;

/// Returns the JSON of the whole configuration.
#[must_use]
pub fn all(config: &Config) -> String {
    let mut object = Map::new();
    for spec in GLOBAL {
        let value = config.get(spec.name);
        let printed = spec.show == Show::Always || value != spec.default;
        if printed && spec.brands.has(config.family()) {
            put(&mut object, spec, value, config.expanded(spec, value));
        }
    }
    for spec in RESOURCES {
        let mut instances = list(config, spec, &Filters::new());
        if spec.singleton {
            if let Some(one) = instances.pop() {
                object.insert(spec.name.to_owned(), one);
            }
        } else if !instances.is_empty() {
            object.insert(spec.name.to_owned(), Json::Array(instances));
        }
    }
    text(&Json::Object(object))
}

/// Returns the JSON of a global property.
#[must_use]
pub fn property(config: &Config, spec: &PropertySpec) -> String {
    let mut object = Map::new();
    let value = config.get(spec.name);
    put(&mut object, spec, value, config.expanded(spec, value));
    text(&Json::Object(object))
}

/// Returns the resources of one type that match the filters, as an array.
#[must_use]
pub fn resources(config: &Config, spec: &'static ResourceSpec, filters: &Filters) -> String {
    text(&Json::Array(list(config, spec, filters)))
}

/// Returns the JSON of a resource. The resource may be incomplete.
#[must_use]
pub fn resource(config: &Config, resource: &Resource) -> String {
    text(&object(config, resource))
}

fn list(config: &Config, spec: &'static ResourceSpec, filters: &Filters) -> Vec<Json> {
    let instances = config.instances(spec);
    let matching = instances
        .iter()
        .filter(|resource| resource.matches(config, filters));
    matching.map(|resource| object(config, resource)).collect()
}

fn object(config: &Config, resource: &Resource) -> Json {
    let mut object = Map::new();
    for spec in resource.spec().properties {
        let value = resource.get(spec.name);
        if spec.is_list() {
            let values = resource.list(spec.name);
            if !values.is_empty() {
                let values = values.iter().map(element).collect();
                object.insert(spec.name.to_owned(), Json::Array(values));
            }
        } else if !value.is_empty() {
            let expanded = config.expanded_in(resource, spec.name, value);
            put(&mut object, spec, value, expanded);
        }
    }
    Json::Object(object)
}

fn element(value: &Value) -> Json {
    match value {
        Value::Simple(text) => Json::String(text.clone()),
        Value::Complex(pairs) => {
            let pairs = pairs.iter();
            Json::Object(
                pairs
                    .map(|(name, text)| (name.clone(), Json::String(text.clone())))
                    .collect(),
            )
        }
        Value::List(values) => Json::Array(values.iter().map(element).collect()),
    }
}

fn put(object: &mut Map<String, Json>, spec: &PropertySpec, value: &str, expanded: Option<String>) {
    if let Some(expanded) = expanded {
        object.insert(
            format!("{}.template", spec.name),
            Json::String(value.to_owned()),
        );
        object.insert(spec.name.to_owned(), Json::String(expanded));
        return;
    }
    let number = || value.parse::<u64>().ok().map(Json::from);
    let typed = match spec.kind {
        Kind::Bool => Some(Json::Bool(value == "true")),
        Kind::Int { .. } | Kind::Size => number(),
        _ => None,
    };
    let typed = typed.unwrap_or_else(|| Json::String(value.to_owned()));
    object.insert(spec.name.to_owned(), typed);
}

fn text(json: &Json) -> String {
    format!("{json:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::table;

    #[test]
    fn values_have_their_types() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set_zonepath("/zones/%{zonename}").unwrap();
        config.set("cpu-shares", "5").unwrap();
        let mut fs = Resource::new(table::resource("fs").unwrap());
        for (name, value) in [("dir", "/a"), ("special", "/b"), ("type", "lofs")] {
            fs.set(name, value).unwrap();
        }
        fs.add_value("options", "ro".into()).unwrap();
        config.add(fs).unwrap();
        let mut memory = Resource::new(table::resource("capped-memory").unwrap());
        memory.set("swap", "100m").unwrap();
        config.add(memory).unwrap();
        let json: Json = serde_json::from_str(&all(&config)).unwrap();
        assert_eq!(json["zonepath"], "/zones/web1");
        assert_eq!(json["zonepath.template"], "/zones/%{zonename}");
        assert_eq!(json["autoboot"], false);
        assert_eq!(json["cpu-shares"], 5);
        assert_eq!(json["capped-memory"]["swap"], 100 << 20);
        assert_eq!(json["fs"][0]["options"][0], "ro");
        assert_eq!(json["rctl"][0]["value"][0]["limit"], "5");
        assert_eq!(json.get("max-lwps"), None);
    }
}
