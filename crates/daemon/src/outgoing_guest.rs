//! The state of a running guest that migrates to another host.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use serde::Serialize;

use crate::error::LeaveError;
use control::protocol::{Leave, Left};

/// Interval between checks of the migration's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// A guest that is migrating to another host.
#[derive(Debug)]
pub(super) struct Leaving {
    pub client: OwnedFd,
    pub zonepath: PathBuf,
    pub disks: Vec<String>,
    /// The socket to which QEMU will send the guest's memory; `None` after QEMU has got it.
    pub memory: Option<OwnedFd>,
    pub downtime: Duration,
    pub stage: Stage,
    pub told: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The disks are being copied; the guest runs.
    Disks,
    /// The memory is being sent; the guest runs.
    Memory,
    /// The guest has been paused since this time, and its disks are complete on the target.
    Stands(Instant),
    /// All data has been sent; the guest is paused until the target's decision arrives.
    Sent,
}

impl Leaving {
    pub(super) fn client(&self) -> &OwnedFd {
        &self.client
    }

    /// Returns the time until the next check of the progress, or `None` if all data has been sent.
    pub(super) fn pause(&self) -> Option<Duration> {
        (self.stage != Stage::Sent).then_some(POLL_INTERVAL)
    }

    pub(super) fn tell(&self, left: &Left) {
        say(&self.client, left);
    }

    pub(super) fn sometimes(&mut self, left: &Left) {
        if self.told.elapsed() >= PROGRESS_INTERVAL {
            self.told = Instant::now();
            self.tell(left);
        }
    }
}

/// Sends a message to the moving process, which may have ended.
pub(super) fn say(client: &OwnedFd, what: &impl Serialize) {
    let packet = serde_json::to_vec(what).unwrap_or_default();
    // A lost report does no harm: reports are small and rare, and the client asks again.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = send(client, &packet, flags);
}

/// Makes one connection for each disk, and one for the memory. Returns the sockets for the
/// migrating command, and the sockets for QEMU.
pub(super) fn channels(order: &Leave) -> Result<(Vec<OwnedFd>, Vec<OwnedFd>), LeaveError> {
    let pairs = (0..=order.disks.len()).map(|_| {
        let (theirs, ours) = UnixStream::pair()?;
        Ok((OwnedFd::from(theirs), OwnedFd::from(ours)))
    });
    let pairs: std::io::Result<Vec<_>> = pairs.collect();
    let pairs = pairs.map_err(LeaveError::Socket)?;
    Ok(pairs.into_iter().unzip())
}
