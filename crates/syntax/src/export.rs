//! Prints the commands that recreate a configuration, for `export`.

use model::Config;
use model::config::{Resource, Value};
use model::table::{self, GLOBAL, Kind, PropertySpec, RESOURCES, Show};

use crate::lex::is_reserved;

/// Returns the commands, one per line. Any zone that reads the commands gets the same
/// configuration.
#[must_use]
pub fn export(config: &Config) -> String {
    let mut out = String::from("create -b\n");
    for spec in GLOBAL {
        if spec.alias().is_some() || !spec.brands.has(config.family()) {
            // Limits are exported as rctl resources.
            continue;
        }
        let value = config.get(spec.name);
        let is_default = value == spec.default;
        if is_default && spec.show != Show::Always {
            continue;
        }
        // As on Solaris, the brand is exported only if it is not the default, a boolean or choice
        // always, and a text only if it is not empty.
        if spec.kind != Kind::ZoneName
            && !(is_default && (spec.kind == Kind::Brand || value.is_empty()))
        {
            set(&mut out, spec.name, value);
        }
    }
    let rest = RESOURCES
        .iter()
        .map(|spec| spec.name)
        .filter(|name| !ORDER.contains(name));
    for name in ORDER.iter().copied().chain(rest) {
        for one in config.resources_of(name) {
            resource(&mut out, one);
        }
    }
    out
}

/// The order of resource types in exports of Solaris, which differs from the order of `info`. In an
/// export, resources of all other types follow at the end.
const ORDER: &[&str] = &[
    "inherit-pkg-dir",
    "fs",
    "net",
    "device",
    "capped-memory",
    "rctl",
    "attr",
    "dataset",
    "dedicated-cpu",
];

/// Writes the commands that add one resource.
pub fn resource(out: &mut String, resource: &Resource) {
    let spec = resource.spec();
    out.push_str(&format!("add {}\n", spec.name));
    for property in spec.properties {
        let value = resource.get(property.name);
        // Only the set properties of a resource are exported. Limits are separate rctl resources.
        if resource.is_set(property.name) && !value.is_empty() {
            set(out, property.name, &written(property, value));
        }
        for value in resource.list(property.name) {
            out.push_str(&format!("add {} {}\n", property.name, shown(value)));
        }
    }
    out.push_str("end\n");
}

/// Returns a value as export writes it: a size with a suffix, any other value unchanged.
fn written(spec: &PropertySpec, value: &str) -> String {
    match (spec.kind, value.parse()) {
        (Kind::Size, Ok(bytes)) => table::exact_size(bytes),
        _ => value.to_owned(),
    }
}

/// Writes the command that sets a property, with the value in quotes if the language requires them.
pub fn set(out: &mut String, name: &str, value: &str) {
    out.push_str(&format!("set {name}={}\n", quoted(value, false)));
}

fn shown(value: &Value) -> String {
    match value {
        Value::Simple(text) => quoted(text, false),
        Value::Complex(pairs) => {
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{name}={}", quoted(value, true)))
                .collect();
            format!("({})", pairs.join(","))
        }
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(shown).collect();
            format!("[{}]", values.join(","))
        }
    }
}

/// Puts a value in double quotes if the language requires them.
fn quoted(value: &str, in_brackets: bool) -> String {
    let must = value.is_empty()
        || value.chars().any(is_reserved)
        || value.starts_with('#')
        || (in_brackets && value.contains(','));
    if must {
        format!("\"{value}\"")
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_exported_as_what_they_are() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set_zonepath("/zones/web1").unwrap();
        config.set("cpu-shares", "5").unwrap();
        let mut memory = Resource::new(table::resource("capped-memory").unwrap());
        memory.set("physical", "1536M").unwrap();
        memory.set("swap", "2g").unwrap();
        config.add(memory).unwrap();
        assert_eq!(
            export(&config),
            "create -b\nset zonepath=/zones/web1\nset autoboot=false\nset ip-type=shared\n\
             add capped-memory\nset physical=1536M\nend\n\
             add rctl\nset name=zone.cpu-shares\nadd value (priv=privileged,limit=5,action=none)\nend\n\
             add rctl\nset name=zone.max-swap\nadd value (priv=privileged,limit=2147483648,action=deny)\nend\n"
        );
    }

    #[test]
    fn is_what_the_original_prints() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set_zonepath("/zones/web1").unwrap();
        config.set("bootargs", "-m verbose").unwrap();
        let mut fs = Resource::new(table::resource("fs").unwrap());
        for (property, value) in [("dir", "/a"), ("special", "/b"), ("type", "lofs")] {
            fs.set(property, value).unwrap();
        }
        fs.add_value("options", Value::List(vec!["ro".into(), "a=b".into()]))
            .unwrap();
        config.add(fs).unwrap();
        assert_eq!(
            export(&config),
            "create -b\nset zonepath=/zones/web1\nset autoboot=false\n\
             set bootargs=\"-m verbose\"\nset ip-type=shared\n\
             add fs\nset dir=/a\nset special=/b\nset type=lofs\nadd options ro\nadd options \"a=b\"\nend\n"
        );
        config.set("brand", "lx").unwrap();
        assert!(export(&config).contains("\nset brand=lx\n"));
    }
}
