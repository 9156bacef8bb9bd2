//! A machine goes to another host while it runs: the source's part.
//!
//! zoneadmd has QEMU send, this carries it, and says to both sides how far the other is:
//!
//! 1. the target boots the machine to wait;
//! 2. the disks are mirrored, then the memory is sent, and the pages that the guest changes
//!    meanwhile are sent again;
//! 3. the machine stands still: the last blocks of its disks go, and of its memory;
//! 4. the source marks the zone, as for every migration, and the target is told that the
//!    zone is its own: it stores that, and lets it run;
//! 5. it is taken down here.
//!
//! Until the mark is written, the machine belongs to the source: if a process dies, the source's
//! zoneadmd lets it run on.

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

/// Maximum time that a machine may stand still for the rest of its memory, in milliseconds. Its
/// devices and the last blocks of its disks come to that.
const MAX_DOWNTIME_MS: u64 = 300;

/// The result of the live migration.
pub(super) enum Way {
    /// The zone is the target's.
    Gone {
        /// For how long it stood still.
        stood: Duration,
        /// Why it does not run there, if it does not.
        broken: Option<String>,
    },
    /// It cannot go while it runs, which goes on; both sides are as before.
    Cannot(String),
}

/// Sends a machine that runs.
///
/// # Errors
/// Fails when the connection has ended, or when it is unknown which host owns the zone; the message
/// says so.
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
            // A zoneadmd that died has left the machine as it was then.
            let _ = client::attend(host, zone);
            return Err(Error::Refused(format!("{why}; the zone goes on here.")));
        }
    };
    // From here on the mark decides.
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

/// Marks the zone, unless its machine may run here again.
fn mark(host: &Host, subject: &Subject, trip: &Trip, socket: &OwnedFd) -> Result<(), Error> {
    // One that follows a zoneadmd that died lets the machine run where there is no mark;
    // any command may start it, but not now.
    let _nobody = lock::exclusive(&host.root.adopt_lock(&subject.entry.name))?;
    match keeps_still(socket) {
        true => trip.mark(&subject.zonepath),
        false => Err(Error::Daemon("its zoneadmd went away".to_owned())),
    }
}

/// Returns true if a zoneadmd that has reported the end of the transfer keeps its machine paused:
/// it sends nothing more until it learns the decision of the target.
fn keeps_still(socket: &OwnedFd) -> bool {
    let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
    let heard = rustix::io::retry_on_intr(|| recv(socket, &mut [0; 1], flags));
    matches!(heard, Err(rustix::io::Errno::AGAIN))
}

/// Orders the zoneadmd of a machine to begin. Returns our ends of QEMU's connections.
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

/// Lets a machine run on that stands still as it was on its way.
pub(super) fn run_on(host: &Host, subject: &Subject) -> Result<(), Error> {
    let zone = &subject.entry.name;
    // One that had died is followed by one that lets it run, as there is no mark.
    let socket = client::connect_or_adopt(host, zone)?;
    client::ask(&socket, &Request::GoOn)?
        .ok_or_else(|| Error::Daemon("zoneadmd went away".to_owned()))
}

/// Takes the machine down that runs on the other host.
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
        // One that died with something unread.
        let (ours, theirs) = pair();
        send(&ours, b"x", SendFlags::NOSIGNAL).unwrap();
        drop(theirs);
        assert!(!keeps_still(&ours) && !keeps_still(&ours));
    }
}
