//! Routes and announcements of a running zone that are made again.

use std::io;

use rustix::io::Errno;

use super::PREFIX;
use super::routed::{source_of, way_to_zone};
use crate::announce;
use crate::netlink::Netlink;
use crate::record::Record;
use crate::request;

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
            announce::send(uplink.index, mac, &held.addresses);
        }
    }
    Ok(())
}
