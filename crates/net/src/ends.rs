//! The two network namespaces that a link joins: the host's and the zone's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use sys::process::ns;

use crate::netlink::Netlink;

/// Netlink sockets of the host's and the zone's network namespace, and the descriptors of these
/// namespaces.
#[derive(Debug)]
pub struct Ends {
    /// The netlink socket in the host's network namespace.
    pub host: Netlink,
    /// The netlink socket in the zone's network namespace.
    pub zone: Netlink,
    host_namespace: OwnedFd,
    zone_namespace: OwnedFd,
}

/// Opens a network namespace by a path such as /proc/PID/ns/net.
///
/// # Errors
/// Fails with the error of openat(2).
pub fn namespace(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Returns the network namespace of the calling thread.
///
/// # Errors
/// Fails with the error of openat(2).
pub fn here() -> io::Result<OwnedFd> {
    namespace(Path::new("/proc/thread-self/ns/net"))
}

/// Returns the inode number of the calling thread's network namespace.
///
/// # Errors
/// Fails with the error of fstat(2).
pub fn number() -> io::Result<u64> {
    Ok(rustix::fs::fstat(here()?)?.st_ino)
}

/// Runs `action` in another network namespace. Afterwards the calling thread is in its own
/// namespace again.
///
/// # Errors
/// Fails with the error of setns(2). If the thread cannot return to its own namespace, the process
/// aborts, because it must not work in another network.
pub fn within<T>(namespace: BorrowedFd<'_>, action: impl FnOnce() -> T) -> io::Result<T> {
    let home = here()?;
    sys::namespace::join(namespace, ns::NET)?;
    let result = action();
    match sys::namespace::join(home.as_fd(), ns::NET) {
        Ok(()) => Ok(result),
        // This error was never observed: a thread may always return to a namespace that it holds
        // open.
        Err(_) => std::process::abort(),
    }
}

impl Ends {
    /// Opens netlink sockets in the host's and the zone's network namespace.
    ///
    /// # Errors
    /// Fails with the error of setns(2) or socket(2).
    pub fn open(host_namespace: OwnedFd, zone_namespace: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            host: within(host_namespace.as_fd(), Netlink::open)??,
            zone: within(zone_namespace.as_fd(), Netlink::open)??,
            host_namespace,
            zone_namespace,
        })
    }

    /// Returns the host's network namespace.
    #[must_use]
    pub fn host_namespace(&self) -> BorrowedFd<'_> {
        self.host_namespace.as_fd()
    }

    /// Returns the zone's network namespace.
    #[must_use]
    pub fn zone_namespace(&self) -> BorrowedFd<'_> {
        self.zone_namespace.as_fd()
    }
}
