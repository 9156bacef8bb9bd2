//! A thread that runs commands one after the other and takes their wall time.
//!
//! Namespaces belong to threads: a tool that cannot bear this machine's cgroup
//! mounts gets a lane with a mount namespace of its own, and its commands start
//! there without another program in front of them.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{MemfdFlags, memfd_create};

/// A program with its arguments and additions to the environment.
#[derive(Debug, Clone)]
pub struct Call {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// The variables that are added to the environment.
    pub env: Vec<(&'static str, OsString)>,
}

impl Call {
    /// A program without arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }
}

/// The action of the thread before its first command.
pub type Setup = fn() -> Result<()>;

/// The thread, and the way to it.
#[derive(Debug)]
pub struct Lane {
    calls: Sender<Call>,
    times: Receiver<Result<Duration>>,
}

impl Lane {
    /// Starts it; `log` takes the commands' standard error.
    ///
    /// # Errors
    /// None yet: a setup that failed is told by the first command.
    pub fn start(setup: Option<Setup>, log: &Path) -> Result<Self> {
        let (calls, orders) = channel::<Call>();
        let (answers, times) = channel();
        let log = log.to_owned();
        std::thread::spawn(move || {
            let mut ready = setup.map_or(Ok(()), |setup| setup());
            for call in orders {
                let answer =
                    std::mem::replace(&mut ready, Ok(())).and_then(|()| timed(&call, &log));
                if answers.send(answer).is_err() {
                    return;
                }
            }
        });
        Ok(Self { calls, times })
    }

    /// Runs the command and returns its time from start to exit.
    ///
    /// # Errors
    /// When it does not end with success.
    pub fn run(&self, call: &Call) -> Result<Duration> {
        self.calls
            .send(call.clone())
            .map_err(|_| anyhow!("the lane has ended"))?;
        self.times.recv().context("the lane has ended")?
    }
}

/// An empty file in memory. crun gives its standard streams to the container's root:
/// /dev/null would belong to it from then on.
fn nothing() -> Result<Stdio> {
    let file = memfd_create("nothing", MemfdFlags::CLOEXEC).context("an empty file")?;
    Ok(file.into())
}

fn timed(call: &Call, log: &Path) -> Result<Duration> {
    let mut command = Command::new(&call.program);
    command
        .args(&call.args)
        .envs(call.env.iter().map(|(name, value)| (name, value)))
        .stdin(nothing()?)
        .stdout(nothing()?)
        .stderr(File::create(log).with_context(|| log.display().to_string())?);
    let began = Instant::now();
    let status = command
        .status()
        .with_context(|| call.program.display().to_string())?;
    let took = began.elapsed();
    if !status.success() {
        let said = std::fs::read_to_string(log).unwrap_or_default();
        bail!(
            "{} {:?}: {status}\n{said}",
            call.program.display(),
            call.args
        );
    }
    Ok(took)
}
