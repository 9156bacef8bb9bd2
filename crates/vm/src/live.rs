//! Migrates a running guest from one QEMU to another.
//!
//! QEMU mirrors the guest's disks to the target over connections of the network block protocol
//! (NBD), and sends the memory as QEMU's own stream; the migrating process carries this data over
//! sockets. When little of the memory is left, QEMU pauses the guest and waits (`pre-switchover`)
//! until the last disk blocks are on the target. The QEMU on the target stays stopped (`-S`) until
//! it is told to run the guest. A disk on shared storage is not mirrored: QEMU at the source releases
//! it at the end of [`complete`], and QEMU on the target opens it for writing in [`run`].
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
//! Until the target has called `run`, [`undo`] lets the guest run on at the source.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::migrate;
use crate::qmp::{Monitor, printable};
use crate::snapshot;

/// Timeout of a QEMU command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the transfer of the last disk blocks, or of the state of devices, while the guest is
/// paused.
const STOPPED_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between checks of the progress while the guest is paused.
const STOPPED_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Prefixes of the names that mirror jobs and their targets have in QEMU.
const JOB: &str = "mirror-";
const FAR: &str = "far-";

/// The name under which QEMU knows the descriptor of the memory's stream.
const MEMORY: &str = "memory";

/// The progress of the disk mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mirrors {
    /// True if all disks of the target are equal to those of the source, except for writes in
    /// progress.
    pub same: bool,
    /// The number of bytes that were sent.
    pub done: u64,
    /// The number of bytes that had to be sent up to now.
    pub total: u64,
}

/// The progress of the memory transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sending {
    /// The memory is being sent while the guest runs.
    Runs {
        /// The number of bytes that are left in this round.
        left: u64,
        /// The number of bytes that were sent.
        sent: u64,
        /// The number of rounds in which changed pages were sent.
        rounds: u64,
    },
    /// The guest is paused, and QEMU waits for [`complete`].
    Stands,
    /// All memory has been sent.
    Sent,
}

/// Begins to mirror a disk to the target at the far side of a connection. With `whole`, the disk's
/// base files are sent too.
///
/// # Errors
/// Fails with [`Error::Refused`] and the error of QEMU.
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
        // Blocks of zeros become holes on the target.
        "discard": "unmap",
    });
    monitor.execute("blockdev-add", Some(add), COMMAND_TIMEOUT)?;
    // After a snapshot the guest writes to another file than at its boot.
    let top = match snapshot::disk_of(disk) {
        Some(id) => snapshot::top_of(monitor, id)?,
        None => disk.to_owned(),
    };
    let start = json!({
        "job-id": format!("{JOB}{disk}"),
        "device": top,
        "target": node,
        "sync": if whole { "full" } else { "top" },
        // QEMU keeps the job after its end, because otherwise the job's error would be lost.
        "auto-dismiss": false,
    });
    monitor
        .execute("blockdev-mirror", Some(start), COMMAND_TIMEOUT)
        .map(drop)
}

/// A mirror job, as QEMU reports it.
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

/// Returns the progress of the mirrors; `disks` is the number of disks.
///
/// # Errors
/// Fails with [`Error::Refused`] if a mirror has failed.
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

/// Begins to send the memory. QEMU pauses the guest when the remaining memory can be sent within
/// `downtime`, and slows down a guest that writes faster than the transfer.
///
/// # Errors
/// Fails as [`mirror`] does.
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

/// Returns the progress of the memory transfer.
///
/// # Errors
/// Fails with [`Error::Refused`] if the memory cannot be sent; the guest then runs on.
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

/// Ends the mirrors of a paused guest, after every block has been written on the target.
///
/// # Errors
/// Fails with [`Error::Refused`] if a mirror has failed, and with [`Error::Late`] after the
/// timeout.
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
        // Removing the node closes the connection to the target properly.
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

/// Sends the rest of a paused guest. The guest stays paused, and QEMU has released its disks.
///
/// # Errors
/// Fails as [`mirror`] does.
pub fn complete(monitor: &mut Monitor) -> Result<(), Error> {
    let state = json!({ "state": "pre-switchover" });
    monitor.execute("migrate-continue", Some(state), COMMAND_TIMEOUT)?;
    let end = Instant::now() + STOPPED_TIMEOUT;
    while sending(monitor)? != Sending::Sent {
        late(end)?;
    }
    Ok(())
}

/// Cancels a migration at any step; the guest runs on at the source.
///
/// # Errors
/// Fails as [`mirror`] does; then the guest stays paused.
pub fn undo(monitor: &mut Monitor) -> Result<(), Error> {
    // The guest is resumed first, because leftover mirrors do no harm.
    let runs = migrate::go_on(monitor);
    let _ = forget_mirrors(monitor);
    runs
}

/// Ends all mirrors, including those that another process started in this QEMU.
///
/// # Errors
/// Fails as [`mirror`] does.
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

/// Makes a waiting QEMU receive the guest's disks from clients of a listening socket, and the
/// guest's memory from a stream.
///
/// # Errors
/// Fails as [`mirror`] does.
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
    // Without this capability QEMU would open disks on shared storage for writing as soon as it has
    // the memory, while the guest may still go on at the source.
    migrate::set_capabilities(monitor, &["late-block-activate"])?;
    let name = json!({ "fdname": MEMORY });
    monitor.execute_with("getfd", Some(name), memory, COMMAND_TIMEOUT)?;
    monitor
        .execute("migrate-incoming", Some(uri()), COMMAND_TIMEOUT)
        .map(drop)
}

/// Stops receiving disk blocks, after all received blocks have been written.
///
/// # Errors
/// Fails as [`mirror`] does.
pub fn close_disks(monitor: &mut Monitor) -> Result<(), Error> {
    let said = monitor.execute("query-block-exports", None, COMMAND_TIMEOUT)?;
    if said.as_array().is_some_and(|exports| !exports.is_empty()) {
        monitor.execute("nbd-server-stop", None, COMMAND_TIMEOUT)?;
    }
    Ok(())
}

/// Asks QEMU why it refuses the rest of the incoming data.
///
/// # Errors
/// Always fails, with the reason as the error.
pub fn why_not(monitor: &mut Monitor) -> Result<(), Error> {
    let said = monitor.execute("query-migrate", None, COMMAND_TIMEOUT)?;
    let why = said["error-desc"].as_str();
    Err(refused(
        "migrate-incoming",
        why.unwrap_or("it takes no more of its machine"),
    ))
}

/// Waits until QEMU has received all memory and the state of the devices. The guest is then still
/// stopped.
///
/// # Errors
/// Fails as [`mirror`] does, and if the guest already runs.
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

/// Lets a guest run that was received from another host.
///
/// # Errors
/// Fails as [`mirror`] does.
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
