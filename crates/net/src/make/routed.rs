//! Links that the host routes: the zone's addresses are at the end of a pair of links, and the host
//! answers for them on the uplink.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use model::plan::network::Subnet;
use rustix::io::Errno;

use super::{Error, Maker};
use crate::guard::Verdict;
use crate::host::HostLink;
use crate::netlink::Netlink;
use crate::pool;
use crate::publish;
use crate::record::Held;
use crate::request::{self, Ready, Route};

/// The address of the router on every routed link. No host has this address, and no neighbour is
/// asked for it, because such a link has only one peer.
const ROUTER4: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);
const ROUTER6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

impl Maker<'_> {
    pub(super) fn routed(&self, uplink: Option<&str>, held: &mut Held) -> Result<(), Error> {
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
            let route = Route::to_everywhere(uplink.index, *router, Some(table));
            requests.push(request::route(&route));
        }
        for v6 in [false, true] {
            if routers.iter().any(|router| router.is_ipv6() == v6) {
                requests.extend(request::routed_by(&host.name, table, v6, true));
            }
        }
        self.ends.host.change(requests).map_err(self.refused())
    }
}

/// Returns the host's source address for packets to an address of a zone; `None` lets the kernel
/// choose. The host has its own address in the pool only if zones have links with addresses of the
/// pool. If an administrator configured an address that is in the pool by chance, the kernel
/// chooses.
pub(super) fn source_of(
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
pub(super) const fn way_to_zone(ip: IpAddr, link: u32, source: Option<IpAddr>) -> Route {
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

/// Returns the length in bits of the longest prefix of this family.
pub(super) const fn longest(ip: IpAddr) -> u8 {
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
