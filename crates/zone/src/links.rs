//! `zoneadm links`: the network links of a zone.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;

use model::ZoneName;
use net::Netlink;
use net::host::HostLink;
use serde::Serialize;
use store::index::Index;

use host::{Error, Host};
use subject::network::{self, Records};

/// A line of `zoneadm links`: a network link of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The name of the zone.
    pub zone: String,
    /// The name of the link in the zone.
    pub link: String,
    /// The lower link on the host.
    pub over: String,
    /// True if the link is up; `None` if the zone is not active.
    pub up: Option<bool>,
    /// The name of the link's peer on the host, if it has a peer.
    pub host: Option<String>,
    /// The Ethernet address of the link.
    pub mac: Option<String>,
    /// Maximum size of a packet in bytes.
    pub mtu: Option<u32>,
    /// The IP addresses of the link.
    pub addresses: Vec<String>,
    /// Number of bytes that the zone received.
    pub received: Option<u64>,
    /// Number of bytes that the zone sent.
    pub sent: Option<u64>,
    /// Number of the zone's packets that were dropped because of a false source address, by the
    /// kind of address.
    pub dropped: BTreeMap<&'static str, u64>,
}

/// Returns the links that an active zone has, or the links that an inactive zone would have.
///
/// # Errors
/// Fails if the zone or its configuration cannot be read, or if the kernel does not return the
/// links.
pub fn of(host: &Host, zone: &ZoneName) -> Result<Vec<Row>, Error> {
    let index = Index::load(&host.root)?;
    let entry = index.get(zone)?;
    let (state, runtime) = subject::state(host, entry)?;
    match runtime.filter(|_| state.is_active()) {
        Some(known) => present(host, zone, known.init.pid),
        None => {
            // If a zone died, a link that was moved into the zone is first returned to the host.
            if subject::has_remains(host, zone) && rustix::process::geteuid().is_root() {
                subject::tidy(host, zone)?;
            }
            planned(host, zone, entry)
        }
    }
}

fn planned(host: &Host, zone: &ZoneName, entry: &store::index::Entry) -> Result<Vec<Row>, Error> {
    let config = store::xml::load(&host.root, zone)?;
    let links = network::links(host, &config, entry)?.into_iter();
    let row = |link: model::plan::network::Link| Row {
        zone: zone.to_string(),
        over: link.over.to_string(),
        mac: link.mac.map(|mac| mac.to_string()),
        mtu: link.mtu,
        addresses: link.addresses.iter().map(ToString::to_string).collect(),
        link: link.name,
        ..Row::default()
    };
    Ok(links.map(row).collect())
}

fn present(host: &Host, zone: &ZoneName, init: i32) -> Result<Vec<Row>, Error> {
    let look = || Error::io("look at the links of the zone");
    let record = Records::of(&host.root).load(zone)?;
    let held = record.map(|record| record.links).unwrap_or_default();
    let namespace = net::ends::namespace(Path::new(&format!("/proc/{init}/ns/net")));
    let namespace = namespace.map_err(look())?;
    let kernel = net::ends::within(namespace.as_fd(), Netlink::open);
    let kernel = kernel.and_then(|opened| opened).map_err(look())?;
    let addresses = kernel.all_addresses().map_err(look())?;
    let links = kernel.links().map_err(look())?;
    let row = |link: HostLink| {
        let ours = held.iter().find(|held| held.name == link.name);
        let mut own: Vec<String> = addresses
            .iter()
            .filter(|(index, _)| *index == link.index)
            .map(|(_, address)| address.to_string())
            .collect();
        own.sort();
        let counters = ours.and_then(|held| held.counters);
        let dropped = counters.and_then(|map| net::guard::counts(map).ok());
        Row {
            zone: zone.to_string(),
            // A link without a record was made by the zone itself.
            over: ours.map_or_else(|| "made by the zone".to_owned(), |held| held.over.clone()),
            up: Some(link.up),
            host: ours.and_then(|held| held.host.clone()),
            mac: link.mac.map(|mac| mac.to_string()),
            mtu: Some(link.mtu),
            addresses: own,
            received: link.received,
            sent: link.sent,
            dropped: dropped
                .unwrap_or_default()
                .into_iter()
                .map(|(reason, count)| (reason.name(), count))
                .collect(),
            link: link.name,
        }
    };
    let links = links.into_iter().filter(|link| link.name != "lo");
    Ok(links.map(row).collect())
}
