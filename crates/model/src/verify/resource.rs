//! The rules for a single resource.

use crate::Config;
use crate::brands::Family;
use crate::config::{Period, Resource};
use crate::table::{Kind, is_known_rctl, short_size};
use crate::verify::problem::{Problem, invalid};

/// Returns every problem of one resource by itself. The command `end` of zonecfg makes these
/// checks.
#[must_use]
pub fn resource(resource: &Resource) -> Vec<Problem> {
    let name = resource.spec().name;
    let problems: Vec<Problem> = resource
        .missing()
        .map(|spec| Problem::NotSpecified(name, spec.name))
        .collect();
    if !problems.is_empty() {
        return problems;
    }
    match name {
        "attr" => attr(resource).into_iter().collect(),
        "fs" => fs(resource),
        // The host's root also holds the host's secrets, so a zone must not share the whole root.
        "inherit-pkg-dir" if resource.get("dir") == "/" => {
            vec![invalid(resource, "dir", "is the whole host")]
        }
        "capped-memory" => capped_memory(resource),
        "dedicated-cpu" => one_of(
            resource,
            &["ncpus", "cpus", "cores", "sockets"],
            "exactly one of ncpus, cpus, cores and sockets must be set.",
        ),
        "device" => device(resource),
        "suspend" => one_of(
            resource,
            &["path", "storage"],
            "exactly one of path and storage must be set.",
        ),
        "keysource" => keysource(resource),
        "rctl" => rctl(resource),
        "snapshots" => snapshots(resource),
        _ => Vec::new(),
    }
}

fn one_of(resource: &Resource, properties: &[&str], rule: &'static str) -> Vec<Problem> {
    let set = properties.iter().filter(|name| resource.has(name)).count();
    if set == 1 {
        return Vec::new();
    }
    vec![Problem::Choice {
        resource: resource.spec().name,
        rule,
    }]
}

/// Refuses a schedule that keeps no snapshot, because it would remove all automatic snapshots.
fn snapshots(snapshots: &Resource) -> Vec<Problem> {
    let is_kept = |period: &Period| snapshots.get(period.as_str()) != "0";
    if Period::ALL.iter().any(is_kept) {
        return Vec::new();
    }
    vec![Problem::Choice {
        resource: "snapshots",
        rule: "one of frequent, hourly, daily, weekly and monthly must be more than 0; remove snapshots ends the schedule.",
    }]
}

fn keysource(keysource: &Resource) -> Vec<Problem> {
    let mut problems = one_of(
        keysource,
        &["raw", "file"],
        "exactly one of raw and file must be set.",
    );
    let raw = keysource.get("raw");
    let digits = raw.len() == 64 && raw.bytes().all(|byte| byte.is_ascii_hexdigit());
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    let base64 = raw.len() == 44 && raw.ends_with('=') && raw.bytes().take(43).all(letter);
    if !raw.is_empty() && !digits && !base64 {
        let why = "is no key: 32 bytes in base64, or 64 hexadecimal digits";
        problems.push(invalid(keysource, "raw", why));
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

fn device(device: &Resource) -> Vec<Problem> {
    let mut problems = one_of(
        device,
        &["match", "storage"],
        "match must be set (in kz, match or storage).",
    );
    let pattern = device.get("match");
    let absolute = pattern.starts_with('/') && !pattern.split('/').any(|part| part == "..");
    if !pattern.is_empty() && !absolute && !pattern.starts_with('%') {
        problems.push(invalid(
            device,
            "match",
            "is not an absolute path without '..'",
        ));
    }
    problems
}

/// Minimum values of the caps (zonecfg(8)).
const LEAST_PHYSICAL: u64 = 1 << 20;
const LEAST_SWAP: u64 = 50 << 20;
const LEAST_SWAP_GLOBAL: u64 = 100 << 20;

fn capped_memory(memory: &Resource) -> Vec<Problem> {
    // swap and locked count too, because both are stored as resource controls, and a capped-memory
    // resource without them must still be readable.
    let properties = memory.spec().properties;
    if properties.iter().all(|spec| !memory.is_set(spec.name)) {
        return vec![Problem::Choice {
            resource: "capped-memory",
            rule: "one of physical, swap and locked must be set.",
        }];
    }
    let bytes = |name: &str| memory.get(name).parse::<u64>().ok();
    let mut problems = Vec::new();
    if bytes("physical").is_some_and(|physical| physical < LEAST_PHYSICAL) {
        problems.push(invalid(memory, "physical", "is less than 1M"));
    }
    if bytes("locked") > bytes("physical").or(Some(u64::MAX)) {
        problems.push(invalid(memory, "locked", "is more than physical"));
    }
    problems
}

/// Checks the rules on limits of memory that need the whole configuration.
pub(super) fn memory(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let limit = |rctl: &str| config.rctl_limit(rctl);
    let least = match config.family() {
        Family::Global => LEAST_SWAP_GLOBAL,
        _ => LEAST_SWAP,
    };
    let bad = |property, value: u64, why| Problem::Invalid {
        resource: "capped-memory",
        property,
        value: short_size(value),
        why,
    };
    if let Some(swap) = limit("zone.max-swap").filter(|swap| *swap < least) {
        problems.push(bad(
            "swap",
            swap,
            format!("is less than {}", short_size(least)),
        ));
    }
    let physical = config.capped_memory_physical();
    if let (Some(locked), Some(physical)) = (limit("zone.max-locked-memory"), physical) {
        if locked > physical {
            let why = format!("is more than physical, {}", short_size(physical));
            problems.push(bad("locked", locked, why));
        }
    }
    problems
}

fn rctl(rctl: &Resource) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !is_known_rctl(rctl.get("name")) {
        // The resource control belongs to another release, and its rules are not known; see
        // `without_effect`.
        return problems;
    }
    for value in rctl.list("value") {
        let field = |name: &str| value.field(name).unwrap_or_default();
        let shown = format!(
            "(priv={},limit={},action={})",
            field("priv"),
            field("limit"),
            field("action")
        );
        let mut bad = |why: &str| {
            problems.push(Problem::Invalid {
                resource: "rctl",
                property: "value",
                value: shown.clone(),
                why: why.to_owned(),
            });
        };
        if field("priv") != "privileged" {
            bad("is not privileged: other values cannot be set for a zone");
        }
        let plain = field("limit").bytes().all(|b| b.is_ascii_digit());
        if !plain || field("limit").parse::<u64>().is_err() {
            bad("has a limit that is not a whole number");
        }
        if !matches!(field("action"), "none" | "deny") {
            bad("has an action that is not none or deny");
        }
    }
    problems
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
    use crate::config::Value;
    use crate::table;

    fn resource(name: &str, properties: &[(&str, &str)]) -> Resource {
        let mut resource = Resource::new(table::resource(name).unwrap());
        for (property, value) in properties {
            resource.set(property, value).unwrap();
        }
        resource
    }

    fn texts(resource: &Resource) -> Vec<String> {
        let problems = super::resource(resource);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn memory_has_a_least_size_and_a_property() {
        assert_eq!(
            texts(&resource("capped-memory", &[])),
            ["capped-memory: one of physical, swap and locked must be set."]
        );
        assert_eq!(
            texts(&resource(
                "capped-memory",
                &[("physical", "512K"), ("locked", "1M")]
            )),
            [
                "capped-memory physical: Invalid argument: '524288' is less than 1M.",
                "capped-memory locked: Invalid argument: '1048576' is more than physical."
            ]
        );
        assert_eq!(
            texts(&resource("capped-memory", &[("locked", "1M")])),
            [""; 0]
        );
        let mut config = Config::new("web1".parse().unwrap());
        config
            .add(resource("capped-memory", &[("swap", "40m")]))
            .unwrap();
        assert_eq!(
            memory(&config)[0].to_string(),
            "capped-memory swap: Invalid argument: '40M' is less than 50M."
        );
    }

    #[test]
    fn choices_must_be_made_once() {
        assert_eq!(texts(&resource("suspend", &[("path", "/a")])), [""; 0]);
        assert_eq!(texts(&resource("suspend", &[])).len(), 1);
        let both = [("path", "/a"), ("storage", "file:///b")];
        assert_eq!(texts(&resource("suspend", &both)).len(), 1);
        assert_eq!(
            texts(&resource("dedicated-cpu", &[("importance", "1")])).len(),
            1
        );
        assert_eq!(
            texts(&resource("device", &[("match", "/dev/sd[ab]")])),
            [""; 0]
        );
        assert_eq!(
            texts(&resource("device", &[("match", "/dev/../etc")])).len(),
            1
        );
        assert_eq!(texts(&resource("device", &[])).len(), 1);
    }

    #[test]
    fn rctl_values_are_those_of_zones() {
        let mut rctl = resource("rctl", &[("name", "zone.max-lwps")]);
        assert_eq!(texts(&rctl), ["rctl: value not specified"]);
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let value = vec![
            pair("priv", "basic"),
            pair("limit", "+1"),
            pair("action", "signal"),
        ];
        rctl.add_value("value", Value::Complex(value)).unwrap();
        assert_eq!(texts(&rctl).len(), 3);
    }
}
