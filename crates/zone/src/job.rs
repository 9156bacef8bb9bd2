//! Programs that work on a copy of a zone's root, in the surroundings that the zone has
//! when it runs: its ids, its privileges, its resource controls, its inherited folders
//! and its network. Beside a zone that runs a job has a control group of its own, with
//! the same limits, and uses the network that the zone has.
//!
//! A zoneadmd of its own makes them and ends with the command that asked for the job, and
//! with it all of the job's processes: whatever kills that command, nobody goes on
//! writing into the copy.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use limits::{Base, ZoneCgroups};
use model::plan::{BootPlan, InsideStep, PlatformStep};
use model::{Config, State, Verb, ZoneName};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use storage::{Dataset, Stack};
use store::runtime::{self, Process};

use crate::boot::{self, BootOptions, Linked};
use crate::root_view;
use host::{Error, Host, spawn};
use kernelzone::disks::Added;
use platform::kind;
use subject::Subject;
use subject::network::Records;

/// The prefix of the name of the control group of a zone's job. No zone has such a name.
pub(crate) const GROUP: &str = ".job-";

/// Longest report, in bytes.
const MAX_REPORT: u64 = 64 << 10;

/// A program and its subject.
#[derive(Debug)]
pub struct Job<'a> {
    /// The copy. When it is volatile nothing of it is on disk afterwards for certain.
    pub stack: Stack,
    /// The script for the zone's /bin/sh; at most some 10,000 characters.
    pub script: &'a str,
    /// Words for the script, `$1` and so on.
    pub words: &'a [String],
    /// A folder of the host, shown read-only at a place in the zone.
    pub shown: Option<(PathBuf, PathBuf)>,
    /// The file for its output.
    pub log: &'a File,
    /// When it is ended.
    pub bounds: Bounds<'a>,
}

/// When a job is ended that has not ended by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds<'a> {
    /// Time that it may take.
    pub within: Option<Duration>,
    /// The option that sets this time, for the message.
    pub option: Option<&'a str>,
    /// Set when the job is cancelled.
    pub cancelled: Option<&'a AtomicBool>,
}

impl Bounds<'_> {
    /// Returns true when the job is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// The time between two looks at whether a job is cancelled.
const CANCEL_LOOK: Duration = Duration::from_millis(200);

/// Runs a job for a zone whose lock is held, and returns the script's exit status. A
/// zone that is up keeps its links to itself.
///
/// # Errors
/// [`Error::Daemon`] when it could not be run at all; [`Error::Refused`] when it was ended
/// by its bounds.
pub fn run(host: &Host, subject: &Subject, job: &Job<'_>) -> Result<i32, Error> {
    let zone = &subject.entry.name;
    let plan = plan(host, subject, job)?;
    let (mut report, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map(|(ours, theirs)| (File::from(ours), theirs))
        .map_err(|errno| Error::Io("make a pipe".to_owned(), errno.into()))?;
    let plan = boot::as_file(&plan).map_err(Error::io("hand the plan to zoneadmd"))?;
    let pass = [
        plan.as_fd(),
        theirs.as_fd(),
        subject.lock().as_fd(),
        job.log.as_fd(),
    ];
    let child = spawn::zoneadmd(host, zone, &["--job"], &pass)?;
    drop(theirs);
    if let Err(why) = wait(&report, &job.bounds) {
        // When its reader is gone, zoneadmd ends the job and tears down its platform.
        drop(report);
        host::undo::reap(&child, platform::KILL_TIMEOUT);
        return Err(why);
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut report)
        .take(MAX_REPORT)
        .read_to_string(&mut text);
    // Ended or about to: it has closed the pipe.
    host::undo::reap(&child, platform::KILL_TIMEOUT);
    read.map_err(Error::io("read the report of zoneadmd"))?;
    match text.strip_prefix("ok ").map(str::parse) {
        Some(Ok(status)) => Ok(status),
        _ if text.is_empty() => Err(Error::Daemon("zoneadmd went away".to_owned())),
        _ => Err(Error::Daemon(text)),
    }
}

/// Waits for the report of a job, at most as long as its bounds say.
fn wait(report: &File, bounds: &Bounds<'_>) -> Result<(), Error> {
    let end = bounds
        .within
        .map(|within| (Instant::now() + within, within));
    loop {
        if bounds.is_cancelled() {
            return Err(Error::Refused("was cancelled.".to_owned()));
        }
        let mut wait = bounds.cancelled.map(|_| CANCEL_LOOK);
        if let Some((end, within)) = end {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let option = bounds.option.map(|option| format!(" (see {option})"));
                return Err(Error::Refused(format!(
                    "its package manager had not ended after {} s{}.",
                    within.as_secs(),
                    option.unwrap_or_default()
                )));
            }
            wait = Some(wait.map_or(left, |wait| wait.min(left)));
        }
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        match poll(&mut [PollFd::new(report, PollFlags::IN)], wait.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(Error::Io("wait for zoneadmd".to_owned(), errno.into())),
        }
    }
}

fn plan(host: &Host, subject: &Subject, job: &Job<'_>) -> Result<BootPlan, Error> {
    // Or detached, and to be attached.
    let halted = !subject.state.is_active();
    let mut config = subject.config(host)?;
    // A zone that is up has its links; the job makes no network of its own.
    let beside = match (halted, &subject.runtime) {
        (false, Some(runtime)) => {
            config
                .set("ip-type", "shared")
                .map_err(|error| Error::Refused(error.to_string()))?;
            Some(runtime.init)
        }
        _ => None,
    };
    let options = BootOptions {
        discard: false,
        eager: false,
        init: Some("/bin/sh".to_owned()),
        arguments: ["-c", job.script, "sh"]
            .into_iter()
            .map(str::to_owned)
            .chain(job.words.iter().cloned())
            .collect(),
        environment: None,
        given: true,
        reboots: 0,
    };
    let facts = kind::of(&config).boot_facts(host, subject, &config, Added::Refused)?;
    let linked = if halted { Linked::Yes } else { Linked::No };
    let mut plan = boot::plan_on(
        host,
        subject,
        &config,
        &job.stack,
        &facts,
        Verb::Boot,
        &options,
        linked,
    )?;
    plan.init.bound = true;
    plan.id = runtime::next_id(&host.root)?;
    plan.platform = platform_steps(plan.platform, subject, job, beside);
    // No daemon of the zone answers questions about its environments during a job.
    let asks = |step: &InsideStep| matches!(step, InsideStep::Environments { .. });
    plan.inside.retain(|step| !asks(step));
    Ok(plan)
}

/// Returns the steps of a boot as a job needs them: in a control group of its own beside those of a
/// zone that is up, in the network of its first process `beside`, and with the folder of the job.
fn platform_steps(
    boot: Vec<PlatformStep>,
    subject: &Subject,
    job: &Job<'_>,
    beside: Option<Process>,
) -> Vec<PlatformStep> {
    let halted = !subject.state.is_active();
    let mut steps = Vec::with_capacity(boot.len() + 1);
    for mut step in boot {
        let mut after = None;
        match &mut step {
            // Those of the zone itself are in use.
            PlatformStep::Cgroups { paths, .. } if !halted => paths.iter_mut().for_each(|path| {
                let name = format!("{GROUP}{}", subject.entry.name);
                path.set_file_name(name);
            }),
            // Those CPUs are taken, by the zone itself.
            PlatformStep::Controls { controls } if !halted => {
                controls.dedicated_cpu = None;
                controls.pool = None;
            }
            // No process would keep the files of a job true.
            PlatformStep::LimitFiles { .. } => continue,
            PlatformStep::Network { .. } => {
                if let Some(init) = beside {
                    step = PlatformStep::JoinNetwork {
                        pid: init.pid,
                        started: init.started,
                    };
                }
            }
            PlatformStep::Root { .. } => {
                after = job
                    .shown
                    .as_ref()
                    .map(|(source, target)| PlatformStep::Bind {
                        source: source.clone(),
                        target: target.clone(),
                        read_only: true,
                        set_id: false,
                        held: None,
                    });
            }
            _ => {}
        }
        steps.push(step);
        steps.extend(after);
    }
    steps
}

/// Returns the path of the copy of a zone: beside it, or in it where it is a file system of its
/// own, as layers cannot leave one.
///
/// # Errors
/// When the zonepath cannot be looked at.
pub fn place_beside(zonepath: &Path, name: &str) -> Result<PathBuf, Error> {
    let device = |path: &Path| {
        fs::metadata(path)
            .map(|meta| meta.dev())
            .map_err(Error::io(format!("look at {}", path.display())))
    };
    let parent = zonepath.parent().unwrap_or(zonepath);
    Ok(match device(parent)? == device(zonepath)? {
        true => parent.join(name),
        false => zonepath.join(name),
    })
}

/// Removes a copy; one that is not there is fine.
///
/// # Errors
/// When something of it cannot be removed.
pub fn remove_copy(place: &Path) -> Result<(), Error> {
    Dataset::destroy(place)?;
    let _ = fs::remove_dir(place);
    Ok(())
}

/// Opens the log of jobs, for the host's root alone. Makes it if it is missing, and appends to it.
///
/// # Errors
/// When it cannot be written.
pub fn open_log(path: &Path) -> Result<File, Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Error::io(format!("make {}", folder.display())))?;
    }
    File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(Error::io(format!("write {}", path.display())))
}

/// Removes the leftovers of a killed job. The zone's lock is held.
///
/// # Errors
/// When something cannot be removed.
pub fn clear(host: &Host, zone: &ZoneName, state: State) -> Result<(), Error> {
    let own = ZoneCgroups::of(&Base::find(&host.cgroup)?, zone);
    let mut paths = own.paths();
    for path in &mut paths {
        path.set_file_name(format!("{GROUP}{zone}"));
    }
    if let Some(groups) = ZoneCgroups::from_paths(&paths) {
        subject::clear(&groups)?;
    }
    if state.is_active() {
        return Ok(());
    }
    subject::clear(&own)?;
    Ok(Records::of(&host.root).release(zone)?)
}

/// Waits until nothing of a halted zone is left that could still write into its root.
///
/// # Errors
/// See [`subject::settle`].
pub fn settle(host: &Host, subject: &Subject) -> Result<(), Error> {
    subject::settle(host, &subject.entry.name)
}

/// Calls `look` with a path under which the whole of a root is seen, read-only and as the
/// zone sees it, while it is called; by no other thread.
///
/// # Errors
/// When the root cannot be assembled, and what `look` returns.
pub fn look<T: Send>(
    host: &Host,
    config: &Config,
    stack: &Stack,
    look: impl FnOnce(&Path) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    with_view(host, stack, &inherited(config)?, look)
}

/// [`look`] without directories of the host.
///
/// # Errors
/// When the root cannot be assembled, and what `look` returns.
pub fn look_at_own<T: Send>(
    host: &Host,
    stack: &Stack,
    look: impl FnOnce(&Path) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    with_view(host, stack, &[], look)
}

fn with_view<T: Send>(
    host: &Host,
    stack: &Stack,
    inherited: &[PathBuf],
    look: impl FnOnce(&Path) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let scratch = host.root.run().join("mnt");
    fs::create_dir_all(&scratch).map_err(Error::io(format!("make {}", scratch.display())))?;
    root_view::with_view(stack, inherited, &scratch, |root| {
        look(Path::new(&format!("/proc/self/fd/{}", root.as_raw_fd())))
    })
}

/// Works in a mount namespace of its own, which ends with the call and with the processes that were
/// started in it, however these end.
///
/// # Errors
/// When there can be none, and what `work` returns.
pub fn aside<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    root_view::aside(work)
}

/// The folders of the host that are part of a zone's root.
///
/// # Errors
/// When the host's folders cannot be looked at.
pub fn inherited(config: &Config) -> Result<Vec<PathBuf>, Error> {
    let layout = brand::sparse::of(config, Path::new("/"))
        .map_err(Error::io("look at the host's directories"))?;
    Ok(layout.map(|layout| layout.dirs).unwrap_or_default())
}

/// Returns whether folders of the host are part of a zone's root.
///
/// # Errors
/// When the host's folders cannot be looked at.
pub fn is_sparse(config: &Config) -> Result<bool, Error> {
    Ok(!inherited(config)?.is_empty())
}
