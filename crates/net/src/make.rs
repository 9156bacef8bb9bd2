//! Makes the links of a zone.

mod again;
mod ethernet;
mod routed;

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use model::ZoneName;
use model::plan::network::{Link, Mac, Over, Priority, Protection};
use rustix::io::Errno;

use crate::announce;
use crate::ends::{Ends, within};
use crate::guard::label::Addresses;
use crate::guard::{self, Clients, Guard, Labeled, Verdict};
use crate::host::HostLink;
use crate::netlink::Refused;
use crate::record::{Held, Record};
use crate::request::{self, Pair};

pub use again::{announce_again, lead_again};

/// The prefix of the names that zones' links have on the host.
pub const PREFIX: &str = "zone";

/// The number of names that are tried for a link of the host.
const MAX_NAMES: u32 = 1_000;

/// Number of the first routing table for links with their own router; its bytes spell "zo".
pub const FIRST_TABLE: u32 = 0x7a6f_0000;

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
            .map(|one| (one.ip, routed::longest(one.ip)));
        guard.mac = Some(self.mac().0);
        let sources = guard.sources.get_or_insert_with(|| own.collect());
        // The guard would drop every packet of the zone.
        if sources.is_empty() {
            return Err(self.why(
                "a zone with a label needs allowed-address here: its link has no address from which it may send",
            ));
        }
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

    /// Announces the zone's addresses to the neighbours on a link. Errors are ignored, because
    /// neighbours also find the addresses without an announcement, but later.
    fn announce(&self, namespace: BorrowedFd<'_>, link: u32, mac: Option<Mac>) {
        let Some(mac) = mac else {
            return;
        };
        let sent = within(namespace, || {
            announce::send(link, mac, &self.link.addresses)
        });
        self.announced.borrow_mut().extend(sent.ok().flatten());
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
}
