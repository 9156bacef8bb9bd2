//! zoneadmd's side of the zone's reader: starts the reader, and starts it again after it has died.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use limits::ZoneCgroups;
use model::ZoneName;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use store::Root;
use store::runtime::Process;
use sys::process::Child;

use crate::proc::files::{File, make, names_for, since_boot};
use crate::proc::serve::serve;
use host::undo;
use model::controls::Controls;

/// The name of the reader in a list of processes.
const TITLE: &std::ffi::CStr = c"zone-proc";

/// The file in the zone's folder that identifies the process of the zone's reader.
const READER: &str = "reader";

/// The minimum time between two starts of the reader.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Timeout for a killed reader to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The reader of a zone with limits.
#[derive(Debug)]
pub struct Follower {
    folder: PathBuf,
    groups: ZoneCgroups,
    owner: u32,
    init: OwnedFd,
    booted: Duration,
    reader: Option<Child>,
    started: Instant,
}

impl Follower {
    /// Starts the reader of a zone whose first process is `init`. Returns `None` if the zone has no
    /// such files. If a dead zoneadmd has left a reader, this function first ends that reader.
    pub fn start(
        root: &Root,
        zone: &ZoneName,
        groups: &ZoneCgroups,
        init: &Child,
        owner: u32,
    ) -> Option<Self> {
        let folder = root.proc_files(zone);
        if !folder.is_dir() {
            return None;
        }
        let mut follower = Self {
            folder,
            groups: groups.clone(),
            owner,
            init: init.pidfd.try_clone().ok()?,
            booted: booted(init.pid),
            reader: None,
            started: Instant::now(),
        };
        follower.end_old();
        follower.fork();
        Some(follower)
    }

    /// Returns a descriptor that becomes readable when the reader has died.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref().map(|reader| reader.pidfd.as_fd())
    }

    /// Returns the time until [`Follower::mind`] must be called if no other event occurs before.
    pub fn due_in(&self) -> Option<Duration> {
        let due = self.started + RESTART_AFTER;
        (self.reader.is_none()).then(|| due.saturating_duration_since(Instant::now()))
    }

    /// Starts the reader again if it has died, at most once per second.
    pub fn mind(&mut self, died: bool) {
        if died && let Some(reader) = self.reader.take() {
            undo::reap(&reader, END_TIMEOUT);
        }
        if self.due_in().is_some_and(|left| left.is_zero()) {
            self.fork();
        }
    }

    /// Ends the reader.
    pub fn end(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = pidfd_send_signal(&reader.pidfd, Signal::KILL);
            undo::reap(&reader, END_TIMEOUT);
        }
    }

    fn fork(&mut self) {
        self.started = Instant::now();
        let (folder, groups, init) = (&self.folder, &self.groups, self.init.as_fd());
        let started = sys::process::fork(0, None, &[init], || {
            let _ = rustix::thread::set_name(TITLE);
            let _ = sys::memory::release_program_pages();
            u8::from(serve(folder, groups, self.booted, self.owner, init).is_err())
        });
        // If the reader could not start, the files keep their content, and zoneadmd tries again
        // later.
        self.reader = started.ok();
        let known = self
            .reader
            .as_ref()
            .and_then(|reader| Process::find(reader.pid));
        if let Some(Process { pid, started }) = known {
            let _ = fs::write(self.folder.join(READER), format!("{pid} {started}\n"));
        }
    }

    /// Ends the reader that another zoneadmd has started.
    fn end_old(&self) {
        let text = fs::read_to_string(self.folder.join(READER)).unwrap_or_default();
        let mut words = text.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(pid)), Some(Ok(started))) = (words.next(), words.next()) else {
            return;
        };
        let Ok(pid) = i32::try_from(pid) else { return };
        let opened = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // While the pidfd is open, the process id cannot belong to another process.
        if let Some(reader) = opened
            && (Process { pid, started }).is_alive()
        {
            let _ = pidfd_send_signal(&reader, Signal::KILL);
        }
    }
}

/// Makes the files that a zone needs after a change of its limits, and starts a reader for them. A
/// zone that has files keeps them until its next boot.
pub fn review(
    follower: &mut Option<Follower>,
    root: &Root,
    zone: &ZoneName,
    groups: &ZoneCgroups,
    init: &Child,
    owner: u32,
    controls: &Controls,
) -> std::io::Result<()> {
    let wanted: Vec<File> = names_for(controls);
    let made = make(&root.proc_files(zone), &wanted, groups)?;
    let other_groups = follower.as_ref().is_some_and(|old| old.groups != *groups);
    if made.is_empty() && !other_groups {
        return Ok(());
    }
    if let Some(old) = follower {
        old.end();
    }
    *follower = Follower::start(root, zone, groups, init, owner);
    Ok(())
}

/// Returns the time of the host's boot clock at which a zone booted. The zone's own boot clock
/// started at 0 at that time.
fn booted(init: i32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{init}/timens_offsets")).unwrap_or_default();
    offset(&text).unwrap_or_else(since_boot)
}

/// Returns the amount by which the boot clock is set back, from a list of clocks such as "boottime
/// -123 400000000".
fn offset(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("boottime"))?;
    let mut words = line.split_whitespace().skip(1);
    let seconds: i64 = words.next()?.parse().ok()?;
    let nanoseconds: u32 = words.next()?.parse().ok()?;
    let back = u64::try_from(seconds.checked_neg()?).ok()?;
    Duration::from_secs(back).checked_sub(Duration::from_nanos(nanoseconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_set_back() {
        let text = "monotonic         -5         1\nboottime        -10 400000000\n";
        assert_eq!(offset(text), Some(Duration::from_millis(9600)));
        assert_eq!(offset("boottime 0 0\n"), Some(Duration::ZERO));
        assert_eq!(offset("boottime 5 0\n"), None);
        assert_eq!(offset(""), None);
    }
}
