//! Reads the resources that a zone uses, and the number of times that it reached its limits.

use std::path::Path;

use model::controls::{Controls, IpcLimits};
use sys::file::read_small;

use crate::groups::processes;
use crate::knob::Knob;
use crate::place::{Place, Places};
use crate::process::First;
use crate::{Error, ZoneCgroups};

/// The resources that a zone uses at one moment. `None` if this host does not account a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time since boot in microseconds, with that of ended processes.
    pub cpu_usec: u64,
    /// Bytes of memory, with the cached pages of files.
    pub memory: Option<u64>,
    /// Bytes of swap space.
    pub swap: Option<u64>,
    /// Number of threads.
    pub lwps: Option<u64>,
    /// The number of times that the zone reached its limits since boot.
    pub events: Events,
    /// The effective limits of the zone.
    pub limits: Controls,
}

/// Numbers of events since the zone booted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Number of processes that the kernel killed because memory was short.
    pub oom_kills: u64,
    /// Number of times that memory was at its limit and pages had to be reclaimed.
    pub memory_full: u64,
    /// Number of threads that the limit on threads refused.
    pub lwps_refused: u64,
    /// Number of times that swap space, or in v1 the sum of memory and swap, was at its limit.
    pub swap_full: u64,
    /// Number of periods of 0.1 s in which the zone had to wait because its CPU time was used up.
    pub cpu_throttled: u64,
}

/// Returns the System V IPC objects that a zone uses, in the fields of their limits: bytes of
/// shared memory, and the numbers of segments, queues and semaphore sets.
///
/// # Errors
/// Fails with [`Error::Process`] if the zone's namespace cannot be entered.
pub fn ipc(first: First<'_>) -> Result<IpcLimits, Error> {
    crate::ipc::usage(first)
}

impl ZoneCgroups {
    /// Reads the zone's use and limits.
    #[must_use]
    pub fn read(&self) -> Usage {
        let places = Places::find(self);
        let (memory, swap) = match places.memory.as_ref().map(|place| place.knob) {
            Some(Knob::MemoryMax) => (
                number(&self.v2.join("memory.current")),
                number(&self.v2.join("memory.swap.current")),
            ),
            _ => {
                let used = self.v1_number("memory.usage_in_bytes");
                let sum = self.v1_number("memory.memsw.usage_in_bytes");
                // The two values are read one after the other, so the sum may be older than the
                // other value.
                let swap = used.zip(sum).map(|(used, sum)| sum.saturating_sub(used));
                (used, swap)
            }
        };
        let pids = places.pids.as_ref().and_then(|place| place.path.parent());
        Usage {
            cpu_usec: keyed(&self.v2.join("cpu.stat"), "usage_usec").unwrap_or_default(),
            memory,
            swap,
            lwps: pids.and_then(|group| number(&group.join("pids.current"))),
            events: self.events(),
            limits: self.effective(),
        }
    }

    /// Returns the number of times that the zone reached its limits.
    #[must_use]
    pub fn events(&self) -> Events {
        let v2 = self.v2.join("memory.events");
        let (memory_full, swap_full) = if v2.exists() {
            let swap = keyed(&self.v2.join("memory.swap.events"), "max");
            (keyed(&v2, "max"), swap)
        } else {
            let swap = self.v1_number("memory.memsw.failcnt");
            (self.v1_number("memory.failcnt"), swap)
        };
        let cap = Place::find(self, Knob::CAP);
        let cap = cap.as_ref().and_then(|place| place.path.parent());
        let throttled = cap.and_then(|group| keyed(&group.join("cpu.stat"), "nr_throttled"));
        Events {
            oom_kills: self.oom_kills(),
            memory_full: memory_full.unwrap_or_default(),
            lwps_refused: self.lwps_refused(),
            swap_full: swap_full.unwrap_or_default(),
            cpu_throttled: throttled.unwrap_or_default(),
        }
    }

    /// See [`Events::oom_kills`].
    pub(crate) fn oom_kills(&self) -> u64 {
        let v2 = self.v2.join("memory.events");
        let control = match v2.exists() {
            true => Some(v2),
            false => self.v1_file("memory.oom_control"),
        };
        let kills = control.and_then(|path| keyed(&path, "oom_kill"));
        kills.unwrap_or_default()
    }

    /// See [`Events::lwps_refused`].
    pub(crate) fn lwps_refused(&self) -> u64 {
        let place = Place::find(self, Knob::PIDS);
        let pids = place.as_ref().and_then(|place| place.path.parent());
        pids.and_then(refused).unwrap_or_default()
    }

    /// Returns the number of processes: those of the zone's services and those of zlogin.
    #[must_use]
    pub fn processes(&self) -> u64 {
        processes(&self.v2).len() as u64
    }

    /// Returns the bytes of memory that cannot be reclaimed, mostly because they are locked.
    #[must_use]
    pub fn locked(&self) -> Option<u64> {
        let v2 = self.v2.join("memory.stat");
        match self.v1_file("memory.stat") {
            Some(v1) if !v2.exists() => keyed(&v1, "total_unevictable"),
            _ => keyed(&v2, "unevictable"),
        }
    }

    pub(crate) fn v1_file(&self, name: &str) -> Option<std::path::PathBuf> {
        let mut paths = self.v1.iter().map(|group| group.join(name));
        paths.find(|path| path.exists())
    }

    fn v1_number(&self, name: &str) -> Option<u64> {
        number(&self.v1_file(name)?)
    }
}

/// Returns the number of threads that the limit of this group itself refused. Since Linux 6.11 the
/// plain file also counts refusals by limits inside the zone.
fn refused(group: &Path) -> Option<u64> {
    keyed(&group.join("pids.events.local"), "max")
        .or_else(|| keyed(&group.join("pids.events"), "max"))
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// Returns the number behind a word in a file of lines `word number`.
fn keyed(path: &Path, key: &str) -> Option<u64> {
    let text = text(path)?;
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(word, _)| *word == key)
        .and_then(|(_, value)| value.trim().parse().ok())
}

/// Returns the text of a file of a control group.
fn text(path: &Path) -> Option<String> {
    String::from_utf8(read_small(path).ok()?).ok()
}
