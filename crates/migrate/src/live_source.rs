//! Sends a guest to another host while the guest runs: the source's part of a live migration.
//!
//! zoneadmd tells QEMU to send the guest's data. This module carries the data, and tells each side
//! about the progress of the other side:
//!
//! 1. The target boots a QEMU that waits for the guest.
//! 2. QEMU mirrors the disks and then sends the memory. QEMU sends pages again that the guest
//!    changes meanwhile.
//! 3. QEMU pauses the guest and sends the last blocks of its disks and of its memory.
//! 4. The source marks the zone, as in every migration, and tells the target that the zone belongs
//!    to the target. The target stores this and lets the guest run.
//! 5. The source takes its paused guest down.
//!
//! The guest belongs to the source until the mark is written. If a process dies before that, the
//! source's zoneadmd lets the guest run.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use store::lock;

use crate::options::Options;
use crate::other_host::ask;
use crate::relay::{Carried, Carrying, hear, word};
use crate::source::{Arranged, Trip};
use crate::wire::Fate;
use control::client;
use control::protocol::{Leave, Left, MAX_PACKET, Reply, Request, Word};
use host::{Error, Host, flatten};
use subject::Subject;
use subject::away::{Away, come_back};

/// Maximum time in milliseconds for which QEMU may pause the guest to send the rest of its memory.
/// The time for the guest's devices and the last blocks of its disks is added to this.
const MAX_DOWNTIME_MS: u64 = 300;

/// The result of a live migration.
pub(super) enum Way {
    /// The zone belongs to the target.
    Gone {
        /// Time for which the guest was paused.
        stood: Duration,
        /// The reason why the guest does not run on the target; `None` if it runs.
        broken: Option<String>,
    },
    /// The guest cannot migrate live, with the reason. The guest continues to run here, and both
    /// sides are in the state before the attempt.
    Cannot(String),
}

/// Sends a guest to the target while the guest runs.
///
/// # Errors
/// Fails if the connection has ended, or if it is unknown which host has the zone. The message
/// names the problem.
pub(super) fn go(
    host: &Host,
    subject: &Subject,
    trip: &mut Trip,
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Way, Error> {
    let mut fault = host.fault.clone();
    let sizes = match trip.arrange(host, subject, progress)? {
        Arranged::Ready(sizes) => sizes,
        Arranged::NoMachine => {
            return Ok(Way::Cannot(format!("{}: it is no machine", options.host)));
        }
        Arranged::Refused(why) => return Ok(Way::Cannot(format!("{}: {why}", options.host))),
    };
    let zone = &subject.entry.name;
    let path = &subject.zonepath;
    let socket = client::connect_or_adopt(host, zone)?;
    let order = Leave {
        zonepath: path.clone(),
        disks: sizes,
        downtime: MAX_DOWNTIME_MS,
    };
    let channels = match begin(&socket, order) {
        Ok(channels) => channels,
        Err(error) => {
            trip.forget_arrival()?;
            return Ok(Way::Cannot(flatten(&error)));
        }
    };
    let carried = {
        let (child, wire) = trip.parts();
        let carrying = Carrying {
            socket: &socket,
            channels: &channels,
            fault: &mut fault,
            progress,
        };
        carrying.carry(child, wire)
    };
    let since = match carried {
        Carried::Whole(since) => since,
        Carried::Undone(why) => return Ok(Way::Cannot(why)),
        Carried::Lost(why) => {
            drop(socket);
            // If zoneadmd died, the guest may be paused. A new zoneadmd lets the guest run.
            let _ = client::attend(host, zone);
            return Err(Error::Refused(format!("{why}; the zone goes on here.")));
        }
    };
    // From here on, the mark in the zonepath decides which host has the zone.
    let mut fails = || match fault.strikes("live") {
        true => Err(Error::Refused("a fault was asked for".to_owned())),
        false => Ok(()),
    };
    let committed = fails()
        .and_then(|()| mark(host, subject, trip, &socket))
        .and_then(|()| fails())
        .and_then(|()| trip.hand_over(true));
    let broken = match committed {
        Ok(told) => told,
        Err(error) => {
            trip.hang_up();
            match Away::of(path)?.map(|away| ask(zone, options, &away.id)) {
                Some(Ok(Fate::Arrived)) => None,
                Some(Err(_)) => {
                    return Err(Error::Refused(format!(
                        "{}: it may already run on {}, and stands still here: give the same command again when that host can be reached.",
                        flatten(&error),
                        options.host
                    )));
                }
                Some(Ok(Fate::Unknown)) | None => {
                    come_back(path)?;
                    drop(socket);
                    run_on(host, subject)?;
                    progress("The zone goes on here.");
                    return Err(error);
                }
            }
        }
    };
    let stood = since.elapsed();
    let _ = fault.strikes("live");
    take_down(host, subject, &socket)?;
    Ok(Way::Gone { stood, broken })
}

/// Marks the zone as possibly moved to the target. Fails if zoneadmd may let the guest run here
/// again.
fn mark(host: &Host, subject: &Subject, trip: &Trip, socket: &OwnedFd) -> Result<(), Error> {
    // If zoneadmd died, its successor lets an unmarked guest run. This lock stops every command
    // from starting a successor before the mark is written.
    let _nobody = lock::exclusive(&host.root.adopt_lock(&subject.entry.name))?;
    match keeps_still(socket) {
        true => trip.mark(&subject.zonepath),
        false => Err(Error::Daemon("its zoneadmd went away".to_owned())),
    }
}

/// Returns true if zoneadmd has reported the end of the transfer and keeps its guest paused. In
/// this state zoneadmd sends no more messages until it learns the decision of the target.
fn keeps_still(socket: &OwnedFd) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let heard = rustix::io::retry_on_intr(|| recv(socket, &mut [0; 1], flags));
    matches!(heard, Err(rustix::io::Errno::AGAIN))
}

/// Tells zoneadmd to begin the live migration of its guest. Returns the sockets that are connected
/// to QEMU.
fn begin(socket: &OwnedFd, order: Leave) -> Result<Vec<UnixStream>, Error> {
    let wanted = order.disks.len() + 1;
    let packet = serde_json::to_vec(&Request::Leave(Box::new(order)))
        .map_err(|error| Error::Daemon(error.to_string()))?;
    if packet.len() > MAX_PACKET {
        return Err(Error::Refused("has too many disks".to_owned()));
    }
    let asked = send(socket, &packet, SendFlags::NOSIGNAL);
    asked.map_err(|errno| Error::Io("ask zoneadmd".to_owned(), errno.into()))?;
    let mut answer = [0; MAX_PACKET];
    let (length, passed) = sys::passing::receive_all(socket.as_fd(), &mut answer)
        .map_err(Error::io("hear zoneadmd"))?;
    match serde_json::from_slice(&answer[..length]) {
        Ok(Reply::Done) if passed.len() == wanted => {
            Ok(passed.into_iter().map(UnixStream::from).collect())
        }
        Ok(Reply::Error(why)) => Err(Error::Daemon(why)),
        _ => Err(Error::Daemon("zoneadmd sent an unexpected reply instead of the connections of the disks; it may be of another version".to_owned())),
    }
}

/// Lets a guest run that was paused during its migration.
pub(super) fn run_on(host: &Host, subject: &Subject) -> Result<(), Error> {
    let zone = &subject.entry.name;
    // If zoneadmd died, a new zoneadmd is started, which lets the guest run because the zone has no
    // mark.
    let socket = client::connect_or_adopt(host, zone)?;
    client::ask(&socket, &Request::GoOn)?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}

/// Takes the paused guest down after it runs on the other host.
fn take_down(host: &Host, subject: &Subject, socket: &OwnedFd) -> Result<(), Error> {
    word(socket, Word::Gone);
    loop {
        match hear(socket) {
            Some(Left::Done) => return Ok(()),
            Some(Left::Failed(_)) | None => return zone::halt::halt_locked(host, subject),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn a_zoneadmd_that_speaks_or_is_gone_keeps_nothing_still() {
        let pair = || {
            let flags = SocketFlags::CLOEXEC;
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
        };
        let (ours, theirs) = pair();
        assert!(keeps_still(&ours) && keeps_still(&ours));
        send(&theirs, b"\"sent\"", SendFlags::NOSIGNAL).unwrap();
        assert!(!keeps_still(&ours) && !keeps_still(&ours));
        let (ours, theirs) = pair();
        drop(theirs);
        assert!(!keeps_still(&ours));
        // This zoneadmd died with an unread message in its socket.
        let (ours, theirs) = pair();
        send(&ours, b"x", SendFlags::NOSIGNAL).unwrap();
        drop(theirs);
        assert!(!keeps_still(&ours) && !keeps_still(&ours));
    }
}
