//! `zoneadm files restore`: takes files of a snapshot back into the zone.
//!
//! Two processes copy. One packs the files of the snapshot, which is mounted read-only for it alone.
//! The other unpacks them: in a running zone it is a process of the zone, as its root, so that no
//! link in the zone leads out of it. A halted zone has no processes, so its root is mounted for the
//! copy alone, and the zone stays locked.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use copy::target::Naming;
use copy::{Existing, Owner, Restore, Rules, Target, name::shown};
use host::{Error, Host, flatten};
use model::{State, Verb, ZoneName};
use platform::enter::{EntryError, RunningZone};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Signal;
use storage::{Name, Stack, driver_at};
use subject::Subject;
use sys::process::Child;

use super::files::must_exist;
use super::{When, admit, stack};
use crate::copy::{Copied, Place, Report};
use crate::{inventory, job, root_view};

/// Size of the buffers around the stream, in bytes.
const STREAM_BUFFER_BYTES: usize = 128 << 10;

/// The files to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The snapshot.
    pub snapshot: Name,
    /// The absolute paths of files and folders, without `..`.
    pub paths: Vec<PathBuf>,
    /// The rule for files that exist in the zone.
    pub existing: Existing,
}

/// The outcome of a restoration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The plan, which was not carried out.
    Planned(String),
    /// The files were restored, all or in part.
    Done(Copied),
}

/// Restores files and folders of a snapshot. `report` gets one line for each file that cannot be
/// restored; it is called in child processes, too.
///
/// The process must have one thread. Its later children would be in the zone's pid namespace.
///
/// # Errors
/// Fails with [`Error::Refused`] if the snapshot has none of the paths. The zone has not changed
/// then.
pub fn restore(
    host: &Host,
    zone: &ZoneName,
    request: &Request,
    report: Report<'_>,
) -> Result<Restored, Error> {
    for path in &request.paths {
        check(path)?;
    }
    let subject = admit(host, zone, Verb::RestoreFiles)?;
    let from = driver_at(&subject.zonepath)?.snapshot_stack(&subject.zonepath, &request.snapshot);
    let from = match from {
        Err(storage::Error::NoSnapshot { name }) => {
            return Err(Error::Refused(format!(
                "has no snapshot {name}; zoneadm snapshots lists them."
            )));
        }
        other => other?,
    };
    let scratch = inventory::scratch(host)?;
    let when = When::Named(request.snapshot.clone());
    root_view::with_view(&from, &[], &scratch, |root| {
        let mut paths = request.paths.iter();
        paths.try_for_each(|path| must_exist(&root, &when, path))
    })?;
    if host.plan_only {
        let is_running = subject.state == State::Running;
        return Ok(Restored::Planned(
            Plan {
                zone,
                request,
                is_running,
            }
            .to_string(),
        ));
    }
    let (reading, writing) = pipe()?;
    let packing = start_packing(&from, request, &scratch, writing, report)?;
    let (unpacking, locked) = match subject.state {
        State::Running => {
            // A long copy must not delay a halt.
            drop(subject);
            (start_in_zone(host, zone, request, &reading, report), None)
        }
        _ => {
            let started = start_in_root(host, &subject, request, &scratch, &reading, report);
            (started, Some(subject))
        }
    };
    // If the other process has not started, the process that packs finds no reader.
    drop(reading);
    let unpacked = unpacking.map(|child| crate::copy::wait(&child));
    let packed = crate::copy::wait(&packing);
    drop(locked);
    let mut outcome = Copied::All;
    for (place, status) in [(Place::Host, packed), (Place::Zone, unpacked?)] {
        match status {
            Some(0) => {}
            Some(_) => outcome = Copied::Part,
            None => {
                outcome = Copied::Part;
                report(place, "the process that restores was killed");
            }
        }
    }
    let paths: Vec<String> = request.paths.iter().map(shown).collect();
    let text = format!(
        "restored from snapshot {}: {}",
        request.snapshot,
        paths.join(" ")
    );
    control::log::note(host, zone, &text);
    Ok(Restored::Done(outcome))
}

/// Fails unless a path is absolute, names a file below the root, and has no `..`.
fn check(path: &Path) -> Result<(), Error> {
    let mut parts = path.components();
    let is_absolute = parts.next() == Some(Component::RootDir);
    let rest: Vec<Component<'_>> = parts.collect();
    let is_plain = rest.iter().all(|part| matches!(part, Component::Normal(_)));
    match is_absolute && is_plain && !rest.is_empty() {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "{}: expected an absolute path below / without ..; zoneadm beadm brings a whole root back",
            shown(path)
        ))),
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Error::io("make a pipe")(errno.into()))
}

/// Signals from the keyboard, which end the command. The other processes then find the end of the
/// stream, and remove what is not complete.
fn ignore_keyboard() {
    let signals = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
    sys::signals::ignore(&signals.map(Signal::as_raw));
}

/// Starts the process that packs the files of the snapshot.
fn start_packing(
    from: &Stack,
    request: &Request,
    scratch: &Path,
    to: OwnedFd,
    report: Report<'_>,
) -> Result<Child, Error> {
    let child = sys::process::fork(0, None, &[to.as_fd()], || {
        ignore_keyboard();
        let to = to.try_clone();
        aloud(Place::Host, report, |tell| {
            root_view::with_view(from, &[], scratch, |root| {
                let mut out = BufWriter::with_capacity(
                    STREAM_BUFFER_BYTES,
                    File::from(to.map_err(Error::io("pass the files on"))?),
                );
                let mut tell = |problem: &copy::Problem| tell(problem.to_string());
                let rules = rules(request);
                let packed = copy::pack_for(&rules, root.as_fd(), &mut out, &mut tell);
                let packed = packed.and_then(|done| {
                    out.flush()?;
                    Ok(done)
                });
                match packed {
                    Ok(done) => Ok(u8::from(done.problems > 0)),
                    // The process that unpacks reports the reason.
                    Err(_) => {
                        let _ = out.into_parts();
                        Ok(1)
                    }
                }
            })
        })
    });
    drop(to);
    child.map_err(Error::io("start a process that restores"))
}

/// Starts the process that unpacks in a halted zone.
fn start_in_root(
    host: &Host,
    subject: &Subject,
    request: &Request,
    scratch: &Path,
    from: &OwnedFd,
    report: Report<'_>,
) -> Result<Child, Error> {
    crate::settle::settle(host, &subject.entry.name)?;
    let stack = stack(subject, &When::Present)?;
    let inherited = job::inherited(&subject.config(host)?)?;
    let child = sys::process::fork(0, None, &[from.as_fd()], || {
        ignore_keyboard();
        let from = from.try_clone();
        aloud(Place::Zone, report, |tell| {
            root_view::with_whole_root(&stack, &inherited, scratch, |root| {
                let from = from.map_err(Error::io("read the files"))?;
                Ok(unpack(&root, from, request, &|text| tell(text.to_owned())))
            })
        })
    });
    child.map_err(Error::io("start a process that restores"))
}

/// Calls `work` in a thread that is to get a mount namespace, and passes its lines to `report` in
/// this thread. Returns the exit status.
fn aloud(
    place: Place,
    report: Report<'_>,
    work: impl FnOnce(&(dyn Fn(String) + Sync)) -> Result<u8, Error> + Send,
) -> u8 {
    let (sender, lines) = std::sync::mpsc::channel();
    let done = std::thread::scope(|scope| {
        let work = scope.spawn(move || {
            let sender = std::sync::Mutex::new(sender);
            work(&|line| {
                if let Ok(sender) = sender.lock() {
                    let _ = sender.send(line);
                }
            })
        });
        for line in lines {
            report(place, &line);
        }
        work.join()
    });
    match done {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            report(place, &flatten(&error));
            1
        }
        Err(_) => 1,
    }
}

/// Starts the process that unpacks in a running zone, as the zone's root.
fn start_in_zone(
    host: &Host,
    zone: &ZoneName,
    request: &Request,
    from: &OwnedFd,
    report: Report<'_>,
) -> Result<Child, Error> {
    let refused = |error| match error {
        EntryError::Other(error) => error,
        other => Error::State(other.to_string()),
    };
    let running = RunningZone::open(host, zone).map_err(refused)?;
    let null = openat(
        CWD,
        "/dev/null",
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| Error::Io("open /dev/null".to_owned(), errno.into()))?;
    // The process runs no program of the zone, and no process of the zone can look into it, so the
    // standard error of the caller is safe with it.
    let streams = [from.as_fd(), null.as_fd(), rustix::stdio::stderr()];
    let child = running.enter(Some(streams), &[], || {
        let report = |text: &str| report(Place::Zone, text);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, "/", flags, Mode::empty());
        let from = rustix::stdio::stdin().try_clone_to_owned();
        match (root, from) {
            (Ok(root), Ok(from)) => unpack(&root, from, request, &report),
            _ => {
                report("could not open the root of the zone");
                1
            }
        }
    });
    child.map_err(refused)
}

fn rules(request: &Request) -> Rules {
    Rules {
        owner: Owner::Kept,
        set_id: true,
        restore: Some(Restore {
            paths: request.paths.clone(),
            existing: request.existing,
        }),
    }
}

/// Unpacks the stream, and returns the exit status.
fn unpack(root: &OwnedFd, from: OwnedFd, request: &Request, report: &dyn Fn(&str)) -> u8 {
    let work = || {
        let target = Target::open(root.as_fd(), Path::new("/"), Naming::Keep)?;
        let from = BufReader::with_capacity(STREAM_BUFFER_BYTES, File::from(from));
        let mut tell = |problem: &copy::Problem| report(&problem.to_string());
        copy::unpack(root.as_fd(), target, from, &rules(request), &mut tell)
    };
    match work() {
        Ok(done) => u8::from(done.problems > 0),
        // The process that packs could not begin, and has reported the reason.
        Err(copy::Error::Empty) => 1,
        Err(error) => {
            report(&error.to_string());
            1
        }
    }
}

/// The plan of a restoration.
struct Plan<'a> {
    zone: &'a ZoneName,
    request: &'a Request,
    is_running: bool,
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request {
            snapshot,
            paths,
            existing,
        } = self.request;
        writeln!(f, "files restore zone {}:", self.zone)?;
        match self.is_running {
            true => writeln!(f, "  enter the running zone as its root")?,
            false => writeln!(f, "  mount the root of the halted zone, for this copy only")?,
        }
        for path in paths {
            writeln!(f, "  write {} of snapshot {snapshot}", shown(path))?;
        }
        match existing {
            Existing::Replace => writeln!(f, "  replace files that exist"),
            Existing::Keep => writeln!(f, "  keep files that exist"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_below_the_root() {
        for path in ["/etc", "/etc/./x/", "//a"] {
            assert!(check(Path::new(path)).is_ok(), "{path}");
        }
        for path in ["", "/", "etc", "/etc/../x", "/..", "."] {
            assert!(check(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn the_plan_names_the_paths_and_the_rule() {
        let request = Request {
            snapshot: "monday".parse().unwrap(),
            paths: vec!["/etc/a\nb".into(), "/srv".into()],
            existing: Existing::Keep,
        };
        let plan = Plan {
            zone: &"web".parse().unwrap(),
            request: &request,
            is_running: false,
        };
        assert_eq!(
            plan.to_string(),
            "files restore zone web:\n  \
               mount the root of the halted zone, for this copy only\n  \
               write /etc/a\\nb of snapshot monday\n  \
               write /srv of snapshot monday\n  \
               keep files that exist\n"
        );
    }
}
