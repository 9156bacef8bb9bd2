//! The process that answers uname(2) for a zone with a configured kernel version.
//!
//! Every process of such a zone runs under a filter that reports uname(2) and allows every other
//! call, so only uname(2) costs more. All processes inherit the filter of init. A process that
//! enters the zone (zlogin) brings its own filter.
//!
//! ```text
//! zoneadmd --fork--> answerer, in the zone's control groups (the zone pays for it)
//! first process ----- listener of its filter ---> answerer
//! zlogin ------------ listener of its filter ---> answerer, by <zone>.kernel_sock
//! ```
//!
//! The answerer outlives zoneadmd. It ends with the last process under init's filter, which ends
//! with the zone. A hostile caller can only make the answerer write the configured names into the
//! memory of the caller.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use model::ZoneName;
use model::plan::Kernel;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, socketpair};
use store::Root;
use sys::process::ns;
use sys::seccomp::{self, Call};

use crate::plan::syscalls::{Uname, asking_about_uname, layout_of_uname};
use host::unix_socket::{self, Kind};

/// Maximum number of listeners at a time. Each listener belongs to a session of zlogin, or to
/// programs that the session left.
const MAX_LISTENERS: usize = 900;

/// The name of the answerer in a list of processes.
const TITLE: &std::ffi::CStr = c"zone-uname";

/// Starts the answerer in `cgroup` and in the v1 groups of `tasks`. Returns the socket on which the
/// first process passes its listener to the answerer.
pub(crate) fn start(
    kernel: &Kernel,
    path: &Path,
    cgroup: BorrowedFd<'_>,
    tasks: &[OwnedFd],
) -> io::Result<OwnedFd> {
    let listening = unix_socket::listen_at(path, Kind::Packets)?;
    let (ours, theirs) = pair()?;
    let kept: Vec<BorrowedFd<'_>> = [listening.as_fd(), ours.as_fd()]
        .into_iter()
        .chain(tasks.iter().map(AsFd::as_fd))
        .collect();
    sys::process::fork(0, Some(cgroup), &kept, || {
        for file in tasks {
            if rustix::io::write(file, b"0").is_err() {
                return 1;
            }
        }
        let _ = rustix::thread::set_name(TITLE);
        // If the kernel killed the answerer, every uname in the zone would fail, so other processes
        // are to be killed first.
        let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
        match serve(kernel, listening.as_fd(), ours.as_fd()) {
            Ok(()) => 0,
            Err(_) => 1,
        }
    })?;
    Ok(theirs)
}

fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Connects to the answerer of a zone.
///
/// # Errors
/// Fails if the zone has no answerer.
pub(crate) fn reach(root: &Root, zone: &ZoneName) -> io::Result<OwnedFd> {
    unix_socket::connect_to(&root.kernel_socket(zone), Kind::Packets)
}

/// Puts the calling process under a filter, and passes the listener of the filter to the answerer
/// at the other end of the socket.
pub(crate) fn ask(answerer: BorrowedFd<'_>) -> io::Result<()> {
    let listener = seccomp::install_asking(&asking_about_uname())?;
    sys::passing::send(answerer, listener.as_fd(), "uname")
}

fn serve(kernel: &Kernel, listening: BorrowedFd<'_>, first: BorrowedFd<'_>) -> io::Result<()> {
    let mut arriving = vec![first.try_clone_to_owned()?];
    let mut listeners: Vec<OwnedFd> = Vec::new();
    // The listener of init was the first one, and keeps the first position.
    while !(arriving.is_empty() && listeners.is_empty()) {
        let mut watched = vec![PollFd::from_borrowed_fd(listening, PollFlags::IN)];
        let others = arriving.iter().chain(&listeners);
        watched.extend(others.map(|one| PollFd::new(one, PollFlags::IN)));
        match poll(&mut watched, None) {
            Err(Errno::INTR) => continue,
            other => other?,
        };
        let events: Vec<PollFlags> = watched.iter().map(PollFd::revents).collect();
        drop(watched);
        let (of_arriving, of_listeners) = events[1..].split_at(arriving.len());
        let of_listeners: Vec<bool> = listeners
            .iter()
            .zip(of_listeners)
            .map(|(listener, event)| {
                if event.contains(PollFlags::IN) {
                    // A caller that has ended in the meantime needs no answer.
                    let _ = answer(kernel, listener.as_fd());
                }
                let over = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
                !event.intersects(over) || event.contains(PollFlags::IN)
            })
            .collect();
        // When init's own listener ends, the whole zone has ended.
        if of_listeners.first() == Some(&false) {
            return Ok(());
        }
        let mut lives = of_listeners.into_iter();
        listeners.retain(|_| lives.next().unwrap_or(true));
        let mut events = of_arriving.iter().map(|event| !event.is_empty());
        let mut come = Vec::new();
        arriving.retain_mut(|one| {
            if !events.next().unwrap_or(false) {
                return true;
            }
            come.extend(sys::passing::receive(one.as_fd()));
            false
        });
        listeners.extend(come.into_iter().map(|(listener, _)| listener));
        // A client above the limit gets no answer: its connection is closed.
        if let Ok(one) = accept_with(listening, SocketFlags::CLOEXEC)
            && listeners.len() + arriving.len() < MAX_LISTENERS
        {
            arriving.push(one);
        }
    }
    Ok(())
}

fn answer(kernel: &Kernel, listener: BorrowedFd<'_>) -> io::Result<()> {
    let Some(call) = seccomp::receive(listener)? else {
        return Ok(());
    };
    let result = write_names(kernel, listener, &call)
        .map_err(|error| error.raw_os_error().unwrap_or(Errno::FAULT.raw_os_error()));
    seccomp::answer(listener, call.id, result)
}

/// Writes the names into the caller's memory, at the address of the call's argument.
fn write_names(kernel: &Kernel, listener: BorrowedFd<'_>, call: &Call) -> io::Result<()> {
    let fault = || io::Error::from(Errno::FAULT);
    let number = u32::try_from(call.number).unwrap_or(u32::MAX);
    let layout =
        layout_of_uname(call.architecture, number).ok_or_else(|| io::Error::from(Errno::NOSYS))?;
    let open = |name: &str, write: bool| {
        OpenOptions::new()
            .read(!write)
            .write(write)
            .open(format!("/proc/{}/{name}", call.pid))
            .map_err(|_| fault())
    };
    let names = open("ns/uts", false)?;
    let memory = open("mem", true)?;
    // A file in /proc that was opened by pid belongs to the caller only if the caller still exists.
    if !seccomp::is_waiting(listener, call.id) {
        return Err(fault());
    }
    sys::namespace::join(names.as_fd(), ns::UTS)?;
    let bytes = in_layout(&shown(kernel, &rustix::system::uname()), layout);
    memory
        .write_all_at(&bytes, call.arguments[0])
        .map_err(|_| fault())
}

/// Returns the names in the order of uname(2).
fn shown(kernel: &Kernel, real: &rustix::system::Uname) -> [Vec<u8>; 6] {
    let or = |shown: &Option<String>, real: &std::ffi::CStr| match shown {
        Some(shown) => shown.as_bytes().to_vec(),
        None => real.to_bytes().to_vec(),
    };
    [
        or(&kernel.name, real.sysname()),
        real.nodename().to_bytes().to_vec(),
        or(&kernel.release, real.release()),
        real.version().to_bytes().to_vec(),
        or(&kernel.machine, real.machine()),
        real.domainname().to_bytes().to_vec(),
    ]
}

fn in_layout(names: &[Vec<u8>; 6], layout: Uname) -> Vec<u8> {
    let (count, width) = match layout {
        Uname::New => (6, 65),
        Uname::Old => (5, 65),
        Uname::Oldest => (5, 9),
    };
    let mut bytes = vec![0; count * width];
    for (field, name) in bytes.chunks_mut(width).zip(names) {
        // The last byte of each name stays 0.
        let length = name.len().min(width - 1);
        field[..length].copy_from_slice(&name[..length]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_laid_out_as_programs_read_them() {
        let kernel = Kernel {
            release: Some("2.6.18-398.el5".to_owned()),
            ..Kernel::default()
        };
        let names = shown(&kernel, &rustix::system::uname());
        let new = in_layout(&names, Uname::New);
        assert_eq!(new.len(), 390);
        assert_eq!(&new[130..145], b"2.6.18-398.el5\0");
        assert!(new.starts_with(b"Linux\0"));
        assert_eq!(in_layout(&names, Uname::Old), new[..325]);
        let oldest = in_layout(&names, Uname::Oldest);
        assert_eq!((oldest.len(), &oldest[18..27]), (45, &b"2.6.18-3\0"[..]));
    }
}
