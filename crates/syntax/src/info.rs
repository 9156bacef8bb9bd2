//! Builds the output of `info`.

use model::Config;
use model::config::{Resource, Value};
use model::table::{self, GLOBAL, Kind, PropertySpec, RESOURCES, ResourceSpec, Show};

use crate::command::Filters;

/// Returns the whole configuration: first the global properties, set or not, then the resources by
/// type.
#[must_use]
pub fn all(config: &Config) -> String {
    let mut out = String::new();
    for spec in GLOBAL {
        let value = config.get(spec.name);
        let printed = spec.brands.has(config.family())
            && (spec.show != Show::WhenSet || value != spec.default);
        if printed {
            out.push_str(&property(config, spec));
        }
    }
    for spec in RESOURCES {
        out.push_str(&resources(config, spec, &Filters::new()));
    }
    out
}

/// Returns the line of a global property with its tokens expanded. If the value has tokens, a line
/// with the unexpanded value precedes that line. A limit is printed in brackets, and only if the
/// limit is set.
#[must_use]
pub fn property(config: &Config, spec: &PropertySpec) -> String {
    let mut out = String::new();
    let value = config.get(spec.name);
    let expanded = config.expanded(spec, value);
    if expanded.is_some() {
        line(&mut out, "", &format!("{}.template", spec.name), value);
    }
    let value = readable(spec, expanded.as_deref().unwrap_or(value));
    if spec.alias().is_some() {
        if !value.is_empty() {
            out.push_str(&format!("[{}: {value}]\n", spec.name));
        }
    } else {
        line(&mut out, "", spec.name, &value);
    }
    out
}

/// Returns the resources of one type that match the filters.
#[must_use]
pub fn resources(config: &Config, spec: &'static ResourceSpec, filters: &Filters) -> String {
    let instances = config.instances(spec);
    let matching = instances
        .iter()
        .filter(|resource| resource.matches(config, filters));
    matching.map(|one| resource(config, one)).collect()
}

/// Returns the lines of a resource. The resource may be incomplete.
#[must_use]
pub fn resource(config: &Config, resource: &Resource) -> String {
    let spec = resource.spec();
    let mut out = format!("{}:\n", spec.name);
    for property in spec.properties {
        // A property that this brand does not have is shown only if it is set.
        let foreign = !property.brands.has_in_resource(config.family());
        let later = property.show == Show::WhenSet && property.alias().is_none();
        if !(foreign || later) || resource.is_set(property.name) {
            resource_property(&mut out, config, resource, property);
        }
    }
    out
}

/// Adds the lines of one property of a resource.
pub fn resource_property(
    out: &mut String,
    config: &Config,
    resource: &Resource,
    spec: &PropertySpec,
) {
    let value = resource.get(spec.name);
    if let Kind::Complex(_) = spec.kind {
        for value in resource.list(spec.name) {
            line(out, "\t", spec.name, &shown(value));
        }
    } else if spec.is_list() {
        let list: Vec<String> = resource.list(spec.name).iter().map(shown).collect();
        line(out, "\t", spec.name, &format!("[{}]", list.join(",")));
    } else if spec.alias().is_some() {
        if !value.is_empty() {
            out.push_str(&format!("\t[{}: {}]\n", spec.name, readable(spec, value)));
        }
    } else if value.is_empty() && matches!(spec.kind, Kind::Size) {
        // A limit without a value is not shown.
    } else if value.is_empty() {
        out.push_str(&format!("\t{} not specified\n", spec.name));
    } else if spec.secret {
        // Solaris prints this word for a secret. `export` prints the value of the secret.
        out.push_str(&format!("\t{} redacted\n", spec.name));
    } else if let Some(expanded) = config.expanded_in(resource, spec.name, value) {
        line(
            out,
            "\t",
            &format!("{}.template", spec.name),
            &quoted(value),
        );
        line(out, "\t", spec.name, &quoted(&expanded));
    } else {
        line(out, "\t", spec.name, &quoted(&readable(spec, value)));
    }
}

fn line(out: &mut String, indent: &str, name: &str, value: &str) {
    out.push_str(indent);
    out.push_str(name);
    out.push_str(": ");
    out.push_str(value);
    out.push('\n');
}

/// Returns a size in its short form, and any other value unchanged.
fn readable(spec: &PropertySpec, value: &str) -> String {
    match (spec.kind, value.parse()) {
        (Kind::Size, Ok(bytes)) => table::short_size(bytes),
        _ => value.to_owned(),
    }
}

/// Puts a value with blanks in double quotes. As on Solaris, `info` quotes no other characters,
/// while `export` quotes every value that needs quotes.
fn quoted(value: &str) -> String {
    if value.contains(' ') {
        format!("\"{value}\"")
    } else {
        value.to_owned()
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Simple(text) => quoted(text),
        Value::Complex(pairs) => {
            let pairs: Vec<String> = pairs.iter().map(|(n, v)| format!("{n}={v}")).collect();
            format!("({})", pairs.join(","))
        }
        Value::List(values) => {
            let values: Vec<String> = values.iter().map(shown).collect();
            format!("[{}]", values.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web1() -> Config {
        let mut config = Config::new("web1".parse().unwrap());
        config.set_zonepath("/zones/web1").unwrap();
        config
    }

    fn add(config: &mut Config, name: &str, properties: &[(&str, &str)]) {
        let mut resource = Resource::new(table::resource(name).unwrap());
        for (property, value) in properties {
            resource.set(property, value).unwrap();
        }
        config.add(resource).unwrap();
    }

    #[test]
    fn empty_properties_are_printed() {
        assert_eq!(
            all(&web1()),
            "zonename: web1\nzonepath: /zones/web1\nbrand: native\nautoboot: false\nautoshutdown: shutdown\n\
             bootargs: \nfile-mac-profile: \npool: \nlimitpriv: \nscheduling-class: \nip-type: shared\n\
             hostid: \ntenant: \nfs-allowed: \n"
        );
    }

    #[test]
    fn resources_follow_in_the_order_of_the_table() {
        let mut config = web1();
        add(
            &mut config,
            "attr",
            &[
                ("name", "comment"),
                ("type", "string"),
                ("value", "two words"),
            ],
        );
        add(
            &mut config,
            "fs",
            &[
                ("dir", "/%{zonename}"),
                ("special", "/srv"),
                ("type", "lofs"),
                ("options", "ro"),
            ],
        );
        add(&mut config, "inherit-pkg-dir", &[("dir", "/usr")]);
        let text = all(&config);
        let (_, resources) = text.split_once("fs-allowed: \n").unwrap();
        assert_eq!(
            resources,
            "inherit-pkg-dir:\n\tdir: /usr\n\
             fs:\n\tdir.template: /%{zonename}\n\tdir: /web1\n\tspecial: /srv\n\traw not specified\n\ttype: lofs\n\toptions: [ro]\n\
             attr:\n\tname: comment\n\ttype: string\n\tvalue: \"two words\"\n"
        );
    }

    #[test]
    fn a_template_path_is_shown_expanded_too() {
        let mut config = web1();
        config.set_zonepath("/zones/%{zonename}").unwrap();
        assert!(
            all(&config).contains("zonepath.template: /zones/%{zonename}\nzonepath: /zones/web1\n")
        );
        let spec = table::global("zonepath").unwrap();
        assert_eq!(
            property(&config, spec),
            "zonepath.template: /zones/%{zonename}\nzonepath: /zones/web1\n"
        );
    }

    #[test]
    fn properties_of_a_link_that_do_nothing_here_are_shown_as_on_solaris() {
        let mut config = web1();
        config.set("ip-type", "exclusive").unwrap();
        add(&mut config, "anet", &[]);
        let text = resource(&config, &config.resources()[0]);
        for name in ["mac-prefix", "mac-slot", "rxrings", "txrings"] {
            let line = format!("\t{name} not specified\n");
            assert!(text.contains(&line), "{name}\n{text}");
        }
        assert!(!text.contains("vsi-typeid"), "{text}");
    }
}
