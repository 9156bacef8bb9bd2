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
//! card.rs      network cards of machines on links
//! record.rs    what the host holds of it; stored before it is made
//! release.rs   record -> nothing left
//! host_side.rs what the zones need of the host together
//! ```
//!
//! docs/network.md describes the kinds of links.

pub mod card;
pub mod client_id;
pub mod ends;
pub mod guard;
pub mod host;
pub mod host_side;
pub mod make;
pub mod netlink;
pub mod plan;
pub mod pool;
pub mod record;
mod release;
pub mod request;

use std::io;

use model::config::IpType;
use sys::process::ns;

pub use ends::Ends;
pub use netlink::Netlink;
pub use record::Record;
pub use release::{release, remove};

/// Moves the calling thread into a new network namespace that belongs to the host,
/// and brings its loopback up. For shared IP: what the thread starts afterwards
/// lives in that namespace.
///
/// # Errors
/// What unshare(2) or the kernel's link code says.
pub fn enter_shared() -> io::Result<()> {
    sys::namespace::unshare(ns::NET)?;
    sys::link::loopback_up()
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
/// What the kernel's link code says.
pub fn start_exclusive() -> io::Result<()> {
    sys::link::loopback_up()
}
