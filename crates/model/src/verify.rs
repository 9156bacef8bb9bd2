//! The rules a configuration must meet before it is stored.
//!
//! Only what can be told from the configuration itself; whether a zone could
//! run on this host is `zoneadm verify`'s question.

use crate::Config;
use crate::config::Resource;
use crate::table::{self, GLOBAL, Kind};

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A required global property has no value.
    #[error("{0} cannot be empty.")]
    Empty(&'static str),
    /// A required property of a resource has no value.
    #[error("{0}: {1} not specified")]
    NotSpecified(&'static str, &'static str),
    /// The brand has no such property or resource.
    #[error("{what}: not allowed for brand '{brand}'.")]
    Brand {
        /// The property or resource.
        what: &'static str,
        /// The configured brand.
        brand: String,
    },
    /// The value of an attr does not have its type.
    #[error("invalid attr value for type={0}")]
    AttrValue(String),
    /// A name that is kept for the system.
    #[error("{property}: names that begin with SUNW are reserved.")]
    Reserved {
        /// The property.
        property: &'static str,
    },
    /// A value that is legal for its property but not in this resource.
    #[error("{resource} {property}: Invalid argument: '{value}' {why}.")]
    Invalid {
        /// The resource type.
        resource: &'static str,
        /// The property.
        property: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Problem {
    /// The library's phrase for problems of this kind.
    #[must_use]
    pub const fn phrase(&self) -> &'static str {
        match self {
            Self::Empty(_) | Self::NotSpecified(..) => "Required property missing",
            Self::Brand { .. } => "Incompatible settings",
            Self::AttrValue(_) | Self::Reserved { .. } | Self::Invalid { .. } => "Invalid argument",
        }
    }
}

/// Every problem of a configuration, in the table's order.
#[must_use]
pub fn config(config: &Config) -> Vec<Problem> {
    let family = config.family();
    let foreign = |what| Problem::Brand {
        what,
        brand: config.brand().to_owned(),
    };
    let mut problems = Vec::new();
    for spec in GLOBAL {
        let value = config.get(spec.name);
        if spec.required && value.is_empty() {
            problems.push(Problem::Empty(spec.name));
        }
        if !spec.brands.has(family) && value != spec.default {
            problems.push(foreign(spec.name));
        }
    }
    if config.pool().starts_with("SUNW") {
        problems.push(Problem::Reserved { property: "pool" });
    }
    for one in config.resources() {
        if !one.spec().brands.has(family) {
            problems.push(foreign(one.spec().name));
        }
        problems.extend(resource(one));
    }
    problems
}

/// Global properties that are stored and exported, and that no boot acts on yet.
const WITHOUT_EFFECT: &[&str] = &[
    "autoboot",
    "pool",
    "scheduling-class",
    "hostid",
    "fs-allowed",
];

/// A line for each setting of a configuration that is legal but changes nothing yet:
/// whoever relies on it must know.
#[must_use]
pub fn without_effect(config: &Config) -> Vec<String> {
    let is_set = |name: &str| table::global(name).is_some_and(|p| config.get(name) != p.default);
    WITHOUT_EFFECT
        .iter()
        .filter(|name| is_set(name))
        .map(|name| format!("{name}: has no effect here yet"))
        .collect()
}

/// Every problem of one resource by itself: what `end` checks.
#[must_use]
pub fn resource(resource: &Resource) -> Vec<Problem> {
    let name = resource.spec().name;
    let mut problems: Vec<Problem> = resource
        .missing()
        .map(|spec| Problem::NotSpecified(name, spec.name))
        .collect();
    if !problems.is_empty() {
        return problems;
    }
    match name {
        "attr" => problems.extend(attr(resource)),
        "fs" => problems.extend(fs(resource)),
        "inherit-pkg-dir" if resource.get("dir") == "/" => {
            // The host's secrets lie there too.
            problems.push(invalid(resource, "dir", "is the whole host"));
        }
        _ => {}
    }
    problems
}

fn fs(fs: &Resource) -> Vec<Problem> {
    let mut problems = Vec::new();
    if fs.get("dir") == "/" {
        problems.push(invalid(fs, "dir", "is the root of the zone"));
    }
    if fs.get("type") == "lofs" && !fs.get("special").starts_with('/') {
        problems.push(invalid(fs, "special", "is not an absolute path"));
    }
    problems
}

fn invalid(resource: &Resource, property: &'static str, why: &'static str) -> Problem {
    Problem::Invalid {
        resource: resource.spec().name,
        property,
        value: resource.get(property).to_owned(),
        why,
    }
}

fn attr(attr: &Resource) -> Option<Problem> {
    let value = attr.get("value");
    let legal = match attr.get("type") {
        "int" => value.parse::<i64>().is_ok(),
        "uint" => value.parse::<u64>().is_ok(),
        "boolean" => Kind::Bool.check("value", value).is_ok(),
        _ => true,
    };
    (!legal).then(|| Problem::AttrValue(attr.get("type").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(name: &str, properties: &[(&str, &str)]) -> Resource {
        let mut resource = Resource::new(table::resource(name).unwrap());
        for (property, value) in properties {
            resource.set(property, value).unwrap();
        }
        resource
    }

    fn attr(kind: &str, value: &str) -> Resource {
        resource("attr", &[("name", "x"), ("type", kind), ("value", value)])
    }

    fn texts(problems: &[Problem]) -> Vec<String> {
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn attr_values_have_their_type() {
        for (kind, good, bad) in [
            ("int", "-7", "x"),
            ("uint", "7", "-7"),
            ("boolean", "true", "yes"),
        ] {
            assert_eq!(super::resource(&attr(kind, good)), []);
            assert_eq!(super::resource(&attr(kind, bad)).len(), 1, "{kind} {bad}");
        }
        assert_eq!(super::resource(&attr("string", "yes")), []);
    }

    #[test]
    fn what_has_no_effect_is_named_where_it_is_set() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set("bootargs", "-s").unwrap();
        config.set("ip-type", "exclusive").unwrap();
        assert_eq!(without_effect(&config), [""; 0]);
        for (name, value) in [
            ("hostid", "7"),
            ("fs-allowed", "ext4"),
            ("pool", "web"),
            ("scheduling-class", "FSS"),
            ("autoboot", "true"),
        ] {
            config.set(name, value).unwrap();
        }
        let lines = without_effect(&config);
        assert_eq!(lines.len(), WITHOUT_EFFECT.len());
        assert_eq!(lines[1], "pool: has no effect here yet");
    }

    #[test]
    fn all_problems_are_collected() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set("brand", "lx").unwrap();
        config.set("pool", "SUNWpool").unwrap();
        config.add(attr("int", "x")).unwrap();
        for dir in ["/usr", "/"] {
            config
                .add(resource("inherit-pkg-dir", &[("dir", dir)]))
                .unwrap();
        }
        config
            .add(resource(
                "fs",
                &[("dir", "//"), ("special", "x"), ("type", "lofs")],
            ))
            .unwrap();
        config.add(resource("fs", &[("dir", "/a")])).unwrap();
        assert_eq!(
            texts(&super::config(&config)),
            [
                "zonepath cannot be empty.",
                "pool: names that begin with SUNW are reserved.",
                "invalid attr value for type=int",
                "inherit-pkg-dir: not allowed for brand 'lx'.",
                "inherit-pkg-dir: not allowed for brand 'lx'.",
                "inherit-pkg-dir dir: Invalid argument: '/' is the whole host.",
                "fs dir: Invalid argument: '/' is the root of the zone.",
                "fs special: Invalid argument: 'x' is not an absolute path.",
                "fs: special not specified",
                "fs: type not specified",
            ]
        );
    }
}
