//! The state of a machine that leaves for another host while it runs.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};
use serde::Serialize;

use crate::error::LeaveError;
use control::protocol::{Leave, Left};

/// Interval between looks at the progress.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// A machine on its way.
#[derive(Debug)]
pub(super) struct Leaving {
    pub client: OwnedFd,
    pub zonepath: PathBuf,
    pub disks: Vec<String>,
    /// QEMU's end of the stream of its memory, until it has it.
    pub memory: Option<OwnedFd>,
    pub downtime: Duration,
    pub stage: Stage,
    pub told: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The disks are made the same; the machine runs.
    Disks,
    /// The memory is sent; the machine runs.
    Memory,
    /// It stands still since then, and its disks are whole there.
    Stands(Instant),
    /// All was sent; the machine is paused until the target's decision arrives.
    Sent,
}

impl Leaving {
    pub(super) fn client(&self) -> &OwnedFd {
        &self.client
    }

    /// Returns the time until the next look; none when all is sent.
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
    // A client that misses a report will ask again; reports are small and rare.
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let _ = send(client, &packet, flags);
}

/// A connection for each disk, and one for the memory: the ends of who carries them, and
/// QEMU's.
pub(super) fn channels(order: &Leave) -> Result<(Vec<OwnedFd>, Vec<OwnedFd>), LeaveError> {
    let pairs = (0..=order.disks.len()).map(|_| {
        let (theirs, ours) = UnixStream::pair()?;
        Ok((OwnedFd::from(theirs), OwnedFd::from(ours)))
    });
    let pairs: std::io::Result<Vec<_>> = pairs.collect();
    let pairs = pairs.map_err(LeaveError::Socket)?;
    Ok(pairs.into_iter().unzip())
}
