//! Reads System V IPC objects, which are visible only inside their IPC namespace.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sys::process::ns;

use super::file::from_start;
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

/// Enters the namespace of a process with the calling thread, and returns its IPC objects.
fn enter(process: i32, buffer: &mut Vec<u8>) -> Option<Ipc> {
    let pid = (process > 0).then(|| Pid::from_raw(process)).flatten()?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    sys::namespace::join(pidfd.as_fd(), ns::IPC).ok()?;
    read(buffer)
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
/// be entered. A new thread enters the namespaces, and then ends, so that no other thread changes its
/// namespace. No list stays open between two samples: it would keep the namespace of a halted zone,
/// with its shared memory, for as long as zonestat is stopped.
pub(super) fn of(processes: &[i32], buffer: &mut Vec<u8>) -> Vec<Option<Ipc>> {
    if processes.is_empty() {
        return Vec::new();
    }
    let visit = || {
        let each = processes.iter();
        each.map(|process| enter(*process, buffer)).collect()
    };
    std::thread::scope(|scope| scope.spawn(visit).join())
        .unwrap_or_else(|_| vec![None; processes.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_counts_of_the_own_namespace_are_within_the_limits() {
        let mut buffer = Vec::new();
        let Some(own) = read(&mut buffer) else { return };
        assert!(own.shm_ids <= limits().unwrap().shm_ids);
        assert_eq!(of(&[], &mut buffer), []);
        assert_eq!(of(&[-1, 0], &mut buffer), [None, None]);
    }
}
