//! The state of a machine's devices: out of a QEMU that is stopped, and into another
//! that waits for it. The memory is not in it: that is a file, which others keep.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::qmp::Monitor;

/// Timeout of a command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for writing or reading the state of devices: a disk may be slow in writing out its
/// cache.
const DEVICE_STATE_TIMEOUT: Duration = Duration::from_secs(120);

/// Interval between looks at the progress. There is an event for it only where a capability is set
/// that not every release has; it takes some milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The name by which QEMU knows our descriptor.
const NAME: &str = "state";

/// Stops a machine and writes the state of its devices to a file. Its disks are written
/// out and let go of then. The machine stays stopped, also after an error: [`go_on`].
///
/// # Errors
/// [`Error::Refused`] with the error of QEMU.
pub fn save(monitor: &mut Monitor, file: BorrowedFd<'_>) -> Result<(), Error> {
    // It waits for the disks.
    monitor.execute("stop", None, DEVICE_STATE_TIMEOUT)?;
    monitor.execute(
        "migrate-set-parameters",
        Some(json!({ "max-bandwidth": 1_u64 << 40 })),
        COMMAND_TIMEOUT,
    )?;
    // The memory is a file that is shared: it stays where it is.
    set_capabilities(monitor, &["x-ignore-shared"])?;
    lend(monitor, file)?;
    monitor.execute("migrate", Some(uri()), COMMAND_TIMEOUT)?;
    wait(monitor)
}

/// Gives a machine that was started to wait the state of its devices, from a file that is
/// read from where it stands. It then is stopped where the other was.
///
/// # Errors
/// As [`save`]; QEMU may have ended.
pub fn load(monitor: &mut Monitor, file: BorrowedFd<'_>) -> Result<(), Error> {
    // Nothing was set before; and QEMU reads its monitor one byte after the other.
    let shared = json!({ "capability": "x-ignore-shared", "state": true });
    monitor.execute(
        "migrate-set-capabilities",
        Some(json!({ "capabilities": [shared] })),
        COMMAND_TIMEOUT,
    )?;
    lend(monitor, file)?;
    monitor.execute("migrate-incoming", Some(uri()), COMMAND_TIMEOUT)?;
    wait(monitor)
}

/// Lets a stopped machine run; it takes its disks again.
///
/// # Errors
/// As [`save`].
pub fn go_on(monitor: &mut Monitor) -> Result<(), Error> {
    give_up(monitor)?;
    monitor
        .execute("cont", None, DEVICE_STATE_TIMEOUT)
        .map(drop)
}

/// Ends the writing of a state that is no longer needed: at its end it would stop the machine
/// again.
fn give_up(monitor: &mut Monitor) -> Result<(), Error> {
    let end = Instant::now() + DEVICE_STATE_TIMEOUT;
    let mut asked = false;
    while Instant::now() < end {
        let said = monitor.execute("query-migrate", None, COMMAND_TIMEOUT)?;
        match said["status"].as_str() {
            None | Some("none" | "completed" | "failed" | "cancelled") => return Ok(()),
            Some(_) if !asked => {
                monitor.execute("migrate_cancel", None, COMMAND_TIMEOUT)?;
                asked = true;
            }
            Some(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
    Err(Error::Late {
        what: "the state of the machine",
        seconds: DEVICE_STATE_TIMEOUT.as_secs(),
    })
}

/// The activity of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It runs, or has ended by itself.
    Runs,
    /// It was stopped, and can go on.
    Stopped,
    /// It waits for the state of another.
    Waits,
}

/// Returns the machine's activity.
///
/// # Errors
/// As [`save`].
pub fn activity(monitor: &mut Monitor) -> Result<Activity, Error> {
    match now(monitor)? {
        Activity::Waits => Ok(Activity::Waits),
        _ => {
            give_up(monitor)?;
            now(monitor)
        }
    }
}

fn now(monitor: &mut Monitor) -> Result<Activity, Error> {
    let status = monitor.execute("query-status", None, COMMAND_TIMEOUT)?;
    Ok(match status["status"].as_str() {
        Some("paused" | "postmigrate" | "finish-migrate") => Activity::Stopped,
        Some("inmigrate" | "prelaunch") => Activity::Waits,
        _ => Activity::Runs,
    })
}

/// Capabilities of QEMU's migration that we know.
const CAPABILITIES: [&str; 3] = [
    "x-ignore-shared",
    "pause-before-switchover",
    "auto-converge",
];

/// Sets these, and no others of ours: settings of an earlier migration do not stay.
pub(crate) fn set_capabilities(monitor: &mut Monitor, wanted: &[&str]) -> Result<(), Error> {
    let all: Vec<Value> = CAPABILITIES
        .iter()
        .map(|name| json!({ "capability": name, "state": wanted.contains(name) }))
        .collect();
    let all = json!({ "capabilities": all });
    monitor
        .execute("migrate-set-capabilities", Some(all), COMMAND_TIMEOUT)
        .map(drop)
}

/// Hands the file over.
fn lend(monitor: &mut Monitor, file: BorrowedFd<'_>) -> Result<(), Error> {
    let name = json!({ "fdname": NAME });
    monitor
        .execute_with("getfd", Some(name), file, COMMAND_TIMEOUT)
        .map(drop)
}

fn uri() -> Value {
    json!({ "uri": format!("fd:{NAME}") })
}

fn wait(monitor: &mut Monitor) -> Result<(), Error> {
    let end = Instant::now() + DEVICE_STATE_TIMEOUT;
    loop {
        let said = monitor.execute("query-migrate", None, COMMAND_TIMEOUT)?;
        match said["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed" | "cancelled") => {
                let why = said["error-desc"].as_str().unwrap_or("it failed");
                return Err(Error::Refused {
                    command: "migrate".to_owned(),
                    why: crate::qmp::printable(why),
                });
            }
            _ if Instant::now() > end => {
                return Err(Error::Late {
                    what: "the state of the machine",
                    seconds: DEVICE_STATE_TIMEOUT.as_secs(),
                });
            }
            _ => std::thread::sleep(POLL_INTERVAL),
        }
    }
}
