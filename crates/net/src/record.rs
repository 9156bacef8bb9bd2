//! Records the host's part of a zone's network, which is taken back later.
//!
//! A record is stored before its objects are made: after a crash at any moment all of
//! them can be removed, and missing ones are skipped.

use std::net::IpAddr;

use crate::pool;
use model::plan::network::{Published, Subnet};
use serde::{Deserialize, Serialize};

/// The host's part of a zone's network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The number of the host's network namespace: objects in this namespace are not
    /// searched for in another one.
    pub namespace: u64,
    /// The number of links that the zone has had since it booted.
    pub numbers: usize,
    /// Of each link.
    pub links: Vec<Held>,
}

/// The host's part of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The number of the link: it is used once between two boots of the zone.
    pub number: usize,
    /// The link's name in the zone.
    pub name: String,
    /// The lower link, in words.
    pub over: String,
    /// The host's end of it; it ends with the zone's network namespace.
    pub host: Option<String>,
    /// A link of the host's that ends only when it is deleted.
    pub outer: Option<String>,
    /// A link that has to come back.
    pub moved: Option<String>,
    /// Its number in the zone.
    pub moved_index: Option<u32>,
    /// The addresses that it was given.
    pub addresses: Vec<Subnet>,
    /// The uplink on which the host answers for them.
    pub uplink: Option<String>,
    /// The routing table for its packets, with the router.
    pub table: Option<(u32, Vec<IpAddr>)>,
    /// True if the host routes for it.
    pub routed: bool,
    /// True if the host does NAT for it.
    pub translated: bool,
    /// The counters of dropped packets.
    pub counters: Option<u32>,
    /// The ports of the host that lead to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

impl Record {
    /// Returns whether the host routes for the zone.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        self.links.iter().any(|link| link.routed)
    }

    /// Returns whether the host does NAT for the zone.
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

    /// The links that have to come back.
    pub fn moved(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        let links = self.links.iter();
        links.filter_map(|link| Some((link.moved.as_deref()?, link.moved_index)))
    }
}
