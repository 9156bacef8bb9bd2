//! Determines the links of a zone from the zone's configuration and the host's links.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use model::config::{IpType, Resource};
use model::plan::network::{Link, Mac, Over, Priority, Protection, Published, Subnet};
use model::table::Address;
use model::{Config, Uuid};

use crate::client_id;
use crate::guard;
use crate::host::{HostLink, Way};
use crate::netlink::Netlink;
use crate::pool;

/// Maximum MTU of a link between the host and a zone, in bytes, which is the length of the longest
/// IP packet.
pub const MAX_MTU: u32 = 65_535;

/// Maximum number of links of a zone.
const MAX_LINKS: usize = 128;

/// The facts about the host's network that a plan needs.
pub trait Facts {
    /// Returns a link by its name.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    fn link(&self, name: &str) -> io::Result<Option<HostLink>>;
    /// Returns a link by its number.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    fn link_at(&self, index: u32) -> io::Result<Option<HostLink>>;
    /// Returns the route to the internet.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    fn way_out(&self) -> io::Result<Option<Way>>;
    /// Returns the addresses of a link.
    ///
    /// # Errors
    /// Fails with the error of the kernel.
    fn addresses(&self, link: u32) -> io::Result<Vec<Subnet>>;
}

impl Facts for Netlink {
    fn link(&self, name: &str) -> io::Result<Option<HostLink>> {
        Self::link(self, name)
    }

    fn link_at(&self, index: u32) -> io::Result<Option<HostLink>> {
        Self::link_at(self, index)
    }

    fn way_out(&self) -> io::Result<Option<Way>> {
        Self::way_out(self)
    }

    fn addresses(&self, link: u32) -> io::Result<Vec<Subnet>> {
        Self::addresses(self, link)
    }
}

/// The reason why a zone cannot have the links of its configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A resource of the configuration has a problem.
    #[error("{resource} {name}: {why}")]
    Resource {
        /// The type of the resource: net or anet.
        resource: &'static str,
        /// The link that the resource names.
        name: String,
        /// The description of the problem and its remedy.
        why: String,
    },
    /// The host's network could not be read.
    #[error("could not look at the links of the host")]
    Host(#[from] io::Error),
}

/// The zone that gets the links.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The zone's uuid, from which values of a link are generated, so that they are the same at
    /// each boot.
    pub uuid: Option<Uuid>,
    /// The slot of the zone's addresses in the pool; `None` if the configuration is only verified.
    pub slot: Option<u32>,
    /// True if random Ethernet addresses are really random; false if plans are compared.
    pub random: bool,
}

/// Determines the links of a zone.
///
/// # Errors
/// Fails with the problem of the first resource that is impossible on this host.
pub fn links(config: &Config, owner: Owner, facts: &dyn Facts) -> Result<Vec<Link>, Error> {
    let planner = Planner {
        config,
        owner,
        facts,
    };
    let mut links: Vec<Link> = Vec::new();
    for net in config.resources_of("net") {
        let name = planner.text(net, "physical");
        let fail = |why: String| Error::Resource {
            resource: "net",
            name: name.clone(),
            why,
        };
        match config.ip_type() {
            IpType::Shared => planner.shared(net, &name, &mut links),
            IpType::Exclusive => planner.moved(net, &name, &mut links),
        }
        .map_err(|problem| problem.into_error(fail))?;
    }
    let mut automatic = 0;
    for anet in config.resources_of("anet") {
        let name = planner.text(anet, "linkname");
        let fail = |why: String| Error::Resource {
            resource: "anet",
            name: name.clone(),
            why,
        };
        if links.iter().any(|link| link.name == name) {
            return Err(fail("the zone has another link of this name".to_owned()));
        }
        let link = planner.made(anet, &name, &mut automatic);
        links.push(link.map_err(|problem| problem.into_error(fail))?);
    }
    for link in &links {
        let sources = link.protection.sources.as_ref().map_or(0, Vec::len);
        if sources > guard::MAX_SOURCES {
            return Err(Error::Resource {
                resource: "link",
                name: link.name.clone(),
                why: format!(
                    "{sources} addresses; a link has at most {}",
                    guard::MAX_SOURCES
                ),
            });
        }
    }
    lead_published(config, &mut links)?;
    match links.len() > MAX_LINKS {
        true => Err(Error::Resource {
            resource: "net",
            name: config.name().to_string(),
            why: format!("a zone has at most {MAX_LINKS} links"),
        }),
        false => Ok(links),
    }
}

/// Assigns the published ports of a zone to its first link for which the host routes.
fn lead_published(config: &Config, links: &mut [Link]) -> Result<(), Error> {
    let published = config.published();
    let Some(first) = published.first() else {
        return Ok(());
    };
    let fail = |name: &Published, why: &str| Error::Resource {
        resource: "publish",
        name: name.to_string(),
        why: why.to_owned(),
    };
    let is_routed = |link: &&mut Link| matches!(link.over, Over::Routed { .. });
    let Some(link) = links.iter_mut().find(is_routed) else {
        let why = "the zone has no link with lower-link=auto, and no net of shared IP";
        return Err(fail(first, why));
    };
    let has = |v6: bool| link.addresses.iter().any(|one| one.ip.is_ipv6() == v6);
    let is_led = |one: &&Published| one.address.is_none_or(|ip| has(ip.is_ipv6()));
    if let Some(not_led) = published.iter().find(|one| !is_led(one)) {
        let why = "the zone has no address of the family of host-address";
        return Err(fail(not_led, why));
    }
    link.published = published;
    Ok(())
}

enum Problem {
    Why(String),
    Host(io::Error),
}

impl Problem {
    fn into_error(self, fail: impl FnOnce(String) -> Error) -> Error {
        match self {
            Self::Why(why) => fail(why),
            Self::Host(error) => Error::Host(error),
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

impl From<client_id::Error> for Problem {
    fn from(error: client_id::Error) -> Self {
        Self::Why(error.to_string())
    }
}

impl From<String> for Problem {
    fn from(why: String) -> Self {
        Self::Why(why)
    }
}

struct Planner<'a> {
    config: &'a Config,
    owner: Owner,
    facts: &'a dyn Facts,
}

impl Planner<'_> {
    fn text(&self, resource: &Resource, property: &str) -> String {
        let text = resource.get(property);
        let expanded = self.config.expanded_in(resource, property, text);
        expanded.unwrap_or_else(|| text.to_owned())
    }

    fn list(&self, resource: &Resource, property: &str) -> Result<Vec<Address>, Problem> {
        let text = resource.get(property);
        let parts = text.split(',').map(str::trim).filter(|one| !one.is_empty());
        parts.map(resolve).collect()
    }

    fn present(&self, name: &str) -> Result<HostLink, Problem> {
        let mut link = self.facts.link(name)?;
        // Solaris calls the loopback lo0.
        if link.is_none() && name == "lo0" {
            link = self.facts.link("lo")?;
        }
        Ok(link.ok_or_else(|| "the host has no such link".to_owned())?)
    }

    /// Adds an address of a shared-IP zone. The zone gets one link for each link of the host, and
    /// this link has all addresses of that host link.
    fn shared(&self, net: &Resource, name: &str, links: &mut Vec<Link>) -> Result<(), Problem> {
        let physical = self.present(name)?;
        let loopback = physical.name == "lo";
        if !loopback && physical.controller.is_some() {
            return Err(controlled(self.facts, &physical)?);
        }
        let address = resolve(net.get("address"))?;
        let prefix = match address.prefix {
            Some(prefix) => prefix,
            None => {
                let own = self.facts.addresses(physical.index)?;
                let near = own.iter().find(|own| contains(own, address.ip));
                near.map_or(longest(address.ip), |own| own.prefix)
            }
        };
        let address = Subnet {
            ip: address.ip,
            prefix,
        };
        let router = router(net)?;
        // The name lo is in use in the zone by the zone's own loopback.
        let inside = if loopback { "net0" } else { name };
        let index = links.iter().position(|link| link.name == inside);
        let link = match index {
            Some(index) => &mut links[index],
            None => {
                links.push(Link {
                    name: inside.to_owned(),
                    over: Over::Routed {
                        uplink: (!loopback).then(|| name.to_owned()),
                        translated: false,
                    },
                    mac: Some(self.stable_mac(inside)),
                    mtu: Some(MAX_MTU),
                    outside_mtu: (!loopback).then_some(physical.mtu),
                    addresses: Vec::new(),
                    routers: Vec::new(),
                    protection: Protection {
                        mac: true,
                        sources: Some(Vec::new()),
                        dhcp: true,
                        clients: Vec::new(),
                        restricted: true,
                    },
                    rate: None,
                    priority: None,
                    published: Vec::new(),
                    label: None,
                });
                let last = links.len() - 1;
                &mut links[last]
            }
        };
        if link.addresses.iter().any(|own| own.ip == address.ip) {
            return Err(format!("the address {} is there twice", address.ip).into());
        }
        link.addresses.push(address);
        if let Some(sources) = &mut link.protection.sources {
            sources.push(host_only(address.ip));
        }
        link.routers.extend(router);
        Ok(())
    }

    /// Adds a link of the host that moves into the zone.
    fn moved(&self, net: &Resource, name: &str, links: &mut Vec<Link>) -> Result<(), Problem> {
        let addresses = self.configured(net)?;
        let router = router(net)?;
        if let Some(link) = links.iter_mut().find(|link| link.name == name) {
            link.addresses.extend(addresses);
            link.routers.extend(router);
            return Ok(());
        }
        let physical = self.present(name)?;
        if physical.name == "lo" {
            return Err("every network has its own loopback".to_owned().into());
        }
        if physical.controller.is_some() {
            return Err(controlled(self.facts, &physical)?);
        }
        let out = self.facts.way_out()?;
        let needed = out.is_some_and(|way| way.link == physical.index);
        if needed && self.config.attr("net-force") != Some("true") {
            let why = "the host's default route is on it; remove the route, or add attr \
                       net-force of type boolean with the value true";
            return Err(why.to_owned().into());
        }
        links.push(Link {
            name: name.to_owned(),
            over: Over::Moved {
                nic: name.to_owned(),
            },
            mac: None,
            mtu: None,
            outside_mtu: None,
            addresses,
            routers: router.into_iter().collect(),
            protection: Protection::default(),
            rate: None,
            priority: None,
            published: Vec::new(),
            label: None,
        });
        Ok(())
    }

    /// Returns the addresses that a link gets: its allowed addresses, unless the zone configures
    /// them itself.
    fn configured(&self, resource: &Resource) -> Result<Vec<Subnet>, Problem> {
        if resource.get("configure-allowed-address") == "false" {
            return Ok(Vec::new());
        }
        let list = self.list(resource, "allowed-address")?;
        Ok(list.into_iter().map(subnet).collect())
    }

    /// Adds a link that is made for the zone.
    fn made(&self, anet: &Resource, name: &str, automatic: &mut u32) -> Result<Link, Problem> {
        let lower = anet.get("lower-link");
        let vlan = match anet.get("vlan-id") {
            "" | "0" => None,
            number => Some(
                number
                    .parse()
                    .map_err(|_| "vlan-id is not a number".to_owned())?,
            ),
        };
        let mut link = Link {
            name: name.to_owned(),
            over: Over::Routed {
                uplink: None,
                translated: true,
            },
            mac: Some(self.mac(anet, name)?),
            mtu: Some(MAX_MTU),
            outside_mtu: None,
            addresses: self.configured(anet)?,
            routers: router(anet)?.into_iter().collect(),
            protection: protection(anet)?,
            rate: rate(anet.get("maxbw"))?,
            priority: match anet.get("priority") {
                "low" => Some(Priority::Low),
                "medium" => Some(Priority::Medium),
                "high" => Some(Priority::High),
                _ => None,
            },
            published: Vec::new(),
            label: None,
        };
        let allowed = self.list(anet, "allowed-address")?;
        if !allowed.is_empty() {
            let floating = self.list(anet, "floating-address")?;
            let sources = allowed
                .iter()
                .chain(&floating)
                .map(|one| host_only(one.ip))
                .collect();
            link.protection.sources = Some(sources);
        }
        if lower == "auto" || lower.is_empty() {
            if vlan.is_some() {
                return Err("vlan-id needs a lower-link".to_owned().into());
            }
            self.automatic(&mut link, *automatic)?;
            *automatic += 1;
        } else {
            self.on(&mut link, lower, vlan)?;
        }
        if let Some(wanted) = anet.has("mtu").then(|| anet.get("mtu")) {
            let wanted: u32 = wanted
                .parse()
                .map_err(|_| "mtu is not a number".to_owned())?;
            let most = link.mtu.unwrap_or(MAX_MTU);
            if wanted > most {
                return Err(
                    format!("mtu {wanted} is more than the {most} of its lower link").into(),
                );
            }
            if wanted < 1280 && link.addresses.iter().any(|one| one.ip.is_ipv6()) {
                return Err(format!("mtu {wanted} is less than the 1280 of IPv6").into());
            }
            link.mtu = Some(wanted);
        }
        Ok(link)
    }

    /// Completes a link without a lower link: the host routes for it, with addresses of the pool.
    fn automatic(&self, link: &mut Link, number: u32) -> Result<(), Problem> {
        let out = self.facts.way_out()?;
        if let Some(out) = out {
            link.outside_mtu = self.facts.link_at(out.link)?.map(|uplink| uplink.mtu);
        }
        let of_pool = pool::of_link(self.owner.slot.unwrap_or(0), number)
            .ok_or_else(|| format!("only {} links can be on lower-link=auto", pool::LINKS))?;
        // Further allowed addresses are routed as well.
        let further = link.protection.sources.take().unwrap_or_default();
        let own = of_pool.iter().map(|one| host_only(one.ip));
        link.protection = Protection {
            sources: Some(own.chain(further).collect()),
            mac: true,
            dhcp: true,
            clients: Vec::new(),
            restricted: true,
        };
        link.addresses = of_pool
            .into_iter()
            .chain(link.addresses.drain(..))
            .collect();
        link.routers.clear();
        Ok(())
    }

    /// Completes a link on a link of the host.
    fn on(&self, link: &mut Link, lower: &str, vlan: Option<u16>) -> Result<(), Problem> {
        let named = |why: String| format!("lower-link {lower}: {why}");
        let found = self.facts.link(lower)?;
        let found = found.ok_or_else(|| named("the host has no such link".to_owned()))?;
        if !found.ethernet {
            return Err(named("is not Ethernet".to_owned()).into());
        }
        if link.protection.sources.as_ref().is_some_and(Vec::is_empty) {
            return Err("link-protection ip-nospoof needs allowed-address"
                .to_owned()
                .into());
        }
        link.mtu = Some(found.mtu);
        link.over = if found.kind.as_deref() == Some("bridge") {
            if vlan.is_some() {
                return Err(named("vlan-id is for links, not for bridges".to_owned()).into());
            }
            Over::Port {
                bridge: lower.to_owned(),
            }
        } else if found.controller.is_some() {
            return Err(controlled(self.facts, &found)?);
        } else {
            Over::Wire {
                lower: lower.to_owned(),
                vlan,
            }
        };
        Ok(())
    }

    fn mac(&self, anet: &Resource, name: &str) -> Result<Mac, Problem> {
        match anet.get("mac-address") {
            "random" if self.owner.random => {
                let mut bytes = [0; 6];
                rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
                    .map_err(io::Error::from)?;
                Ok(local(bytes))
            }
            "auto" | "" | "default" | "factory" | "random" => Ok(self.stable_mac(name)),
            given => {
                let mac: Mac = given
                    .parse()
                    .map_err(|()| format!("mac-address {given} is not an Ethernet address"))?;
                Ok(mac)
            }
        }
    }

    /// Returns an Ethernet address that is the same at each boot, and different for each zone and
    /// link.
    fn stable_mac(&self, name: &str) -> Mac {
        let zone = match self.owner.uuid {
            Some(uuid) => uuid.to_string(),
            None => self.config.name().to_string(),
        };
        // The hash is FNV-1a with 64 bits, which is enough because the address need not be hard to
        // guess.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in zone.bytes().chain([0]).chain(name.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let [a, b, c, d, e, f, ..] = hash.to_be_bytes();
        local([a, b, c, d, e, f])
    }
}

/// Returns the bytes as a locally administered unicast address, which no manufacturer assigns.
const fn local(mut bytes: [u8; 6]) -> Mac {
    bytes[0] = bytes[0] & 0xfc | 0x02;
    Mac(bytes)
}

fn controlled(facts: &dyn Facts, link: &HostLink) -> Result<Problem, Problem> {
    let controller = link.controller.map(|index| facts.link_at(index));
    let name = controller.transpose()?.flatten().map(|link| link.name);
    Ok(Problem::Why(format!(
        "it belongs to {}: use that",
        name.unwrap_or_else(|| "another link".to_owned())
    )))
}

fn resolve(text: &str) -> Result<Address, Problem> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let found = (text, 0).to_socket_addrs().ok();
    let first = found.and_then(|mut found| found.find(|one| one.is_ipv4()));
    let ip = first.ok_or_else(|| format!("the host does not know the address of {text}"))?;
    Ok(Address {
        ip: ip.ip(),
        prefix: None,
    })
}

const fn longest(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn subnet(address: Address) -> Subnet {
    Subnet {
        ip: address.ip,
        prefix: address.prefix.unwrap_or(longest(address.ip)),
    }
}

const fn host_only(ip: IpAddr) -> Subnet {
    Subnet {
        ip,
        prefix: longest(ip),
    }
}

/// Returns true if an address is in a network.
#[must_use]
pub fn contains(network: &Subnet, ip: IpAddr) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    };
    if network.ip.is_ipv4() != ip.is_ipv4() {
        return false;
    }
    let different = bits(network.ip) ^ bits(ip);
    different.leading_zeros() >= u32::from(network.prefix)
}

fn router(resource: &Resource) -> Result<Option<IpAddr>, Problem> {
    match resource.get("defrouter") {
        "" => Ok(None),
        text => {
            Ok(Some(text.parse().map_err(|_| {
                format!("defrouter {text} is not an address")
            })?))
        }
    }
}

fn protection(anet: &Resource) -> Result<Protection, Problem> {
    let words = anet.get("link-protection");
    let has = |wanted: &str| words.split([',', ' ']).any(|word| word.trim() == wanted);
    let clients = client_id::parse_all(anet.get("allowed-dhcp-cids"))?;
    Ok(Protection {
        mac: has("mac-nospoof"),
        // Without a list of addresses only the addresses of the link itself are allowed.
        sources: has("ip-nospoof").then(Vec::new),
        // DHCP protection is on, because a zone that could answer as a DHCP server could give
        // itself any lease.
        dhcp: has("dhcp-nospoof") || !clients.is_empty(),
        clients,
        restricted: has("restricted"),
    })
}

/// Returns the value of maxbw in bytes per second.
fn rate(text: &str) -> Result<Option<u64>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let (number, unit) = match text.trim_end_matches(['K', 'M', 'G', 'k', 'm', 'g']) {
        plain if plain.len() == text.len() => (plain, "M"),
        plain => (plain, &text[plain.len()..]),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("maxbw {text} is not a bandwidth"))?;
    let bits = number
        * match unit {
            "K" | "k" => 1e3,
            "G" | "g" => 1e9,
            _ => 1e6,
        };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "zonecfg stores positive numbers with at most a G"
    )]
    Ok(Some((bits / 8.0) as u64))
}

#[cfg(test)]
mod tests;
