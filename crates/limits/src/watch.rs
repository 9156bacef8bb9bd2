//! Reports when a zone reaches a limit.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::controls::Control;
use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::ZoneCgroups;

/// Interval between looks where the kernel sends no event.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Watches the limits of one zone. At an event read [`Watch::hits`], and not more
/// often than once a second: who is at a limit usually runs into it again and again.
#[derive(Debug)]
pub struct Watch {
    cgroups: ZoneCgroups,
    sources: Vec<Source>,
    /// Of all sources; none where the kernel tells of nothing.
    ready: Option<OwnedFd>,
    /// The group of the limit on threads, if the kernel sends no event about it: v1.
    untold: Option<PathBuf>,
    seen: Seen,
}

/// The counts that are told: fewer than [`crate::Events`], as each costs a look at several files.
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
    /// A file whose change the kernel tells; reading it arms it again.
    File(File),
    /// v1 tells of memory through one of these; the file must stay open.
    Event(OwnedFd, #[expect(dead_code, reason = "kept open")] File),
}

/// A limit that a zone ran into. It prints as a line for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The control.
    pub control: Control,
    /// Its number now, if it has one: the whole host may have been short of memory.
    pub limit: Option<u64>,
    /// The count since the last look.
    pub more: u64,
    /// The count since the zone booted.
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
    /// Begins to watch; earlier events are not reported. A kernel that tells of nothing is no
    /// error: the counts are still in [`ZoneCgroups::events`].
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

    /// Becomes readable when something happens, and is until [`Watch::hits`].
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.ready.as_ref().map(AsFd::as_fd)
    }

    /// Returns the interval between looks without an event: for a zone with a limit on threads on a
    /// host that has it in v1.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        let limit = fs::read_to_string(self.untold.as_ref()?).ok()?;
        (limit.trim() != "max").then_some(POLL_INTERVAL)
    }

    /// Returns the hits since the last look.
    pub fn hits(&mut self) -> Vec<Hit> {
        let mut buffer = [0; 512];
        for source in &self.sources {
            // First armed again, then counted: nothing in between is missed.
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
    // A file that was never read has always changed.
    let _ = rustix::io::pread(&file, &mut [0; 512], 0);
    Some(Source::File(file))
}

/// Asks v1 for word of every time that memory runs out.
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
