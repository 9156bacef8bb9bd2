//! Reads System V IPC objects, which are visible only inside their IPC namespace.

use std::fs;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use sys::process::ns;

use super::parse;
use crate::sample::Ipc;

/// Maximum number of bytes to read from a list.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// Returns the IPC objects of the calling thread's namespace.
pub(super) fn read() -> Option<Ipc> {
    let list = |name: &str| {
        use std::io::Read;
        let file = fs::File::open(format!("/proc/sysvipc/{name}")).ok()?;
        let mut text = String::new();
        file.take(MAX_LIST_BYTES).read_to_string(&mut text).ok()?;
        Some(text)
    };
    parse::sysvipc(&list("shm")?, &list("sem")?, &list("msg")?)
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

/// Returns the IPC objects in the namespaces of these processes; `None` for a namespace that cannot
/// be entered. A new thread enters the namespaces and then ends, so that no other thread changes
/// its namespace.
pub(super) fn of(processes: &[i32]) -> Vec<Option<Ipc>> {
    let visit = || {
        let one = |pid: &i32| {
            let pid = (*pid > 0).then(|| Pid::from_raw(*pid)).flatten()?;
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            sys::namespace::join(std::os::fd::AsFd::as_fd(&pidfd), ns::IPC).ok()?;
            read()
        };
        processes.iter().map(one).collect::<Vec<Option<Ipc>>>()
    };
    let none = || vec![None; processes.len()];
    std::thread::scope(|scope| scope.spawn(visit).join()).unwrap_or_else(|_| none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_counts_of_the_own_namespace_are_within_the_limits() {
        let Some(own) = read() else { return };
        assert!(own.shm_ids <= limits().unwrap().shm_ids);
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[-1, 0]), [None, None]);
    }
}
