//! Checks the frames that a zone sends: a program at the host's end of its link.
//!
//! Every link of a zone has a device on the host's side, and frames of the zone arrive
//! there first. A BPF program made for this one link (tc-bpf(8), clsact, ingress) looks
//! at each frame before anything else of the host does. It lives and dies with the
//! device, so that there is nothing to clean up, and no firewall of the host's is part of
//! it or can flush it away.
//!
//! A frame is dropped when it cannot be read as far as a rule needs.

mod counters;
mod dhcp;
mod frame;
mod ipv4;
mod ipv6;
mod program;
mod rules;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;

use sys::bpf;

pub use counters::{Reason, counts, counts_of};
pub use program::{inbound, program};
pub use rules::{Clients, Guard, MAX_SOURCES, Verdict};

/// A program that the kernel has taken, ready to be attached.
#[derive(Debug)]
pub struct Loaded {
    /// The program.
    pub program: OwnedFd,
    /// The number by which [`counts`] finds its counters of dropped frames.
    pub map_id: u32,
}

/// Gives the program of a guard to the kernel. It lives until the descriptor is closed
/// and it is not attached anywhere.
///
/// # Errors
/// Fails with the error of bpf(2): `EPERM` without CAP_BPF and CAP_NET_ADMIN.
pub fn load(guard: &Guard) -> io::Result<Loaded> {
    use std::os::fd::AsFd;
    let map = counters::new()?;
    let program = bpf::load_classifier(&program(guard, map.as_fd()))?;
    Ok(Loaded {
        program,
        map_id: map.id(),
    })
}

/// Gives the program of [`inbound`] to the kernel.
///
/// # Errors
/// See [`load`].
pub fn load_inbound(vlan: Option<u16>, to: u32) -> io::Result<OwnedFd> {
    bpf::load_classifier(&inbound(vlan, to))
}
