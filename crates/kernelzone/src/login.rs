//! Runs commands in the guest of a running kernel zone, through the agent in the guest.

use std::time::{Duration, Instant};

use model::ZoneName;
use vm::agent::{Agent, Ended, Printed};

use host::unix_socket::{self, Kind};
use host::{Error, Host, flatten};

/// Timeout for a reply of the agent. An emulated guest on a busy host is slow.
const AGENT_REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum interval between two questions to the agent whether the command has ended. The interval
/// grows up to this value.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Runs a command in the guest by its shell and waits for its end. The agent sends the output of a
/// command when the command has ended, and only the first few MiB of a long output.
///
/// # Errors
/// Fails with [`Error::Daemon`] if no agent answers, or if the agent cannot start the shell.
pub fn run(
    host: &Host,
    zone: &ZoneName,
    shell: &[&str],
    input: Option<&[u8]>,
) -> Result<Ended, Error> {
    let (program, words) = shell
        .split_first()
        .ok_or_else(|| Error::Usage("no command".to_owned()))?;
    let number = with(host, zone, |agent| {
        agent.start(program, words, input, AGENT_REPLY_TIMEOUT)
    })?;
    let mut pause = Duration::from_millis(2);
    loop {
        // Each question opens a new connection to the agent, so that other users can log in
        // meanwhile.
        if let Some(ended) = with(host, zone, |agent| {
            agent.ended(number, Printed::All, AGENT_REPLY_TIMEOUT)
        })? {
            return Ok(ended);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(MAX_POLL_INTERVAL);
    }
}

/// Returns true if the guest's agent answers within `limit`.
#[must_use]
pub fn answers(host: &Host, zone: &ZoneName, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    let Ok(socket) = unix_socket::connect_to(&host.root.machine(zone, "agent"), Kind::Stream)
    else {
        return false;
    };
    Agent::begin(socket, end.saturating_duration_since(Instant::now())).is_ok()
}

/// Timeout for a short script of ours in the guest.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs a short shell script of ours in the guest, and waits until it has ended.
///
/// # Errors
/// Fails with [`Error::Daemon`] if no agent answers, if the script fails, or after the timeout.
pub fn run_script(host: &Host, zone: &ZoneName, script: &str) -> Result<(), Error> {
    let shell = ["-c", script];
    let number = with(host, zone, |agent| {
        agent.start("/bin/sh", &shell, None, AGENT_REPLY_TIMEOUT)
    })?;
    let end = Instant::now() + SCRIPT_TIMEOUT;
    while Instant::now() < end {
        let ended = with(host, zone, |agent| {
            agent.ended(number, Printed::Little, AGENT_REPLY_TIMEOUT)
        })?;
        match ended.map(|ended| ended.status) {
            Some(0) => return Ok(()),
            Some(status) => {
                return Err(Error::Daemon(format!(
                    "a command in the guest ended with status {status}"
                )));
            }
            None => std::thread::sleep(MAX_POLL_INTERVAL),
        }
    }
    Err(Error::Daemon(format!(
        "a command in the guest did not end within {} s",
        SCRIPT_TIMEOUT.as_secs()
    )))
}

fn with<T>(
    host: &Host,
    zone: &ZoneName,
    ask: impl FnOnce(&mut Agent) -> Result<T, vm::Error>,
) -> Result<T, Error> {
    let fail = |why: String| {
        Error::Daemon(format!(
            "{why}; the zone needs qemu-guest-agent for commands: use zlogin -C {zone}, its console"
        ))
    };
    let socket = unix_socket::connect_to(&host.root.machine(zone, "agent"), Kind::Stream)
        .map_err(|error| fail(format!("could not reach the zone's agent: {error}")))?;
    let mut agent =
        Agent::begin(socket, AGENT_REPLY_TIMEOUT).map_err(|error| fail(flatten(&error)))?;
    ask(&mut agent).map_err(|error| Error::Daemon(flatten(&error)))
}
