//! Merges the files below the disks of a running guest.
//!
//! QEMU copies all data of the files between the top and the lowest file of a disk into the top, and
//! then reads only these two. The content of the disk is the same at each moment, with the former
//! files and without them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::machine::node;
use crate::parts::{list, opaque, refused};
use crate::qmp::{Monitor, printable};
use crate::snapshot::{disk_of, known, stacks};

/// Prefix of the names of QEMU's jobs that merge.
const JOB: &str = "merge-";

/// Timeout of a QEMU command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for cancelled jobs to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between checks whether the cancelled jobs have ended.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The state of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// No merge was begun.
    No,
    /// The merge is under way.
    Runs {
        /// Bytes of the files that were looked at.
        done: u64,
        /// Bytes of the files in all.
        total: u64,
    },
    /// All disks are merged, and [`end`] is to be called.
    Complete,
}

/// Begins to merge the files below these disks.
///
/// # Errors
/// Fails with [`Error::Refused`] if QEMU refuses. The caller then calls [`end`].
pub fn begin(monitor: &mut Monitor, disks: &[u32]) -> Result<(), Error> {
    let stacks = stacks(monitor)?;
    let names = known(monitor)?;
    for &disk in disks {
        let stack = stacks.get(&disk);
        let stack = stack.ok_or_else(|| refused("query-block", "a disk is not in the machine"))?;
        let what = json!({
            "job-id": format!("{JOB}{disk}"),
            "device": stack.top,
            "base-node": bottom(&names, disk),
            // QEMU keeps the job after its end, because otherwise the job's error would be lost.
            "auto-dismiss": false,
        });
        monitor.execute("block-stream", Some(what), COMMAND_TIMEOUT)?;
    }
    Ok(())
}

/// Returns QEMU's name for the lowest file of a disk: the last one on the command line.
fn bottom(names: &[String], disk: u32) -> String {
    let place = |name: &String| {
        let place = name.strip_prefix(&format!("{}-", node(disk, 0)))?;
        place.parse::<usize>().ok()
    };
    let last = names.iter().filter_map(place).max();
    node(disk, last.unwrap_or(0))
}

fn jobs(monitor: &mut Monitor) -> Result<Vec<Value>, Error> {
    let said = monitor.execute("query-jobs", None, COMMAND_TIMEOUT)?;
    let is_ours = |job: &&Value| job["id"].as_str().is_some_and(|id| id.starts_with(JOB));
    Ok(list(&said).filter(is_ours).cloned().collect())
}

/// Returns the state of the merge.
///
/// # Errors
/// Fails with [`Error::Refused`] and QEMU's error if the merge of a disk failed. The caller then
/// calls [`end`].
pub fn state(monitor: &mut Monitor) -> Result<Merging, Error> {
    let jobs = jobs(monitor)?;
    if jobs.is_empty() {
        return Ok(Merging::No);
    }
    let mut errors = jobs.iter().filter_map(|job| job["error"].as_str());
    if let Some(why) = errors.next() {
        return Err(refused("block-stream", &printable(why)));
    }
    if jobs.iter().all(|job| job["status"] == "concluded") {
        return Ok(Merging::Complete);
    }
    let sum = |field: &str| {
        let values = jobs.iter().filter_map(|job| job[field].as_u64());
        values.fold(0_u64, u64::saturating_add)
    };
    Ok(Merging::Runs {
        done: sum("current-progress"),
        total: sum("total-progress"),
    })
}

/// Ends a merge, at any moment. A disk whose merge is not complete keeps its files. QEMU closes the
/// files that are no longer needed.
///
/// # Errors
/// Fails with [`Error::Late`] if a job does not end.
pub fn end(monitor: &mut Monitor) -> Result<(), Error> {
    let first = jobs(monitor)?;
    let disks: BTreeSet<u32> = first
        .iter()
        .filter_map(|job| job["id"].as_str()?.strip_prefix(JOB)?.parse().ok())
        .collect();
    for job in first.iter().filter(|job| job["status"] != "concluded") {
        let what = json!({ "device": job["id"], "force": true });
        // The job may just have ended.
        let _ = monitor.execute("block-job-cancel", Some(what), COMMAND_TIMEOUT);
    }
    let end = Instant::now() + CANCEL_TIMEOUT;
    loop {
        let left = jobs(monitor)?;
        if left.is_empty() {
            break;
        }
        for job in left.iter().filter(|job| job["status"] == "concluded") {
            let what = json!({ "id": job["id"] });
            let _ = monitor.execute("job-dismiss", Some(what), COMMAND_TIMEOUT);
        }
        if Instant::now() > end {
            return Err(Error::Late {
                what: "QEMU",
                seconds: CANCEL_TIMEOUT.as_secs(),
            });
        }
        std::thread::sleep(CANCEL_POLL_INTERVAL);
    }
    disks.into_iter().try_for_each(|disk| close(monitor, disk))
}

/// Closes the files of a disk that QEMU has open and does not use.
fn close(monitor: &mut Monitor, disk: u32) -> Result<(), Error> {
    let names = known(monitor)?;
    for name in names.iter().filter(|name| disk_of(name) == Some(disk)) {
        // QEMU refuses to close a file that it uses.
        let what = json!({ "node-name": name });
        let _ = monitor.execute("blockdev-del", Some(what), COMMAND_TIMEOUT);
    }
    // A removed file keeps its space until its descriptor is closed.
    let flat = json!({ "flat": true });
    let said = monitor.execute("query-named-block-nodes", Some(flat), COMMAND_TIMEOUT)?;
    let used: Option<BTreeSet<i64>> = list(&said)
        .filter(|one| one["node-name"].as_str().and_then(disk_of) == Some(disk))
        .map(|one| set_of(one["file"].as_str()?))
        .collect();
    // If QEMU does not tell the descriptors of the used files, all stay open.
    let Some(used) = used else { return Ok(()) };
    let said = monitor.execute("query-fdsets", None, COMMAND_TIMEOUT)?;
    let mark = opaque(disk);
    for set in list(&said) {
        let is_ours = list(&set["fds"]).any(|file| file["opaque"] == mark);
        let number = set["fdset-id"].as_i64();
        if is_ours && number.is_some_and(|number| !used.contains(&number)) {
            let what = json!({ "fdset-id": number });
            monitor.execute("remove-fd", Some(what), COMMAND_TIMEOUT)?;
        }
    }
    Ok(())
}

/// Returns the number of the descriptor set in QEMU's name of a file.
fn set_of(file: &str) -> Option<i64> {
    let (_, rest) = file.split_once("/dev/fdset/")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::parts::tests::qemu;

    /// Answers like a QEMU with a disk of four files, whose job has this state.
    fn answer(command: &str, job: &Value) -> Value {
        match command {
            "query-block" => json!([{ "inserted": {
                "node-name": "disk0-n2", "backing_file_depth": 3, "image": { "virtual-size": 512 },
            } }]),
            "query-named-block-nodes" => json!([
                { "node-name": "disk0-n2", "file": "json:{\"filename\": \"/dev/fdset/12\"}" },
                { "node-name": "disk0-n1", "file": "/dev/fdset/11" },
                { "node-name": "disk0-1", "file": "/dev/fdset/7" },
                { "node-name": "disk10-3", "file": "/dev/fdset/3" },
                { "node-name": "#block1", "file": "/dev/fdset/12" },
            ]),
            "query-jobs" => json!([job, { "id": "mirror-disk0", "status": "running" }]),
            _ => json!({}),
        }
    }

    #[test]
    fn all_but_the_top_and_the_lowest_file_are_merged() {
        let (mut monitor, thread) = qemu(|command, arguments| {
            if command == "block-stream" {
                assert_eq!(arguments["device"], "disk0-n2");
                assert_eq!(arguments["base-node"], "disk0-1");
            }
            Ok(answer(command, &json!({})))
        });
        begin(&mut monitor, &[0]).unwrap();
        assert!(begin(&mut monitor, &[1]).is_err());
        drop(monitor);
        let told = thread.join().unwrap();
        let count = told.iter().filter(|one| *one == "block-stream").count();
        assert_eq!(count, 1);
        let names = ["disk0-n1".to_owned(), "disk0".to_owned()];
        assert_eq!(bottom(&names, 0), "disk0");
    }

    #[test]
    fn the_state_is_that_of_our_jobs() {
        let job = |status: &str| {
            json!({
                "id": "merge-0", "status": status, "current-progress": 3, "total-progress": 9,
            })
        };
        let runs = Merging::Runs { done: 3, total: 9 };
        for (job, expected) in [
            (json!({}), Merging::No),
            (job("running"), runs),
            (job("concluded"), Merging::Complete),
        ] {
            let (mut monitor, _thread) = qemu(move |command, _| Ok(answer(command, &job)));
            assert_eq!(state(&mut monitor).unwrap(), expected);
        }
        let mut failed = job("concluded");
        failed["error"] = json!("No space left on device");
        let (mut monitor, _thread) = qemu(move |command, _| Ok(answer(command, &failed)));
        let why = state(&mut monitor).unwrap_err().to_string();
        assert_eq!(why, "block-stream: No space left on device");
    }

    #[test]
    fn the_end_closes_files_that_qemu_does_not_use() {
        let is_there = AtomicBool::new(true);
        let is_open = AtomicBool::new(true);
        let (mut monitor, thread) = qemu(move |command, arguments| match command {
            "query-jobs" if is_there.load(Ordering::Relaxed) => {
                Ok(json!([{ "id": "merge-0", "status": "concluded" }]))
            }
            "query-jobs" => Ok(json!([])),
            "job-dismiss" => {
                is_there.store(false, Ordering::Relaxed);
                Ok(json!({}))
            }
            "blockdev-del" if arguments["node-name"] == "disk0-n1" => {
                is_open.store(false, Ordering::Relaxed);
                Ok(json!({}))
            }
            "blockdev-del" => Err("in use"),
            "query-named-block-nodes" => {
                let mut nodes = answer(command, &json!({}));
                if let (false, Some(nodes)) =
                    (is_open.load(Ordering::Relaxed), nodes.as_array_mut())
                {
                    nodes.remove(1);
                }
                Ok(nodes)
            }
            "query-fdsets" => Ok(json!([
                { "fdset-id": 11, "fds": [{ "opaque": "part-disk0" }] },
                { "fdset-id": 12, "fds": [{ "opaque": "part-disk0" }] },
                { "fdset-id": 7, "fds": [{ "fd": 7 }] },
            ])),
            "remove-fd" => {
                assert_eq!(arguments["fdset-id"], 11);
                Ok(json!({}))
            }
            _ => Ok(json!({})),
        });
        end(&mut monitor).unwrap();
        drop(monitor);
        let told = thread.join().unwrap();
        let count = told.iter().filter(|one| *one == "remove-fd").count();
        assert_eq!(count, 1, "{told:?}");
    }
}
