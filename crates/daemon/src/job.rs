//! zoneadmd for a job: builds the platform of a zone for one program, and leaves nothing behind
//! after the program.

use std::fs::File;
use std::io::Write;
use std::iter;
use std::os::fd::{AsFd, OwnedFd};

use model::ZoneName;
use model::plan::{BootPlan, PlatformStep};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitId, WaitIdOptions, set_parent_process_death_signal, waitid};
use rustix::time::Timespec;

use crate::error::JobError;
use crate::{Passed, read_plan};
use host::Host;
use host::fault::Fault;
use host::flatten;
use platform::Platform;
use subject::network::Records;

/// Maximum size of the log of a job, in bytes; later output is dropped.
const MAX_OUTPUT: u64 = 64 << 20;

/// Maximum number of bytes of output that one read moves to the log.
const MAX_MOVED_BYTES: usize = 16 << 10;

/// Runs the init of the plan in `passed` to its end, writes its output to `log`, and reports `ok
/// STATUS` or an error. This process and the init end when the process that started the job ends.
///
/// # Errors
/// Fails with an error for the log; the reader of `report` gets the same text.
pub fn job(host: &Host, zone: &ZoneName, passed: Passed, log: OwnedFd) -> Result<(), JobError> {
    let mut report = File::from(passed.report);
    let done = Linux::new(host, zone, passed.plan, File::from(log), &report)
        .and_then(|kernel| run(&kernel));
    let text = match &done {
        Ok(status) => format!("ok {status}"),
        Err(error) => flatten(error),
    };
    let _ = report.write_all(text.as_bytes());
    drop(passed.lock);
    done.map(|_| ())
}

/// Tells the kernel to end this process when the process that started it ends. The kernel forgets
/// this setting when the process changes its user or group ids, including those for file access.
fn end_with_starter(report: &File) -> Result<(), JobError> {
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    bound.map_err(|errno| JobError::Bind(errno.into()))?;
    // The starter may have died before the setting was made; then nobody reads the report.
    let mut reader = [PollFd::new(report, PollFlags::empty())];
    let now = Timespec::default();
    if poll(&mut reader, Some(&now)).is_ok_and(|_| reader[0].revents().contains(PollFlags::ERR)) {
        return Err(JobError::NotWanted);
    }
    Ok(())
}

/// The kernel operations that a job needs. Tests use a kernel in memory.
trait Kernel {
    /// A zone whose platform is built.
    type Zone;

    /// Tells the kernel to end this process when the process that started it ends.
    fn end_with_starter(&self) -> Result<(), JobError>;

    /// Builds the platform of the zone.
    fn build(&self) -> Result<Self::Zone, JobError>;

    /// Starts the program of the job in the zone.
    fn start(&self, zone: &mut Self::Zone) -> Result<(), JobError>;

    /// Waits until the program has ended; returns its status.
    fn attend(&self, zone: &Self::Zone) -> Result<i32, JobError>;

    /// Takes the platform down and returns all errors.
    fn take_down(&self, zone: Self::Zone) -> Vec<JobError>;
}

fn run(kernel: &impl Kernel) -> Result<i32, JobError> {
    kernel.end_with_starter()?;
    let mut zone = kernel.build()?;
    // The setting is made again, because the overlay was mounted under the ids of the zone, and the
    // change of ids has cleared the setting.
    let ran = kernel
        .end_with_starter()
        .and_then(|()| kernel.start(&mut zone))
        .and_then(|()| kernel.attend(&zone));
    let down = kernel.take_down(zone);
    match ran {
        Ok(status) if down.is_empty() => Ok(status),
        Ok(_) => Err(JobError::Several(down)),
        Err(error) => Err(JobError::Several(iter::once(error).chain(down).collect())),
    }
}

/// The kernel that this process runs on.
struct Linux<'a> {
    host: &'a Host,
    name: &'a ZoneName,
    plan: BootPlan,
    log: File,
    report: &'a File,
}

impl<'a> Linux<'a> {
    fn new(
        host: &'a Host,
        name: &'a ZoneName,
        plan: OwnedFd,
        log: File,
        report: &'a File,
    ) -> Result<Self, JobError> {
        Ok(Self {
            host,
            name,
            plan: read_plan(plan)?,
            log,
            report,
        })
    }
}

impl Kernel for Linux<'_> {
    type Zone = Platform;

    fn end_with_starter(&self) -> Result<(), JobError> {
        end_with_starter(self.report)
    }

    fn build(&self) -> Result<Platform, JobError> {
        let zinit = self.host.program("zinit");
        let zinit = zinit.ok_or(JobError::NoZinit)?;
        Ok(Platform::build(&self.plan, &zinit, &mut Fault::default())?)
    }

    fn start(&self, zone: &mut Platform) -> Result<(), JobError> {
        Ok(zone.start(&self.plan.init)?)
    }

    fn attend(&self, zone: &Platform) -> Result<i32, JobError> {
        attend(zone, &self.log, self.report)
    }

    fn take_down(&self, mut zone: Platform) -> Vec<JobError> {
        let down = zone.take_down().err().map(JobError::from);
        let released = zone.go_home().map_err(JobError::Home);
        // If the zone runs beside the job, the network links belong to the running zone, and the
        // job does not release them.
        let is_links = |step: &PlatformStep| matches!(step, PlatformStep::Links { .. });
        let released = released.and_then(|()| match self.plan.platform.iter().any(is_links) {
            true => {
                let records = Records::of(&self.host.root);
                Ok(records.release(self.name)?)
            }
            false => Ok(()),
        });
        down.into_iter().chain(released.err()).collect()
    }
}

/// Logs the output of the program until it ends, or until the reader of the report has gone.
/// Returns its exit status, or 128 plus the number of the signal that ended it.
fn attend(platform: &Platform, log: &File, report: &File) -> Result<i32, JobError> {
    let fail = |errno: Errno| JobError::Wait(errno.into());
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
            return Err(JobError::NotWanted);
        }
        let ended = !watched[1].revents().is_empty();
        if !watched[0].revents().is_empty() {
            let more = write_down(&platform.console, log, &mut written);
            if more && !ended {
                continue;
            }
        }
        if ended {
            // Reads the rest of the output from the terminal; our own side of it is still open.
            let now = Timespec::default();
            loop {
                let mut rest = [PollFd::new(&platform.console, PollFlags::IN)];
                if !matches!(poll(&mut rest, Some(&now)), Ok(1))
                    || !write_down(&platform.console, log, &mut written)
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
    let status = status.map_err(fail)?.ok_or(JobError::NotEnded)?;
    Ok(match (status.exit_status(), status.terminating_signal()) {
        (Some(status), _) => status,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 255,
    })
}

/// Moves one piece of output from the console to the log. Returns false at the end of the output.
fn write_down(console: &OwnedFd, mut log: &File, written: &mut u64) -> bool {
    let mut piece = [0; MAX_MOVED_BYTES];
    let Ok(length) = rustix::io::read(console, &mut piece) else {
        return false;
    };
    let mut text = piece[..length].to_vec();
    // The terminal writes CR LF at the end of a line; the log keeps only LF.
    text.retain(|byte| *byte != b'\r');
    if *written < MAX_OUTPUT {
        *written += text.len() as u64;
        // A full disk of the host must not stop the job. A full disk of the zone does stop the
        // program.
        let _ = log.write_all(&text);
    }
    length > 0
}

#[cfg(test)]
mod tests;
