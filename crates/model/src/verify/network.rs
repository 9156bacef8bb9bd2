//! Checks that the network resources of a zone fit its ip-type.

use std::collections::HashSet;

use crate::Config;
use crate::config::{IpType, Resource, published_by};
use crate::plan::network::Published;
use crate::table;
use crate::verify::problem::{Problem, invalid};

/// Maximum number of ports of the host that a zone publishes. Each port is an element of a map of
/// nftables, and each boot of a zone writes the whole map.
const MAX_PUBLISHED_PORTS: usize = 1024;

pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let shared = config.ip_type() == IpType::Shared;
    let mut problems = Vec::new();
    let mut links = HashSet::new();
    for net in config.resources_of("net") {
        if shared {
            if !net.has("address") {
                problems.push(Problem::NotSpecified("net", "address"));
            }
            if net.has("allowed-address") {
                problems.push(invalid(
                    net,
                    "allowed-address",
                    "is for exclusive IP: a shared-IP zone has exactly its address",
                ));
            }
            continue;
        }
        if net.has("address") {
            problems.push(invalid(
                net,
                "address",
                "is for shared IP: use allowed-address, or configure it in the zone",
            ));
        }
        if net.has("defrouter") && !net.has("allowed-address") {
            problems.push(invalid(net, "defrouter", "needs allowed-address"));
        }
        // Several `net` resources may add allowed addresses to one link.
        if !links.insert(net.get("physical")) && !net.has("allowed-address") {
            problems.push(invalid(net, "physical", "is there twice"));
        }
    }
    if shared && config.resources_of("anet").next().is_some() {
        problems.push(Problem::Incompatible("anet", "ip-type=shared"));
    }
    problems.extend(published(config));
    for anet in config.resources_of("anet") {
        if anet.has("defrouter") && !anet.has("allowed-address") {
            problems.push(invalid(anet, "defrouter", "needs allowed-address"));
        }
        problems.extend(floating(anet));
    }
    problems
}

/// Returns the problem of an address that the zone configures itself. Without allowed-address, the
/// zone may use every address already. A link with addresses of the pool has no place where other
/// hosts look for an address.
fn floating(anet: &Resource) -> Option<Problem> {
    let why = match anet.get("lower-link") {
        _ if !anet.has("floating-address") => return None,
        "" | "auto" => "needs a lower-link: the host routes to the addresses of auto only",
        _ if anet.has("allowed-address") => return None,
        _ => "needs allowed-address: without it, the zone may use every address",
    };
    Some(invalid(anet, "floating-address", why))
}

/// Returns the problems of the ports that the zone publishes.
fn published(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut ports: Vec<Published> = Vec::new();
    for resource in config.resources_of("publish") {
        let host = table::port_range(resource.get("host-port"));
        let inside = table::port_range(resource.get("zone-port"));
        if let (Some(host), Some(inside)) = (host, inside) {
            if host.1 - host.0 != inside.1 - inside.0 {
                let why = "is not as long a range as host-port";
                problems.push(invalid(resource, "zone-port", why));
            }
        }
        let Some(own) = published_by(resource) else {
            continue;
        };
        if ports.iter().any(|other| other.overlaps(&own)) {
            problems.push(invalid(resource, "host-port", "is published twice"));
        }
        ports.push(own);
    }
    let number: usize = ports.iter().map(|one| one.ports().count()).sum();
    if number > MAX_PUBLISHED_PORTS {
        problems.push(Problem::Choice {
            resource: "publish",
            rule: "a zone publishes at most 1024 ports",
        });
    }
    let is_routed = match config.ip_type() {
        IpType::Shared => config.resources_of("net").next().is_some(),
        IpType::Exclusive => config
            .resources_of("anet")
            .any(|anet| matches!(anet.get("lower-link"), "" | "auto")),
    };
    if !ports.is_empty() && !is_routed {
        problems.push(Problem::Choice {
            resource: "publish",
            rule: "needs an anet with lower-link=auto, or a net of a shared-IP zone",
        });
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Resource;

    fn with(ip_type: &str, resources: &[(&str, &[(&str, &str)])]) -> Vec<String> {
        let mut config = Config::new("web1".parse().unwrap());
        config.set("ip-type", ip_type).unwrap();
        for (name, properties) in resources {
            let mut resource = Resource::new(table::resource(name).unwrap());
            for (property, value) in *properties {
                resource.set(property, value).unwrap();
            }
            config.add(resource).unwrap();
        }
        problems(&config).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn shared_zones_have_addresses() {
        let good: &[(&str, &str)] = &[("physical", "eth0"), ("address", "10.0.0.2/24")];
        assert_eq!(with("shared", &[("net", good)]), [""; 0]);
        assert_eq!(
            with("shared", &[("net", &[("physical", "eth0")]), ("anet", &[])]),
            [
                "net: address not specified",
                "anet cannot be used together with ip-type=shared."
            ]
        );
    }

    #[test]
    fn ports_are_published_once_and_need_a_link_of_the_pool() {
        let port = |host: &'static str| ("publish", [("host-port", host), ("zone-port", "80")]);
        let (one, range) = (port("8080"), port("8000-8100"));
        let anet: (&str, &[(&str, &str)]) = ("anet", &[]);
        assert_eq!(with("exclusive", &[anet, (one.0, &one.1)]), [""; 0]);
        assert_eq!(
            with("shared", &[(one.0, &one.1)]),
            ["publish: needs an anet with lower-link=auto, or a net of a shared-IP zone"]
        );
        assert_eq!(
            with("exclusive", &[anet, (one.0, &one.1), (range.0, &range.1)]),
            [
                "publish zone-port: Invalid argument: '80' is not as long a range as host-port.",
                "publish host-port: Invalid argument: '8000-8100' is published twice.",
            ]
        );
        let most: &[(&str, &str)] = &[("host-port", "1-1025")];
        assert_eq!(
            with("exclusive", &[anet, ("publish", most)]),
            ["publish: a zone publishes at most 1024 ports"]
        );
    }

    #[test]
    fn exclusive_zones_have_links() {
        let one: &[(&str, &str)] = &[("physical", "eth1"), ("allowed-address", "10.0.0.2/24")];
        let two: &[(&str, &str)] = &[("physical", "eth1"), ("allowed-address", "10.0.0.3/24")];
        assert_eq!(
            with("exclusive", &[("net", one), ("net", two), ("anet", &[])]),
            [""; 0]
        );
        let bad: &[(&str, &str)] = &[
            ("physical", "eth1"),
            ("address", "10.0.0.2/24"),
            ("defrouter", "10.0.0.1"),
        ];
        assert_eq!(with("exclusive", &[("net", bad)]).len(), 2);
    }

    #[test]
    fn a_floating_address_needs_a_link_on_the_lan_with_allowed_addresses() {
        let floating = ("floating-address", "10.0.0.9/24");
        let lower = ("lower-link", "eth1");
        let good: &[(&str, &str)] = &[lower, ("allowed-address", "10.0.0.2/24"), floating];
        assert_eq!(with("exclusive", &[("anet", good)]), [""; 0]);
        for (bad, why) in [
            (&[floating][..], "needs a lower-link"),
            (&[lower, floating], "needs allowed-address"),
        ] {
            let problems = with("exclusive", &[("anet", bad)]);
            assert!(
                problems.len() == 1 && problems[0].contains(why),
                "{problems:?}"
            );
        }
    }
}
