//! Finds firewalls of the host that drop the packets of zones, and the commands that admit them.
//!
//! Zones never changes the rules of another program: the administrator may have dropped the packets
//! on purpose.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::TABLE;
use crate::make::PREFIX;

/// The programs whose rules this module knows, and rules of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Docker,
    Ufw,
    Firewalld,
    Other,
}

/// Returns a warning for each firewall of the host that drops the packets of zones; none if nft(8)
/// cannot tell. The caller must be in the host's network namespace.
#[must_use]
pub fn firewall_warnings() -> Vec<String> {
    let mut nft = Command::new("nft");
    nft.args(["-j", "list", "ruleset"]);
    let output = nft.stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = output.map(|output| output.stdout).unwrap_or_default();
    let parsed: Value = serde_json::from_slice(&text).unwrap_or_default();
    Ruleset::of(&parsed).map_or_else(Vec::new, |rules| warnings(&rules))
}

/// A ruleset as nft(8) prints it.
struct Ruleset<'a> {
    chains: Vec<&'a Value>,
    rules: Vec<&'a Value>,
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl<'a> Ruleset<'a> {
    fn of(parsed: &'a Value) -> Option<Self> {
        let objects = parsed.get("nftables")?.as_array()?;
        let all = |kind: &str| -> Vec<&'a Value> {
            let of_kind = objects.iter().filter_map(|one| one.get(kind));
            of_kind.filter(|one| text(one, "table") != TABLE).collect()
        };
        Some(Self {
            chains: all("chain"),
            rules: all("rule"),
        })
    }

    /// Returns the base chains at a hook that drop packets unless a rule admits them.
    fn closed(&self, hook: &str) -> Vec<&'a Value> {
        let is_closed = |chain: &&Value| {
            // firewalld accepts by default and ends its chain with a rejection.
            let drops = text(chain, "policy") == "drop" || text(chain, "table") == "firewalld";
            let filters = text(chain, "type") == "filter" && text(chain, "hook") == hook;
            drops && filters && !self.admits(chain, hook)
        };
        let chains = self.chains.iter().copied();
        chains.filter(is_closed).collect()
    }

    /// Returns true if a rule in the table of a base chain names the links of zones and belongs to
    /// the hook.
    fn admits(&self, base: &Value, hook: &str) -> bool {
        let is_same_table = |rule: &Value| {
            ["family", "table"]
                .iter()
                .all(|key| text(rule, key) == text(base, key))
        };
        let mut rules = self.rules.iter().filter(|rule| is_same_table(rule));
        rules.any(|rule| {
            let chain = text(rule, "chain");
            let belongs = chain == text(base, "name")
                || text(base, "table") == "firewalld"
                || chain.to_lowercase().contains(hook)
                || (hook == "forward" && chain == "DOCKER-USER");
            belongs && names_zones(rule)
        })
    }

    /// Returns the owner of the table of a base chain.
    fn owner(&self, base: &Value) -> Owner {
        if text(base, "table") == "firewalld" {
            return Owner::Firewalld;
        }
        let has = |wanted: fn(&str) -> bool| {
            self.chains.iter().any(|chain| {
                let is_same = ["family", "table"]
                    .iter()
                    .all(|key| text(chain, key) == text(base, key));
                is_same && wanted(text(chain, "name"))
            })
        };
        if has(|name| name.starts_with("ufw-") || name.starts_with("ufw6-")) {
            Owner::Ufw
        } else if has(|name| name == "DOCKER-USER") {
            Owner::Docker
        } else {
            Owner::Other
        }
    }
}

/// Returns true if a rule matches the names of the host's ends of zones' links.
fn names_zones(rule: &Value) -> bool {
    let matches = rule.get("expr").and_then(Value::as_array);
    let wildcard = format!("{PREFIX}*");
    matches.into_iter().flatten().any(|one| {
        let right = one.get("match").and_then(|one| one.get("right"));
        right.and_then(Value::as_str) == Some(&wildcard)
    })
}

fn warnings(ruleset: &Ruleset<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut known = Vec::new();
    for (hook, effect) in [
        (
            "forward",
            "drops what is routed, so zones reach only the host",
        ),
        (
            "input",
            "keeps zones from the resolver of the host, so they have no names",
        ),
    ] {
        for chain in ruleset.closed(hook) {
            let family = text(chain, "family");
            let command = command(ruleset.owner(chain), hook, family);
            // One command may serve several chains.
            if known.contains(&command) {
                continue;
            }
            let (table, name) = (text(chain, "table"), text(chain, "name"));
            lines.push(format!(
                "the host's firewall (table {family} {table}, chain {name}) {effect}: {command}"
            ));
            known.push(command);
        }
    }
    lines
}

/// Returns the command that admits the packets of zones, in the words of the firewall's owner.
fn command(owner: Owner, hook: &str, family: &str) -> String {
    let iptables = if family == "ip6" {
        "ip6tables"
    } else {
        "iptables"
    };
    match (owner, hook) {
        (Owner::Docker, "forward") => format!(
            "{iptables} -I DOCKER-USER -i {PREFIX}+ -j ACCEPT; {iptables} -I DOCKER-USER -o \
             {PREFIX}+ -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT"
        ),
        (Owner::Ufw, "forward") => format!(
            "ufw route allow in on {PREFIX}+; for published ports also ufw route allow out on \
             {PREFIX}+"
        ),
        (Owner::Ufw, _) => format!("ufw allow in on {PREFIX}+ to any port 53"),
        (Owner::Firewalld, _) => format!(
            "firewall-cmd --permanent --zone=trusted --add-interface={PREFIX}+ && firewall-cmd \
             --reload"
        ),
        (_, "forward") => format!("admit interfaces {PREFIX}* there"),
        _ => format!("admit port 53 of interfaces {PREFIX}* there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(family: &str, table: &str, name: &str, hook: &str, policy: &str) -> Value {
        let mut chain = serde_json::json!({ "family": family, "table": table, "name": name });
        if !hook.is_empty() {
            chain["type"] = "filter".into();
            chain["hook"] = hook.into();
            chain["policy"] = policy.into();
        }
        serde_json::json!({ "chain": chain })
    }

    fn rule(table: &str, chain: &str, link: &str) -> Value {
        let left = serde_json::json!({ "meta": { "key": "iifname" } });
        let matched = serde_json::json!({ "match": { "op": "==", "left": left, "right": link } });
        serde_json::json!({ "rule": {
            "family": "ip", "table": table, "chain": chain, "expr": [matched, { "accept": null }],
        } })
    }

    fn warned(objects: &[Value]) -> String {
        let parsed = serde_json::json!({ "nftables": objects });
        warnings(&Ruleset::of(&parsed).unwrap()).join("\n")
    }

    #[test]
    fn the_command_is_in_the_words_of_the_program_that_drops() {
        let docker = [
            chain("ip", "filter", "FORWARD", "forward", "drop"),
            chain("ip", "filter", "INPUT", "input", "accept"),
            chain("ip", "filter", "DOCKER-USER", "", ""),
        ];
        let text = warned(&docker);
        assert!(
            text.contains(": iptables -I DOCKER-USER -i zone+ -j ACCEPT"),
            "{text}"
        );
        let ufw = [
            chain("ip", "filter", "FORWARD", "forward", "drop"),
            chain("ip", "filter", "INPUT", "input", "drop"),
            chain("ip", "filter", "ufw-user-forward", "", ""),
        ];
        let text = warned(&ufw);
        assert!(text.contains("ufw route allow in on zone+"), "{text}");
        assert!(
            text.contains("ufw allow in on zone+ to any port 53"),
            "{text}"
        );
        let firewalld = [
            chain("inet", "firewalld", "filter_FORWARD", "forward", "accept"),
            chain("inet", "firewalld", "filter_INPUT", "input", "accept"),
        ];
        let text = warned(&firewalld);
        assert_eq!(text.matches("--add-interface=zone+").count(), 1, "{text}");
    }

    #[test]
    fn rules_for_the_links_of_zones_end_the_warning() {
        let mut rules = vec![
            chain("ip", "filter", "FORWARD", "forward", "drop"),
            chain("ip", "filter", "ufw-user-forward", "", ""),
            chain("inet", TABLE, "forward", "forward", "drop"),
        ];
        rules.push(rule("filter", "ufw-user-forward", "eth0"));
        assert!(warned(&rules).contains("ufw route"));
        // A rule of another hook does not admit what is routed.
        rules.push(rule("filter", "ufw-user-input", "zone*"));
        assert!(warned(&rules).contains("ufw route"));
        rules.push(rule("filter", "ufw-user-forward", "zone*"));
        assert_eq!(warned(&rules), "");
    }

    #[test]
    fn an_open_firewall_is_no_reason_for_a_warning() {
        let open = chain("ip", "filter", "FORWARD", "forward", "accept");
        assert_eq!(warned(&[open]), "");
        assert_eq!(warned(&[]), "");
    }
}
