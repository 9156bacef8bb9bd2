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
    let mut lines: Vec<String> = globals
        .filter_map(|spec| Some(format!("{}: {}", spec.name, phrase(spec.effect)?)))
        .collect();
    for one in config.resources() {
        let spec = one.spec();
        if config.family() == Family::Global {
            lines.push(format!(
                "{}: has no effect on the global zone yet",
                spec.name
            ));
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
    fn controls_of_the_global_zone_are_only_stored() {
        let mut config = Config::new(crate::ZoneName::global());
        assert_eq!(without_effect(&config), [""; 0]);
        config.set("cpu-shares", "10").unwrap();
        assert_eq!(
            without_effect(&config),
            ["rctl: has no effect on the global zone yet"]
        );
    }
}
