//! Removes the objects on the host for a zone's network.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;

use crate::ends::{here, namespace, within};
use crate::netlink::{Netlink, Request};
use crate::record::{Held, Record};
use crate::request;

/// Removes the objects of a record; missing objects are no error. The caller must be in the host's
/// network namespace, and no process of the zone may be left. `pinned` is a path to the zone's
/// network namespace, if links must return from this namespace.
///
/// # Errors
/// Fails with a list of all errors.
pub fn release(record: &Record, pinned: Option<&Path>) -> Result<(), Vec<String>> {
    let kernel =
        Netlink::open().map_err(|error| vec![format!("could not ask for links: {error}")])?;
    let mut failed = Vec::new();
    let here = crate::ends::number();
    let here = here.map_err(|error| vec![format!("could not find out where this is: {error}")])?;
    if here != record.namespace {
        return Ok(());
    }
    for held in &record.links {
        failed.extend(all_gone(&kernel, of_link(&kernel, held)));
    }
    if let Some(pinned) = pinned.filter(|_| record.moved().next().is_some()) {
        if let Err(error) = bring_back(record, pinned) {
            failed.push(format!("could not bring the host's links back: {error}"));
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed)
    }
}

/// Takes single links back from a zone that runs on. `namespace` leads to the zone's network
/// namespace.
///
/// # Errors
/// Fails with a list of all errors.
pub fn remove(record: &Record, namespace: &Path) -> Result<(), Vec<String>> {
    release(record, Some(namespace))?;
    let kernel =
        Netlink::open().map_err(|error| vec![format!("could not ask for links: {error}")])?;
    let hosts = record.links.iter().filter_map(|held| held.host.as_deref());
    let failed = all_gone(&kernel, hosts.map(request::delete).collect());
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed)
    }
}

/// Holds or releases the addresses of links for which the host routes. While an address is held,
/// packets for it are rejected and do not follow the default route. The caller must be in the
/// host's network namespace.
///
/// # Errors
/// Fails with a list of all errors.
pub fn hold(addresses: &[IpAddr], held: bool) -> Result<(), Vec<String>> {
    let kernel =
        Netlink::open().map_err(|error| vec![format!("could not ask for routes: {error}")])?;
    let requests = addresses.iter().map(|ip| request::nobody_at(*ip, held));
    let failed = all_gone(&kernel, requests.collect());
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed),
    }
}

fn of_link(kernel: &Netlink, held: &Held) -> Vec<Request> {
    let mut requests = Vec::new();
    if let Some(outer) = &held.outer {
        requests.push(request::delete(outer));
    }
    let uplink = held
        .uplink
        .as_deref()
        .and_then(|name| kernel.link(name).ok().flatten());
    if let Some(uplink) = uplink {
        let addresses = held.addresses.iter().map(|one| one.ip);
        let own = addresses.filter(|ip| !is_anothers(kernel, held, *ip));
        requests.extend(own.map(|ip| request::answer_for(uplink.index, ip, false)));
    }
    if let (Some((table, routers)), Some(host)) = (&held.table, &held.host) {
        for v6 in [false, true] {
            if routers.iter().any(|router| router.is_ipv6() == v6) {
                requests.extend(request::routed_by(host, *table, v6, false));
            }
        }
        requests.extend(request::no_routes(*table, routers));
    }
    requests
}

/// Returns true if another zone has the address: that zone had it first, and the zone of this
/// record was refused.
fn is_anothers(kernel: &Netlink, held: &Held, ip: IpAddr) -> bool {
    let way = kernel.way_to(ip).ok().flatten();
    let link = way.and_then(|way| kernel.link_at(way.link).ok().flatten());
    link.is_some_and(|link| {
        let is_zones = link.alias.is_some_and(|alias| alias.starts_with("zone "));
        is_zones && held.host.as_ref() != Some(&link.name)
    })
}

fn bring_back(record: &Record, pinned: &Path) -> io::Result<()> {
    let zone = namespace(pinned)?;
    let host = here()?;
    let kernel = within(zone.as_fd(), Netlink::open)??;
    let mut result = Ok(());
    for (nic, index) in record.moved() {
        if let Err(error) = bring(&kernel, nic, index, host.as_fd()) {
            result = Err(error);
        }
    }
    result
}

fn bring(kernel: &Netlink, nic: &str, index: Option<u32>, host: BorrowedFd<'_>) -> io::Result<()> {
    // The link is found by its number, because the zone's root may have renamed it.
    let found = match index {
        Some(index) => kernel.link_at(index)?,
        None => kernel.link(nic)?,
    };
    // The link never arrived in the zone, or it was already removed.
    let Some(found) = found else {
        return Ok(());
    };
    let moved = kernel.change(vec![request::into_namespace(found.index, nic, host)]);
    moved.map_err(|error| error.source)
}

/// Sends the requests one by one and ignores errors about objects that do not exist.
pub(crate) fn all_gone(kernel: &Netlink, requests: Vec<Request>) -> Vec<String> {
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
