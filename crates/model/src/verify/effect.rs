//! Finds legal settings that have no effect, so that users do not rely on them.

use crate::brands::Family;
use crate::config::{IpType, ON_FAILURE, RESTART};
use crate::table::{Effect, GLOBAL, PropertySpec, is_known_rctl};
use crate::{Config, privilege};

/// Returns a line for each setting that has no effect. Several resources of one type get only one
/// line.
#[must_use]
pub fn without_effect(config: &Config) -> Vec<String> {
    let globals = GLOBAL.iter().filter(|spec| {
        let value = config.get(spec.name);
        !value.is_empty() && value != spec.default
    });
    let mut lines: Vec<String> = globals.filter_map(|spec| global(config, spec)).collect();
    let raw = privilege::wants_raw_of_host(config.get("limitpriv"), config.ip_type());
    if raw == Ok(true) {
        lines.push(
            "limitpriv: net_rawaccess has no effect here: the network of a shared-IP zone is \
             the host's; ip-type=exclusive gives raw sockets"
                .to_owned(),
        );
    }
    for one in config.resources() {
        let spec = one.spec();
        if config.family() == Family::Global {
            // The processes of the global zone are in control groups that the host's own programs
            // manage.
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
            // If the whole resource has no effect, its properties need no lines of their own.
            let phrase = phrase(property.effect).filter(|_| spec.effect != Effect::None)?;
            Some(format!("{}: {} {phrase}", spec.name, property.name))
        });
        lines.extend(idle);
        let is_shared = config.ip_type() == IpType::Shared;
        if spec.name == "net" && is_shared && one.get("configure-allowed-address") == "false" {
            lines.push(
                "net: configure-allowed-address has no effect with ip-type=shared: the host \
                 configures the zone's address at each boot"
                    .to_owned(),
            );
        }
        let is_restart = spec.name == "attr" && one.get("name") == RESTART;
        if is_restart && ![ON_FAILURE, "never"].contains(&one.get("value")) {
            lines.push(format!(
                "attr restart={} has no effect: on-failure or never is expected",
                one.get("value")
            ));
        }
        if spec.name == "rctl" && !is_known_rctl(one.get("name")) {
            // zoneadm(8) of Solaris prints this message.
            lines.push(format!("Ignoring unrecognized rctl '{}'.", one.get("name")));
        }
        if one.get("name") == "zone.max-lofi" {
            lines.push("rctl: zone.max-lofi has no effect here".to_owned());
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    lines.retain(|line| seen.insert(line.clone()));
    lines
}

/// Scheduling classes whose processes share the CPU time. A zone with fixed or real-time priorities
/// could keep the host from running.
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
    fn each_ineffective_property_is_named_once() {
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
    fn a_restart_policy_that_is_not_known_is_named() {
        for (value, lines) in [("on-failure", 0), ("never", 0), ("always", 1)] {
            let mut config = Config::new("web1".parse().unwrap());
            let mut attr = Resource::new(table::resource("attr").unwrap());
            for (name, value) in [("name", RESTART), ("type", "string"), ("value", value)] {
                attr.set(name, value).unwrap();
            }
            config.add(attr).unwrap();
            assert_eq!(without_effect(&config).len(), lines, "{value}");
        }
    }

    #[test]
    fn the_global_zone_has_only_cpu_shares_in_effect() {
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
