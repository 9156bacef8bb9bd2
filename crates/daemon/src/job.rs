//! zoneadmd for a job: the platform of a zone for one program, and nothing that outlives it.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use model::ZoneName;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, set_parent_process_death_signal, waitid};
use rustix::time::Timespec;

use crate::{Passed, read_plan};
use host::Host;
use host::fault::Fault;
use host::flatten;
use platform::Platform;
use subject::network::Records;

/// Most that a job may print, in bytes; what comes after is not kept.
const MAX_OUTPUT: u64 = 64 << 20;

/// Longest piece moved at a time.
const PIECE: usize = 16 << 10;

/// Runs the init of the plan in `passed` to its end, with what it prints written to
/// `log`, and reports `ok STATUS` or an error. Ends with whoever started it, and so does
/// the init.
///
/// # Errors
/// A text for the log; whoever waits on `report` got it too.
pub fn job(host: &Host, zone: &ZoneName, passed: Passed, log: OwnedFd) -> Result<(), String> {
    let mut report = File::from(passed.report);
    end_with_starter(&report)?;
    let done = run(host, zone, passed.plan, File::from(log), &report);
    let text = match &done {
        Ok(status) => format!("ok {status}"),
        Err(error) => error.clone(),
    };
    let _ = report.write_all(text.as_bytes());
    drop(passed.lock);
    done.map(|_| ())
}

/// The error when the command that asked for the job is gone, or has given the job up.
const NOT_WANTED: &str = "whoever started this is gone";

/// Has the kernel end this process when whoever started it ends. The kernel forgets that
/// when the process changes its ids or those by which it uses file systems.
fn end_with_starter(report: &File) -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| errno.to_string())?;
    // It may have died before that.
    let mut reader = [PollFd::new(report, PollFlags::empty())];
    let now = Timespec::default();
    if poll(&mut reader, Some(&now)).is_ok_and(|_| reader[0].revents().contains(PollFlags::ERR)) {
        return Err(NOT_WANTED.to_owned());
    }
    Ok(())
}

fn run(
    host: &Host,
    zone: &ZoneName,
    plan: OwnedFd,
    log: File,
    report: &File,
) -> Result<i32, String> {
    let plan = read_plan(plan)?;
    let zinit = host
        .program("zinit")
        .ok_or("could not find the program zinit")?;
    let mut platform =
        Platform::build(&plan, &zinit, &mut Fault::default()).map_err(|error| flatten(&error))?;
    // The overlay was mounted under the ids of the zone, which has cleared it.
    let ran = end_with_starter(report)
        .and_then(|()| {
            let started = platform.start(&plan.init);
            started.map_err(|error| flatten(&error))
        })
        .and_then(|()| attend(&platform, log, report));
    let mut errors: Vec<String> = ran.as_ref().err().cloned().into_iter().collect();
    errors.extend(platform.take_down().err().map(|error| flatten(&error)));
    let released = platform.go_home().map_err(|error| error.to_string());
    // Of a zone that runs beside the job the links are its own.
    let has_links = plan
        .platform
        .iter()
        .any(|step| matches!(step, model::plan::PlatformStep::Links { .. }));
    let released = released.and_then(|()| match has_links {
        true => Records::of(&host.root).release(zone),
        false => Ok(()),
    });
    errors.extend(released.err());
    match (ran, errors.is_empty()) {
        (Ok(status), true) => Ok(status),
        _ => Err(errors.join("; ")),
    }
}

/// Writes down what the program says until it ends, or until nobody reads the report any
/// more; its exit status, or 128 and the number of the signal that ended it.
fn attend(platform: &Platform, mut log: File, report: &File) -> Result<i32, String> {
    let fail = |errno: Errno| format!("could not wait for the program: {errno}");
    let mut written = 0;
    loop {
        let mut watched = [
            PollFd::new(&platform.console, PollFlags::IN),
            PollFd::new(&platform.init.pidfd, PollFlags::IN),
            PollFd::new(report, PollFlags::empty()),
        ];
        match poll(&mut watched, None) {
            Err(Errno::INTR) => continue,
            other => other.map_err(fail)?,
        };
        if watched[2].revents().contains(PollFlags::ERR) {
            return Err(NOT_WANTED.to_owned());
        }
        let ended = !watched[1].revents().is_empty();
        if !watched[0].revents().is_empty() {
            let more = write_down(&platform.console, &mut log, &mut written);
            if more && !ended {
                continue;
            }
        }
        if ended {
            // What is left in the terminal, of which our own side is still open.
            let now = Timespec::default();
            loop {
                let mut rest = [PollFd::new(&platform.console, PollFlags::IN)];
                if !matches!(poll(&mut rest, Some(&now)), Ok(1))
                    || !write_down(&platform.console, &mut log, &mut written)
                {
                    break;
                }
            }
            break;
        }
    }
    let status = waitid(
        WaitId::PidFd(platform.init.pidfd.as_fd()),
        WaitIdOptions::EXITED,
    );
    let status = status.map_err(fail)?.ok_or("the program has not ended")?;
    Ok(match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => status,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 255,
    })
}

/// Moves a piece; false when there is nothing more to come.
fn write_down(console: &OwnedFd, log: &mut File, written: &mut u64) -> bool {
    let mut piece = [0; PIECE];
    let Ok(length) = rustix::io::read(console, &mut piece) else {
        return false;
    };
    let mut text = piece[..length].to_vec();
    // The terminal's line ends.
    text.retain(|byte| *byte != b'\r');
    if *written < MAX_OUTPUT {
        *written += text.len() as u64;
        // A full disk on the host must not stop the zone's work; its own would.
        let _ = log.write_all(&text);
    }
    length > 0
}
