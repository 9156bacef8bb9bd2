//! Saves the state of a guest's devices from a stopped QEMU, and loads it into a waiting QEMU. The
//! state does not contain the guest's memory: the memory is a file that other code saves.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::qmp::Monitor;

/// Timeout of a QEMU command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for writing or reading the state of devices: a disk may write out its cache slowly.
const DEVICE_STATE_TIMEOUT: Duration = Duration::from_secs(120);

/// Interval between checks of the progress, which takes some milliseconds. QEMU sends an event for
/// it only with a capability that some releases lack.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The name under which QEMU knows the descriptor of the state file.
const NAME: &str = "state";

/// Stops a guest and writes the state of its devices to a file. QEMU then writes out the guest's
/// disks and releases them. The guest stays stopped, even after an error; [`go_on`] resumes it.
///
/// # Errors
/// Fails with [`Error::Refused`] and the error of QEMU.
pub fn save(monitor: &mut Monitor, file: BorrowedFd<'_>) -> Result<(), Error> {
    // The command `stop` waits for pending disk writes, so it has the longer timeout.
    monitor.execute("stop", None, DEVICE_STATE_TIMEOUT)?;
    monitor.execute(
        "migrate-set-parameters",
        Some(json!({ "max-bandwidth": 1_u64 << 40 })),
        COMMAND_TIMEOUT,
    )?;
    // The memory is a shared file, so QEMU does not write it to the state file.
    set_capabilities(monitor, &["x-ignore-shared"])?;
    lend(monitor, file)?;
    monitor.execute("migrate", Some(uri()), COMMAND_TIMEOUT)?;
    wait(monitor)
}

/// Loads the state of the devices into a waiting QEMU, from the current position of the file. The
/// guest is then stopped at the point where it was saved.
///
/// # Errors
/// Fails as [`save`] does; QEMU may have ended.
pub fn load(monitor: &mut Monitor, file: BorrowedFd<'_>) -> Result<(), Error> {
    // Only this capability is sent, because a new QEMU has no earlier settings, and QEMU reads its
    // monitor one byte at a time, which makes long commands slow.
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

/// Lets a stopped guest run; QEMU opens the guest's disks again.
///
/// # Errors
/// Fails as [`save`] does.
pub fn go_on(monitor: &mut Monitor) -> Result<(), Error> {
    give_up(monitor)?;
    monitor
        .execute("cont", None, DEVICE_STATE_TIMEOUT)
        .map(drop)
}

/// Cancels the writing of a state that is no longer needed: otherwise QEMU would stop the guest
/// again when the writing is complete.
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

/// The activity of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The guest runs, or has ended by itself.
    Runs,
    /// The guest is stopped, and can be resumed.
    Stopped,
    /// QEMU waits for the state of another QEMU.
    Waits,
}

/// Returns the guest's activity.
///
/// # Errors
/// Fails as [`save`] does.
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

/// The capabilities of QEMU's migration that zoneadmd sets.
const CAPABILITIES: [&str; 4] = [
    "x-ignore-shared",
    "pause-before-switchover",
    "auto-converge",
    "late-block-activate",
];

/// Turns on the capabilities in `wanted` and turns off the other known ones, so that no setting of
/// an earlier migration stays.
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

/// Passes the descriptor of the state file to QEMU.
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
