//! Generates the JSON schema of a zone's configuration, as `zonecfg info -j` prints it.

use std::path::PathBuf;

use model::brands::{BRANDS, Family};
use model::table::{Brands, GLOBAL, Kind, PropertySpec, RESOURCES};
use serde_json::{Map, Value, json};

/// Returns the schema and the path of its file.
pub fn file() -> crate::made::Made {
    // A value that is created here has only strings as keys: it always has a text.
    let text = serde_json::to_string_pretty(&schema()).unwrap_or_default() + "\n";
    (PathBuf::from("docs/zone.schema.json"), text)
}

fn schema() -> Value {
    let mut properties = Map::new();
    for spec in GLOBAL {
        insert(&mut properties, spec);
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
    let mut properties = Map::new();
    for spec in specs {
        insert(&mut properties, spec);
    }
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

/// Adds a property, and the property with its value before tokens were replaced.
fn insert(properties: &mut Map<String, Value>, spec: &PropertySpec) {
    properties.insert(spec.name.to_owned(), property(spec));
    if !spec.tokens.is_empty() {
        let template = json!({
            "type": "string",
            "description": format!("{} as it was set, with its tokens.", spec.name),
        });
        properties.insert(format!("{}.template", spec.name), template);
    }
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
        Kind::Label => {
            json!({ "type": "string", "pattern": "^(0[xX][0-9A-Fa-f]{4}-08(-([0-9A-Fa-f]{2}){0,32})?)?$" })
        }
        Kind::HostId => json!({ "type": "string", "pattern": "^((0x)?[0-9A-Fa-f]{1,8})?$" }),
        Kind::OneOf(words, other) => json!({
            "anyOf": [{ "type": "string", "enum": words }, self::kind(*other)],
        }),
        // A path may begin with a token, which only the zonecfg language can replace.
        _ => json!({ "type": "string" }),
    }
}

/// Returns the help, and the brands that have the property if not all do.
fn described(help: &str, brands: Brands) -> String {
    match brand_names(brands) {
        Some(names) if names.is_empty() => format!("{help} Only the global zone has it."),
        Some(names) => format!("{help} Brands: {}.", names.join(", ")),
        None => help.to_owned(),
    }
}

/// Returns the names of the brands that have the property; `None` if all do. The list is empty for a
/// property that only the global zone has.
pub fn brand_names(brands: Brands) -> Option<Vec<&'static str>> {
    if matches!(brands, Brands::All | Brands::AndGlobal) {
        return None;
    }
    // The first name of a family is the brand's own; the others are its names in other releases.
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
    use model::Config;
    use model::config::{Resource, Value as Setting};

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
                let field = &fields["properties"][property.name];
                assert!(field.is_object(), "{} {}", spec.name, property.name);
            }
        }
        assert_eq!(schema["properties"]["autoboot"]["default"], json!(false));
    }

    /// Checks a value against a schema, with the keywords of JSON Schema that the schema uses,
    /// except patterns: those are for other programs.
    fn check(value: &Value, schema: &Value, at: &str) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{at}: {what}: {value} by {schema}"));
        let is = |kind: &str| match kind {
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64(),
            "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{other}: unknown type"),
        };
        let legal = match &schema["type"] {
            Value::String(kind) => is(kind),
            Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
            _ => true,
        };
        if !legal {
            return wrong("type");
        }
        if let Value::Array(words) = &schema["enum"] {
            if !words.contains(value) {
                return wrong("none of the words");
            }
        }
        if let Value::Array(ways) = &schema["anyOf"] {
            if !ways.iter().any(|way| check(value, way, at).is_ok()) {
                return wrong("none of the ways");
            }
        }
        if let (Some(number), Some(max)) = (value.as_u64(), schema["maximum"].as_u64()) {
            if number > max {
                return wrong("too large");
            }
        }
        for (name, one) in value.as_object().into_iter().flatten() {
            match &schema["properties"][name] {
                Value::Null => return wrong(&format!("{name} is not allowed")),
                field => check(one, field, &format!("{at}/{name}"))?,
            }
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if value[name.as_str().unwrap()].is_null() {
                return wrong(&format!("{name} is missing"));
            }
        }
        for one in value.as_array().into_iter().flatten() {
            check(one, &schema["items"], at)?;
        }
        Ok(())
    }

    /// Returns a valid value for the kind.
    fn sample(spec: &PropertySpec) -> String {
        let tries = [
            "1",
            "1500",
            "true",
            "/a",
            "a",
            "5M",
            "1.5",
            "native",
            "lofs",
            "192.0.2.7/24",
            "192.0.2.1",
            "2:8:20:1:2:3",
            "zone.max-lwps",
            "root",
            "none",
            "login",
            "0x0004-08-68",
        ];
        let mut words: Vec<&str> = tries.to_vec();
        if let Kind::Enum(choices) | Kind::Words(choices) = spec.kind {
            words.extend(choices);
        }
        let fits = |word: &&&str| spec.kind.check(spec.name, word).is_ok();
        (*words
            .iter()
            .find(fits)
            .unwrap_or_else(|| panic!("{}", spec.name)))
        .to_owned()
    }

    fn full(spec: &'static model::table::ResourceSpec) -> Resource {
        let mut resource = Resource::new(spec);
        for property in spec.properties {
            let name = property.name;
            match property.kind {
                Kind::List => resource.add_value(name, "ro".into()).unwrap(),
                Kind::Complex(fields) => {
                    let value = |field: &&str| match *field {
                        "priv" => "privileged",
                        "action" => "deny",
                        "mac-address" => "2:8:20:1:2:3",
                        _ => "7",
                    };
                    let pairs = fields
                        .iter()
                        .map(|one| ((*one).to_owned(), value(one).to_owned()));
                    resource
                        .add_value(name, Setting::Complex(pairs.collect()))
                        .unwrap();
                }
                _ => resource.set(name, &sample(property)).unwrap(),
            }
        }
        resource
    }

    #[test]
    fn output_of_zonecfg_matches_the_schema() {
        let schema = schema();
        let mut config = Config::new("web1".parse().unwrap());
        config.set_zonepath("/zones/%{zonename}").unwrap();
        for spec in GLOBAL {
            if !matches!(spec.kind, Kind::ZoneName | Kind::ZonePath | Kind::Brand) {
                config.set(spec.name, &sample(spec)).unwrap();
            }
        }
        for spec in RESOURCES {
            // Some resources exclude each other; the first one is kept.
            let _ = config.add(full(spec));
        }
        let printed: Value = serde_json::from_str(&syntax::json::all(&config)).unwrap();
        assert!(printed["fs"][0]["options"].is_array(), "{printed}");
        assert!(printed["zonepath.template"].is_string());
        assert_eq!(check(&printed, &schema, ""), Ok(()));
        for (path, bad) in [
            ("/autoboot", json!("true")),
            ("/fs", json!([{}])),
            ("/brand", json!(7)),
        ] {
            let mut wrong = printed.clone();
            *wrong.pointer_mut(path).unwrap() = bad;
            assert!(check(&wrong, &schema, "").is_err(), "{path}");
        }
        assert!(
            check(
                &json!({ "zonename": "a", "brand": "lx", "x": 1 }),
                &schema,
                ""
            )
            .is_err()
        );
    }
}
