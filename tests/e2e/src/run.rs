//! Runs a program until it ends, with a timeout.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;

use crate::WAIT_TIMEOUT;

/// The lock that is held while a program is started, and by [`between_starts`].
static STARTING: Mutex<()> = Mutex::new(());

/// Calls a function while no test of this program starts a process. A child has copies of all
/// descriptors of this process until it executes its program: a file that was written and closed
/// may still be open for writing (and cannot be executed), and a file that was closed may still be
/// locked or keep a mount busy.
pub fn between_starts<T>(act: impl FnOnce() -> T) -> T {
    let _held = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    act()
}

/// Copies a program that a test then executes. The child that copies it has the only descriptor
/// that is open for writing: [`std::fs::copy`] would open one in this process, and a child that
/// another thread starts meanwhile would inherit it ("Text file busy").
///
/// # Panics
/// Fails if it cannot be copied.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let mut copy = Command::new("cp");
    copy.args(["--preserve=mode", "--remove-destination", "--"])
        .args([from.as_ref(), to.as_ref()]);
    run(&mut copy, b"").quiet();
}

/// Returns a command that runs a program in its own mount namespace. The shell script `script` sets
/// up the mounts; it gets `folder` as `$0`, and ends with `exec "$@"`.
#[must_use]
pub fn among_mounts(script: &str, folder: &Path, program: &Command) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", script])
        .arg(folder)
        .arg(program.get_program())
        .args(program.get_args())
        .env_clear();
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
}

/// Starts a program. Every test starts programs with this function, see [`between_starts`].
///
/// # Panics
/// Fails if there is no such program.
#[track_caller]
pub fn start(command: &mut Command) -> Child {
    between_starts(|| command.spawn()).unwrap_or_else(|error| panic!("{}: {error}", shown(command)))
}

/// A program that has ended.
#[derive(Clone, PartialEq, Eq)]
pub struct Ran {
    /// The command line.
    pub line: String,
    /// The text on standard output.
    pub out: String,
    /// The text on standard error.
    pub err: String,
    status: ExitStatus,
}

/// Runs a program with `input` at its standard input.
///
/// # Panics
/// Fails if the program does not end, or leaves a process that keeps its streams open.
pub fn run(command: &mut Command, input: &[u8]) -> Ran {
    run_within(WAIT_TIMEOUT, command, input)
}

/// As [`run`], with another timeout, for a program that takes long even on an idle machine.
///
/// # Panics
/// As [`run`].
pub fn run_within(limit: Duration, command: &mut Command, input: &[u8]) -> Ran {
    let line = shown(command);
    command
        .stdin(if input.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = start(command);
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.to_vec();
        // A program that does not read all of its input closes the pipe.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let out = collect(child.stdout.take());
    let err = collect(child.stderr.take());
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("a child has a pidfd");
    if !ends(&pidfd, limit) {
        let _ = child.kill();
        panic!("{line}: no end after {} s", limit.as_secs());
    }
    let status = child.wait().expect("an ended child has a status");
    let text = |stream: Receiver<Vec<u8>>, name: &str| {
        let bytes = stream
            .recv_timeout(WAIT_TIMEOUT)
            .unwrap_or_else(|_| panic!("{line}: somebody still holds its {name} after its end"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ran {
        out: text(out, "standard output"),
        err: text(err, "standard error"),
        line,
        status,
    }
}

/// Returns whether the process ends within the timeout.
pub(crate) fn ends(pidfd: &impl std::os::fd::AsFd, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).expect("a short time");
    loop {
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&limit)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => panic!("poll: {errno}"),
        }
    }
}

fn collect(stream: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

pub(crate) fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let mut line = program.rsplit('/').next().unwrap_or_default().to_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

impl Ran {
    /// Returns the exit status; `None` if a signal ended the program.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns true if SIGKILL ended the program.
    #[must_use]
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(libc::SIGKILL)
    }

    /// Expects success.
    ///
    /// # Panics
    /// Fails for any other exit status.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> Self {
        assert_eq!(self.code(), Some(0), "{self:?}");
        self
    }

    /// Expects success and an empty standard error.
    ///
    /// # Panics
    /// Fails otherwise.
    #[track_caller]
    pub fn quiet(self) {
        assert_eq!((self.code(), self.err.as_str()), (Some(0), ""), "{self:?}");
    }

    /// Expects an exit status, and exactly `err` on standard error.
    ///
    /// # Panics
    /// Fails otherwise.
    #[track_caller]
    pub fn says(self, status: i32, err: &str) {
        assert_eq!(
            (self.code(), self.err.trim_end()),
            (Some(status), err),
            "{self:?}"
        );
    }

    /// Expects an exit status, and `part` within standard error.
    ///
    /// # Panics
    /// Fails otherwise.
    #[track_caller]
    pub fn mentions(self, status: i32, part: &str) {
        assert_eq!(self.code(), Some(status), "{self:?}");
        assert!(self.err.contains(part), "expected {part:?} in {self:?}");
    }

    /// Returns standard output without its last newline.
    #[must_use]
    pub fn text(&self) -> &str {
        self.out.trim_end_matches('\n')
    }
}

impl fmt::Debug for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "$ {} -> {}", self.line, self.status)?;
        for (mark, text) in [("  ", &self.out), ("! ", &self.err)] {
            for line in text.lines() {
                write!(f, "\n{mark}{line}")?;
            }
        }
        Ok(())
    }
}
