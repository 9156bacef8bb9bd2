//! A machine that goes from one QEMU to another while it runs.
//!
//! Its disks are mirrored to those of the other over connections of QEMU's block protocol (NBD),
//! its memory goes as QEMU's own stream; the moving process carries both over sockets. When little
//! of the memory is left the machine stands still, and QEMU waits (`pre-switchover`) until the last
//! blocks of the disks are there. The other one waits stopped (`-S`) until it is told to run.
//!
//! | here | there |
//! |---|---|
//! | | [`offer`] |
//! | [`mirror`] each disk, until [`mirrors`] says that all are the same | |
//! | [`send_memory`], until [`sending`] says that it stands still | |
//! | [`end_mirrors`] | [`close_disks`] |
//! | [`complete`] | [`wait_for_memory`] |
//! | | [`run`] |
//!
//! Before `run`, [`undo`] lets it go on here.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::migrate;
use crate::qmp::{Monitor, printable};

/// Timeout of a command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the last blocks, or the state of devices, while the machine stands still.
const STOPPED_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between looks at the progress while the machine stands still.
const STOPPED_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Prefixes of the names of our mirror jobs and of their targets in QEMU.
const JOB: &str = "mirror-";
const FAR: &str = "far-";

/// The name by which QEMU knows the descriptor of the memory's stream.
const MEMORY: &str = "memory";

/// The progress of the mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirrors {
    /// All disks are equal there, except for writes of this moment.
    pub same: bool,
    /// Bytes that were sent.
    pub done: u64,
    /// Bytes that were to be sent up to now.
    pub total: u64,
}

/// The progress of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The machine runs.
    Runs {
        /// Bytes that are left of this round.
        left: u64,
        /// Bytes that were sent.
        sent: u64,
        /// The number of rounds in which changed pages were sent.
        rounds: u64,
    },
    /// The machine stands still, and QEMU waits for [`complete`].
    Stands,
    /// All is sent.
    Sent,
}

/// Begins to mirror a disk to the far end of a connection; With `whole`, its base files are sent
/// too.
///
/// # Errors
/// [`Error::Refused`] with the error of QEMU.
pub fn mirror(
    monitor: &mut Monitor,
    disk: &str,
    far: BorrowedFd<'_>,
    whole: bool,
) -> Result<(), Error> {
    let node = format!("{FAR}{disk}");
    monitor.execute_with(
        "getfd",
        Some(json!({ "fdname": node })),
        far,
        COMMAND_TIMEOUT,
    )?;
    let add = json!({
        "driver": "nbd",
        "node-name": node,
        "server": { "type": "fd", "str": node },
        "export": disk,
        // Zeros become holes there.
        "discard": "unmap",
    });
    monitor.execute("blockdev-add", Some(add), COMMAND_TIMEOUT)?;
    let start = json!({
        "job-id": format!("{JOB}{disk}"),
        "device": disk,
        "target": node,
        "sync": if whole { "full" } else { "top" },
        // It stays when it has ended: its error would be lost otherwise.
        "auto-dismiss": false,
    });
    monitor
        .execute("blockdev-mirror", Some(start), COMMAND_TIMEOUT)
        .map(drop)
}

/// A job of ours, as QEMU reports it.
struct Job {
    id: String,
    status: String,
    done: u64,
    total: u64,
    error: Option<String>,
}

fn jobs(monitor: &mut Monitor) -> Result<Vec<Job>, Error> {
    let said = monitor.execute("query-jobs", None, COMMAND_TIMEOUT)?;
    let all = said.as_array().map(Vec::as_slice).unwrap_or_default();
    let ours = all.iter().filter_map(|job| {
        let id = job["id"].as_str()?;
        id.starts_with(JOB).then(|| Job {
            id: id.to_owned(),
            status: job["status"].as_str().unwrap_or_default().to_owned(),
            done: job["current-progress"].as_u64().unwrap_or(0),
            total: job["total-progress"].as_u64().unwrap_or(0),
            error: job["error"].as_str().map(printable),
        })
    });
    Ok(ours.collect())
}

/// Returns the progress of the mirrors of so many disks.
///
/// # Errors
/// [`Error::Refused`] when one has failed.
pub fn mirrors(monitor: &mut Monitor, disks: usize) -> Result<Mirrors, Error> {
    far_enough(&jobs(monitor)?, disks)
}

fn far_enough(jobs: &[Job], disks: usize) -> Result<Mirrors, Error> {
    let ended = |job: &&Job| matches!(job.status.as_str(), "concluded" | "aborting" | "null");
    if let Some(job) = jobs.iter().find(ended) {
        return Err(failed(job.error.as_deref()));
    }
    if jobs.len() != disks {
        return Err(failed(None));
    }
    let is_same = |job: &Job| matches!(job.status.as_str(), "ready" | "standby");
    let sum = |part: fn(&Job) -> u64| {
        jobs.iter()
            .fold(0_u64, |sum, job| sum.saturating_add(part(job)))
    };
    Ok(Mirrors {
        same: jobs.iter().all(is_same),
        done: sum(|job| job.done),
        total: sum(|job| job.total),
    })
}

fn failed(why: Option<&str>) -> Error {
    refused("blockdev-mirror", why.unwrap_or("it ended"))
}

fn refused(command: &str, why: &str) -> Error {
    Error::Refused {
        command: command.to_owned(),
        why: printable(why),
    }
}

/// Begins to send the memory. QEMU pauses the machine when the transfer of the rest takes no longer
/// than `downtime`, and slows down a machine that writes faster.
///
/// # Errors
/// As [`mirror`].
pub fn send_memory(
    monitor: &mut Monitor,
    to: BorrowedFd<'_>,
    downtime: Duration,
) -> Result<(), Error> {
    migrate::set_capabilities(monitor, &["pause-before-switchover", "auto-converge"])?;
    let limits = json!({
        "max-bandwidth": 1_u64 << 40,
        "downtime-limit": u64::try_from(downtime.as_millis()).unwrap_or(300),
    });
    monitor.execute("migrate-set-parameters", Some(limits), COMMAND_TIMEOUT)?;
    let name = json!({ "fdname": MEMORY });
    monitor.execute_with("getfd", Some(name), to, COMMAND_TIMEOUT)?;
    monitor
        .execute("migrate", Some(uri()), COMMAND_TIMEOUT)
        .map(drop)
}

fn uri() -> Value {
    json!({ "uri": format!("fd:{MEMORY}") })
}

/// Returns the progress of the memory.
///
/// # Errors
/// [`Error::Refused`] when it cannot be sent: the machine runs on.
pub fn sending(monitor: &mut Monitor) -> Result<Sending, Error> {
    let said = monitor.execute("query-migrate", None, COMMAND_TIMEOUT)?;
    how_far(&said)
}

fn how_far(said: &Value) -> Result<Sending, Error> {
    let number = |name: &str| said["ram"][name].as_u64().unwrap_or(0);
    match said["status"].as_str() {
        Some("setup" | "active" | "device" | "wait-unplug") => Ok(Sending::Runs {
            left: number("remaining"),
            sent: number("transferred"),
            rounds: number("dirty-sync-count"),
        }),
        Some("pre-switchover") => Ok(Sending::Stands),
        Some("completed") => Ok(Sending::Sent),
        _ => Err(refused(
            "migrate",
            said["error-desc"].as_str().unwrap_or("it was given up"),
        )),
    }
}

/// Ends the mirrors of a machine that stands still: every block is there then.
///
/// # Errors
/// [`Error::Refused`] when one is not, [`Error::Late`].
pub fn end_mirrors(monitor: &mut Monitor, disks: &[String]) -> Result<(), Error> {
    for disk in disks {
        let job = json!({ "device": format!("{JOB}{disk}") });
        monitor.execute("block-job-cancel", Some(job), COMMAND_TIMEOUT)?;
    }
    let end = Instant::now() + STOPPED_TIMEOUT;
    loop {
        let jobs = jobs(monitor)?;
        if let Some(why) = jobs.iter().find_map(|job| job.error.as_deref()) {
            return Err(failed(Some(why)));
        }
        if jobs.len() != disks.len() {
            return Err(failed(None));
        }
        if jobs.iter().all(|job| job.status == "concluded") {
            break;
        }
        late(end)?;
    }
    for disk in disks {
        let job = json!({ "id": format!("{JOB}{disk}") });
        monitor.execute("job-dismiss", Some(job), COMMAND_TIMEOUT)?;
        // Ends the connection in order.
        let node = json!({ "node-name": format!("{FAR}{disk}") });
        monitor.execute("blockdev-del", Some(node), COMMAND_TIMEOUT)?;
    }
    Ok(())
}

fn late(end: Instant) -> Result<(), Error> {
    if Instant::now() > end {
        return Err(Error::Late {
            what: "QEMU",
            seconds: STOPPED_TIMEOUT.as_secs(),
        });
    }
    std::thread::sleep(STOPPED_POLL_INTERVAL);
    Ok(())
}

/// Sends the rest of a machine that stands still. It stays stopped, and has let go of its
/// disks.
///
/// # Errors
/// As [`mirror`].
pub fn complete(monitor: &mut Monitor) -> Result<(), Error> {
    let state = json!({ "state": "pre-switchover" });
    monitor.execute("migrate-continue", Some(state), COMMAND_TIMEOUT)?;
    let end = Instant::now() + STOPPED_TIMEOUT;
    while sending(monitor)? != Sending::Sent {
        late(end)?;
    }
    Ok(())
}

/// Gives up, whatever was begun; the machine runs on here.
///
/// # Errors
/// As [`mirror`]; the machine stands still then.
pub fn undo(monitor: &mut Monitor) -> Result<(), Error> {
    // The guest first. Leftover mirrors do no harm.
    let runs = migrate::go_on(monitor);
    let _ = forget_mirrors(monitor);
    runs
}

/// Ends all mirrors, also in a QEMU that another process has used.
///
/// # Errors
/// As [`mirror`].
pub fn forget_mirrors(monitor: &mut Monitor) -> Result<(), Error> {
    let end = Instant::now() + STOPPED_TIMEOUT;
    for job in jobs(monitor)? {
        let name = json!({ "device": job.id, "force": true });
        let _ = monitor.execute("block-job-cancel", Some(name), COMMAND_TIMEOUT);
    }
    loop {
        let left = jobs(monitor)?;
        if left.is_empty() {
            break;
        }
        for job in left.iter().filter(|job| job.status == "concluded") {
            let name = json!({ "id": job.id });
            let _ = monitor.execute("job-dismiss", Some(name), COMMAND_TIMEOUT);
        }
        late(end)?;
    }
    let said = monitor.execute(
        "query-named-block-nodes",
        Some(json!({ "flat": true })),
        COMMAND_TIMEOUT,
    )?;
    let all = said.as_array().map(Vec::as_slice).unwrap_or_default();
    let names = all.iter().filter_map(|node| node["node-name"].as_str());
    let far: Vec<String> = names
        .filter(|name| name.starts_with(FAR))
        .map(str::to_owned)
        .collect();
    for node in far {
        let node = json!({ "node-name": node });
        let _ = monitor.execute("blockdev-del", Some(node), COMMAND_TIMEOUT);
    }
    Ok(())
}

/// Has a machine that was started to wait take its disks from who connects to a socket, and
/// its memory from a stream.
///
/// # Errors
/// As [`mirror`].
pub fn offer(
    monitor: &mut Monitor,
    disks: &[String],
    listener: BorrowedFd<'_>,
    memory: BorrowedFd<'_>,
) -> Result<(), Error> {
    if !disks.is_empty() {
        let name = json!({ "fdname": "disks" });
        monitor.execute_with("getfd", Some(name), listener, COMMAND_TIMEOUT)?;
        let address = json!({ "type": "fd", "data": { "str": "disks" } });
        let start = json!({ "addr": address, "max-connections": disks.len() });
        monitor.execute("nbd-server-start", Some(start), COMMAND_TIMEOUT)?;
    }
    for disk in disks {
        let export = json!({
            "type": "nbd",
            "id": disk,
            "node-name": disk,
            "name": disk,
            "writable": true,
        });
        monitor.execute("block-export-add", Some(export), COMMAND_TIMEOUT)?;
    }
    migrate::set_capabilities(monitor, &[])?;
    let name = json!({ "fdname": MEMORY });
    monitor.execute_with("getfd", Some(name), memory, COMMAND_TIMEOUT)?;
    monitor
        .execute("migrate-incoming", Some(uri()), COMMAND_TIMEOUT)
        .map(drop)
}

/// Takes no more blocks: those that came are written.
///
/// # Errors
/// As [`mirror`].
pub fn close_disks(monitor: &mut Monitor) -> Result<(), Error> {
    let said = monitor.execute("query-block-exports", None, COMMAND_TIMEOUT)?;
    if said.as_array().is_some_and(|exports| !exports.is_empty()) {
        monitor.execute("nbd-server-stop", None, COMMAND_TIMEOUT)?;
    }
    Ok(())
}

/// The reason why a machine refuses the rest of the incoming data.
///
/// # Errors
/// That, always.
pub fn why_not(monitor: &mut Monitor) -> Result<(), Error> {
    let said = monitor.execute("query-migrate", None, COMMAND_TIMEOUT)?;
    let why = said["error-desc"].as_str();
    Err(refused(
        "migrate-incoming",
        why.unwrap_or("it takes no more of its machine"),
    ))
}

/// Waits until all of the memory and the devices is there. The machine is stopped.
///
/// # Errors
/// As [`mirror`], and when it runs.
pub fn wait_for_memory(monitor: &mut Monitor) -> Result<(), Error> {
    let end = Instant::now() + STOPPED_TIMEOUT;
    loop {
        let said = monitor.execute("query-migrate", None, COMMAND_TIMEOUT)?;
        match said["status"].as_str() {
            Some("completed") => break,
            Some("failed" | "cancelled") => {
                let why = said["error-desc"].as_str().unwrap_or("it failed");
                return Err(refused("migrate-incoming", why));
            }
            _ => late(end)?,
        }
    }
    let said = monitor.execute("query-status", None, COMMAND_TIMEOUT)?;
    match said["running"].as_bool() {
        Some(false) => Ok(()),
        _ => Err(refused("migrate-incoming", "it runs already")),
    }
}

/// Lets a machine run that came.
///
/// # Errors
/// As [`mirror`].
pub fn run(monitor: &mut Monitor) -> Result<(), Error> {
    monitor.execute("cont", None, STOPPED_TIMEOUT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(status: &str, error: Option<&str>) -> Job {
        Job {
            id: "mirror-disk0".to_owned(),
            status: status.to_owned(),
            done: 3,
            total: 7,
            error: error.map(str::to_owned),
        }
    }

    #[test]
    fn mirrors_are_the_same_when_all_are() {
        let two = far_enough(&[job("ready", None), job("running", None)], 2).unwrap();
        assert_eq!((two.same, two.done, two.total), (false, 6, 14));
        assert!(
            far_enough(&[job("ready", None), job("standby", None)], 2)
                .unwrap()
                .same
        );
        assert!(far_enough(&[], 0).unwrap().same);
    }

    #[test]
    fn a_mirror_that_ended_by_itself_has_failed() {
        let error = far_enough(&[job("concluded", Some("no space"))], 1).unwrap_err();
        assert_eq!(error.to_string(), "blockdev-mirror: no space");
        assert!(far_enough(&[job("ready", None)], 2).is_err());
    }

    #[test]
    fn unexpected_migration_states_are_errors() {
        let runs = json!({
            "status": "active",
            "ram": { "remaining": 5, "transferred": 9, "dirty-sync-count": 2 },
        });
        assert_eq!(
            how_far(&runs).unwrap(),
            Sending::Runs {
                left: 5,
                sent: 9,
                rounds: 2
            }
        );
        let status = |status: &str| how_far(&json!({ "status": status }));
        assert_eq!(status("pre-switchover").unwrap(), Sending::Stands);
        assert_eq!(status("completed").unwrap(), Sending::Sent);
        for odd in ["failed", "cancelled", "none", "colo", ""] {
            assert!(status(odd).is_err(), "{odd}");
        }
        assert!(how_far(&json!({})).is_err());
        let why = json!({ "status": "failed", "error-desc": "no\u{1b} such" });
        assert_eq!(how_far(&why).unwrap_err().to_string(), "migrate: no  such");
    }
}
