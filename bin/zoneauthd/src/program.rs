//! Starts a program for a user without inheriting anything from the user.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::process::{Child, Command, ExitCode};

use authority::{Request, Task, UID_VARIABLE, USER_VARIABLE};
use host::Host;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sys::process::{Executable, Program};

use crate::BECOME;
use crate::users::User;

/// Exit status of a program that could not be started.
const NOT_RUN: u8 = 127;

/// The PATH of the started programs, in which they look for other programs.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts the program of a task. The child first executes zoneauthd itself, becomes the leader of a
/// session, and then executes the program. A process with threads must not do this work between
/// fork and exec.
pub fn start(
    host: &Host,
    user: &User,
    request: &Request,
    task: &Task,
    streams: [std::process::Stdio; 3],
) -> io::Result<Child> {
    let name = task.program().as_str();
    let path = host
        .program(name)
        .ok_or_else(|| io::Error::other(format!("the program {name} is not installed")))?;
    let [input, output, errors] = streams;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(BECOME)
        .arg(path)
        .args(task.words())
        .env_clear()
        .env("PATH", PATH)
        .env(cli::ROOT_VARIABLE, host.root.dir())
        .env(cli::CGROUP_VARIABLE, &host.cgroup)
        .env(UID_VARIABLE, user.uid.to_string())
        .env(USER_VARIABLE, &user.name)
        .current_dir("/")
        .stdin(input)
        .stdout(output)
        .stderr(errors);
    for (variable, value) in [("TERM", &request.term), ("LANG", &request.lang)] {
        if !value.is_empty() {
            command.env(variable, value);
        }
    }
    command.spawn()
}

/// Runs in the new process: executes the program that the words name.
pub fn become_it(words: impl Iterator<Item = OsString>) -> ExitCode {
    let text = |word: OsString| CString::new(word.into_vec());
    let variable = |(name, value): (OsString, OsString)| {
        let mut text = name.into_vec();
        text.push(b'=');
        text.extend(value.into_vec());
        CString::new(text)
    };
    let program = || -> io::Result<Program> {
        let arguments = words.map(text).collect::<Result<Vec<_>, _>>()?;
        let path = arguments.first().cloned();
        Ok(Program {
            executable: Executable::Path(path.ok_or(io::ErrorKind::InvalidInput)?),
            arguments,
            environment: std::env::vars_os()
                .map(variable)
                .collect::<Result<_, _>>()?,
        })
    };
    let error = match program().and_then(|program| settle().map(|()| program)) {
        Ok(program) => program.exec(),
        Err(error) => error,
    };
    eprintln!("zoneauthd: could not start the program: {error}");
    ExitCode::from(NOT_RUN)
}

/// Resets the service's own settings: its signals, session, keyring, groups and mask.
fn settle() -> io::Result<()> {
    sys::signals::reset_all();
    rustix::process::setsid()?;
    // If the host forbids keyrings, the program inherits no keyring.
    let _ = sys::keyring::leave_session();
    rustix::thread::set_thread_groups(&[])?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // A user may send SIGQUIT; a core dump of a root process must not be written to a
    // disk.
    let core = Rlimit {
        current: Some(0),
        maximum: getrlimit(Resource::Core).maximum,
    };
    setrlimit(Resource::Core, core)?;
    if rustix::termios::isatty(rustix::stdio::stdin()) {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    Ok(())
}
