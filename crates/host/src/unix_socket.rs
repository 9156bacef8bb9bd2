//! Sockets with a path on the host, to which only root of the host may connect. A later zoneadmd or
//! command finds a socket by its path.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use rustix::process::umask;

/// Maximum number of connections that wait to be accepted.
const LISTEN_BACKLOG: i32 = 16;

/// The umask for a socket that only root may read and write.
const ROOT_ONLY: Mode = Mode::from_raw_mode(0o177);

/// The type of a socket, and its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A socket of zoneadmd or its helpers, on which each message arrives whole and accept does not
    /// block.
    Packets,
    /// A socket for QEMU, which carries a stream of bytes, and on which accept blocks.
    Stream,
}

impl Kind {
    const fn of_kernel(self) -> SocketType {
        match self {
            Self::Packets => SocketType::SEQPACKET,
            Self::Stream => SocketType::STREAM,
        }
    }
}

/// Creates a socket that listens at a path, and replaces a socket that a dead process left there.
///
/// # Errors
/// Fails with the error of the kernel.
pub fn listen_at(path: &Path, kind: Kind) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (address, _folder) = address(path)?;
    let flags = match kind {
        Kind::Packets => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Kind::Stream => SocketFlags::CLOEXEC,
    };
    let socket = socket_with(AddressFamily::UNIX, kind.of_kernel(), flags, None)?;
    // The kernel applies the umask to the permissions of the socket in bind(2).
    let before = umask(ROOT_ONLY);
    let bound = bind(&socket, &address);
    umask(before);
    bound?;
    listen(&socket, LISTEN_BACKLOG)?;
    Ok(socket)
}

/// Connects to the socket at a path.
///
/// # Errors
/// Fails with the error of the kernel: `NotFound` if the socket does not exist, `ConnectionRefused`
/// if no process listens on the socket.
pub fn connect_to(path: &Path, kind: Kind) -> io::Result<OwnedFd> {
    let (address, _folder) = address(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, kind.of_kernel(), flags, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}

/// Returns an address of at most 108 bytes, the maximum of the kernel, for a path in a folder of
/// any depth. The returned address is valid while the descriptor of the folder is open.
fn address(path: &Path) -> io::Result<(SocketAddrUnix, OwnedFd)> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, folder, flags, Mode::empty())?;
    let short = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(path.file_name().unwrap_or_default());
    Ok((SocketAddrUnix::new(short)?, folder))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_socket_deep_down_is_for_its_owner_alone_and_replaces_a_dead_one() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(100)).join("y".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        for kind in [Kind::Packets, Kind::Stream] {
            let path = deep.join("socket");
            let listener = listen_at(&path, kind).unwrap();
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            connect_to(&path, kind).unwrap();
            drop(listener);
            let refused = connect_to(&path, kind).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let _listener = listen_at(&path, kind).unwrap();
            connect_to(&path, kind).unwrap();
            std::fs::remove_file(&path).unwrap();
            let missing = connect_to(&path, kind).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        }
    }
}
