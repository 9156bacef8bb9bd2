//! The processes that pack and unpack: one on the host, one in the zone.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use copy::Target;
use platform::enter::{EntryError, RunningZone};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use sys::process::Child;

use crate::copy::plan::{Direction, HostSide, Prepared, Request};
use crate::{job, root_view};
use host::{Error, Host, flatten};

/// Size of the buffers around a stream, in bytes.
const STREAM_BUFFER_BYTES: usize = 128 << 10;

/// The side of a copy on which a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host.
    Host,
    /// The zone.
    Zone,
}

/// Gets one line for each problem.
pub type Report<'a> = &'a dyn Fn(Place, &str);

/// Starts the process on the host, which has the rights of the caller. It packs into `end`, or
/// unpacks from it.
///
/// # Errors
/// Fails if no process can be started.
pub fn fork_host_side(request: &Request, end: OwnedFd, report: Report<'_>) -> Result<Child, Error> {
    let child = sys::process::fork(0, None, &[end.as_fd()], || {
        // A signal from the keyboard ends the process in the zone or the one between; this process
        // then finds the end of the stream, and removes what is not complete.
        let signals = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
        sys::signals::ignore(&signals.map(Signal::as_raw));
        let part = match request.direction {
            Direction::Push => Part::Pack,
            Direction::Pull => Part::Unpack,
        };
        act_in(Path::new("/"), part, request, copied(&end), &|text| {
            report(Place::Host, text);
        })
    });
    // The other side finds the end of the stream when only the new process has this end.
    drop(end);
    child.map_err(Error::io("start a process that copies"))
}

/// Starts the process that packs or unpacks files of the zone.
pub(super) fn start_zone_side(
    host: &Host,
    prepared: &Prepared,
    end: OwnedFd,
    report: Report<'_>,
) -> Result<Child, Error> {
    let request = &prepared.request;
    let part = match request.direction {
        Direction::Push => Part::Unpack,
        Direction::Pull => Part::Pack,
    };
    let report = |text: &str| report(Place::Zone, text);
    let Some(stack) = &prepared.stack else {
        let child = enter(host, prepared, part, &end, &report);
        drop(end);
        return child;
    };
    let inherited = job::inherited(&prepared.config)?;
    let scratch = host.root.run().join("mnt");
    std::fs::create_dir_all(&scratch).map_err(Error::io(format!("make {}", scratch.display())))?;
    let child = sys::process::fork(0, None, &[end.as_fd()], || {
        let signals = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
        sys::signals::ignore(&signals.map(Signal::as_raw));
        let fd = copied(&end);
        let (to_parent, from_thread) = std::sync::mpsc::channel();
        let request = request.clone();
        // The root is assembled in a thread, which sends its lines here: `report` stays in one
        // thread.
        let done = std::thread::scope(|scope| {
            let work = scope.spawn(move || {
                root_view::with_whole_root(stack, &inherited, &scratch, |root| {
                    Ok(act(&root, part, &request, fd, &|text| {
                        let _ = to_parent.send(text.to_owned());
                    }))
                })
            });
            for line in from_thread {
                report(&line);
            }
            work.join()
        });
        match done {
            Ok(Ok(status)) => status,
            Ok(Err(error)) => {
                report(&flatten(&error));
                1
            }
            Err(_) => 1,
        }
    });
    drop(end);
    child.map_err(Error::io("start a process that copies"))
}

fn enter(
    host: &Host,
    prepared: &Prepared,
    part: Part,
    end: &OwnedFd,
    report: &dyn Fn(&str),
) -> Result<Child, Error> {
    let refused = |error| match error {
        EntryError::Other(error) => error,
        other => Error::State(other.to_string()),
    };
    let zone = RunningZone::open(host, &prepared.zone).map_err(refused)?;
    let null = openat(
        CWD,
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| Error::Io("open /dev/null".to_owned(), errno.into()))?;
    let stderr = rustix::stdio::stderr();
    let streams = match part {
        Part::Pack => [null.as_fd(), end.as_fd(), stderr],
        Part::Unpack => [end.as_fd(), null.as_fd(), stderr],
    };
    // The process runs no program of the zone, and no process of the zone can look into it, so the
    // standard error of the caller is safe with it.
    let request = &prepared.request;
    let child = zone.enter(Some(streams), &[], || {
        let fd = match part {
            Part::Pack => copied(rustix::stdio::stdout()),
            Part::Unpack => copied(rustix::stdio::stdin()),
        };
        act_in(Path::new("/"), part, request, fd, report)
    });
    child.map_err(refused)
}

/// The work of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Pack,
    Unpack,
}

/// Returns a copy of a descriptor for a child process, which ends with the process.
fn copied(fd: impl AsFd) -> std::io::Result<OwnedFd> {
    fd.as_fd().try_clone_to_owned()
}

fn act_in(
    root: &Path,
    part: Part,
    request: &Request,
    stream: std::io::Result<OwnedFd>,
    report: &dyn Fn(&str),
) -> u8 {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, root, flags, Mode::empty()) {
        Ok(root) => act(&root, part, request, stream, report),
        Err(errno) => {
            report(&format!("{}: {errno}", root.display()));
            1
        }
    }
}

/// Packs or unpacks, and returns the exit status.
fn act(
    root: &OwnedFd,
    part: Part,
    request: &Request,
    stream: std::io::Result<OwnedFd>,
    report: &dyn Fn(&str),
) -> u8 {
    let work = || -> Result<copy::Done, copy::Error> {
        let stream = File::from(stream?);
        let mut tell = |problem: &copy::Problem| report(&problem.to_string());
        match part {
            Part::Pack => {
                let mut out = BufWriter::with_capacity(STREAM_BUFFER_BYTES, stream);
                let done = copy::pack(root.as_fd(), &request.sources, &mut out, &mut tell);
                match done {
                    Ok(done) => out.flush().map_err(closed).map(|()| done),
                    Err(error) => {
                        // The bytes in the buffer have no reader.
                        let _ = out.into_parts();
                        Err(error)
                    }
                }
            }
            Part::Unpack => {
                let target = Target::open(root.as_fd(), &request.to, request.naming())?;
                let from = BufReader::with_capacity(STREAM_BUFFER_BYTES, stream);
                copy::unpack(root.as_fd(), target, from, &request.rules, &mut tell)
            }
        }
    };
    match work() {
        Ok(done) => u8::from(done.problems > 0),
        Err(copy::Error::Closed) => 0,
        // The process that packs could not begin, and the reason was reported.
        Err(copy::Error::Empty) if request.host_side == HostSide::Files => 1,
        Err(error) => {
            report(&error.to_string());
            1
        }
    }
}

fn closed(error: std::io::Error) -> copy::Error {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => copy::Error::Closed,
        _ => copy::Error::Io(error),
    }
}

/// Waits for a process. Returns its exit status, or `None` if a signal ended it.
pub(super) fn wait(child: &Child) -> Option<u8> {
    let status = rustix::io::retry_on_intr(|| {
        waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED)
    });
    let status = status.ok()??.exit_status()?;
    u8::try_from(status).ok()
}
