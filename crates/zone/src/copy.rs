//! `zoneadm push` and `pull`: copy files between the host and a zone.
//!
//! Two processes copy, with a pipe between them that this process fills and counts: one on the
//! host with the rights of the caller, one in the zone. In a running zone the second is a process of
//! the zone, as the command of zlogin is: it has the mounts, the ids, the limits and the rights of
//! the zone's root, and none of the host. A halted zone has no processes, so its whole root is
//! mounted for the copy alone, and the zone stays locked.
//!
//! | file | holds |
//! |---|---|
//! | `plan` | the request, the way into the zone, the plan that `-n` prints |
//! | `sides` | the processes on both sides |
//! | `pump` | the bytes between them |

mod plan;
mod pump;
mod sides;

use std::os::fd::OwnedFd;

use host::{Error, Host};
use model::ZoneName;

pub use plan::{Direction, HostSide, Prepared, Request, prepare};
pub use sides::{Place, Report, fork_host_side};

use pump::Pumped;

/// The outcome of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// All files were copied.
    All,
    /// Some files were not copied; the reasons were reported.
    Part,
}

/// Copies files. `report` gets one line for each file that cannot be copied; it is called in child
/// processes, too. `progress` gets the number of bytes that were copied, every few seconds.
///
/// The process must have one thread. Its later children would be in the zone's pid namespace.
///
/// # Errors
/// Fails if the zone cannot be entered, or if standard input or output fails.
pub fn copy(
    host: &Host,
    prepared: &Prepared,
    report: Report<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Copied, Error> {
    let request = &prepared.request;
    let (source, packed) = pipe()?;
    let (unpacked, sink) = pipe()?;
    let (host_end, zone_end) = match request.direction {
        Direction::Push => (packed, unpacked),
        Direction::Pull => (unpacked, packed),
    };
    let mut sides = Vec::new();
    let (mut from, mut to) = (Some(source), Some(sink));
    match (request.host_side, request.direction) {
        (HostSide::Files, _) => {
            sides.push((
                Place::Host,
                sides::fork_host_side(request, host_end, report)?,
            ));
        }
        (HostSide::Stream, Direction::Push) => from = None,
        (HostSide::Stream, Direction::Pull) => to = None,
    }
    let zone_side = sides::start_zone_side(host, prepared, zone_end, report)?;
    sides.push((Place::Zone, zone_side));
    let pumped = pump::pump(from.as_ref(), to.as_ref(), progress);
    // The side that reads finds the end of the stream when the pipes are closed.
    drop((from, to));
    let mut outcome = match &pumped {
        Ok(Pumped::All) => Copied::All,
        // The side that reads has ended; it has reported the reason.
        Ok(Pumped::Part) | Err(_) => Copied::Part,
    };
    for (place, child) in sides {
        match sides::wait(&child) {
            Some(0) => {}
            Some(_) => outcome = Copied::Part,
            None => {
                outcome = Copied::Part;
                report(place, "the process that copies was killed");
            }
        }
    }
    pumped?;
    Ok(outcome)
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::io("make a pipe")(errno.into()))
}

/// Waits for a process that [`fork_host_side`] started. Returns its exit status, or `None` if it was
/// killed.
#[must_use]
pub fn wait(child: &sys::process::Child) -> Option<u8> {
    sides::wait(child)
}

/// Prepares and runs `work` in a process of its own, so that this process does not enter the zone
/// and can copy to the next one. Returns the exit status, or `None` if the process was killed.
///
/// # Errors
/// Fails if no process can be started.
pub fn in_own_process(zone: &ZoneName, work: impl FnOnce() -> u8) -> Result<Option<u8>, Error> {
    let child = sys::process::fork(0, None, &[], work)
        .map_err(Error::io(format!("start a process for zone {zone}")))?;
    Ok(sides::wait(&child))
}
