//! The socket that users connect to.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};

use authority::SOCKET;
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
use store::Root;
use store::lock;

/// First descriptor that systemd passes, see sd_listen_fds(3).
const PASSED: i32 = 3;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 128;

/// A listening socket, and the lock that keeps other processes from replacing it.
#[derive(Debug)]
pub struct Listener {
    /// The socket.
    pub socket: OwnedFd,
    _lock: Option<File>,
}

/// Returns the socket that systemd passes, or else creates a socket.
pub fn listener(root: &Root) -> Result<Listener, String> {
    if let Some(socket) = passed()? {
        return Ok(Listener {
            socket,
            _lock: None,
        });
    }
    let path = root.run().join(SOCKET);
    let fail = |error: std::io::Error| format!("could not listen on {}: {error}", path.display());
    // The socket is for all users.
    let before = rustix::process::umask(Mode::from_raw_mode(0o022));
    let made = fs::create_dir_all(root.run());
    rustix::process::umask(before);
    made.map_err(fail)?;
    let guard = root.run().join(format!("{SOCKET}.lock"));
    let locked = lock::try_exclusive(&guard).map_err(|error| host::flatten(&error))?;
    let locked = locked.ok_or_else(|| format!("{} is served already", path.display()))?;
    // Removes a socket that a killed zoneauthd left.
    let _ = fs::remove_file(&path);
    let make = || -> std::io::Result<OwnedFd> {
        let (address, _folder) = cli::delegate::address(root)?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // Every user may connect; the kernel reports the user id of each client.
        let before = rustix::process::umask(Mode::from_raw_mode(0o111));
        let bound = bind(&socket, &address);
        rustix::process::umask(before);
        bound?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    };
    Ok(Listener {
        socket: make().map_err(fail)?,
        _lock: Some(locked),
    })
}

/// Returns the socket that systemd passes, if systemd passes one.
fn passed() -> Result<Option<OwnedFd>, String> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        text.parse::<u32>().ok()
    };
    // LISTEN_PID tells whether the socket is for this process and not for its parent.
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(None);
    }
    if number("LISTEN_FDS") != Some(1) {
        return Err("one socket must be passed, not LISTEN_FDS of them".to_owned());
    }
    let socket = sys::inherited::take(PASSED)
        .map_err(|error| format!("descriptor {PASSED} is no socket: {error}"))?;
    let fits = || -> rustix::io::Result<bool> {
        let socket = socket.as_fd();
        Ok(sockopt::socket_domain(socket)? == AddressFamily::UNIX
            && sockopt::socket_type(socket)? == SocketType::SEQPACKET
            && sockopt::socket_acceptconn(socket)?)
    };
    match fits() {
        Ok(true) => Ok(Some(socket)),
        _ => Err("the socket that is passed is no unix socket of packets that listens".to_owned()),
    }
}
