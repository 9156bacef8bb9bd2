//! Runs programs on a copy of a zone's root, in the environment of the running zone: with its ids,
//! privileges, resource controls, inherited folders and network. If the zone runs, its job has a
//! separate control group with the same limits, and uses the zone's network.
//!
//! A separate zoneadmd makes this environment. If the command that started the job ends for any
//! reason, this zoneadmd and all processes of the job end too. So no process continues to write to
//! the copy.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use limits::{Base, ZoneCgroups};
use model::immutable::Access;
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

/// Prefix of the name of the control group of a zone's job. A zone name cannot begin with this
/// prefix.
pub(crate) const GROUP: &str = ".job-";

/// Maximum number of bytes of a report of zoneadmd.
const MAX_REPORT: u64 = 64 << 10;

/// A program, and the root on which it works.
#[derive(Debug)]
pub struct Job<'a> {
    /// The copy of the root. If it is volatile, its files need not be on stable storage after the
    /// job.
    pub stack: Stack,
    /// The script for the /bin/sh of the zone, of at most about 10,000 characters.
    pub script: &'a str,
    /// The arguments of the script: `$1` and so on.
    pub words: &'a [String],
    /// A folder of the host and the path in the zone at which it is mounted read-only.
    pub shown: Option<(PathBuf, PathBuf)>,
    /// The file that receives the output of the script.
    pub log: &'a File,
    /// The conditions under which the job is ended early.
    pub bounds: Bounds<'a>,
}

/// The conditions under which a job is ended before it ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds<'a> {
    /// Maximum duration of the job.
    pub within: Option<Duration>,
    /// The name of the option that sets the maximum duration, for the message.
    pub option: Option<&'a str>,
    /// A flag that is set when the user cancels the job.
    pub cancelled: Option<&'a AtomicBool>,
}

impl Bounds<'_> {
    /// Returns true if the job was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
            .is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Interval between two checks whether a job was cancelled.
const CANCEL_LOOK: Duration = Duration::from_millis(200);

/// Runs a job for a zone whose lock is held, and returns the exit status of the script. If the zone
/// is active, the job uses the zone's network and gets no links of its own.
///
/// # Errors
/// Fails with [`Error::Daemon`] if the job could not run, and with [`Error::Refused`] if its bounds
/// ended it.
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
        // When the report has no reader, zoneadmd ends the job and takes its platform down.
        drop(report);
        host::undo::reap(&child, platform::KILL_TIMEOUT);
        return Err(why);
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut report)
        .take(MAX_REPORT)
        .read_to_string(&mut text);
    // zoneadmd has closed the pipe, so it has ended or is about to end.
    host::undo::reap(&child, platform::KILL_TIMEOUT);
    read.map_err(Error::io("read the report of zoneadmd"))?;
    match text.strip_prefix("ok ").map(str::parse) {
        Some(Ok(status)) => Ok(status),
        _ if text.is_empty() => Err(Error::Daemon("zoneadmd went away".to_owned())),
        _ => Err(Error::Daemon(text)),
    }
}

/// Waits for the report of a job, at most as long as its bounds allow.
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
    // A zone that is detached, and is about to be attached, also counts as halted.
    let halted = !subject.state.is_active();
    let mut config = subject.config(host)?;
    // A running zone has its network links, so the job makes no links.
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
        // A job updates packages, so it writes to the whole root.
        access: Access::Writable,
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
    // During a job no zoneadmd of the zone answers the zone's requests about its boot environments.
    let asks = |step: &InsideStep| matches!(step, InsideStep::Environments { .. });
    plan.inside.retain(|step| !asks(step));
    Ok(plan)
}

/// Returns the steps of a boot, changed for a job. If the zone runs, the job has a separate control
/// group and joins the network of the zone's first process `beside`. The folder `shown` of the job
/// is mounted too.
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
            // The control groups of the running zone are in use, so the job gets its own.
            PlatformStep::Cgroups { paths, .. } if !halted => paths.iter_mut().for_each(|path| {
                let name = format!("{GROUP}{}", subject.entry.name);
                path.set_file_name(name);
            }),
            // The dedicated CPUs and the pool belong to the running zone itself, so the job does
            // not claim them again.
            PlatformStep::Controls { controls } if !halted => {
                controls.dedicated_cpu = None;
                controls.pool = None;
            }
            // No process would keep the limit files of a job up to date, so the job has none.
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

/// Returns the path for the copy of a zone's root: beside the zonepath, or in the zonepath if the
/// zonepath is a separate file system. Layers cannot be shared between file systems.
///
/// # Errors
/// Fails if the metadata of the zonepath or its parent cannot be read.
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

/// Removes the copy of a zone's root. A missing copy is no error.
///
/// # Errors
/// Fails if a file of the copy cannot be removed.
pub fn remove_copy(place: &Path) -> Result<(), Error> {
    Dataset::destroy(place)?;
    let _ = fs::remove_dir(place);
    Ok(())
}

/// Opens the log of jobs, which only root of the host can read, to append to it. Makes the file if
/// it is missing.
///
/// # Errors
/// Fails if the log cannot be opened for writing.
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

/// Removes the leftovers of a killed job. The caller must hold the zone's lock.
///
/// # Errors
/// Fails if a leftover cannot be removed.
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

/// Waits until no process or mount of a halted zone remains that could still write to its root.
///
/// # Errors
/// Fails as [`subject::settle`] does.
pub fn settle(host: &Host, subject: &Subject) -> Result<(), Error> {
    crate::settle::settle(host, &subject.entry.name)
}

/// Calls `look` with a path under which the whole root of a zone is mounted read-only, as the zone
/// sees it. The path is valid only in this thread and during the call.
///
/// # Errors
/// Fails if the root cannot be assembled, or with the error of `look`.
pub fn look<T: Send>(
    host: &Host,
    config: &Config,
    stack: &Stack,
    look: impl FnOnce(&Path) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    with_view(host, stack, &inherited(config)?, look)
}

/// Like [`look`], but without the host's folders that the zone inherits.
///
/// # Errors
/// Fails if the root cannot be assembled, or with the error of `look`.
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

/// Calls `work` in a separate mount namespace. The namespace ends with the call and with the
/// processes that `work` started in it.
///
/// # Errors
/// Fails if the namespace cannot be made, or with the error of `work`.
pub fn aside<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    root_view::aside(work)
}

/// Returns the host's folders that a zone inherits as part of its root.
///
/// # Errors
/// Fails if the metadata of the host's folders cannot be read.
pub fn inherited(config: &Config) -> Result<Vec<PathBuf>, Error> {
    let layout = brand::sparse::of(config, Path::new("/"))
        .map_err(Error::io("look at the host's directories"))?;
    Ok(layout.map(|layout| layout.dirs).unwrap_or_default())
}

/// Returns true if a zone inherits folders of the host.
///
/// # Errors
/// Fails if the metadata of the host's folders cannot be read.
pub fn is_sparse(config: &Config) -> Result<bool, Error> {
    Ok(!inherited(config)?.is_empty())
}
