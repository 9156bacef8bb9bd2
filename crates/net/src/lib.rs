//! The network of a zone: whose namespace it is decides who administers it.
//!
//! | ip-type | the namespace belongs to | so the zone's root |
//! |---|---|---|
//! | shared | the host's user namespace | uses addresses, cannot plumb, route or sniff |
//! | exclusive | the zone's user namespace | is the network administrator |
//!
//! Either way loopback, abstract sockets and the view of the links are the zone's
//! own.
//!
//! ```text
//! plan.rs      configuration + facts of the host -> links         pure
//! make.rs      links -> pairs of links, addresses, routes, guards
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

/// Moves the calling thread into a new network namespace that only the host administers,
/// and brings its loopback up. For shared IP: programs that the thread starts afterwards
/// run in that namespace, and get no events of the host's devices.
///
/// # Errors
/// Fails with the error of clone3(2), of setns(2) or of the kernel's link code.
pub fn enter_shared() -> io::Result<()> {
    let network = sys::idmap::network_of_nobody().map_err(io::Error::other)?;
    sys::namespace::join(network.as_fd(), ns::NET)?;
    sys::link::loopback_up()
}

/// Lets every user open ICMP sockets in a network namespace, which ping(8) takes rather
/// than raw ones. To be called by a process of the host, whose group ids the range is in.
///
/// # Errors
/// Fails with the error of setns(2) or write(2).
pub fn admit_pings(namespace: BorrowedFd<'_>) -> io::Result<()> {
    ends::within(namespace, admit_pings_here)?
}

/// [`admit_pings`] in the network namespace of the calling thread.
///
/// # Errors
/// Fails with the error of write(2).
pub fn admit_pings_here() -> io::Result<()> {
    match std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647") {
        // A kernel without IPv4.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The namespaces to add when the zone's first process is made: an exclusive
/// network must come into being together with the user namespace that owns it.
#[must_use]
pub const fn namespaces_of_first_process(ip_type: IpType) -> u64 {
    match ip_type {
        IpType::Shared => 0,
        IpType::Exclusive => ns::NET,
    }
}

/// Brings up the loopback of an exclusive network, from inside.
///
/// # Errors
/// Fails with the error of the kernel's link code.
pub fn start_exclusive() -> io::Result<()> {
    sys::link::loopback_up()
}
