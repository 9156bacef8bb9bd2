//! A template, the multilevel ports of a zone, and their text.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ::label::{BadLabel, Label};
use model::ZoneName;
use model::name::BadName;
use model::plan::network::{MultilevelPort, Subnet, Transport};
use model::table::{Address, BadAddress};

/// The largest number of addresses and networks in all templates.
pub const MAX_HOSTS: usize = 4096;
/// The largest number of ranges of multilevel ports of one zone: its links compare each packet with
/// all of them.
pub const MAX_PORTS: usize = 32;

/// The largest length of a template's name.
const MAX_NAME_BYTES: usize = 63;
/// The largest length of a word of the file in a message.
const MAX_SHOWN_CHARS: usize = 60;

/// All addresses of IPv4.
pub(super) const ALL_IPV4: Subnet = Subnet {
    ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    prefix: 0,
};

/// A template or a port that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPart {
    /// A line begins with another word than `template` or `zone`, or has an unknown property.
    #[error("unknown word '{0}'")]
    Word(String),
    /// A line ends after its first word.
    #[error("a line without a name")]
    NoName,
    /// Two lines have the same name.
    #[error("a second line for '{0}'")]
    Second(String),
    /// The name of a template has other characters, or is too long.
    #[error("template name '{0}': use 1 to 63 letters, digits, '-', '_' and '.'")]
    Name(String),
    /// The zone has no legal name.
    #[error(transparent)]
    Zone(#[from] BadName),
    /// A label is not in hexadecimal.
    #[error(transparent)]
    Label(#[from] BadLabel),
    /// The type of hosts is of Solaris, and means labels inside packets.
    #[error(
        "host_type '{0}': expected unlabeled or multilevel: packets carry no labels between hosts here"
    )]
    HostType(String),
    /// A template for hosts of one label does not name the label.
    #[error("template {0}: def_label is not set: hosts of host_type unlabeled need it")]
    NoDefault(String),
    /// A template for hosts of a range of labels does not name the range.
    #[error(
        "template {0}: min_label and max_label are not set: hosts of host_type multilevel need both"
    )]
    NoRange(String),
    /// The range of a template is empty, or does not contain its def_label.
    #[error("template {0}: max_label must dominate min_label, and def_label be between them")]
    Range(String),
    /// A host is no address and no network.
    #[error("host {0}: {1}")]
    Address(String, BadAddress),
    /// A network has bits after its prefix.
    #[error("host {0}: bits after the prefix are set: use {1}")]
    Bits(Subnet, Subnet),
    /// An IPv4 address has the form of IPv6.
    #[error("host {0}: write the IPv4 address itself")]
    Mapped(Subnet),
    /// A template names a host twice.
    #[error("host {0} is there already")]
    SecondHost(Subnet),
    /// Another template has the host.
    #[error("host {0} is in template {1}: a host has one template")]
    HostOfOther(Subnet, String),
    /// A port is not a port or a range of ports with a protocol.
    #[error("port '{0}': expected PORT/tcp, PORT/udp or FIRST-LAST/tcp, with ports 1 to 65535")]
    Port(String),
    /// Two ranges of a zone have a common port.
    #[error("ports {one} and {other} overlap", one = port_text(.0), other = port_text(.1))]
    Overlap(MultilevelPort, MultilevelPort),
    /// Another zone has the shared port.
    #[error("mlp_shared {port} is zone {zone}'s: a shared port has one zone", port = port_text(.0), zone = .1)]
    PortOfOther(MultilevelPort, ZoneName),
    /// There are too many of something.
    #[error("too many {0}: there can be {1}")]
    TooMany(&'static str, usize),
}

/// The trust in the hosts of a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostType {
    /// The hosts have one label: zones with this label talk to them.
    #[default]
    Unlabeled,
    /// The hosts keep labels apart by themselves: zones with each label of a range talk to them.
    Multilevel,
}

impl HostType {
    /// Returns the type of this name.
    ///
    /// # Errors
    /// Fails with [`BadPart::HostType`], also for the types of Solaris whose packets carry labels.
    pub fn read(text: &str) -> Result<Self, BadPart> {
        match text {
            "unlabeled" => Ok(Self::Unlabeled),
            "multilevel" => Ok(Self::Multilevel),
            other => Err(BadPart::HostType(shown(other))),
        }
    }

    /// Returns the name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unlabeled => "unlabeled",
            Self::Multilevel => "multilevel",
        }
    }
}

/// Hosts of the outside, and the labels of the zones that may talk to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The name.
    pub name: String,
    /// The trust in the hosts.
    pub host_type: HostType,
    /// The label of the hosts.
    pub def_label: Option<Label>,
    /// The lowest label of zones that may talk to multilevel hosts.
    pub min_label: Option<Label>,
    /// The highest label of zones that may talk to multilevel hosts.
    pub max_label: Option<Label>,
    /// The addresses and networks.
    pub hosts: Vec<Subnet>,
}

impl Template {
    /// Returns an empty template.
    ///
    /// # Errors
    /// Fails with [`BadPart::Name`].
    pub fn new(name: &str) -> Result<Self, BadPart> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if !(1..=MAX_NAME_BYTES).contains(&name.len()) || !name.bytes().all(plain) {
            return Err(BadPart::Name(shown(name)));
        }
        Ok(Self {
            name: name.to_owned(),
            host_type: HostType::default(),
            def_label: None,
            min_label: None,
            max_label: None,
            hosts: Vec::new(),
        })
    }

    /// Returns true if zones with this label may talk to the hosts.
    #[must_use]
    pub fn admits(&self, label: Label) -> bool {
        match (self.host_type, self.min_label, self.max_label) {
            (HostType::Unlabeled, ..) => self.def_label == Some(label),
            (HostType::Multilevel, Some(low), Some(high)) => label.is_within(low, high),
            (HostType::Multilevel, ..) => false,
        }
    }

    /// Fails if the labels that the type needs are not set or contradict each other.
    pub(super) fn check(&self) -> Result<(), BadPart> {
        let name = || self.name.clone();
        match self.host_type {
            HostType::Unlabeled if self.def_label.is_none() => {
                return Err(BadPart::NoDefault(name()));
            }
            HostType::Multilevel if self.min_label.is_none() || self.max_label.is_none() => {
                return Err(BadPart::NoRange(name()));
            }
            _ => {}
        }
        let low = self.min_label.unwrap_or(Label::ADMIN_LOW);
        let high = self.max_label.unwrap_or(Label::ADMIN_HIGH);
        let fits = self.def_label.is_none_or(|one| one.is_within(low, high));
        if !high.dominates(low) || !fits {
            return Err(BadPart::Range(name()));
        }
        for (at, host) in self.hosts.iter().enumerate() {
            if self.hosts[..at].contains(host) {
                return Err(BadPart::SecondHost(*host));
            }
        }
        Ok(())
    }

    pub(super) fn read<'a>(
        name: &str,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, BadPart> {
        let mut template = Self::new(name)?;
        for word in words {
            let unknown = || BadPart::Word(shown(word));
            let (property, value) = word.split_once('=').ok_or_else(unknown)?;
            match property {
                "host_type" => template.host_type = HostType::read(value)?,
                "def_label" => template.def_label = Some(label(value)?),
                "min_label" => template.min_label = Some(label(value)?),
                "max_label" => template.max_label = Some(label(value)?),
                "host" if template.hosts.len() >= MAX_HOSTS => {
                    return Err(BadPart::TooMany("hosts", MAX_HOSTS));
                }
                "host" => template.hosts.push(host(value)?),
                _ => return Err(unknown()),
            }
        }
        Ok(template)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "template {} host_type={}",
            self.name,
            self.host_type.as_str()
        )?;
        for (name, label) in [
            ("def_label", self.def_label),
            ("min_label", self.min_label),
            ("max_label", self.max_label),
        ] {
            if let Some(label) = label {
                write!(f, " {name}={label}")?;
            }
        }
        for host in &self.hosts {
            write!(f, " host={host}")?;
        }
        Ok(())
    }
}

/// The multilevel ports of a zone: zones and hosts of all labels may reach them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The zone.
    pub zone: ZoneName,
    /// Ports that other zones may have, too.
    pub private: Vec<MultilevelPort>,
    /// Ports that no other zone may have as a shared port.
    pub shared: Vec<MultilevelPort>,
}

impl Ports {
    /// Returns a zone without multilevel ports.
    #[must_use]
    pub const fn new(zone: ZoneName) -> Self {
        Self {
            zone,
            private: Vec::new(),
            shared: Vec::new(),
        }
    }

    /// Returns true if the zone has no multilevel port.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.private.is_empty() && self.shared.is_empty()
    }

    /// Returns all multilevel ports of the zone.
    pub fn all(&self) -> impl Iterator<Item = MultilevelPort> {
        self.private.iter().chain(&self.shared).copied()
    }

    pub(super) fn check(&self) -> Result<(), BadPart> {
        let all: Vec<MultilevelPort> = self.all().collect();
        if all.len() > MAX_PORTS {
            return Err(BadPart::TooMany("ranges of ports", MAX_PORTS));
        }
        for (at, port) in all.iter().enumerate() {
            if let Some(other) = all[..at].iter().find(|other| overlap(other, port)) {
                return Err(BadPart::Overlap(*other, *port));
            }
        }
        Ok(())
    }

    pub(super) fn read<'a>(
        name: &str,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Self, BadPart> {
        let zone = name.parse::<ZoneName>();
        let mut ports = Self::new(zone.map_err(|bad| BadName(shown(&bad.0)))?);
        for word in words {
            if ports.all().count() >= MAX_PORTS {
                return Err(BadPart::TooMany("ranges of ports", MAX_PORTS));
            }
            match word.split_once('=') {
                Some(("mlp_private", value)) => ports.private.push(port(value)?),
                Some(("mlp_shared", value)) => ports.shared.push(port(value)?),
                _ => return Err(BadPart::Word(shown(word))),
            }
        }
        Ok(ports)
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}", self.zone)?;
        for (name, list) in [("mlp_private", &self.private), ("mlp_shared", &self.shared)] {
            for port in list {
                write!(f, " {name}={}", port_text(port))?;
            }
        }
        Ok(())
    }
}

fn label(text: &str) -> Result<Label, BadLabel> {
    text.parse()
}

/// Reads an address, or a network as ADDRESS/PREFIX. An address without a prefix is one host.
///
/// # Errors
/// Fails if the text is no address, or the network has bits after its prefix.
pub fn host(text: &str) -> Result<Subnet, BadPart> {
    let whole = match text.parse::<Ipv6Addr>() {
        Ok(_) => format!("{text}/128"),
        Err(_) => text.to_owned(),
    };
    let bad = |why| BadPart::Address(shown(text), why);
    let address: Address = whole.parse().map_err(bad)?;
    let host = Subnet {
        ip: address.ip,
        prefix: address.prefix.unwrap_or(32),
    };
    let network = Subnet {
        ip: masked(host.ip, host.prefix),
        ..host
    };
    if network.ip != host.ip {
        return Err(BadPart::Bits(host, network));
    }
    match host.ip {
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() && host.prefix >= 96 => {
            Err(BadPart::Mapped(host))
        }
        _ => Ok(host),
    }
}

/// Reads a port or a range of ports: `80/tcp`, `8000-8010/udp`.
///
/// # Errors
/// Fails with [`BadPart::Port`].
pub fn port(text: &str) -> Result<MultilevelPort, BadPart> {
    let bad = || BadPart::Port(shown(text));
    let (ports, protocol) = text.split_once('/').ok_or_else(bad)?;
    let protocol = match protocol {
        "tcp" => Transport::Tcp,
        "udp" => Transport::Udp,
        _ => return Err(bad()),
    };
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let number = |text: &str| {
        let plain = text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u16>().ok().filter(|n| plain && *n > 0)
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => Ok(MultilevelPort {
            protocol,
            first,
            last,
        }),
        _ => Err(bad()),
    }
}

/// Returns a port or a range as text.
#[must_use]
pub fn port_text(port: &MultilevelPort) -> String {
    match port.first == port.last {
        true => format!("{}/{}", port.first, port.protocol),
        false => format!("{}-{}/{}", port.first, port.last, port.protocol),
    }
}

pub(super) fn overlap(one: &MultilevelPort, other: &MultilevelPort) -> bool {
    one.protocol == other.protocol && one.first <= other.last && other.first <= one.last
}

pub(super) fn contains(network: Subnet, ip: IpAddr) -> bool {
    network.ip.is_ipv4() == ip.is_ipv4() && masked(ip, network.prefix) == network.ip
}

/// Returns true for a network of IPv6 that contains ::ffff:0:0/96.
pub(super) fn covers_ipv4(network: Subnet) -> bool {
    contains(network, IpAddr::V6(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped()))
}

fn masked(ip: IpAddr, prefix: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into()));
            Ipv4Addr::from_bits(ip.to_bits() & mask.unwrap_or(0)).into()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix.into()));
            Ipv6Addr::from_bits(ip.to_bits() & mask.unwrap_or(0)).into()
        }
    }
}

/// Returns the beginning of a word, safe for a terminal.
pub(super) fn shown(text: &str) -> String {
    let start: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    start.escape_debug().to_string()
}
