//! What is legal and changes nothing: whoever relies on it must know.

use crate::Config;
use crate::brands::Family;
use crate::table::{Effect, GLOBAL, PropertySpec};

/// A line for each such setting of a configuration, once for all resources of a type.
#[must_use]
pub fn without_effect(config: &Config) -> Vec<String> {
    let globals = GLOBAL.iter().filter(|spec| {
        let value = config.get(spec.name);
        !value.is_empty() && value != spec.default
    });
    let mut lines: Vec<String> = globals.filter_map(|spec| global(config, spec)).collect();
    for one in config.resources() {
        let spec = one.spec();
        if config.family() == Family::Global {
            // Its processes are in control groups of the host, and those are not ours.
            let name = match one.get("name") {
                "zone.cpu-shares" => continue,
                "" => spec.name,
                rctl => rctl,
            };
            lines.push(format!("{name}: has no effect on the global zone"));
            continue;
        }
        if let Some(phrase) = phrase(spec.effect) {
            lines.push(format!("{}: {phrase}", spec.name));
        }
        let set = spec
            .properties
            .iter()
            .filter(|property| one.is_set(property.name));
        let idle = set.filter_map(|property: &PropertySpec| {
            // What the whole resource does not do needs no second line.
            let phrase = phrase(property.effect).filter(|_| spec.effect != Effect::None)?;
            Some(format!("{}: {} {phrase}", spec.name, property.name))
        });
        lines.extend(idle);
        if one.get("name") == "zone.max-lofi" {
            lines.push("rctl: zone.max-lofi has no effect here".to_owned());
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
}

/// Classes whose processes share the CPUs by time. A zone that could have fixed or
/// real-time priorities could keep the host from running.
const SHARING: &[&str] = &["FSS", "TS", "IA"];

fn global(config: &Config, spec: &PropertySpec) -> Option<String> {
    let name = spec.name;
    if config.family() == Family::Global && matches!(name, "pool" | "scheduling-class") {
        return Some(format!("{name}: has no effect on the global zone"));
    }
    let class = config.scheduling_class();
    let shares = SHARING.iter().any(|one| one.eq_ignore_ascii_case(class));
    if name == "scheduling-class" && !shares {
        return Some(format!(
            "{name}: {class} has no effect here: zones are scheduled by shares, as in FSS"
        ));
    }
    Some(format!("{name}: {}", phrase(spec.effect)?))
}

const fn phrase(effect: Effect) -> Option<&'static str> {
    match effect {
        Effect::Honoured => None,
        Effect::NotYet => Some("has no effect here yet"),
        Effect::None => Some("has no effect here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Resource;
    use crate::table;

    #[test]
    fn each_is_named_once() {
        let mut config = Config::new("web1".parse().unwrap());
        config.set("bootargs", "-s").unwrap();
        assert_eq!(without_effect(&config), [""; 0]);
        config.set("tenant", "blue").unwrap();
        for dir in ["/a", "/b"] {
            let mut fs = Resource::new(table::resource("fs").unwrap());
            for (name, value) in [
                ("dir", dir),
                ("special", "/x"),
                ("raw", "/r"),
                ("type", "ext4"),
            ] {
                fs.set(name, value).unwrap();
            }
            config.add(fs).unwrap();
        }
        assert_eq!(
            without_effect(&config),
            ["tenant: has no effect here", "fs: raw has no effect here"]
        );
    }

    #[test]
    fn of_the_controls_of_the_global_zone_shares_have_an_effect() {
        let mut config = Config::new(crate::ZoneName::global());
        assert_eq!(without_effect(&config), [""; 0]);
        config.set("cpu-shares", "10").unwrap();
        assert_eq!(without_effect(&config), [""; 0]);
        config.set("max-sem-ids", "10").unwrap();
        config.set("pool", "web").unwrap();
        assert_eq!(
            without_effect(&config),
            [
                "pool: has no effect on the global zone",
                "zone.max-sem-ids: has no effect on the global zone"
            ]
        );
    }

    #[test]
    fn classes_that_are_not_given_are_named() {
        let mut config = Config::new("web1".parse().unwrap());
        for class in ["FSS", "ts", "IA"] {
            config.set("scheduling-class", class).unwrap();
            assert_eq!(without_effect(&config), [""; 0]);
        }
        config.set("scheduling-class", "RT").unwrap();
        assert_eq!(
            without_effect(&config),
            ["scheduling-class: RT has no effect here: zones are scheduled by shares, as in FSS"]
        );
    }
}
