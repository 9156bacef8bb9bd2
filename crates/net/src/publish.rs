//! Publishes ports: the host forwards packets for one of its ports to a port of a zone (port
//! forwarding).
//!
//! The rules are part of the nftables table `inet zones`. Maps lead from a protocol and port of the
//! host, or from an address, protocol and port, to an address and port of a zone. They apply to
//! packets from outside and from zones (prerouting), and to packets of the host's own programs
//! (output). Clients keep their source address, except in two cases in which the zone could not
//! answer: programs of the host that connect to 127.0.0.1 or ::1, and connections of the zone to
//! itself.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::plan::network::Published;

use rustix::io::Errno;

use crate::host::HostLink;
use crate::make::PREFIX;
use crate::netlink::{Netlink, Refused};
use crate::record::Held;
use crate::request;

/// Published ports of a link, and the addresses to which they lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The published ports of the link.
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

/// The nftables words for an address family.
#[derive(Debug)]
struct Family {
    /// The name of the family in an expression.
    word: &'static str,
    /// The type of the family's addresses.
    address: &'static str,
    /// The loopback addresses of the family.
    loopback: &'static str,
    /// The names of the maps for all addresses of the host, and for one address.
    maps: [&'static str; 2],
}

const V4: Family = Family {
    word: "ip",
    address: "ipv4_addr",
    loopback: "127.0.0.0/8",
    maps: ["any4", "one4"],
};
const V6: Family = Family {
    word: "ip6",
    address: "ipv6_addr",
    loopback: "::1",
    maps: ["any6", "one6"],
};

/// The elements of the maps and of the set of one address family. They are sorted, so that equal
/// ports give equal text.
#[derive(Debug, Default)]
struct Elements {
    /// Elements of the map for all addresses of the host.
    any: BTreeSet<String>,
    /// Elements of the map for single addresses of the host.
    one: BTreeSet<String>,
    /// Elements of the set for zones that connect to themselves.
    own: BTreeSet<String>,
}

impl Elements {
    /// Returns the elements that lead to addresses of IPv6 if `v6` is true, otherwise of IPv4.
    fn of(forwards: &[Forward], v6: bool) -> Self {
        let mut all = Self::default();
        for forward in forwards {
            let to = match v6 {
                true => forward.v6.map(IpAddr::V6),
                false => forward.v4.map(IpAddr::V4),
            };
            let Some(to) = to else {
                continue;
            };
            all.own.insert(format!("{to} . {to}"));
            for published in &forward.ports {
                all.add(published, to);
            }
        }
        all
    }

    fn add(&mut self, published: &Published, to: IpAddr) {
        let protocol = published.protocol;
        for (port, inside) in published.ports() {
            let element = format!("{protocol} . {port} : {to} . {inside}");
            match published.address {
                None => self.any.insert(element),
                Some(ip) if ip.is_ipv6() == to.is_ipv6() => {
                    self.one.insert(format!("{ip} . {element}"))
                }
                Some(_) => false,
            };
        }
    }
}

/// The parts of the nftables table that publish ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The maps, sets and chains for published ports.
    pub chains: String,
    /// Rules that are added to the chain of source NAT.
    pub postrouting: String,
}

/// Returns the rules for these ports.
pub(crate) fn rules(forwards: &[Forward]) -> Rules {
    let (mut maps, mut lookups, mut postrouting) = (String::new(), String::new(), String::new());
    for family in [V4, V6] {
        let elements = Elements::of(forwards, family.word == V6.word);
        let [any, one] = family.maps;
        let word = family.word;
        let lists = [
            (
                one,
                &elements.one,
                format!("{} . ", family.address),
                format!("{word} daddr . "),
            ),
            (any, &elements.any, String::new(), String::new()),
        ];
        for (name, list, key, lookup) in lists {
            if list.is_empty() {
                continue;
            }
            let (address, elements) = (family.address, joined(list));
            // Writing to a String does not fail.
            let _ = writeln!(
                maps,
                "  map {name} {{
    type {key}inet_proto . inet_service : {address} . inet_service
    elements = {{ {elements} }}
  }}"
            );
            let _ = writeln!(
                lookups,
                "    meta l4proto {{ tcp, udp }} fib daddr type local \
                 dnat {word} to {lookup}meta l4proto . th dport map @{name}"
            );
        }
        if !elements.own.is_empty() {
            let (loopback, own) = (family.loopback, joined(&elements.own));
            let _ = writeln!(
                postrouting,
                "    ct status dnat {word} saddr {loopback} oifname \"{PREFIX}*\" masquerade
    ct status dnat {word} saddr . {word} daddr {{ {own} }} masquerade"
            );
        }
    }
    if lookups.is_empty() {
        return Rules::default();
    }
    // The priority for the hook output is a number, because some releases of nft do not accept the
    // word dstnat for this hook.
    let chains = [("prerouting", "dstnat"), ("output", "-100")].map(|(hook, priority)| {
        format!(
            "  chain {hook} {{
    type nat hook {hook} priority {priority}; policy accept;
{lookups}  }}
"
        )
    });
    Rules {
        chains: maps + &chains.concat(),
        postrouting,
    }
}

fn joined(list: &BTreeSet<String>) -> String {
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    list.join(", ")
}

/// Lets programs of the host reach the zone over a link through the host's 127.0.0.1 and ::1.
pub(crate) fn open_loopback(kernel: &Netlink, link: &HostLink) -> Result<(), Refused> {
    change_loopback(kernel, link, true)
}

/// Allows or forbids the host's loopback addresses on a link whose published ports have changed.
/// The caller must be in the host's network namespace.
///
/// # Errors
/// Fails with the change that the kernel refused.
pub fn adapt_loopback(kernel: &Netlink, held: &Held) -> Result<(), Refused> {
    match kernel.link(held.host.as_deref().unwrap_or_default()) {
        Ok(Some(link)) => change_loopback(kernel, &link, !held.published.is_empty()),
        // The link was removed in the meantime, together with its settings.
        _ => Ok(()),
    }
}

/// The kernel accepts an answer to 127.0.0.1 only on links with the setting `route_localnet`, and
/// an answer to ::1 only on links with a local route to ::1. The guard of the link drops packets
/// that the zone itself sends to 127.0.0.0/8, and the kernel drops packets of the zone to ::1.
fn change_loopback(kernel: &Netlink, link: &HostLink, is_open: bool) -> Result<(), Refused> {
    kernel.change(vec![request::route_localnet(&link.name, is_open)])?;
    match kernel.change(vec![request::own_loopback(link.index, is_open)]) {
        Err(error) if is_without_ipv6(&error) => Ok(()),
        other => other,
    }
}

/// Returns true if the kernel refused a route because it has no IPv6, or because the route does not
/// exist.
fn is_without_ipv6(error: &Refused) -> bool {
    matches!(
        error.errno(),
        Some(Errno::AFNOSUPPORT | Errno::OPNOTSUPP | Errno::SRCH | Errno::ACCESS)
    )
}

#[cfg(test)]
mod tests {
    use model::plan::network::Transport;

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
