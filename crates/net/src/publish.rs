//! Published ports: packets for a port of the host go to a port of a zone (port forwarding).
//!
//! The rules are part of our table `inet zones`. Maps lead from protocol and port, or from
//! address, protocol and port, to address and port of a zone. They hold for packets from
//! outside and from zones (prerouting), and for those of the host's own programs (output).
//! Clients keep their source address but for two cases, which the zone could not answer:
//! programs of the host that connect to 127.0.0.1 or ::1, and the zone itself.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::plan::network::{Published, Transport};

use crate::make::PREFIX;
use crate::netlink::Request;
use crate::record::Held;
use crate::request;

/// Published ports of a link, and the addresses to which they lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The ports.
    pub ports: Vec<Published>,
    /// The first IPv4 address of the link.
    pub v4: Option<Ipv4Addr>,
    /// The first IPv6 address of the link.
    pub v6: Option<Ipv6Addr>,
}

impl Forward {
    /// Returns the published ports of a link that the host holds; `None` if it has none.
    #[must_use]
    pub fn of(held: &Held) -> Option<Self> {
        if held.published.is_empty() {
            return None;
        }
        let ips = || held.addresses.iter().map(|one| one.ip);
        Some(Self {
            ports: held.published.clone(),
            v4: ips().find_map(|ip| match ip {
                IpAddr::V4(ip) => Some(ip),
                IpAddr::V6(_) => None,
            }),
            v6: ips().find_map(|ip| match ip {
                IpAddr::V4(_) => None,
                IpAddr::V6(ip) => Some(ip),
            }),
        })
    }
}

/// The elements of the maps and sets, in order, so that equal ports give equal text.
#[derive(Debug, Default)]
struct Elements {
    /// For all addresses of the host.
    any4: BTreeSet<String>,
    any6: BTreeSet<String>,
    /// For one address of the host.
    one4: BTreeSet<String>,
    one6: BTreeSet<String>,
    /// Zones that connect to themselves.
    own4: BTreeSet<String>,
    own6: BTreeSet<String>,
}

impl Elements {
    fn of(forwards: &[Forward]) -> Self {
        let mut all = Self::default();
        for forward in forwards {
            for published in &forward.ports {
                for (port, inside) in published.ports() {
                    all.add(forward, published, port, inside);
                }
            }
            all.own4
                .extend(forward.v4.iter().map(|ip| format!("{ip} . {ip}")));
            all.own6
                .extend(forward.v6.iter().map(|ip| format!("{ip} . {ip}")));
        }
        all
    }

    fn add(&mut self, forward: &Forward, published: &Published, port: u16, inside: u16) {
        let protocol: Transport = published.protocol;
        let address = published.address;
        if let Some(to) = forward.v4 {
            match address {
                None => self
                    .any4
                    .insert(format!("{protocol} . {port} : {to} . {inside}")),
                Some(IpAddr::V4(ip)) => self
                    .one4
                    .insert(format!("{ip} . {protocol} . {port} : {to} . {inside}")),
                Some(IpAddr::V6(_)) => false,
            };
        }
        if let Some(to) = forward.v6 {
            match address {
                None => self
                    .any6
                    .insert(format!("{protocol} . {port} : {to} . {inside}")),
                Some(IpAddr::V6(ip)) => self
                    .one6
                    .insert(format!("{ip} . {protocol} . {port} : {to} . {inside}")),
                Some(IpAddr::V4(_)) => false,
            };
        }
    }
}

/// The parts of the nftables table that publish ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Maps, sets and chains of their own.
    pub chains: String,
    /// Rules for the chain of source NAT.
    pub postrouting: String,
}

/// Returns the rules for these ports.
pub(crate) fn rules(forwards: &[Forward]) -> Rules {
    let elements = Elements::of(forwards);
    let mut chains = String::new();
    let mut lookups = String::new();
    let mut postrouting = String::new();
    let lists = [
        (&elements.one4, "one4", "ip", "ipv4_addr"),
        (&elements.one6, "one6", "ip6", "ipv6_addr"),
        (&elements.any4, "any4", "ip", "ipv4_addr"),
        (&elements.any6, "any6", "ip6", "ipv6_addr"),
    ];
    for (list, name, family, address) in lists {
        if list.is_empty() {
            continue;
        }
        let (key, lookup) = match name.starts_with("one") {
            true => (
                format!("{address} . "),
                format!("{family} daddr . meta l4proto . th dport"),
            ),
            false => (String::new(), "meta l4proto . th dport".to_owned()),
        };
        // Writing to a String does not fail.
        let _ = writeln!(
            chains,
            "  map {name} {{\n    type {key}inet_proto . inet_service : {address} . inet_service\n    elements = {{ {} }}\n  }}",
            joined(list)
        );
        let _ = writeln!(
            lookups,
            "    meta l4proto {{ tcp, udp }} fib daddr type local dnat {family} to {lookup} map @{name}"
        );
    }
    if lookups.is_empty() {
        return Rules::default();
    }
    for (chain, hook, priority) in [
        ("prerouting", "prerouting", "dstnat"),
        // The word dstnat is not for this hook in every release of nft.
        ("output", "output", "-100"),
    ] {
        let _ = writeln!(
            chains,
            "  chain {chain} {{\n    type nat hook {hook} priority {priority}; policy accept;\n{lookups}  }}"
        );
    }
    for (family, loopback, own) in [
        ("ip", "127.0.0.0/8", &elements.own4),
        ("ip6", "::1", &elements.own6),
    ] {
        if own.is_empty() {
            continue;
        }
        let _ = writeln!(
            postrouting,
            "    ct status dnat {family} saddr {loopback} oifname \"{PREFIX}*\" masquerade\n    \
             ct status dnat {family} saddr . {family} daddr {{ {} }} masquerade",
            joined(own)
        );
    }
    Rules {
        chains,
        postrouting,
    }
}

fn joined(list: &BTreeSet<String>) -> String {
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    list.join(", ")
}

/// Lets programs of the host reach the zone over its own 127.0.0.1 and ::1, or no longer.
///
/// The kernel takes an answer to 127.0.0.1 only on links with the setting `route_localnet`,
/// and one to ::1 only on links with a local route to ::1. The guard of the link drops packets
/// that the zone itself sends to 127.0.0.0/8, and the kernel those to ::1.
pub(crate) fn loopback_over(name: &str, index: u32, is_open: bool) -> Vec<Request> {
    vec![
        request::route_localnet(name, is_open),
        request::own_loopback(index, is_open),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forward(ports: &[(Transport, Option<&str>, u16, u16, u16)]) -> Forward {
        let port =
            |(protocol, address, first, last, inside): &(_, Option<&str>, _, _, _)| Published {
                protocol: *protocol,
                address: address.map(|text| text.parse().unwrap()),
                first: *first,
                last: *last,
                inside: *inside,
            };
        Forward {
            ports: ports.iter().map(port).collect(),
            v4: Some(Ipv4Addr::new(10, 208, 0, 16)),
            v6: Some("fd7a::10".parse().unwrap()),
        }
    }

    #[test]
    fn no_ports_give_no_rules() {
        assert_eq!(rules(&[]), Rules::default());
    }

    #[test]
    fn a_port_of_all_addresses_leads_to_both_addresses_of_the_zone() {
        let rules = rules(&[forward(&[(Transport::Tcp, None, 8080, 8081, 80)])]);
        for wanted in [
            "elements = { tcp . 8080 : 10.208.0.16 . 80, tcp . 8081 : 10.208.0.16 . 81 }",
            "elements = { tcp . 8080 : fd7a::10 . 80, tcp . 8081 : fd7a::10 . 81 }",
            "fib daddr type local dnat ip to meta l4proto . th dport map @any4",
            "hook output",
        ] {
            assert!(rules.chains.contains(wanted), "{wanted}\n{}", rules.chains);
        }
        assert!(!rules.chains.contains("one4"), "{}", rules.chains);
        assert!(
            rules.postrouting.contains("10.208.0.16 . 10.208.0.16"),
            "{}",
            rules.postrouting
        );
    }

    #[test]
    fn a_port_of_one_address_leads_to_the_address_of_its_family() {
        let rules = rules(&[forward(&[(
            Transport::Udp,
            Some("192.0.2.1"),
            53,
            53,
            5353,
        )])]);
        let element = "192.0.2.1 . udp . 53 : 10.208.0.16 . 5353";
        assert!(rules.chains.contains(element), "{}", rules.chains);
        assert!(!rules.chains.contains("one6"), "{}", rules.chains);
        assert!(!rules.chains.contains("any"), "{}", rules.chains);
    }
}
