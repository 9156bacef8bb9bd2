//! Checks that the network resources of a zone fit its ip-type.

use std::collections::HashSet;

use crate::Config;
use crate::config::IpType;
use crate::verify::problem::{Problem, invalid};

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
        // Several resources may name the addresses of one link.
        if !links.insert(net.get("physical")) && !net.has("allowed-address") {
            problems.push(invalid(net, "physical", "is there twice"));
        }
    }
    if shared && config.resources_of("anet").next().is_some() {
        problems.push(Problem::Incompatible("anet", "ip-type=shared"));
    }
    for anet in config.resources_of("anet") {
        if anet.has("defrouter") && !anet.has("allowed-address") {
            problems.push(invalid(anet, "defrouter", "needs allowed-address"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Resource;
    use crate::table;

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
}
