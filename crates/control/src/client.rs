//! Sends requests to a zone's zoneadmd, and starts a new zoneadmd if the old one died.

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

use crate::protocol::{MAX_PACKET, Reply, Request, Taken};
use host::unix_socket::{self, Kind};
use host::{Error, Host, spawn};

/// Connects to the zone's zoneadmd; returns `None` if the zone has none.
///
/// # Errors
/// All errors except the absence of a zoneadmd.
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

/// Timeout of a halt by zoneadmd, longer than the timeouts that zoneadmd itself has.
pub const HALT_TIMEOUT: Duration = Duration::from_secs(120);

/// Sends a request and waits until zoneadmd has carried it out. Returns `Ok(None)` if zoneadmd
/// ended without an answer.
///
/// # Errors
/// [`Error::Daemon`] with the error that zoneadmd sent.
pub fn ask(socket: &OwnedFd, request: &Request) -> Result<Option<()>, Error> {
    let patience = (*request == Request::Halt).then_some(HALT_TIMEOUT);
    done(exchange(socket, request, patience)?)
}

/// Sends a request like [`ask`], but waits for the answer at most as long as `patience`. The
/// requested operation continues after this timeout.
///
/// # Errors
/// The errors of [`ask`], and [`Error::Daemon`] after the timeout.
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

/// Asks a zoneadmd to halt its zone. If zoneadmd does not answer within three quarters of
/// `patience`, then a process in the zone blocks the halt: the function calls `kill`, and waits for
/// the last quarter. Returns `Ok(None)` like [`ask`].
///
/// # Errors
/// The errors of [`ask_within`].
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

/// Returns true if the error is a timeout.
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
/// [`Error::Daemon`] with the error that zoneadmd sent; the controls are then unchanged.
pub fn change_controls(socket: &OwnedFd, new: &Controls) -> Result<Changed, Error> {
    match exchange(socket, &Request::Controls(Box::new(new.clone())), None)? {
        None => Err(Error::Daemon("zoneadmd went away".to_owned())),
        Some(Reply::Changed(changed)) => Ok(changed),
        Some(other) => Err(refusal(other)),
    }
}

/// Takes a snapshot of the disks of a running kernel zone.
///
/// # Errors
/// [`Error::Daemon`] with the error that zoneadmd sent; no snapshot exists then.
pub fn snapshot(socket: &OwnedFd, name: &str) -> Result<Taken, Error> {
    match exchange(socket, &Request::Snapshot(name.to_owned()), None)? {
        None => Err(Error::Daemon("zoneadmd went away".to_owned())),
        Some(Reply::Taken(taken)) => Ok(taken),
        Some(other) => Err(refusal(other)),
    }
}

/// Begins to merge the files below the disks of a running kernel zone, or asks for the state of the
/// merge. Returns the bytes that are done and the bytes in all; `None` after the end.
///
/// # Errors
/// [`Error::Daemon`] with the error that zoneadmd sent; the merge is given up then.
pub fn merge_disks(socket: &OwnedFd) -> Result<Option<(u64, u64)>, Error> {
    match exchange(socket, &Request::MergeDisks, None)? {
        None => Err(Error::Daemon("zoneadmd went away".to_owned())),
        Some(Reply::Done) => Ok(None),
        Some(Reply::Merging(done, total)) => Ok(Some((done, total))),
        Some(other) => Err(refusal(other)),
    }
}

/// Gives up a merge of the files below the disks of a running kernel zone. Without a merge nothing
/// happens.
///
/// # Errors
/// [`Error::Daemon`] if zoneadmd went away.
pub fn stop_merge(socket: &OwnedFd) -> Result<(), Error> {
    match done(exchange(socket, &Request::StopMerge, None)?)? {
        None => Err(Error::Daemon("zoneadmd went away".to_owned())),
        Some(()) => Ok(()),
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

/// Sends a request and waits for the answer. Returns `None` if zoneadmd ended without an answer.
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

/// Waits for the answer. Returns `None` if zoneadmd ended without an answer.
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

/// Timeout for the answer of zoneadmd to a request to cancel.
const CANCEL_REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks a zone's zoneadmd to cancel the boot for which it pauses after a reboot and, if `shutdown`
/// is true, to stop waiting for a shutdown. Returns true if zoneadmd did so. See
/// [`Request::Cancel`].
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

/// Connects to the zoneadmd of an active zone. If the old zoneadmd died, first starts a new one
/// that adopts the zone.
///
/// # Errors
/// [`Error::Daemon`] if the new zoneadmd cannot adopt the zone.
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

/// Starts a zoneadmd for an active zone that has none. A zone that ends or boots at the same time
/// is no error.
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

/// Starts a zoneadmd that adopts the zone, unless another command has already started one.
///
/// # Errors
/// [`Error::Daemon`] if the new zoneadmd cannot adopt the zone.
pub fn adopt(host: &Host, zone: &ZoneName) -> Result<(), Error> {
    // Two commands may find at the same time that the zone has no zoneadmd.
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

/// Waits for the first message of a zoneadmd that was just started; returns its warnings.
///
/// # Errors
/// [`Error::Daemon`] with the error that zoneadmd sent, or because it sent no answer.
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
        // This zoneadmd does not answer until the zone is killed.
        let kill = || {
            let answer = serde_json::to_vec(&Reply::Done).unwrap();
            send(&theirs, &answer, SendFlags::NOSIGNAL).unwrap();
            Ok(())
        };
        assert_eq!(halt_within(&ours, short, kill).unwrap(), Some(()));
        // The client sends the request only once, before the kill.
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
