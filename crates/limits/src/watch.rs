//! Reports when a zone reaches a limit.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::controls::Control;
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::ZoneCgroups;

/// Interval between checks of limits for which the kernel sends no event.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Watches the limits of one zone. After an event, call [`Watch::hits`], at most once a second: a
/// zone at its limit usually reaches it again and again.
#[derive(Debug)]
pub struct Watch {
    cgroups: ZoneCgroups,
    sources: Vec<Source>,
    /// The epoll of all event sources; `None` if the kernel sends no event.
    ready: Option<OwnedFd>,
    /// The group of the limit on threads, if the kernel sends no event about it, as in v1.
    untold: Option<PathBuf>,
    seen: Seen,
}

/// The event counts that are reported. [`crate::usage::Events`] has more counts, but each count costs
/// reads of several files.
#[derive(Clone, Copy, Debug)]
struct Seen {
    oom_kills: u64,
    lwps_refused: u64,
}

impl Seen {
    fn now(cgroups: &ZoneCgroups) -> Self {
        Self {
            oom_kills: cgroups.oom_kills(),
            lwps_refused: cgroups.lwps_refused(),
        }
    }
}

#[derive(Debug)]
enum Source {
    /// A file whose change the kernel reports. A read of the file arms the next report.
    File(File),
    /// An eventfd with which v1 reports memory shortage; the file must stay open.
    Event(OwnedFd, #[expect(dead_code, reason = "kept open")] File),
}

/// A limit that a zone reached. The text of this value is a line for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The control with the limit.
    pub control: Control,
    /// The present limit; `None` if the control has no limit, for example if the whole host was
    /// short of memory.
    pub limit: Option<u64>,
    /// The number of times since the last check.
    pub more: u64,
    /// The number of times since the zone booted.
    pub total: u64,
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            control,
            limit,
            more,
            total,
        } = self;
        let what = match control {
            Control::MaxLwps => "new threads refused",
            _ => "processes killed for want of memory",
        };
        match limit {
            Some(limit) => write!(f, "{control}={} was reached", control.show(*limit))?,
            None => write!(f, "{control}: the host itself is short")?,
        }
        write!(f, ": {more} {what}, {total} since boot")
    }
}

impl Watch {
    /// Starts to watch the limits; earlier events are not reported. A kernel that sends no events
    /// is not an error: the counts are still in [`ZoneCgroups::events`].
    #[must_use]
    pub fn new(cgroups: &ZoneCgroups) -> Self {
        let memory = cgroups.v2.join("memory.events");
        let mut sources = Vec::new();
        if memory.exists() {
            sources.extend(changes_of(&memory));
        } else if let Some(control) = cgroups.v1_file("memory.oom_control") {
            sources.extend(out_of_memory(&control));
        }
        let pids = cgroups.v2.join("pids.events");
        if pids.exists() {
            sources.extend(changes_of(&pids));
        }
        Self {
            seen: Seen::now(cgroups),
            cgroups: cgroups.clone(),
            ready: together(&sources).ok(),
            untold: cgroups.v1_file("pids.max"),
            sources,
        }
    }

    /// Returns a descriptor that is readable from an event until the next call of [`Watch::hits`].
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ready.as_ref().map(AsFd::as_fd)
    }

    /// Returns the interval between checks without an event. `None` unless the host has the limit
    /// on threads in v1 and the zone has such a limit.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        let limit = fs::read_to_string(self.untold.as_ref()?).ok()?;
        (limit.trim() != "max").then_some(POLL_INTERVAL)
    }

    /// Returns the limits that the zone reached since the last call.
    pub fn hits(&mut self) -> Vec<Hit> {
        let mut buffer = [0; 512];
        for source in &self.sources {
            // The events are armed again before the counts are read, so that no event in between is
            // lost.
            let _ = match source {
                Source::File(file) => rustix::io::pread(file, &mut buffer, 0),
                Source::Event(event, _) => rustix::io::read(event, &mut buffer),
            };
        }
        let now = Seen::now(&self.cgroups);
        let before = std::mem::replace(&mut self.seen, now);
        let is_more = now.oom_kills > before.oom_kills || now.lwps_refused > before.lwps_refused;
        if !is_more {
            return Vec::new();
        }
        let limits = self.cgroups.effective();
        let of = |control, limit, total: u64, before: u64| Hit {
            control,
            limit,
            more: total.saturating_sub(before),
            total,
        };
        [
            of(
                Control::MaxPhysicalMemory,
                limits.physical,
                now.oom_kills,
                before.oom_kills,
            ),
            of(
                Control::MaxLwps,
                limits.max_lwps,
                now.lwps_refused,
                before.lwps_refused,
            ),
        ]
        .into_iter()
        .filter(|hit| hit.more > 0)
        .collect()
    }
}

fn together(sources: &[Source]) -> rustix::io::Result<OwnedFd> {
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for source in sources {
        let (descriptor, flags) = match source {
            Source::File(file) => (file.as_fd(), epoll::EventFlags::PRI),
            Source::Event(event, _) => (event.as_fd(), epoll::EventFlags::IN),
        };
        epoll::add(&ready, descriptor, epoll::EventData::new_u64(0), flags)?;
    }
    Ok(ready)
}

fn changes_of(path: &Path) -> Option<Source> {
    let file = File::open(path).ok()?;
    // For the kernel, a file that was never read has always changed.
    let _ = rustix::io::pread(&file, &mut [0; 512], 0);
    Some(Source::File(file))
}

/// Makes v1 report each time that memory runs out.
fn out_of_memory(control: &Path) -> Option<Source> {
    let file = File::open(control).ok()?;
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
    let number = |fd: BorrowedFd<'_>| std::os::fd::AsRawFd::as_raw_fd(&fd);
    let line = format!("{} {}", number(event.as_fd()), number(file.as_fd()));
    fs::write(control.with_file_name("cgroup.event_control"), line).ok()?;
    Some(Source::Event(event, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_names_control_value_and_count() {
        let mut hit = Hit {
            control: Control::MaxLwps,
            limit: Some(40),
            more: 3,
            total: 8,
        };
        assert_eq!(
            hit.to_string(),
            "zone.max-lwps=40 was reached: 3 new threads refused, 8 since boot"
        );
        hit.control = Control::MaxPhysicalMemory;
        hit.limit = Some(64 << 20);
        assert_eq!(
            hit.to_string(),
            "zone.max-physical-memory=64M was reached: 3 processes killed for want of memory, 8 since boot"
        );
    }
}
