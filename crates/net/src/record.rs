//! Records the host's part of a zone's network, so that it can be removed later.
//!
//! A record is stored before its objects are made. So all objects can be removed after a crash at
//! any moment; missing objects are skipped.

use std::net::IpAddr;

use crate::pool;
use model::plan::network::{Published, Subnet};
use serde::{Deserialize, Serialize};

/// The host's part of a zone's network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The number of the host's network namespace. Objects are removed only in this namespace.
    pub namespace: u64,
    /// The number of links that the zone has had since its boot.
    pub numbers: usize,
    /// The host's part of each link.
    pub links: Vec<Held>,
}

/// The host's part of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The number of the link, which is not reused until the next boot of the zone.
    pub number: usize,
    /// The link's name in the zone.
    pub name: String,
    /// A description of the lower link.
    pub over: String,
    /// The name of the host's link of the pair, which is removed with the zone's network namespace.
    pub host: Option<String>,
    /// The name of a link on the host that must be deleted explicitly.
    pub outer: Option<String>,
    /// The name of a host link that moved into the zone and must return.
    pub moved: Option<String>,
    /// The number of the moved link in the zone.
    pub moved_index: Option<u32>,
    /// The addresses that the link was given.
    pub addresses: Vec<Subnet>,
    /// The uplink on which the host answers for the link's addresses.
    pub uplink: Option<String>,
    /// The number of the routing table for the link's packets, and the routers in this table.
    pub table: Option<(u32, Vec<IpAddr>)>,
    /// True if the host routes for the link.
    pub routed: bool,
    /// True if the host does NAT for the link.
    pub translated: bool,
    /// The id of the map that counts the link's dropped packets.
    pub counters: Option<u32>,
    /// The ports of the host that lead to the link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// The number of the zone's label on this host; `None` for a zone without a label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<u8>,
}

impl Record {
    /// Returns true if the host routes for the zone.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        self.links.iter().any(|link| link.routed)
    }

    /// Returns true if the host does NAT for the zone.
    #[must_use]
    pub fn is_translated(&self) -> bool {
        self.links.iter().any(|link| link.translated)
    }

    /// Returns the slot of the zone's addresses of the pool, if it has any.
    #[must_use]
    pub fn pool_slot(&self) -> Option<u32> {
        let translated = self.links.iter().find(|link| link.translated)?;
        translated
            .addresses
            .first()
            .and_then(|one| pool::slot_of(one.ip))
    }

    /// Returns the host links that moved into the zone and must return.
    pub fn moved(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        let links = self.links.iter();
        links.filter_map(|link| Some((link.moved.as_deref()?, link.moved_index)))
    }
}
