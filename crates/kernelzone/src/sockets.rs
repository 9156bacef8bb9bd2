//! The sockets on which a machine listens. A zoneadmd that comes later finds them by
//! their names, so they are not pairs.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// An address of at most 108 bytes, however deep the folder is; it holds as long as the
/// descriptor.
fn address(path: &Path) -> io::Result<(SocketAddrUnix, OwnedFd)> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, folder, flags, Mode::empty())?;
    let short = Path::new("/proc/self/fd")
        .join(folder.as_raw_fd().to_string())
        .join(path.file_name().unwrap_or_default());
    Ok((SocketAddrUnix::new(short)?, folder))
}

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Makes a socket that only root of the host can connect to; one that was left is
/// replaced.
pub fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let (address, _folder) = address(path)?;
    let socket = socket()?;
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = bind(&socket, &address);
    rustix::process::umask(before);
    bound?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to such a socket.
pub fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let (address, _folder) = address(path)?;
    let socket = socket()?;
    connect(&socket, &address)?;
    Ok(socket)
}
