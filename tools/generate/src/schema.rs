//! The JSON schema of a zone's configuration, as `zonecfg info -j` prints it.

use std::path::PathBuf;

use model::brands::{BRANDS, Family};
use model::table::{Brands, GLOBAL, Kind, PropertySpec, RESOURCES};
use serde_json::{Map, Value, json};

/// The schema and where it stands.
pub fn file() -> crate::Made {
    // A value made here has string keys only: it always has a text.
    let text = serde_json::to_string_pretty(&schema()).unwrap_or_default() + "\n";
    (PathBuf::from("docs/zone.schema.json"), text)
}

fn schema() -> Value {
    let mut properties = Map::new();
    for spec in GLOBAL {
        properties.insert(spec.name.to_owned(), property(spec));
    }
    for spec in RESOURCES {
        let mut one = object(spec.properties);
        if spec.singleton {
            one["description"] = described(spec.help, spec.brands).into();
        } else {
            one = json!({
                "type": "array",
                "description": described(spec.help, spec.brands),
                "items": one,
            });
        }
        properties.insert(spec.name.to_owned(), one);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The configuration of a zone",
        "description": "What zonecfg info -j and zonecfg export -j print. Properties without a value may be left out.",
        "type": "object",
        "properties": properties,
        "required": ["zonename", "brand"],
        "additionalProperties": false,
    })
}

fn object(specs: &[PropertySpec]) -> Value {
    let properties: Map<String, Value> = specs
        .iter()
        .map(|spec| (spec.name.to_owned(), property(spec)))
        .collect();
    let required: Vec<&str> = specs
        .iter()
        .filter(|spec| spec.required)
        .map(|spec| spec.name)
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property(spec: &PropertySpec) -> Value {
    let mut value = kind(spec.kind);
    value["description"] = described(spec.help, spec.brands).into();
    if !spec.default.is_empty() {
        value["default"] = match spec.kind {
            Kind::Bool => json!(spec.default == "true"),
            Kind::Int { .. } => spec
                .default
                .parse::<u64>()
                .map_or_else(|_| json!(spec.default), |number| json!(number)),
            _ => json!(spec.default),
        };
    }
    value
}

fn kind(kind: Kind) -> Value {
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Int { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Size => json!({
            "type": ["integer", "string"],
            "minimum": 0,
            "pattern": "^[0-9]+[KMGTkmgt]?$",
        }),
        Kind::Cpus => json!({
            "type": ["number", "string"],
            "exclusiveMinimum": 0,
            "pattern": "^[0-9]*(\\.[0-9]{1,2})?$",
        }),
        Kind::CpuRange => json!({
            "type": ["integer", "string"],
            "minimum": 1,
            "pattern": "^[0-9]+(-[0-9]+)?$",
        }),
        Kind::Enum(words) => json!({ "type": "string", "enum": words }),
        Kind::List => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Complex(fields) => {
            let properties: Map<String, Value> = fields
                .iter()
                .map(|field| ((*field).to_owned(), json!({ "type": "string" })))
                .collect();
            json!({
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": properties,
                    "required": fields,
                    "additionalProperties": false,
                },
            })
        }
        Kind::ZoneName => json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$",
            "maxLength": 63,
        }),
        Kind::Brand => {
            let names: Vec<&str> = BRANDS.iter().map(|brand| brand.name).collect();
            json!({ "type": "string", "enum": names })
        }
        Kind::HostId => json!({ "type": "string", "pattern": "^((0x)?[0-9A-Fa-f]{1,8})?$" }),
        Kind::OneOf(words, other) => json!({
            "anyOf": [{ "type": "string", "enum": words }, self::kind(*other)],
        }),
        // A path may have a token in front: only the language knows what it becomes.
        _ => json!({ "type": "string" }),
    }
}

/// The help, and which brands have it where not all do.
fn described(help: &str, brands: Brands) -> String {
    match brand_names(brands) {
        Some(names) => format!("{help} Brands: {}.", names.join(", ")),
        None => help.to_owned(),
    }
}

/// The names of the brands that have it; `None` when all do.
pub fn brand_names(brands: Brands) -> Option<Vec<&'static str>> {
    if matches!(brands, Brands::All | Brands::AndGlobal) {
        return None;
    }
    // The first name of a family is its own; the others are what other releases say.
    let mut families: Vec<Family> = Vec::new();
    let mut names = Vec::new();
    for brand in BRANDS {
        if brands.has(brand.family) && !families.contains(&brand.family) {
            families.push(brand.family);
            names.push(brand.name);
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_table_is_in_it() {
        let schema = schema();
        for spec in GLOBAL {
            assert!(schema["properties"][spec.name]["description"].is_string());
        }
        for spec in RESOURCES {
            let one = &schema["properties"][spec.name];
            let fields = if spec.singleton { one } else { &one["items"] };
            for property in spec.properties {
                assert!(
                    fields["properties"][property.name].is_object(),
                    "{}",
                    property.name
                );
            }
        }
        assert_eq!(schema["properties"]["autoboot"]["default"], json!(false));
    }
}
