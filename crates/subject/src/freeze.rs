//! Zones that stand still for a moment, and go on whatever happens.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use limits::ZoneCgroups;
use model::ZoneName;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use control::client;
use control::protocol::Request;
use host::{Error, Host};

/// Timeout for the kernel to stop every process: one that waits for a disk stops when the disk
/// answers.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(30);

/// A frozen zone; thawed when this is dropped. If this process dies, the zone's
/// zoneadmd sees the connection end and thaws it; if both die, the next zoneadmd does.
#[derive(Debug)]
pub struct Frozen {
    cgroups: ZoneCgroups,
    connection: Option<OwnedFd>,
    since: Instant,
}

impl Frozen {
    /// Freezes a running zone.
    ///
    /// # Errors
    /// When some process does not stop in time; all go on then.
    pub fn new(host: &Host, zone: &ZoneName, cgroups: ZoneCgroups) -> Result<Self, Error> {
        let socket = client::connect_or_adopt(host, zone)?;
        let mut frozen = Self {
            cgroups,
            connection: None,
            since: Instant::now(),
        };
        match client::ask(&socket, &Request::Freeze) {
            Ok(Some(())) => frozen.connection = Some(socket),
            // It died just now, or is of a time when it did not know how.
            Ok(None) | Err(Error::Daemon(_)) => stop(&frozen.cgroups)?,
            Err(error) => return Err(error),
        }
        Ok(frozen)
    }

    /// Lets the zone go on; says for how long it stood still.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn thaw(mut self) -> Result<Duration, Error> {
        let stood = self.since.elapsed();
        self.let_go()?;
        Ok(stood)
    }

    fn let_go(&mut self) -> Result<(), Error> {
        self.connection = None;
        // Also where zoneadmd does it: it may have died.
        Ok(self.cgroups.freeze(false)?)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // Fails only for groups that are gone, and with them the processes.
        let _ = self.let_go();
    }
}

/// Freezes every process in the groups and waits until all have stopped.
///
/// # Errors
/// When some do not stop in time; all go on then.
pub fn stop(cgroups: &ZoneCgroups) -> Result<(), Error> {
    cgroups.freeze(true)?;
    let stopped = wait(cgroups);
    if stopped.is_err() {
        let _ = cgroups.freeze(false);
    }
    stopped
}

fn wait(cgroups: &ZoneCgroups) -> Result<(), Error> {
    let path = cgroups.v2().join("cgroup.events");
    let what = || format!("wait for {}", path.display());
    let events = File::open(&path).map_err(Error::io(what()))?;
    let deadline = Instant::now() + FREEZE_TIMEOUT;
    loop {
        let mut text = [0; 256];
        let length = rustix::io::pread(&events, &mut text, 0)
            .map_err(|errno| Error::Io(what(), errno.into()))?;
        if String::from_utf8_lossy(&text[..length]).contains("frozen 1") {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Refused(format!(
                "not every process could be stopped within {} s; one waits for a device or \
                 a file server.",
                FREEZE_TIMEOUT.as_secs()
            )));
        }
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(&events, PollFlags::PRI)], left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::Io(what(), errno.into())),
        }
    }
}
