//! Talking to a zone's zoneadmd, and bringing one back when it died.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use limits::Changed;
use model::ZoneName;
use model::controls::Controls;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use store::{Root, lock, runtime};

use crate::protocol::{MAX_PACKET, Reply, Request};
use host::unix_socket::{self, Kind};
use host::{Error, Host, spawn};

/// Connects to the zone's zoneadmd; `None` when there is none.
///
/// # Errors
/// Anything but its absence.
pub fn connect_to(root: &Root, zone: &ZoneName) -> Result<Option<OwnedFd>, Error> {
    match unix_socket::connect_to(&root.socket(zone), Kind::Packets) {
        Ok(socket) => Ok(Some(socket)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(Error::Io("reach zoneadmd".to_owned(), error)),
    }
}

/// Timeout of a halt by zoneadmd: longer than its own timeouts.
pub const HALT_TIMEOUT: Duration = Duration::from_secs(120);

/// Sends a request and waits until it is done. `Ok(None)` when zoneadmd went away
/// without an answer.
///
/// # Errors
/// [`Error::Daemon`] with the error of zoneadmd.
pub fn ask(socket: &OwnedFd, request: &Request) -> Result<Option<()>, Error> {
    let patience = (*request == Request::Halt).then_some(HALT_TIMEOUT);
    done(exchange(socket, request, patience)?)
}

/// [`ask`], but with no more than this time for an answer. The requested operation
/// continues.
///
/// # Errors
/// Also [`Error::Daemon`] when the time is over.
pub fn ask_within(
    socket: &OwnedFd,
    request: &Request,
    patience: Duration,
) -> Result<Option<()>, Error> {
    let (verb, advice) = match request {
        Request::Halt => ("halt", "try again"),
        Request::Suspend(_) => ("suspend", "look at its messages"),
        Request::Savecore(_) => ("savecore", "look at its messages"),
        _ => ("shutdown", "look at its console, or halt it"),
    };
    let answer = exchange(socket, request, Some(patience));
    done(answer.map_err(|error| match is_late(&error) {
        true => Error::Daemon(format!(
            "{verb} takes longer than {} s; {advice}.",
            patience.as_secs_f32().ceil()
        )),
        false => error,
    })?)
}

/// Asks a zoneadmd to halt its zone. One that does not answer in three quarters of the
/// time waits for something in the zone: then `kill` is called, and it has the rest.
/// `Ok(None)` as [`ask`].
///
/// # Errors
/// As [`ask_within`].
pub fn halt_within(
    socket: &OwnedFd,
    patience: Duration,
    kill: impl FnOnce() -> Result<(), Error>,
) -> Result<Option<()>, Error> {
    match exchange(socket, &Request::Halt, Some(patience * 3 / 4)) {
        Err(error) if is_late(&error) => {}
        other => return done(other?),
    }
    kill()?;
    limit(socket, patience / 4)?;
    done(hear(socket).map_err(|error| match is_late(&error) {
        true => Error::Daemon(format!(
            "halt takes longer than {} s, though all of the zone was killed; try again.",
            patience.as_secs_f32().ceil()
        )),
        false => error,
    })?)
}

/// Returns whether an error is a timeout.
fn is_late(error: &Error) -> bool {
    matches!(error, Error::Io(_, source) if source.kind() == ErrorKind::WouldBlock)
}

fn done(reply: Option<Reply>) -> Result<Option<()>, Error> {
    match reply {
        None => Ok(None),
        Some(Reply::Done) => Ok(Some(())),
        Some(other) => Err(refusal(other)),
    }
}

/// Changes the resource controls of an active zone.
///
/// # Errors
/// [`Error::Daemon`] with the error of zoneadmd; the controls are then as before.
pub fn change_controls(socket: &OwnedFd, new: &Controls) -> Result<Changed, Error> {
    match exchange(socket, &Request::Controls(Box::new(new.clone())), None)? {
        None => Err(Error::Daemon("zoneadmd went away".to_owned())),
        Some(Reply::Changed(changed)) => Ok(changed),
        Some(other) => Err(refusal(other)),
    }
}

fn refusal(reply: Reply) -> Error {
    Error::Daemon(match reply {
        Reply::Error(text) => text,
        other => {
            format!("zoneadmd sent an unexpected reply: {other:?}; it may be of another version")
        }
    })
}

/// Sends a request and waits for the answer; none when zoneadmd went away.
fn exchange(
    socket: &OwnedFd,
    request: &Request,
    patience: Option<Duration>,
) -> Result<Option<Reply>, Error> {
    let packet = serde_json::to_vec(request).map_err(|error| Error::Daemon(error.to_string()))?;
    if packet.len() > MAX_PACKET {
        return Err(Error::Refused("boot arguments are too long".to_owned()));
    }
    if let Some(patience) = patience {
        limit(socket, patience)?;
    }
    match send(socket, &packet, SendFlags::NOSIGNAL) {
        Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => return Ok(None),
        other => other.map_err(|errno| Error::Io("ask zoneadmd".to_owned(), errno.into()))?,
    };
    hear(socket)
}

fn limit(socket: &OwnedFd, patience: Duration) -> Result<(), Error> {
    set_socket_timeout(socket, Timeout::Recv, Some(patience))
        .map_err(|errno| Error::Io("set a time limit".to_owned(), errno.into()))
}

/// Waits for the answer; none when zoneadmd went away.
fn hear(socket: &OwnedFd) -> Result<Option<Reply>, Error> {
    let mut answer = vec![0; MAX_PACKET];
    let received =
        rustix::io::retry_on_intr(|| recv(socket, answer.as_mut_slice(), RecvFlags::empty()));
    let length = match received {
        Err(rustix::io::Errno::CONNRESET) | Ok((0, _)) => return Ok(None),
        Err(errno) => return Err(Error::Io("hear zoneadmd".to_owned(), errno.into())),
        Ok((length, _)) => length,
    };
    serde_json::from_slice(&answer[..length])
        .map(Some)
        .map_err(|error| {
            Error::Daemon(format!(
                "zoneadmd sent an unexpected reply: {error}; it may be of another version"
            ))
        })
}

/// Longest time in which a zoneadmd answers a request to cancel.
const CANCEL_REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Has a zone's zoneadmd give up the pause before a reboot and, if `shutdown` says so, a
/// shutdown that it waits for; whether there was one. See [`Request::Cancel`].
pub fn cancel(root: &Root, zone: &ZoneName, shutdown: bool) -> bool {
    let Ok(Some(socket)) = connect_to(root, zone) else {
        return false;
    };
    let request = Request::Cancel { shutdown };
    matches!(
        exchange(&socket, &request, Some(CANCEL_REPLY_TIMEOUT)),
        Ok(Some(Reply::Done))
    )
}

/// Connects to the zoneadmd of an active zone; starts one that adopts the zone
/// when the old one died.
///
/// # Errors
/// [`Error::Daemon`] when the new one cannot take over.
pub fn connect_or_adopt(host: &Host, zone: &ZoneName) -> Result<OwnedFd, Error> {
    if let Some(socket) = connect_to(&host.root, zone)? {
        return Ok(socket);
    }
    let adopted = adopt(host, zone);
    if let Some(socket) = connect_to(&host.root, zone)? {
        return Ok(socket);
    }
    adopted?;
    Err(Error::Daemon("the new zoneadmd ended at once".to_owned()))
}

/// Sees to it that an active zone has a zoneadmd. One that ends or boots meanwhile
/// needs none from us.
///
/// # Errors
/// See [`connect_or_adopt`].
pub fn attend(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    match connect_or_adopt(host, zone) {
        Ok(_) => Ok(()),
        Err(error) => match runtime::load(&host.root, zone)? {
            Some(known) if !known.daemon.is_alive() => Err(error),
            _ => Ok(()),
        },
    }
}

/// Starts a zoneadmd that adopts the zone, unless one is there by now.
///
/// # Errors
/// [`Error::Daemon`] when it cannot take over.
pub fn adopt(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    // Two commands may notice at the same time.
    let guard = host.root.adopt_lock(zone);
    let _one = lock::exclusive(&guard)?;
    if connect_to(&host.root, zone)?.is_some() {
        return Ok(());
    }
    let (report, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::Io("make a pipe".to_owned(), errno.into()))?;
    let nothing = File::open("/dev/null").map_err(Error::io("open /dev/null"))?;
    spawn::zoneadmd(
        host,
        zone,
        &["--adopt"],
        &[nothing.as_fd(), theirs.as_fd(), nothing.as_fd()],
    )?;
    drop(theirs);
    listen_to(report).map(drop)
}

/// Waits for the word of a zoneadmd that was just started; returns its remarks.
///
/// # Errors
/// [`Error::Daemon`] with its error, or that it did not answer.
pub fn listen_to(report: OwnedFd) -> Result<Vec<String>, Error> {
    let mut text = String::new();
    File::from(report)
        .take(MAX_PACKET as u64)
        .read_to_string(&mut text)
        .map_err(Error::io("hear zoneadmd"))?;
    let mut lines = text.lines();
    match lines.next() {
        Some("ok") => Ok(lines.map(str::to_owned).collect()),
        None => Err(Error::Daemon("zoneadmd ended without a word".to_owned())),
        Some(_) => Err(Error::Daemon(text)),
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    #[test]
    fn a_zoneadmd_that_waits_for_its_zone_answers_once_that_is_killed() {
        let (ours, theirs) = pair();
        let short = Duration::from_millis(100);
        // It hangs until the zone is killed.
        let kill = || {
            let answer = serde_json::to_vec(&Reply::Done).unwrap();
            send(&theirs, &answer, SendFlags::NOSIGNAL).unwrap();
            Ok(())
        };
        assert_eq!(halt_within(&ours, short, kill).unwrap(), Some(()));
        // The same request is answered: it is asked once.
        let mut packet = [0; 256];
        let (length, _) = recv(&theirs, packet.as_mut_slice(), RecvFlags::DONTWAIT).unwrap();
        assert!(length > 0 && recv(&theirs, packet.as_mut_slice(), RecvFlags::DONTWAIT).is_err());
    }

    #[test]
    fn a_zoneadmd_that_hangs_all_the_same_is_told() {
        let (ours, _theirs) = pair();
        let mut killed = false;
        let kill = || {
            killed = true;
            Ok(())
        };
        let error = halt_within(&ours, Duration::from_millis(100), kill).unwrap_err();
        assert!(
            killed && error.to_string().contains("was killed"),
            "{error}"
        );
    }

    #[test]
    fn a_zoneadmd_that_answers_is_not_killed() {
        for (answer, expected) in [(Some(Reply::Done), Some(())), (None, None)] {
            let (ours, theirs) = pair();
            match answer {
                Some(answer) => {
                    let answer = serde_json::to_vec(&answer).unwrap();
                    send(&theirs, &answer, SendFlags::NOSIGNAL).unwrap();
                }
                None => drop(theirs),
            }
            let kill = || panic!("there is no reason to kill");
            let patience = Duration::from_secs(400);
            assert_eq!(halt_within(&ours, patience, kill).unwrap(), expected);
        }
    }
}
