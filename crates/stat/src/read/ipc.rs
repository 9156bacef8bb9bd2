//! Reads System V IPC objects, which are visible only inside their IPC namespace.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sys::process::ns;

use super::file::{Budget, from_start};
use super::parse;
use crate::sample::Ipc;

/// Maximum number of bytes to read from a list.
const MAX_LIST_BYTES: usize = 16 << 20;

/// Returns the IPC objects of the calling thread's namespace.
pub(super) fn read(buffer: &mut Vec<u8>) -> Option<Ipc> {
    objects(&open()?, buffer)
}

/// Returns the limits of the calling thread's namespace.
pub(super) fn limits() -> Option<Ipc> {
    let words = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        let words = text.split_ascii_whitespace();
        Some(
            words
                .map_while(|word| word.parse().ok())
                .collect::<Vec<u64>>(),
        )
    };
    let first = |name: &str| words(name)?.first().copied();
    Some(Ipc {
        shm_memory: first("shmall")?.saturating_mul(rustix::param::page_size() as u64),
        shm_ids: first("shmmni")?,
        sem_ids: words("sem")?.get(3).copied()?,
        msg_ids: first("msgmni")?,
    })
}

/// The open lists of one namespace: shared memory, semaphores, message queues. A list shows the
/// namespace in which it was opened, whatever thread reads it, so a namespace is entered only once.
#[derive(Debug, Default)]
pub(super) struct Lists(Option<[OwnedFd; 3]>);

impl Lists {
    /// Closes the lists.
    pub(super) fn close(&mut self, budget: &mut Budget) {
        if let Some(lists) = self.0.take() {
            budget.0 += lists.len();
        }
    }

    /// Opens the lists of a process's namespace. The calling thread is in that namespace afterwards.
    fn enter(process: i32) -> Option<[OwnedFd; 3]> {
        let pid = (process > 0).then(|| Pid::from_raw(process)).flatten()?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        sys::namespace::join(pidfd.as_fd(), ns::IPC).ok()?;
        open()
    }
}

/// Opens the lists of the calling thread's namespace.
fn open() -> Option<[OwnedFd; 3]> {
    let list = |path: &str| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(CWD, path, flags, Mode::empty()).ok()
    };
    Some([
        list("/proc/sysvipc/shm")?,
        list("/proc/sysvipc/sem")?,
        list("/proc/sysvipc/msg")?,
    ])
}

/// Reads open lists.
fn objects([shm, sem, msg]: &[OwnedFd; 3], buffer: &mut Vec<u8>) -> Option<Ipc> {
    let mut count = |fd| {
        let text = from_start(fd, buffer, MAX_LIST_BYTES).ok()?;
        Some(parse::list(text)?.count)
    };
    let (sem_ids, msg_ids) = (count(sem)?, count(msg)?);
    let text = from_start(shm, buffer, MAX_LIST_BYTES).ok()?;
    Some(Ipc {
        sem_ids,
        msg_ids,
        ..parse::list(text)?.shared_memory()?
    })
}

/// Returns the IPC objects in the namespaces of these processes; `None` for a namespace that cannot
/// be entered. A new thread enters the namespaces whose lists are not open yet, and then ends, so
/// that no other thread changes its namespace.
pub(super) fn of(
    zones: Vec<(&mut Lists, i32)>,
    budget: &mut Budget,
    buffer: &mut Vec<u8>,
) -> Vec<Option<Ipc>> {
    let read = |(lists, process): (&mut Lists, i32)| {
        if let Some(open) = &lists.0 {
            return objects(open, buffer);
        }
        let open = Lists::enter(process)?;
        let found = objects(&open, buffer);
        if let Some(left) = budget.0.checked_sub(open.len()) {
            budget.0 = left;
            lists.0 = Some(open);
        }
        found
    };
    let count = zones.len();
    if zones.iter().all(|(lists, _)| lists.0.is_some()) {
        return zones.into_iter().map(read).collect();
    }
    let visit = || zones.into_iter().map(read).collect::<Vec<Option<Ipc>>>();
    std::thread::scope(|scope| scope.spawn(visit).join()).unwrap_or_else(|_| vec![None; count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_counts_of_the_own_namespace_are_within_the_limits() {
        let mut buffer = Vec::new();
        let Some(own) = read(&mut buffer) else { return };
        assert!(own.shm_ids <= limits().unwrap().shm_ids);
        let mut budget = Budget(9);
        assert_eq!(of(vec![], &mut budget, &mut buffer), []);
        let (mut one, mut two) = (Lists::default(), Lists::default());
        let zones = vec![(&mut one, -1), (&mut two, 0)];
        assert_eq!(of(zones, &mut budget, &mut buffer), [None, None]);
        assert_eq!(budget.0, 9);
    }

    #[test]
    fn lists_stay_open_within_the_budget() {
        let (mut budget, mut buffer) = (Budget(5), Vec::new());
        let Some(open) = open() else { return };
        let mut lists = Lists(Some(open));
        // No process is looked for: the lists are open.
        let found = of(vec![(&mut lists, -1)], &mut budget, &mut buffer);
        assert_eq!(found, [read(&mut buffer)]);
        lists.close(&mut budget);
        assert_eq!(budget.0, 8);
        let found = of(vec![(&mut lists, -1)], &mut budget, &mut buffer);
        assert_eq!(found, [None]);
    }
}
