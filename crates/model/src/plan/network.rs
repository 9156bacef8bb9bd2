//! The links that a zone has.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// A link of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Its name in the zone.
    pub name: String,
    /// The link or bridge that it is made on.
    pub over: Over,
    /// Its Ethernet address; none for a moved link, which keeps its own.
    pub mac: Option<Mac>,
    /// Longest packet in bytes; none for a moved link that keeps its own.
    pub mtu: Option<u32>,
    /// Longest packet to the outside, where that is shorter than to other zones.
    pub outside_mtu: Option<u32>,
    /// The addresses that it is given.
    pub addresses: Vec<Subnet>,
    /// The routers of the default routes.
    pub routers: Vec<IpAddr>,
    /// The limits on addresses that the zone may use as a source.
    pub protection: Protection,
    /// Most bytes a second in each direction.
    pub rate: Option<u64>,
    /// The traffic that goes first when the lower link is busy.
    pub priority: Option<Priority>,
    /// The ports of the host that lead to the addresses of this link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

/// The lower link of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The host routes for the zone, and answers for its addresses on the uplink.
    Routed {
        /// The link of the host that leads to the zone's neighbours; none where only
        /// the host and its zones know the addresses.
        uplink: Option<String>,
        /// True if the host lends its own address to the outside.
        translated: bool,
    },
    /// A port of a bridge of the host.
    Port {
        /// The bridge.
        bridge: String,
    },
    /// An Ethernet address of its own on a link of the host.
    Wire {
        /// The link.
        lower: String,
        /// The VLAN on it.
        vlan: Option<u16>,
    },
    /// A link of the host that moves into the zone.
    Moved {
        /// The link.
        nic: String,
    },
}

/// A port of the host, or a range of ports, that leads to a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Published {
    /// The protocol.
    pub protocol: Transport,
    /// The address of the host; none for all its addresses.
    pub address: Option<IpAddr>,
    /// The first port of the host.
    pub first: u16,
    /// The last port of the host.
    pub last: u16,
    /// The port of the zone to which the first port leads; the next port leads to the next.
    pub inside: u16,
}

/// A protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Published {
    /// Returns each port of the host with the port of the zone to which it leads.
    pub fn ports(&self) -> impl Iterator<Item = (u16, u16)> {
        let inside = self.inside..=u16::MAX;
        (self.first..=self.last).zip(inside)
    }

    /// Returns whether a packet can be for both.
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
    /// The address.
    pub ip: IpAddr,
    /// Length of the network's prefix in bits.
    pub prefix: u8,
}

/// The rules against false source addresses on a link: the values of link-protection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// Another Ethernet address than the link's.
    pub mac: bool,
    /// Other addresses than these, with their prefix lengths; none admits all.
    pub sources: Option<Vec<Subnet>>,
    /// To be a DHCP server or a router that announces itself.
    pub dhcp: bool,
    /// The DHCP client ids that the zone may use; if empty, only the one made of the link's
    /// Ethernet address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<Vec<u8>>,
    /// Other protocols than IPv4, IPv6 and ARP.
    pub restricted: bool,
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

/// The traffic that goes first when the lower link is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// After everything else.
    Low,
    /// As the rest.
    Medium,
    /// Before everything else.
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

    /// Reads six bytes in hexadecimal, of one or two digits each as Solaris prints them.
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
