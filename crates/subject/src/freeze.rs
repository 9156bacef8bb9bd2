//! Freezes zones for a moment, and thaws them also if this process dies.

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

/// Timeout for the kernel to freeze every process of a zone, in seconds: a process that waits for a
/// disk freezes only when the disk answers.
const FREEZE_TIMEOUT: Duration = Duration::from_secs(30);

/// A frozen zone. Dropping this value thaws the zone. If this process dies, the zone's zoneadmd
/// sees the end of the connection and thaws the zone; if both die, the next zoneadmd does.
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
    /// Fails if some process does not freeze within the timeout; the zone is thawed then.
    pub fn new(host: &Host, zone: &ZoneName, cgroups: ZoneCgroups) -> Result<Self, Error> {
        let socket = client::connect_or_adopt(host, zone)?;
        let mut frozen = Self {
            cgroups,
            connection: None,
            since: Instant::now(),
        };
        match client::ask(&socket, &Request::Freeze) {
            Ok(Some(())) => frozen.connection = Some(socket),
            // The zoneadmd has just died, or is of a version that cannot freeze.
            Ok(None) | Err(Error::Daemon(_)) => stop(&frozen.cgroups)?,
            Err(error) => return Err(error),
        }
        Ok(frozen)
    }

    /// Thaws the zone. Returns the time for which it was frozen.
    ///
    /// # Errors
    /// Fails if the kernel refuses, or if another process has thawed the zone before.
    pub fn thaw(mut self) -> Result<Duration, Error> {
        let stood = self.since.elapsed();
        let stayed = self.cgroups.is_frozen();
        self.let_go()?;
        match stayed? {
            true => Ok(stood),
            // A new zoneadmd thaws the zone, because the former one may have died before it did.
            false => Err(Error::Refused(
                "ran again while its root was copied, because its zoneadmd ended; run the command again.".to_owned(),
            )),
        }
    }

    fn let_go(&mut self) -> Result<(), Error> {
        self.connection = None;
        // Also if zoneadmd has thawed the zone: it may have died before it did.
        Ok(self.cgroups.freeze(false)?)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // This fails only if the cgroups are gone, and their processes with them.
        let _ = self.let_go();
    }
}

/// Freezes every process in the cgroups and waits until all are frozen.
///
/// # Errors
/// Fails if some process does not freeze within the timeout; all are thawed then.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_that_ran_again_too_early_is_an_error() {
        let group = tempfile::tempdir().unwrap();
        let setting = group.path().join("cgroup.freeze");
        let paths = [group.path().to_owned()];
        for (now, is_right) in [("1\n", true), ("0\n", false)] {
            std::fs::write(&setting, now).unwrap();
            let frozen = Frozen {
                cgroups: ZoneCgroups::from_paths(&paths).unwrap(),
                connection: None,
                since: Instant::now(),
            };
            assert_eq!(frozen.thaw().is_ok(), is_right, "{now}");
            assert_eq!(std::fs::read_to_string(&setting).unwrap(), "0");
        }
    }
}
