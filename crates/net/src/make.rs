//! Makes the links of a zone.

use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use model::ZoneName;
use model::plan::network::{Link, Mac, Over, Priority, Protection, Subnet};
use rustix::io::Errno;

use crate::announce;
use crate::ends::{Ends, within};
use crate::guard::label::Addresses;
use crate::guard::{self, Clients, Guard, Labeled, Verdict};
use crate::host::HostLink;
use crate::netlink::{Netlink, Refused, Request};
use crate::pool;
use crate::publish;
use crate::record::{Held, Record};
use crate::request::{self, Pair, Ready, Route};

/// The address of the router on every routed link. No host has this address, and no neighbour is
/// asked for it, because such a link has only one peer.
const ROUTER4: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);
const ROUTER6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// The prefix of the names that zones' links have on the host.
pub const PREFIX: &str = "zone";

/// The number of names that are tried for a link of the host.
const MAX_NAMES: u32 = 1_000;

/// Number of the first routing table for links with their own router; its bytes spell "zo".
pub const FIRST_TABLE: u32 = 0x7a6f_0000;

/// The number of times that the state of a link is read, and the pause between two reads.
const READY_TRIES: u32 = 100;
const READY_PAUSE: Duration = Duration::from_millis(1);

/// The reason why the links could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused a change.
    #[error("link {link}")]
    Refused {
        /// The link in the zone.
        link: String,
        /// The change that the kernel refused.
        source: Refused,
    },
    /// Another zone, or the host itself, already has the address.
    #[error("link {link}: the address {address} is in use by {owner}")]
    InUse {
        /// The link in the zone.
        link: String,
        /// The address.
        address: IpAddr,
        /// The owner of the address.
        owner: String,
    },
    /// A problem with the network around a link.
    #[error("link {link}: {why}")]
    Link {
        /// The link in the zone.
        link: String,
        /// The description of the problem.
        why: String,
    },
    /// The kernel's state could not be read, or an operation failed.
    #[error("link {link}: could not {what}")]
    Io {
        /// The link in the zone.
        link: String,
        /// The action that failed.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// The zone for which links are made.
#[derive(Clone, Copy, Debug)]
pub struct Zone<'a> {
    /// The name of the zone.
    pub name: &'a ZoneName,
    /// The numeric id of the zone.
    pub id: u32,
}

/// The label of a zone on this host.
#[derive(Debug)]
pub struct HostLabel {
    /// The number of the label.
    pub number: u8,
    /// The addresses of zones and hosts with their labels.
    pub addresses: Addresses,
}

/// Returns the record of the objects that will exist on the host, before any of them is made. The
/// caller replaces the names of links and the numbers of routing tables by free ones: see
/// [`names`]. `first` is the number of the first link, which is 0 when the zone boots.
#[must_use]
pub fn intent(zone: Zone<'_>, links: &[Link], first: usize) -> Record {
    let held = |(number, link): (usize, &Link)| {
        let number = first + number;
        let mut held = Held {
            number,
            name: link.name.clone(),
            over: link.over.to_string(),
            addresses: link.addresses.clone(),
            published: link.published.clone(),
            ..Held::default()
        };
        match &link.over {
            Over::Moved { nic } => held.moved = Some(nic.clone()),
            Over::Wire { .. } => {
                held.host = Some(host_name(zone.id, number, ""));
                held.outer = Some(host_name(zone.id, number, "m"));
            }
            Over::Port { .. } => held.host = Some(host_name(zone.id, number, "")),
            Over::Routed { uplink, translated } => {
                held.host = Some(host_name(zone.id, number, ""));
                held.uplink.clone_from(uplink);
                held.routed = true;
                held.translated = *translated;
                if !link.routers.is_empty() {
                    held.table = Some((FIRST_TABLE, link.routers.clone()));
                }
            }
        }
        held
    };
    Record {
        namespace: 0,
        numbers: first + links.len(),
        links: links.iter().enumerate().map(held).collect(),
    }
}

/// Returns possible names for a link of the host, of 15 bytes at most. A later name is used if the
/// earlier names are in use, by zones of another root or by a link that is still being removed.
pub fn names(id: u32, number: usize, outer: bool) -> impl Iterator<Item = String> {
    let mark = if outer { "m" } else { "" };
    (0..MAX_NAMES).map(move |attempt| match attempt {
        0 => host_name(id, number, mark),
        // Number 0 is not the id of any zone, because ids begin at 1.
        other => format!("{PREFIX}0{:03}-{number}{mark}", other % 1_000),
    })
}

fn host_name(id: u32, number: usize, mark: &str) -> String {
    match mark {
        "" => format!("{PREFIX}{id}-{number}"),
        mark => format!("{PREFIX}{}-{number}{mark}", id % 100_000),
    }
}

/// Makes the links, and completes the record of the objects on the host. Returns the sockets that
/// announced the addresses: to close one takes milliseconds, which nothing of the zone needs to
/// wait for.
///
/// # Errors
/// Fails with the first error. [`crate::release()`] then removes the objects in the record that were
/// already made.
pub fn make(
    zone: Zone<'_>,
    links: &[Link],
    label: Option<&HostLabel>,
    ends: &Ends,
    record: &mut Record,
    is_active: &dyn Fn(&str) -> bool,
) -> Result<Vec<OwnedFd>, Error> {
    let announced = RefCell::default();
    for (link, held) in links.iter().zip(&mut record.links) {
        let maker = Maker {
            zone,
            link,
            label,
            ends,
            is_active,
            announced: &announced,
        };
        match &link.over {
            Over::Routed { uplink, .. } => maker.routed(uplink.as_deref(), held)?,
            Over::Port { bridge } => maker.port(bridge, held)?,
            Over::Wire { lower, vlan } => maker.wire(lower, *vlan, held)?,
            Over::Moved { nic } => maker.moved(nic, held)?,
        }
    }
    Ok(announced.into_inner())
}

fn failed<'a>(link: &'a str, what: &'static str) -> impl Fn(io::Error) -> Error + 'a {
    move |source| Error::Io {
        link: link.to_owned(),
        what,
        source,
    }
}

struct Maker<'a> {
    zone: Zone<'a>,
    link: &'a Link,
    label: Option<&'a HostLabel>,
    ends: &'a Ends,
    is_active: &'a dyn Fn(&str) -> bool,
    /// The sockets that announced addresses.
    announced: &'a RefCell<Vec<OwnedFd>>,
}

impl Maker<'_> {
    fn refused(&self) -> impl Fn(Refused) -> Error + '_ {
        |source| Error::Refused {
            link: self.link.name.clone(),
            source,
        }
    }

    fn io(&self, what: &'static str) -> impl Fn(io::Error) -> Error + '_ {
        failed(&self.link.name, what)
    }

    fn alias(&self) -> String {
        format!("zone {} {}", self.zone.name, self.link.name)
    }

    fn mac(&self) -> Mac {
        self.link.mac.unwrap_or(Mac([2, 0, 0, 0, 0, 1]))
    }

    /// Makes a pair of links. Returns the number of the link in the zone, and the link on the host.
    fn pair(&self, peer_mac: Mac, held: &Held) -> Result<(u32, HostLink), Error> {
        let mtu = self.link.mtu.unwrap_or(1500);
        let alias = self.alias();
        let mut big = self.link.rate.is_none();
        let peer = held.host.clone().unwrap_or_default();
        loop {
            let pair = Pair {
                name: &self.link.name,
                peer: &peer,
                peer_namespace: self.ends.host_namespace(),
                peer_alias: &alias,
                mac: self.mac(),
                peer_mac,
                mtu,
                big,
            };
            match self.ends.zone.change(vec![request::pair(&pair)]) {
                Ok(()) => {
                    let zone = self.ends.zone.link(&self.link.name);
                    let zone = zone.map_err(self.io("find it"))?;
                    let host = self.ends.host.link(&peer).map_err(self.io("find it"))?;
                    let (Some(zone), Some(host)) = (zone, host) else {
                        return Err(Error::Link {
                            link: self.link.name.clone(),
                            why: "one of its ends went away".to_owned(),
                        });
                    };
                    return Ok((zone.index, host));
                }
                // The kernel does not support packets of that size.
                Err(error) if big && error.errno() == Some(Errno::INVAL) => big = false,
                Err(error) => return Err(self.refused()(error)),
            }
        }
    }

    /// Attaches the program that checks the zone's frames to the link on the host.
    fn guard(
        &self,
        host: &HostLink,
        routed: bool,
        vlan: Option<u16>,
        to: Verdict,
    ) -> Result<u32, Error> {
        let Protection {
            mac,
            sources,
            dhcp,
            clients,
            restricted,
        } = &self.link.protection;
        let guard = Guard {
            mac: mac.then_some(self.mac().0),
            sources: sources
                .as_ref()
                .map(|list| list.iter().map(|one| (one.ip, one.prefix)).collect()),
            dhcp: *dhcp,
            clients: (!clients.is_empty()).then(|| Clients {
                mac: self.mac().0,
                ids: clients.clone(),
            }),
            restricted: *restricted,
            routed,
            vlan,
            priority: self.link.priority.map(|priority| match priority {
                // The values are TC_PRIO_BULK, TC_PRIO_BESTEFFORT and TC_PRIO_INTERACTIVE of
                // linux/pkt_sched.h.
                Priority::Low => 2,
                Priority::Medium => 0,
                Priority::High => 6,
            }),
            // The link in the zone limits the rate. If root of the zone removes that limit, the
            // guard drops packets at more than nine eighths of the rate.
            rate: self.link.rate.map(|rate| rate + rate / 8),
            to,
        };
        if self.link.label.is_some() {
            return self.labeled_guard(host, guard);
        }
        let loaded = guard::load(&guard).map_err(self.io("make its guard"))?;
        let requests = request::filter(host.index, loaded.program.as_fd());
        self.ends
            .host
            .change(requests.into())
            .map_err(self.refused())?;
        Ok(loaded.map_id)
    }

    /// Attaches the two programs of a link with a label. A zone with a label has all protections of
    /// a link, because other zones trust its addresses.
    fn labeled_guard(&self, host: &HostLink, mut guard: Guard) -> Result<u32, Error> {
        let own = self
            .link
            .addresses
            .iter()
            .map(|one| (one.ip, longest(one.ip)));
        guard.mac = Some(self.mac().0);
        guard.sources.get_or_insert_with(|| own.collect());
        guard.dhcp = true;
        guard.restricted = true;
        let (Some(label), Some(wanted)) = (self.label, &self.link.label) else {
            return Err(self.why("its label has no number on this host"));
        };
        // Neighbours find a multilevel port only by ARP, which would carry words to other labels.
        if !guard.routed && !wanted.ports.is_empty() {
            return Err(self.why(
                "multilevel ports need a link for which the host routes: use lower-link=auto, or ip-type=shared",
            ));
        }
        let labeled = Labeled {
            number: label.number,
            ports: &wanted.ports,
            addresses: &label.addresses,
        };
        let made = guard::load_labeled(&guard, &labeled);
        let (loaded, arrivals) = made.map_err(self.io("make the programs of its label"))?;
        let mut requests: Vec<_> = request::filter(host.index, loaded.program.as_fd()).into();
        requests.push(request::filter_leaving(host.index, arrivals.as_fd()));
        self.ends.host.change(requests).map_err(self.refused())?;
        Ok(loaded.map_id)
    }

    fn why(&self, why: &str) -> Error {
        Error::Link {
            link: self.link.name.clone(),
            why: why.to_owned(),
        }
    }

    /// Limits the traffic to the zone at the link on the host. The traffic from the zone is limited
    /// at the link in the zone or, for a separate link on an uplink, at that link.
    fn limit(&self, zone: u32, host: u32, outer: Option<u32>) -> Result<(), Error> {
        let Some(rate) = self.link.rate else {
            return Ok(());
        };
        let longest = self.link.mtu.unwrap_or(1500);
        let shape = |link| vec![request::shape(link, rate, longest)];
        self.ends.host.change(shape(host)).map_err(self.refused())?;
        match outer {
            Some(outer) => self.ends.host.change(shape(outer)),
            None => self.ends.zone.change(shape(zone)),
        }
        .map_err(self.refused())
    }

    fn routed(&self, uplink: Option<&str>, held: &mut Held) -> Result<(), Error> {
        // Both links of the pair have the same Ethernet address and never ask for others, because
        // each packet is for the peer.
        let (zone, host) = self.pair(self.mac(), held)?;
        held.counters = Some(self.guard(&host, true, None, Verdict::Host)?);
        self.limit(zone, host.index, None)?;
        let alias = self.alias();
        let ready = Ready {
            alias: Some(&alias),
            direct: true,
            forwarding: true,
            ..Ready::default()
        };
        let ready = request::ready(&host.name, ready);
        self.ends.host.change(ready).map_err(self.refused())?;
        self.configure_routed(zone)?;
        let uplink = match uplink {
            None => None,
            Some(name) => Some(self.present(name)?),
        };
        for address in &self.link.addresses {
            self.lead(address.ip, &host, uplink.as_ref(), held.translated)?;
        }
        if !held.published.is_empty() {
            publish::open_loopback(&self.ends.host, &host).map_err(self.refused())?;
        }
        if let (Some((table, routers)), Some(uplink)) = (&held.table, &uplink) {
            self.own_routers(*table, routers, &host, uplink)?;
        }
        if let Some(uplink) = &uplink {
            self.announce(self.ends.host_namespace(), uplink.index, uplink.mac);
        }
        Ok(())
    }

    /// Announces the zone's addresses to the neighbours on a link. Errors are ignored, because
    /// neighbours also find the addresses without an announcement, but later.
    fn announce(&self, namespace: BorrowedFd<'_>, link: u32, mac: Option<Mac>) {
        let Some(mac) = mac else {
            return;
        };
        let sent = within(namespace, || announce_at(link, mac, &self.link.addresses));
        self.announced.borrow_mut().extend(sent.ok().flatten());
    }

    /// Announces the addresses of a link with neighbours as soon as the link on the host is ready
    /// to send. A bridge forwards frames only after that.
    fn announce_ethernet(&self, zone: u32, host: Option<&str>) {
        if self.link.addresses.is_empty() {
            return;
        }
        let is_up = |name: &str| {
            let found = self.ends.host.link(name).ok().flatten();
            found.is_none_or(|link| link.running)
        };
        for _ in 0..READY_TRIES {
            if host.is_none_or(is_up) {
                break;
            }
            std::thread::sleep(READY_PAUSE);
        }
        let inside = self.ends.zone.link_at(zone).ok().flatten();
        let mac = inside.and_then(|link| link.mac);
        self.announce(self.ends.zone_namespace(), zone, mac);
    }

    fn configure_routed(&self, zone: u32) -> Result<(), Error> {
        let ready = Ready {
            direct: true,
            ..Ready::default()
        };
        let mut requests = request::ready(&self.link.name, ready);
        let mut networks: Vec<Subnet> = Vec::new();
        for address in &self.link.addresses {
            requests.push(request::address(zone, address, false));
            let network = request::network(address);
            if address.prefix < longest(address.ip) && !networks.contains(&network) {
                networks.push(network);
            }
        }
        // Large packets are used to neighbours, which may be zones; the route to the outside may
        // need a smaller maximum.
        let v6 = self.link.addresses.iter().any(|one| one.ip.is_ipv6());
        let v4 = self.link.addresses.iter().any(|one| one.ip.is_ipv4());
        let route = |to: Subnet, mtu| Route {
            to,
            link: zone,
            router: Some(router_of(to.ip)),
            mtu,
            source: None,
            table: None,
            new: false,
        };
        requests.extend(
            networks
                .into_iter()
                .map(|to| request::route(&route(to, None))),
        );
        let everything = [
            (v4, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            (v6, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
        ];
        for (_, ip) in everything.into_iter().filter(|(has, _)| *has) {
            let to = Subnet { ip, prefix: 0 };
            requests.push(request::route(&route(to, self.link.outside_mtu)));
        }
        self.ends.zone.change(requests).map_err(self.refused())
    }

    fn present(&self, name: &str) -> Result<HostLink, Error> {
        let found = self
            .ends
            .host
            .link(name)
            .map_err(self.io("look at the host"))?;
        found.ok_or_else(|| Error::Link {
            link: self.link.name.clone(),
            why: format!("the host has no link {name}"),
        })
    }

    /// Routes packets for one of the zone's addresses to the zone.
    fn lead(
        &self,
        ip: IpAddr,
        host: &HostLink,
        uplink: Option<&HostLink>,
        translated: bool,
    ) -> Result<(), Error> {
        let kernel = &self.ends.host;
        let before = kernel.way_to(ip).map_err(self.io("look for its address"))?;
        if before.is_some_and(|way| way.local) {
            return Err(Error::InUse {
                link: self.link.name.clone(),
                address: ip,
                owner: "the host itself".to_owned(),
            });
        }
        let source = source_of(kernel, ip, uplink, translated);
        let source = source.map_err(self.io("look at the host's addresses"))?;
        let mut route = way_to_zone(ip, host.index, source);
        match kernel.change(vec![request::route(&route)]) {
            Ok(()) => {}
            Err(error) if error.errno() == Some(Errno::EXIST) => {
                if let Some(owner) = self.owner_of(ip)? {
                    return Err(Error::InUse {
                        link: self.link.name.clone(),
                        address: ip,
                        owner,
                    });
                }
                route.new = false;
                kernel
                    .change(vec![request::route(&route)])
                    .map_err(self.refused())?;
            }
            Err(error) => return Err(self.refused()(error)),
        }
        match uplink {
            Some(uplink) => kernel
                .change(vec![request::answer_for(uplink.index, ip, true)])
                .map_err(self.refused()),
            None => Ok(()),
        }
    }

    /// Returns the owner of the route to an address; `None` if the route is left over from a zone
    /// that has just ended.
    fn owner_of(&self, ip: IpAddr) -> Result<Option<String>, Error> {
        let kernel = &self.ends.host;
        let way = kernel.way_to(ip).map_err(self.io("look for its address"))?;
        let Some(way) = way else {
            return Ok(None);
        };
        let link = kernel
            .link_at(way.link)
            .map_err(self.io("look for its address"))?;
        let Some(link) = link else {
            return Ok(None);
        };
        let words = link.alias.unwrap_or_default();
        let zone = words
            .strip_prefix("zone ")
            .and_then(|rest| rest.split(' ').next());
        Ok(match zone {
            Some(zone) if zone == self.zone.name.as_str() || !(self.is_active)(zone) => None,
            Some(zone) => Some(format!("zone '{zone}'")),
            None => Some(format!("a route of the host over {}", link.name)),
        })
    }

    fn own_routers(
        &self,
        table: u32,
        routers: &[IpAddr],
        host: &HostLink,
        uplink: &HostLink,
    ) -> Result<(), Error> {
        let mut requests = Vec::new();
        for router in routers {
            let everything = match router {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            requests.push(request::route(&Route {
                to: Subnet {
                    ip: everything,
                    prefix: 0,
                },
                link: uplink.index,
                router: Some(*router),
                mtu: None,
                source: None,
                table: Some(table),
                new: false,
            }));
        }
        for v6 in [false, true] {
            if routers.iter().any(|router| router.is_ipv6() == v6) {
                requests.extend(request::routed_by(&host.name, table, v6, true));
            }
        }
        self.ends.host.change(requests).map_err(self.refused())
    }

    fn port(&self, bridge: &str, held: &mut Held) -> Result<(), Error> {
        let bridge = self.present(bridge)?;
        let (zone, host) = self.pair(other_end(self.mac()), held)?;
        held.counters = Some(self.guard(&host, false, None, Verdict::Host)?);
        self.limit(zone, host.index, None)?;
        let alias = self.alias();
        let ready = Ready {
            alias: Some(&alias),
            bridge: Some(bridge.index),
            ..Ready::default()
        };
        let ready = request::ready(&host.name, ready);
        self.ends.host.change(ready).map_err(self.refused())?;
        self.configure_ethernet(zone)?;
        self.announce_ethernet(zone, held.host.as_deref());
        Ok(())
    }

    /// Makes a device with its own Ethernet address on a link of the host. Frames for this address
    /// go to the zone, and frames of the zone leave from the device after the guard has checked
    /// them.
    fn wire(&self, lower: &str, vlan: Option<u16>, held: &mut Held) -> Result<(), Error> {
        let lower = self.present(lower)?;
        let (zone, host) = self.pair(other_end(self.mac()), held)?;
        let outer = held.outer.clone().unwrap_or_default();
        let alias = self.alias();
        let kernel = &self.ends.host;
        kernel
            .change(request::ethernet_on(
                lower.index,
                &outer,
                self.mac(),
                &alias,
            ))
            .map_err(self.refused())?;
        let outer = self.present(&outer)?;
        held.counters = Some(self.guard(&host, false, vlan, Verdict::Device(outer.index))?);
        let inbound = guard::load_inbound(vlan, host.index).map_err(self.io("make its guard"))?;
        let requests = request::filter(outer.index, inbound.as_fd());
        kernel.change(requests.into()).map_err(self.refused())?;
        self.limit(zone, host.index, Some(outer.index))?;
        let ready = Ready {
            alias: Some(&alias),
            ..Ready::default()
        };
        kernel
            .change(request::ready(&host.name, ready))
            .map_err(self.refused())?;
        self.configure_ethernet(zone)?;
        self.announce_ethernet(zone, held.host.as_deref());
        Ok(())
    }

    fn moved(&self, nic: &str, held: &mut Held) -> Result<(), Error> {
        if self.link.label.is_some() {
            return Err(self.why(
                "a link that moves into the zone has no guard, so its packets have no label: use an anet",
            ));
        }
        let found = self.present(nic)?;
        let kernel = &self.ends.host;
        kernel
            .change(vec![request::into_namespace(
                found.index,
                nic,
                self.ends.zone_namespace(),
            )])
            .map_err(self.refused())?;
        let inside = self
            .ends
            .zone
            .link(nic)
            .map_err(self.io("find it in the zone"))?;
        let inside = inside.ok_or_else(|| Error::Link {
            link: nic.to_owned(),
            why: "did not arrive in the zone".to_owned(),
        })?;
        held.moved_index = Some(inside.index);
        self.configure_ethernet(inside.index)?;
        self.announce_ethernet(inside.index, None);
        Ok(())
    }

    /// Sets the addresses and routes of a link with neighbours.
    fn configure_ethernet(&self, zone: u32) -> Result<(), Error> {
        let ready = Ready {
            own_addresses: true,
            ..Ready::default()
        };
        let mut requests = request::ready(&self.link.name, ready);
        for address in &self.link.addresses {
            requests.push(request::address(zone, address, true));
        }
        for router in &self.link.routers {
            let everything = match router {
                IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            };
            requests.push(request::route(&Route {
                to: Subnet {
                    ip: everything,
                    prefix: 0,
                },
                link: zone,
                router: Some(*router),
                mtu: None,
                source: None,
                table: None,
                new: false,
            }));
        }
        self.ends.zone.change(requests).map_err(self.refused())
    }
}

/// Returns the host's source address for packets to an address of a zone; `None` lets the kernel
/// choose. The host has its own address in the pool only if zones have links with addresses of the
/// pool. If an administrator configured an address that is in the pool by chance, the kernel
/// chooses.
fn source_of(
    kernel: &Netlink,
    ip: IpAddr,
    uplink: Option<&HostLink>,
    translated: bool,
) -> io::Result<Option<IpAddr>> {
    let is_alike = |own: &IpAddr| own.is_ipv4() == ip.is_ipv4();
    Ok(match uplink {
        Some(uplink) => {
            let own = kernel.addresses(uplink.index)?.into_iter();
            let mut own = own.map(|one| one.ip);
            own.find(|ip| is_alike(ip) && !is_link_local(*ip))
        }
        None if translated && pool::holds(ip) => {
            let mut own = pool::of_host().into_iter().map(|one| one.ip);
            own.find(is_alike)
        }
        None => None,
    })
}

/// Returns the route to an address of a zone; adding it fails if such a route already exists.
const fn way_to_zone(ip: IpAddr, link: u32, source: Option<IpAddr>) -> Route {
    Route {
        to: Subnet {
            ip,
            prefix: longest(ip),
        },
        link,
        router: None,
        mtu: None,
        source,
        table: None,
        new: true,
    }
}

/// Restores the routes to the addresses of a running zone after the host has lost them. Routes that
/// name a source address disappear when the host loses this address.
///
/// # Errors
/// Fails with the error of the kernel.
pub fn lead_again(kernel: &Netlink, record: &Record) -> io::Result<()> {
    for held in record.links.iter().filter(|held| held.routed) {
        // Only links with the prefix of zones' links are used, because no other program uses this
        // prefix.
        let host = held.host.as_deref().filter(|name| name.starts_with(PREFIX));
        let Some(host) = host.map(|name| kernel.link(name)).transpose()?.flatten() else {
            continue;
        };
        let uplink = held.uplink.as_deref().map(|name| kernel.link(name));
        let uplink = uplink.transpose()?.flatten();
        for ip in held.addresses.iter().map(|one| one.ip) {
            if kernel.way_to(ip)?.is_some_and(|way| way.link == host.index) {
                continue;
            }
            let source = source_of(kernel, ip, uplink.as_ref(), held.translated)?;
            let route = way_to_zone(ip, host.index, source);
            match kernel.change(vec![request::route(&route)]) {
                Err(error) if error.errno() != Some(Errno::EXIST) => return Err(error.source),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Announces these addresses to the neighbours on a link of the calling thread's network namespace.
/// Returns the socket that did, for its slow close.
fn announce_at(link: u32, mac: Mac, addresses: &[Subnet]) -> Option<OwnedFd> {
    let socket = sys::link::frame_socket().ok()?;
    for one in addresses {
        let _ = sys::link::send_frame(socket.as_fd(), link, &announce::frame(mac, one.ip));
    }
    Some(socket)
}

/// Announces the zone's addresses again to the neighbours on the uplinks of its routed links. This
/// is for a guest that migrated to this host: the other host may have announced the addresses after
/// the zone's links were made here.
///
/// # Errors
/// Fails if the kernel's list of links cannot be read.
pub fn announce_again(kernel: &Netlink, record: &Record) -> io::Result<()> {
    for held in &record.links {
        let uplink = held.uplink.as_deref().map(|name| kernel.link(name));
        let Some(uplink) = uplink.transpose()?.flatten() else {
            continue;
        };
        if let Some(mac) = uplink.mac {
            announce_at(uplink.index, mac, &held.addresses);
        }
    }
    Ok(())
}

const fn longest(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

const fn router_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => IpAddr::V4(ROUTER4),
        IpAddr::V6(_) => IpAddr::V6(ROUTER6),
    }
}

const fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

/// Returns an Ethernet address for the host's side of a link with neighbours.
const fn other_end(mac: Mac) -> Mac {
    let mut bytes = mac.0;
    // The first byte is high, because a bridge takes the lowest address of its ports as its own.
    // The last byte differs from the zone's address, because a bridge does not forward frames for
    // the addresses of its ports.
    bytes[0] = 0xfe;
    bytes[5] = !bytes[5];
    Mac(bytes)
}

/// Sends the requests one by one and ignores errors about objects that do not exist.
pub(crate) fn all_gone(kernel: &crate::netlink::Netlink, requests: Vec<Request>) -> Vec<String> {
    let mut failed = Vec::new();
    for request in requests {
        if let Err(error) = kernel.change(vec![request]) {
            let absent = matches!(
                error.errno(),
                Some(
                    Errno::NODEV
                        | Errno::NOENT
                        | Errno::SRCH
                        | Errno::ADDRNOTAVAIL
                        | Errno::AFNOSUPPORT
                )
            );
            if !absent {
                failed.push(format!("{error}: {}", error.source));
            }
        }
    }
    failed
}
