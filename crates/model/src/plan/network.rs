//! The network links of a zone.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A network link of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The name of the link in the zone.
    pub name: String,
    /// The link or bridge of the host on which the link is created.
    pub over: Over,
    /// The Ethernet address of the link; `None` for a moved link, which keeps its own address.
    pub mac: Option<Mac>,
    /// Maximum packet length in bytes; `None` for a moved link that keeps its own maximum.
    pub mtu: Option<u32>,
    /// Maximum length of packets that leave the host, in bytes, if it is less than between zones.
    pub outside_mtu: Option<u32>,
    /// The addresses that the link gets.
    pub addresses: Vec<Subnet>,
    /// The routers of the default routes.
    pub routers: Vec<IpAddr>,
    /// The limits on source addresses of the zone's packets.
    pub protection: Protection,
    /// Maximum rate in bytes per second, in each direction.
    pub rate: Option<u64>,
    /// The priority of the link's traffic when the lower link is busy.
    pub priority: Option<Priority>,
    /// The published ports: ports of the host that lead to the addresses of this link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// The label of the zone; `None` for a zone without a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LinkLabel>,
}

/// The label of a link, and the other ends that it may talk to besides zones of the same label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkLabel {
    /// The label in hexadecimal.
    pub label: String,
    /// The networks of the host and of the outside, and for each true if the label is one of the
    /// network's labels. The longest prefix of an address decides. Addresses in no network have no
    /// label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remotes: Vec<(Subnet, bool)>,
    /// The ports of the zone that other labels may reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<MultilevelPort>,
}

/// Ports of a zone that zones and hosts of other labels may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MultilevelPort {
    /// The transport protocol of the ports.
    pub protocol: Transport,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

/// The link or bridge of the host below a zone's link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The host routes for the zone, and answers for its addresses on the uplink.
    Routed {
        /// The uplink: the host's link that leads to the zone's neighbours; `None` if only the host
        /// and its zones know the addresses.
        uplink: Option<String>,
        /// True if the host translates the zone's addresses to its own address (NAT).
        translated: bool,
    },
    /// The link is a port of a bridge of the host.
    Port {
        /// The name of the bridge.
        bridge: String,
    },
    /// The link has its own Ethernet address on a link of the host.
    Wire {
        /// The link of the host.
        lower: String,
        /// The VLAN on the host's link.
        vlan: Option<u16>,
    },
    /// The link is a link of the host that moves into the zone.
    Moved {
        /// The link of the host.
        nic: String,
    },
}

/// A port of the host, or a range of ports, that leads to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Published {
    /// The transport protocol of the ports.
    pub protocol: Transport,
    /// The address of the host; `None` means all addresses of the host.
    pub address: Option<IpAddr>,
    /// The first published port of the host.
    pub first: u16,
    /// The last published port of the host.
    pub last: u16,
    /// The port of the zone to which the first port of the host leads. Each further port leads to
    /// the next port of the zone.
    pub inside: u16,
}

/// A transport protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Published {
    /// Returns each published port of the host, and the port of the zone to which it leads.
    pub fn ports(&self) -> impl Iterator<Item = (u16, u16)> {
        let inside = self.inside..=u16::MAX;
        (self.first..=self.last).zip(inside)
    }

    /// Returns true if one packet can match both publications.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let is_one_address = match (self.address, other.address) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        self.protocol == other.protocol
            && is_one_address
            && self.first <= other.last
            && other.first <= self.last
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            None => {}
            Some(IpAddr::V4(ip)) => write!(f, "{ip}:")?,
            Some(IpAddr::V6(ip)) => write!(f, "[{ip}]:")?,
        }
        write!(f, "{}", self.first)?;
        if self.last > self.first {
            write!(f, "-{}", self.last)?;
        }
        write!(f, "/{}", self.protocol)
    }
}

/// An address with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Subnet {
    /// The IP address.
    pub ip: IpAddr,
    /// Length of the network's prefix in bits.
    pub prefix: u8,
}

/// The rules against false source addresses on a link: the values of link-protection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// True if the zone must not send from an Ethernet address other than the link's.
    pub mac: bool,
    /// The only source addresses that the zone may use, with their prefix lengths; `None` admits
    /// all addresses.
    pub sources: Option<Vec<Subnet>>,
    /// True if the zone must not act as a DHCP server, nor as a router that announces itself.
    pub dhcp: bool,
    /// The DHCP client ids that the zone may use. If the list of client ids is empty, the zone may
    /// use only the id made of the link's Ethernet address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Vec<u8>>,
    /// True if the zone may use only the protocols IPv4, IPv6 and ARP.
    pub restricted: bool,
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

/// The priority of a link's traffic when the lower link is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// Packets are sent after all other traffic.
    Low,
    /// Packets have the same priority as most traffic.
    Medium,
    /// Packets are sent before all other traffic.
    High,
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl std::str::FromStr for Mac {
    type Err = ();

    /// Parses six bytes in hexadecimal. Each byte of the Ethernet address has one or two digits, as
    /// Solaris prints them.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|part| (1..=2).contains(&part.len()));
            *byte = u8::from_str_radix(part.ok_or(())?, 16).map_err(|_| ())?;
        }
        match parts.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(()),
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routed { uplink, translated } => {
                f.write_str("routed by the host")?;
                if let Some(uplink) = uplink {
                    write!(f, " to {uplink}")?;
                }
                f.write_str(if *translated { ", translated" } else { "" })
            }
            Self::Port { bridge } => write!(f, "port of {bridge}"),
            Self::Wire { lower, vlan } => {
                write!(f, "on {lower}")?;
                vlan.map_or(Ok(()), |vlan| write!(f, " vlan {vlan}"))
            }
            Self::Moved { nic } => write!(f, "{nic} of the host"),
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.over)?;
        self.addresses
            .iter()
            .try_for_each(|address| write!(f, " {address}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(address: Option<&str>, first: u16, last: u16) -> Published {
        Published {
            protocol: Transport::Tcp,
            address: address.map(|text| text.parse().unwrap()),
            first,
            last,
            inside: first,
        }
    }

    #[test]
    fn ports_overlap_if_a_packet_can_be_for_both() {
        let all = port(None, 8000, 8010);
        assert!(all.overlaps(&port(Some("192.0.2.1"), 8010, 8010)));
        assert!(!all.overlaps(&port(None, 8011, 8011)));
        let one = port(Some("192.0.2.1"), 80, 80);
        assert!(!one.overlaps(&port(Some("2001:db8::1"), 80, 80)));
        assert!(!one.overlaps(&Published {
            protocol: Transport::Udp,
            ..one
        }));
        assert_eq!(all.to_string(), "8000-8010/tcp");
        let six = port(Some("2001:db8::1"), 80, 80);
        assert_eq!(six.to_string(), "[2001:db8::1]:80/tcp");
    }

    #[test]
    fn the_last_port_leads_to_the_last_port() {
        let to_the_end = Published {
            inside: 65_534,
            ..port(None, 80, 81)
        };
        let ports: Vec<_> = to_the_end.ports().collect();
        assert_eq!(ports, [(80, 65_534), (81, 65_535)]);
    }

    #[test]
    fn ethernet_addresses_are_read_as_solaris_prints_them() {
        let mac: Mac = "0:14:4f:a:b:cc".parse().unwrap();
        assert_eq!(mac.to_string(), "00:14:4f:0a:0b:cc");
        for bad in [
            "",
            "0:1:2:3:4",
            "0:1:2:3:4:5:6",
            "0:1:2:3:4:123",
            "g:1:2:3:4:5",
        ] {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }
}
