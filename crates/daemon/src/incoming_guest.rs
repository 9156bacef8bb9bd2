//! zoneadmd's part in receiving a guest that migrates from another host while the guest runs there.
//!
//! The receiving process (`zoneadm receive`) is connected to this zoneadmd by a socket. `zoneadm
//! receive` records that the zone belongs to this host before it tells the source; if `zoneadm
//! receive` dies, this record decides.

use std::os::fd::{AsFd, OwnedFd};

use model::plan::BootPlan;
use model::{State, ZoneName};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use store::Root;
use store::index::Index;
use vm::live;
use vm::qmp::Monitor;

use crate::connection::done_or;
use crate::error::{ArriveError, MachineError};
use control::log;
use control::protocol::{Coming, MAX_PACKET, Reply};
use platform::Platform;

/// The sockets that a zoneadmd gets for a guest that migrates to this host.
#[derive(Debug)]
pub struct Doors {
    /// The socket to `zoneadm receive`.
    pub control: OwnedFd,
    /// The stream of the guest's memory.
    pub memory: OwnedFd,
    /// A listening socket that receives the writes to the guest's disks.
    pub disks: OwnedFd,
}

/// Returns true if a zone that migrated from another host now belongs to this host.
///
/// # Errors
/// Fails if the index of zones cannot be read.
pub(super) fn has_arrived(root: &Root, zone: &ZoneName) -> Result<bool, store::Error> {
    let index = Index::load(root)?;
    let entry = index.find(zone);
    Ok(entry.is_some_and(|entry| entry.state == State::Installed))
}

/// Receives the state of a guest into a waiting QEMU, and lets the guest run when the zone belongs
/// to this host.
pub(super) fn arrive(
    root: &Root,
    zone: &ZoneName,
    platform: &mut Platform,
    plan: &BootPlan,
    doors: Doors,
) -> Result<(), ArriveError> {
    let disks = plan.arriving.as_deref().unwrap_or_default();
    let machine = platform.machine.as_mut().ok_or(MachineError::NotAMachine)?;
    let monitor = machine.monitor.as_mut();
    let monitor = monitor.ok_or(MachineError::Unresponsive)?;
    let Doors {
        control,
        memory,
        disks: listener,
    } = doors;
    live::offer(monitor, disks, listener.as_fd(), memory.as_fd())?;
    // Only QEMU keeps these sockets open: when QEMU ends, the sender is notified by the closed
    // connection.
    drop((listener, memory));
    log::message(root, zone, "comes from another host while it runs there");
    answer(&control, &Reply::Done);
    loop {
        let Some(word) = hear(&control)? else {
            // `zoneadm receive` was killed, or the connection was cut.
            return match has_arrived(root, zone)? {
                true => Ok(live::run(monitor)?),
                false => Err(ArriveError::SourceEnded),
            };
        };
        if word == Coming::Run {
            // `zoneadm receive` has already recorded that the zone belongs to this host, before any
            // step here can fail.
            let run = live::run(monitor);
            answer(&control, &done_or(&run));
            return Ok(run?);
        }
        let acted = act(monitor, word);
        answer(&control, &done_or(&acted));
        acted?;
    }
}

fn act(monitor: &mut Monitor, word: Coming) -> Result<(), vm::Error> {
    match word {
        Coming::DisksAreWhole => live::close_disks(monitor),
        Coming::IsWhole => live::wait_for_memory(monitor),
        Coming::WhyNot => live::why_not(monitor),
        Coming::Run => live::run(monitor),
    }
}

fn answer(control: &OwnedFd, reply: &Reply) {
    let packet = serde_json::to_vec(reply).unwrap_or_default();
    // The client may have ended; then the next read reports its end.
    let _ = send(control, &packet, SendFlags::NOSIGNAL);
}

/// Returns the next message of `zoneadm receive`, or `None` at the end of the connection.
fn hear(control: &OwnedFd) -> Result<Option<Coming>, ArriveError> {
    let mut packet = [0; MAX_PACKET];
    let received = rustix::io::retry_on_intr(|| recv(control, &mut packet, RecvFlags::empty()));
    match received {
        Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => Ok(None),
        Ok((length, _)) => serde_json::from_slice(&packet[..length])
            .map(Some)
            .map_err(ArriveError::Unexpected),
        Err(errno) => Err(ArriveError::Read(errno.into())),
    }
}
