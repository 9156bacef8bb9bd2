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
