//! The rules that a configuration must meet before it is stored.
//!
//! The rules of this module need only the configuration itself. `zoneadm verify` also checks if a
//! zone could run on this host.

mod cpu;
mod effect;
mod network;
mod problem;
mod resource;

use crate::Config;
use crate::brands::Family;
use crate::config::IpType;
use crate::immutable::{DYNAMIC, PROPERTY, Profile};
use crate::table::GLOBAL;

pub use effect::without_effect;
pub use problem::Problem;
pub use resource::resource;

/// Returns every problem of a configuration, in the table's order.
#[must_use]
pub fn config(config: &Config) -> Vec<Problem> {
    let family = config.family();
    let foreign = |what| Problem::Brand {
        what,
        brand: match family {
            Family::Global => crate::name::GLOBAL.to_owned(),
            _ => config.brand().to_owned(),
        },
    };
    let mut problems = Vec::new();
    for spec in GLOBAL {
        let value = config.get(spec.name);
        // A kernel zone keeps all of its data in its disks, so its zonepath is not required.
        let needed = spec.required && spec.brands.has(family) && family != Family::Kz;
        if needed && value.is_empty() {
            problems.push(Problem::Empty(spec.name));
        }
        if !spec.brands.has(family) && value != spec.default {
            problems.push(foreign(spec.name));
        }
    }
    if config.pool().starts_with("SUNW") {
        problems.push(Problem::Reserved { property: "pool" });
    }
    if config.get("autoshutdown") == "suspend" && family != Family::Kz {
        problems.push(foreign("autoshutdown=suspend"));
    }
    // A kernel zone has its own kernel, and therefore its own network stack.
    if family == Family::Kz && config.ip_type() != IpType::Exclusive {
        problems.push(foreign("ip-type=shared"));
    }
    problems.extend(immutable(config));
    for one in config.resources() {
        let spec = one.spec();
        if !spec.brands.has(family) {
            problems.push(foreign(spec.name));
        }
        let set = spec.properties.iter().filter(|spec| one.is_set(spec.name));
        for property in set.filter(|property| !property.brands.has_in_resource(family)) {
            problems.push(foreign(property.name));
        }
        problems.extend(resource(one));
    }
    problems.extend(cpu::problems(config));
    problems.extend(network::problems(config));
    problems.extend(resource::memory(config));
    problems
}

/// Returns the problem of a profile that no zone, or no zone of this brand, can have.
fn immutable(config: &Config) -> Option<Problem> {
    let value = config.get(PROPERTY);
    let why = if value == DYNAMIC {
        "a zone has no zones of its own here: use fixed-configuration"
    } else if config.family() == Family::Kz && Profile::of(config).is_some() {
        "the kernel of the zone mounts its own disks: mount them read-only in the guest, or give it \
         read-only disks"
    } else {
        return None;
    };
    Some(Problem::Profile {
        value: value.to_owned(),
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Resource;
    use crate::table;

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
    fn a_profile_without_a_meaning_is_refused() {
        for (brand, profile, problem) in [
            ("lx", "none", None),
            ("lx", "strict", None),
            (
                "lx",
                "dynamic-zones",
                Some("a zone has no zones of its own here"),
            ),
            ("kz", "none", None),
            ("kz", "fixed-configuration", Some("mounts its own disks")),
        ] {
            let mut config = Config::new("web".parse().unwrap());
            config.set("zonepath", "/zones/web").unwrap();
            config.set("brand", brand).unwrap();
            if brand == "kz" {
                config.set("ip-type", "exclusive").unwrap();
            }
            config.set(PROPERTY, profile).unwrap();
            let found = texts(&super::config(&config));
            assert_eq!(found.len(), usize::from(problem.is_some()), "{found:?}");
            for (text, part) in found.iter().zip(problem) {
                assert!(
                    text.starts_with(&format!("{PROPERTY}={profile}: ")),
                    "{text}"
                );
                assert!(text.contains(part), "{text}");
            }
        }
    }

    #[test]
    fn a_machine_has_no_links_of_the_host() {
        let mut config = Config::new("k1".parse().unwrap());
        config.set("zonepath", "/zones/k1").unwrap();
        config.set("brand", "solaris-kz").unwrap();
        config.set("ip-type", "exclusive").unwrap();
        config
            .add(resource("net", &[("physical", "eth1")]))
            .unwrap();
        assert_eq!(
            texts(&super::config(&config)),
            ["net: not allowed for brand 'solaris-kz'."]
        );
        config.set("ip-type", "shared").unwrap();
        let first = &texts(&super::config(&config))[0];
        assert_eq!(first, "ip-type=shared: not allowed for brand 'solaris-kz'.");
    }

    #[test]
    fn a_schedule_that_keeps_nothing_is_refused() {
        let nothing = ["frequent", "hourly", "daily", "weekly", "monthly"].map(|one| (one, "0"));
        let problems = super::resource(&resource("snapshots", &nothing));
        assert_eq!(
            texts(&problems),
            [
                "snapshots: one of frequent, hourly, daily, weekly and monthly must be more than 0; remove snapshots ends the schedule."
            ]
        );
        assert_eq!(super::resource(&resource("snapshots", &nothing[1..])), []);
    }

    #[test]
    fn a_kernel_zone_can_have_a_schedule_of_snapshots() {
        let mut config = Config::new("k1".parse().unwrap());
        config.set("brand", "solaris-kz").unwrap();
        config.set("ip-type", "exclusive").unwrap();
        config.add(resource("snapshots", &[])).unwrap();
        assert_eq!(texts(&super::config(&config)), [""; 0]);
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
                "inherit-pkg-dir: not allowed for brand 'lx'.",
                "inherit-pkg-dir: not allowed for brand 'lx'.",
                "inherit-pkg-dir dir: Invalid argument: '/' is the whole host.",
                "fs dir: Invalid argument: '/' is the root of the zone.",
                "fs special: Invalid argument: 'x' is not an absolute path.",
                "fs: special not specified",
                "fs: type not specified",
                "invalid attr value for type=int",
            ]
        );
    }
}
