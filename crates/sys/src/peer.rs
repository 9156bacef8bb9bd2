//! Identifies the process that is connected to a socket.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The process that connected to a Unix socket, or that created the socket to which we connected.
/// The values are those of that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The effective user id, in our user namespace.
    pub uid: u32,
    /// The pid, only for display: another process may have it already. `None` for a process outside
    /// our pid namespace.
    pub pid: Option<i32>,
}

/// Returns the peer of a connected Unix socket.
///
/// # Errors
/// Fails with the error of getsockopt(2).
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut told = libc::ucred {
        pid: 0,
        uid: libc::uid_t::MAX,
        gid: libc::gid_t::MAX,
    };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `told`, which has `length` bytes. This
    // call does not use rustix, because the kernel may return the pid 0, which a pid of rustix
    // cannot hold.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut told).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // The kernel reports no ids for a socket without a peer.
    if length as usize != size_of::<libc::ucred>() || told.uid == libc::uid_t::MAX {
        return Err(io::Error::from_raw_os_error(libc::ENOTCONN));
    }
    Ok(Peer {
        uid: told.uid,
        pid: Some(told.pid).filter(|&pid| pid > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn we_are_our_own_peer() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = peer(here.as_fd()).unwrap();
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.pid, i32::try_from(std::process::id()).ok());
    }

    #[test]
    fn only_a_connected_socket_has_a_peer() {
        let null = std::fs::File::open("/dev/null").unwrap();
        assert!(peer(null.as_fd()).is_err());
        let alone = std::os::unix::net::UnixDatagram::unbound().unwrap();
        assert!(peer(alone.as_fd()).is_err());
    }
}
