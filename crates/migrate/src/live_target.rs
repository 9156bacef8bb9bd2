//! Receives a guest from another host while the guest runs there: the target's part of a live
//! migration.
//!
//! A QEMU with empty disks waits on this host and receives the data of the source's QEMU. The
//! received data does not count until the source tells this host that the zone belongs to this
//! host.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::channels::{self, MAX_FRAME_BYTES, Out, carry, deliver};
use crate::waiting_guest::Arrival;
use crate::wire::{Frame, Wire, receive};
use control::protocol::Coming;
use host::{Error, flatten};

/// Timeout for QEMU to close the connections of its disks after the source has closed them.
const DISK_CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of receiving a guest.
pub(super) enum Came {
    /// The guest has arrived with all its data and is paused.
    Whole(Arrival),
    /// The live migration was cancelled, and the received data must be forgotten.
    Undone,
}

/// Receives the data for a waiting guest until the guest is complete or the source cancels. Reports
/// errors to the source, which then cancels.
///
/// # Errors
/// Fails if the connection has ended, or after an unexpected message.
pub(super) fn take<R: Read, W: Write + Send>(
    wire: &mut Wire<R, W>,
    arrival: Arrival,
) -> io::Result<Came> {
    let connections = |arrival: &Arrival| -> io::Result<Vec<UnixStream>> {
        let mut all: Vec<UnixStream> = Vec::new();
        for disk in &arrival.disks {
            all.push(disk.try_clone()?);
        }
        all.push(arrival.memory.try_clone()?);
        Ok(all)
    };
    let all = connections(&arrival)?;
    let all: Vec<&UnixStream> = all.iter().collect();
    let (from, out) = wire.halves();
    let (tell, closed) = channel();
    std::thread::scope(|scope| {
        for (number, disk) in (0_u8..).zip(&all[..all.len() - 1]) {
            let (out, tell) = (&out, tell.clone());
            scope.spawn(move || {
                // An error is ignored: the thread that reads from the wire also notices the end of
                // the wire.
                let _ = carry(number, disk, out);
                let _ = tell.send(());
            });
        }
        let came = listen(from, &out, &all, &closed, arrival);
        channels::end(&all);
        came
    })
}

fn listen<W: Write>(
    from: &mut impl Read,
    out: &Out<'_, W>,
    all: &[&UnixStream],
    closed: &Receiver<()>,
    arrival: Arrival,
) -> io::Result<Came> {
    let mut waits = Some(arrival);
    loop {
        let Some((kind, body)) = receive(from, MAX_FRAME_BYTES)? else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let word = match kind {
            Frame::Undo => {
                if let Some(arrival) = waits.take() {
                    channels::end(all);
                    arrival.give_up();
                }
                return Ok(Came::Undone);
            }
            // The source was told about an error and will cancel. Messages before that are ignored.
            _ if waits.is_none() => continue,
            Frame::Channel => match deliver(all, &body) {
                Ok(()) => continue,
                // Asks QEMU, through zoneadmd, why the channel ended.
                Err(_) => Coming::WhyNot,
            },
            Frame::DisksSent => Coming::DisksAreWhole,
            Frame::MemorySent => Coming::IsWhole,
            _ => {
                return Err(io::Error::other(
                    "an unexpected message of the source while a running zone arrives; its programs may be of another version",
                ));
            }
        };
        let Some(arrival) = waits.take() else {
            continue;
        };
        let done = match word {
            // The connections of the disks must be closed before this host's QEMU gets the command
            // to close them. QEMU answers no command while it writes to a connection or waits for a
            // connection.
            Coming::DisksAreWhole => wait_for(closed, all.len() - 1),
            _ => Ok(()),
        }
        .and_then(|()| arrival.ask(word));
        match done {
            Ok(()) if kind == Frame::MemorySent => return Ok(Came::Whole(arrival)),
            Ok(()) => {
                out.say(Frame::Done, &[])?;
                waits = Some(arrival);
            }
            Err(error) => {
                channels::end(all);
                arrival.give_up();
                out.say(Frame::Refused, &[flatten(&error).as_bytes()])?;
            }
        }
    }
}

/// Waits until the connections of all disks have ended.
fn wait_for(closed: &Receiver<()>, disks: usize) -> Result<(), Error> {
    let end = Instant::now() + DISK_CLOSE_TIMEOUT;
    for _ in 0..disks {
        let left = end.saturating_duration_since(Instant::now());
        if closed.recv_timeout(left).is_err() {
            return Err(Error::Refused(format!(
                "keeps the connections of its disks for more than {} s.",
                DISK_CLOSE_TIMEOUT.as_secs()
            )));
        }
    }
    Ok(())
}
