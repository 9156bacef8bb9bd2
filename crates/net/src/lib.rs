//! The network of a zone: the owner of the network namespace decides who administers the network.
//!
//! | ip-type | the namespace belongs to | so the zone's root |
//! |---|---|---|
//! | shared | the host's user namespace | uses addresses, cannot plumb, route or sniff |
//! | exclusive | the zone's user namespace | is the network administrator |
//!
//! With both kinds of network, the loopback, the abstract sockets and the list of links are the
//! zone's own.
//!
//! ```text
//! plan.rs      configuration + facts of the host -> links         pure
//! make.rs      links -> pairs of links, addresses, routes, guards
//! make/        links that the host routes, links with neighbours, routes that are made again
//! announce.rs  frames that tell neighbours of an address
//! card.rs      network cards of machines on links
//! record.rs    what the host holds of it; stored before it is made
//! release.rs   record -> nothing left
//! publish.rs   ports of the host that lead to zones
//! watch.rs     changes of the host's firewall
//! listeners.rs programs of the host that have a port
//! host_side.rs what the zones need of the host together
//! ```
//!
//! docs/network.md describes the kinds of links.

pub mod announce;
pub mod card;
pub mod client_id;
pub mod ends;
pub mod guard;
pub mod host;
pub mod host_side;
pub mod listeners;
pub mod make;
pub mod netlink;
pub mod plan;
pub mod pool;
pub mod publish;
pub mod record;
mod release;
pub mod request;
pub mod watch;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use model::config::IpType;
use sys::process::ns;

pub use ends::Ends;
pub use netlink::Netlink;
pub use record::Record;
pub use release::{hold, release, remove};

/// Moves the calling thread into a new network namespace that only the host administers, and brings
/// its loopback up. This is for shared IP: programs that the thread starts afterwards run in this
/// namespace, and get no events of the host's devices.
///
/// # Errors
/// Fails with the error of clone3(2), of setns(2) or of the kernel's link code.
pub fn enter_shared() -> io::Result<()> {
    let network = sys::idmap::network_of_nobody().map_err(io::Error::other)?;
    sys::namespace::join(network.as_fd(), ns::NET)?;
    sys::link::loopback_up()
}

/// Writes the settings with which the network of a zone begins:
///
/// - No IPv4 forwarding. A new namespace has the IPv4 settings of the host, and a host that forwards
///   would make a router of each zone with two links.
/// - With `pings`, every user of the zone may open ICMP sockets; ping(8) prefers them to raw sockets.
///
/// The caller must be a process of the host, because the range contains the host's group ids.
///
/// # Errors
/// Fails with the error of setns(2) or write(2).
pub fn write_settings(namespace: BorrowedFd<'_>, pings: bool) -> io::Result<()> {
    ends::within(namespace, || write_settings_here(pings))?
}

/// Does the same as [`write_settings`] in the network namespace of the calling thread.
///
/// # Errors
/// Fails with the error of write(2).
pub fn write_settings_here(pings: bool) -> io::Result<()> {
    match stop_forwarding() {
        // The files do not exist in a kernel without IPv4.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    }
    match pings {
        true => std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647"),
        false => Ok(()),
    }
}

fn stop_forwarding() -> io::Result<()> {
    let forward = "/proc/sys/net/ipv4/ip_forward";
    if std::fs::read_to_string(forward)?.trim() == "0" {
        return Ok(());
    }
    // With the first write, the kernel also lets the namespace accept redirects, even if the host
    // accepts none.
    let redirects = "/proc/sys/net/ipv4/conf/all/accept_redirects";
    let accepted = std::fs::read_to_string(redirects)?;
    std::fs::write(forward, "0")?;
    std::fs::write(redirects, accepted)
}

/// Returns the namespaces to add when the zone's first process is created: an exclusive network
/// must be created together with the user namespace that owns it.
#[must_use]
pub const fn namespaces_of_first_process(ip_type: IpType) -> u64 {
    match ip_type {
        IpType::Shared => 0,
        IpType::Exclusive => ns::NET,
    }
}

/// Brings up the loopback of an exclusive network, from inside the zone.
///
/// # Errors
/// Fails with the error of the kernel's link code.
pub fn start_exclusive() -> io::Result<()> {
    sys::link::loopback_up()
}
