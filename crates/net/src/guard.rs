//! Checks the frames that a zone sends, with a program on the host's side of the zone's link.
//!
//! Every link of a zone has a device on the host's side, and frames of the zone arrive at this
//! device first. A BPF program for this one link (tc-bpf(8), clsact, ingress) checks each frame
//! before any other code of the host handles the frame. The kernel removes the program together
//! with the device, so that no cleanup is needed. The program is independent of the host's
//! firewall, which cannot remove it.
//!
//! The program drops a frame that is too short or malformed for a rule to read.

mod counters;
mod dhcp;
mod frame;
mod ipv4;
mod ipv6;
pub mod label;
mod program;
mod rules;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;

use sys::bpf;

pub use counters::{Reason, counts, counts_of};
pub use label::Labeled;
pub use program::{inbound, program};
pub use rules::{Clients, Guard, MAX_SOURCES, Verdict};

/// A program that the kernel has loaded, and that can be attached to a device.
#[derive(Debug)]
pub struct Loaded {
    /// The descriptor of the program.
    pub program: OwnedFd,
    /// The program id with which [`counts`] finds the counters of dropped frames.
    pub map_id: u32,
}

/// Loads the program of a guard into the kernel. The kernel removes the program when its descriptor
/// is closed and the program is not attached to any device.
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

/// Loads the programs of a link with a label: the guard, and the program for packets to the zone.
///
/// # Errors
/// Fails as [`load`] does.
pub fn load_labeled(guard: &Guard, labeled: &Labeled<'_>) -> io::Result<(Loaded, OwnedFd)> {
    use std::os::fd::AsFd;
    let map = counters::new()?;
    let code = program::assemble(guard, map.as_fd(), Some((labeled, labeled.map())));
    let loaded = Loaded {
        program: bpf::load_classifier(&code)?,
        map_id: map.id(),
    };
    Ok((loaded, label::load_arrivals(labeled, map.as_fd())?))
}

/// Loads the program of [`inbound`] into the kernel.
///
/// # Errors
/// Fails as [`load`] does.
pub fn load_inbound(vlan: Option<u16>, to: u32) -> io::Result<OwnedFd> {
    bpf::load_classifier(&inbound(vlan, to))
}
