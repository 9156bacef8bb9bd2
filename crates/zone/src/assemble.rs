//! Self-assembly of an immutable zone: its first boot is writable, so that its services can write
//! their first files. When the services have started, the zone reboots and is read-only.
//!
//! zoneadmd starts this in a process of its own. If the process is killed, the zone stays writable,
//! and assembles itself again at its next boot.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use limits::ZoneCgroups;
use model::{State, Verb, ZoneName};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use store::runtime::{self, Runtime};
use sys::process::Child;

use crate::boot::{BootOptions, start_locked};
use crate::executor::Outcome;
use crate::halt::halt_locked;
use crate::shutdown;
use host::undo::reap;
use host::{Error, Host, flatten, spawn};
use subject::{Start, Subject, assembled};

pub use host::spawn::ASSEMBLE;

/// Maximum time that the services of a zone with systemd may take to start. The zone then becomes
/// read-only although a service is still starting.
const ASSEMBLY_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum time without systemd. A service that starts a process every second would otherwise keep
/// the zone writable.
const ASSEMBLY_TIMEOUT_WITHOUT_SYSTEMD: Duration = Duration::from_secs(60);

/// Maximum time for one answer of systemd. The program systemctl belongs to the zone, and may never
/// end.
const SYSTEMD_REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time until a killed process has ended.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two looks at the zone.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Time without a new process after which the services of a zone without systemd have started.
const QUIET_TIME: Duration = Duration::from_secs(5);

/// Time that the command waits for another command that holds the zone's lock, between attempts.
const LOCK_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The signal to power off that only systemd takes: SIGRTMIN+4.
const POWEROFF_OF_SYSTEMD: i32 = 38;

/// Waits until the services of the zone have started, marks the zone as assembled, and reboots it.
/// `id` is the numeric id of the zone in the boot that assembles it. Does nothing if that boot has
/// ended meanwhile.
///
/// # Errors
/// Fails if the zone cannot be shut down, or cannot boot again.
pub fn assemble(host: &Host, zone: &ZoneName, id: u32) -> Result<(), Error> {
    if !services_have_started(host, zone, id)? {
        return Ok(());
    }
    let mut subject = loop {
        match Subject::admit(host, zone, Verb::Shutdown) {
            Ok(Start::Go(subject)) => break subject,
            Ok(Start::Already(_)) => return Ok(()),
            Err(Error::Store(store::Error::Locked(_))) => std::thread::sleep(LOCK_POLL_INTERVAL),
            Err(error) => return Err(error),
        }
    };
    if subject.runtime.as_ref().map(|runtime| runtime.id) != Some(id) {
        return Ok(());
    }
    assembled::mark(&subject.zonepath, subject.entry.uuid)?;
    control::log::note(host, zone, "has assembled itself: it reboots read-only");
    if let Err(error) = shutdown::ask(host, zone, shutdown::SHUTDOWN_TIMEOUT) {
        let why = flatten(&error);
        control::log::note(
            host,
            zone,
            &format!("did not shut down, so it is halted: {why}"),
        );
        halt_locked(host, &subject)?;
    }
    subject.state = State::Installed;
    subject.runtime = None;
    let booted = start_locked(host, &subject, Verb::Boot, &BootOptions::default(), false)?;
    if let Outcome::Remarks(remarks) = booted {
        for remark in remarks {
            control::log::note(host, zone, &remark);
        }
    }
    Ok(())
}

/// Waits until the services of the zone have started. Returns false if the boot has ended.
fn services_have_started(host: &Host, zone: &ZoneName, id: u32) -> Result<bool, Error> {
    let begun = Instant::now();
    let (mut known, mut quiet) = (BTreeSet::new(), Instant::now());
    loop {
        let Some(running) = runtime::load(&host.root, zone)?.filter(|found| found.id == id) else {
            return Ok(false);
        };
        let asked = match running.shutdown_signal == POWEROFF_OF_SYSTEMD {
            true => state_of_systemd(host, zone)?,
            false => Asked::NoSystemd,
        };
        let limit = match asked {
            Asked::Started => return Ok(true),
            Asked::Starting => ASSEMBLY_TIMEOUT,
            Asked::NoSystemd => {
                let now = processes(&running);
                if !now.is_subset(&known) {
                    quiet = Instant::now();
                }
                known = now;
                if quiet.elapsed() >= QUIET_TIME {
                    return Ok(true);
                }
                ASSEMBLY_TIMEOUT_WITHOUT_SYSTEMD
            }
        };
        if begun.elapsed() >= limit {
            let seconds = limit.as_secs();
            let text = format!("still starts services after {seconds} s: becomes read-only");
            control::log::note(host, zone, &text);
            return Ok(true);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn processes(running: &Runtime) -> BTreeSet<i32> {
    let cgroups = ZoneCgroups::from_paths(&running.cgroups);
    cgroups.map_or_else(BTreeSet::new, |cgroups| {
        cgroups.pids().into_iter().collect()
    })
}

/// The answer of systemd in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// All jobs of the boot have ended.
    Started,
    /// Jobs of the boot are left, or systemd does not answer yet.
    Starting,
    /// The zone has no systemctl.
    NoSystemd,
}

/// Asks systemd in the zone if the boot is complete.
fn state_of_systemd(host: &Host, zone: &ZoneName) -> Result<Asked, Error> {
    let memory = rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC);
    let mut output = File::from(memory.map_err(|errno| Error::io("make a file")(errno.into()))?);
    let child = spawn::ask_systemd(host, zone, &output)?;
    let status = status_within(&child, SYSTEMD_REPLY_TIMEOUT);
    let mut text = String::new();
    // The output of a program of the zone can be any bytes.
    let read = output
        .rewind()
        .and_then(|()| output.take(64).read_to_string(&mut text));
    Ok(understand(read.map_or("", |_| text.trim()), status))
}

/// Returns the exit status of a child process. Kills the process if it has not ended in time, and
/// returns `None`.
fn status_within(child: &Child, limit: Duration) -> Option<i32> {
    let left = Timespec::try_from(limit).ok();
    let mut watched = [PollFd::new(&child.pidfd, PollFlags::IN)];
    if !matches!(poll(&mut watched, left.as_ref()), Ok(1)) {
        // An error of this call means that the process has ended.
        let _ = pidfd_send_signal(&child.pidfd, Signal::KILL);
        reap(child, KILL_TIMEOUT);
        return None;
    }
    let ended = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED);
    ended.ok().flatten().and_then(|status| status.exit_status())
}

/// The exit status of a shell that does not find a program.
const NOT_FOUND: i32 = 127;

fn understand(state: &str, status: Option<i32>) -> Asked {
    match (state, status) {
        ("running" | "degraded" | "maintenance", _) => Asked::Started,
        (_, Some(NOT_FOUND)) => Asked::NoSystemd,
        _ => Asked::Starting,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    fn sleeping(seconds: &str) -> Child {
        #[expect(clippy::zombie_processes, reason = "status_within waits for it")]
        let child = Command::new("sleep").arg(seconds).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let pidfd = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
        Child { pid, pidfd }
    }

    #[test]
    fn a_program_of_the_zone_that_never_ends_is_killed() {
        let child = sleeping("1000000");
        assert_eq!(status_within(&child, Duration::from_millis(20)), None);
        assert!(pidfd_send_signal(&child.pidfd, Signal::KILL).is_err());
        assert_eq!(
            status_within(&sleeping("0"), SYSTEMD_REPLY_TIMEOUT),
            Some(0)
        );
    }

    #[test]
    fn a_boot_is_complete_even_if_a_service_failed() {
        for (state, status, expected) in [
            ("running", Some(0), Asked::Started),
            ("degraded", Some(1), Asked::Started),
            ("starting", Some(1), Asked::Starting),
            ("offline", Some(1), Asked::Starting),
            ("", None, Asked::Starting),
            ("", Some(127), Asked::NoSystemd),
        ] {
            assert_eq!(understand(state, status), expected, "{state} {status:?}");
        }
    }
}
