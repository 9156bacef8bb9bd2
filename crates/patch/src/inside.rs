//! Runs commands in a running zone with zlogin: with the zone's ids, privileges and resource
//! controls, and with no open descriptors of the host except pipes.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use host::{Error, Host};
use model::ZoneName;
use rustix::process::{Pid, Signal, kill_process};

/// Interval between checks whether a command with a timeout has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Timeout for a command to end after SIGTERM. After it, the command is killed.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a command in a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The command ended with this exit status; 128 and more means a signal.
    With(i32),
    /// The command was killed at the end of its timeout.
    TooLate,
}

/// Runs a command with the zone's /bin/sh, and appends its output to `log`.
pub(crate) fn run(
    host: &Host,
    zone: &ZoneName,
    command: &str,
    input: Option<File>,
    within: Option<Duration>,
    log: &File,
) -> Result<Ended, Error> {
    use std::os::unix::process::ExitStatusExt;
    let program = host
        .program("zlogin")
        .ok_or_else(|| Error::Refused("could not find the program zlogin.".to_owned()))?;
    let copy = || log.try_clone().map(Stdio::from);
    let fail = || format!("start {}", program.display());
    let mut zlogin = Command::new(&program);
    zlogin
        .args(["-Q", "-S", zone.as_str(), command])
        .env_clear()
        .env("ZONES_ROOT", host.root.dir())
        .env("ZONES_CGROUP", &host.cgroup)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .stdout(copy().map_err(Error::io(fail()))?)
        .stderr(copy().map_err(Error::io(fail()))?);
    let mut child = zlogin.spawn().map_err(Error::io(fail()))?;
    let ended = match within {
        None => child.wait().map(Some),
        Some(within) => wait(&mut child, within),
    };
    match ended.map_err(Error::io(fail()))? {
        None => Ok(Ended::TooLate),
        Some(status) => Ok(Ended::With(match (status.code(), status.signal()) {
            (Some(status), _) => status,
            (None, signal) => 128 + signal.unwrap_or_default(),
        })),
    }
}

fn wait(child: &mut Child, within: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let look = |child: &mut Child, end: Instant| loop {
        match child.try_wait()? {
            None if Instant::now() < end => std::thread::sleep(POLL_INTERVAL),
            other => return Ok::<_, std::io::Error>(other),
        }
    };
    if let Some(status) = look(child, Instant::now() + within)? {
        return Ok(Some(status));
    }
    // zlogin passes the signal to the command; if the command ignores it, zlogin is
    // killed.
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    if look(child, Instant::now() + TERM_TIMEOUT)?.is_none() {
        let _ = child.kill();
        child.wait()?;
    }
    Ok(None)
}

/// Returns any text as one quoted word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
