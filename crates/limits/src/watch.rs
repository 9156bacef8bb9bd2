//! Hearing of it when a zone runs into a limit.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use model::controls::Control;
use rustix::event::{EventfdFlags, PollFlags, eventfd};

use crate::ZoneCgroups;
use crate::usage::Events;

/// Watches the limits of one zone. At an event read [`Watch::hits`], and not more
/// often than once a second: who is at a limit usually runs into it again and again.
#[derive(Debug)]
pub struct Watch {
    cgroups: ZoneCgroups,
    /// Become readable ([`Watch::INTEREST`]) when something happens.
    sources: Vec<Source>,
    seen: Events,
}

#[derive(Debug)]
enum Source {
    /// A file whose change the kernel tells; reading it arms it again.
    File(File),
    /// v1 tells of memory through one of these; the file must stay open.
    Event(OwnedFd, #[expect(dead_code, reason = "kept open")] File),
}

/// A limit that a zone ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Which.
    pub control: Control,
    /// Its number now, if it has one: the whole host may have been short of memory.
    pub limit: Option<u64>,
    /// How often since the last look.
    pub more: u64,
    /// How often since the zone booted.
    pub total: u64,
}

impl Watch {
    /// What to poll for.
    pub const INTEREST: PollFlags = PollFlags::PRI.union(PollFlags::IN);

    /// Begins to watch; what happened before is not told. A kernel that tells of
    /// nothing is no error: the counts are still in [`ZoneCgroups::events`].
    #[must_use]
    pub fn new(cgroups: &ZoneCgroups) -> Self {
        let memory = cgroups.v2.join("memory.events");
        let mut sources = Vec::new();
        if memory.exists() {
            sources.extend(changes_of(&memory));
        } else if let Some(control) = cgroups.v1_file("memory.oom_control") {
            sources.extend(out_of_memory(&control));
        }
        let v2 = Some(cgroups.v2.join("pids.events")).filter(|path| path.exists());
        if let Some(path) = v2.or_else(|| cgroups.v1_file("pids.events")) {
            sources.extend(changes_of(&path));
        }
        Self {
            seen: cgroups.events(),
            cgroups: cgroups.clone(),
            sources,
        }
    }

    /// The descriptors to poll.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sources.iter().map(|source| match source {
            Source::File(file) => file.as_fd(),
            Source::Event(event, _) => event.as_fd(),
        })
    }

    /// What happened since the last look.
    pub fn hits(&mut self) -> Vec<Hit> {
        let mut buffer = [0; 512];
        for source in &self.sources {
            // First armed again, then counted: nothing in between is missed.
            let _ = match source {
                Source::File(file) => rustix::io::pread(file, &mut buffer, 0),
                Source::Event(event, _) => rustix::io::read(event, &mut buffer),
            };
        }
        let now = self.cgroups.events();
        let before = std::mem::replace(&mut self.seen, now);
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
