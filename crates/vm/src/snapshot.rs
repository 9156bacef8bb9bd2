//! Keeps the state of a running guest's disks at one moment.
//!
//! Each disk gets a new, empty qcow2 on top of its files. The guest writes to the new file from
//! then on, so the files below are the state of the moment and never change again. QEMU puts the
//! new files on all disks in one step, while the guest is paused.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::machine::{Part, block_of, node};
use crate::parts::{list, opaque, refused};
use crate::qmp::{Monitor, printable};

/// Timeout of a QEMU command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for QEMU to pause a guest, and to put the files on its disks: the guest's last writes
/// reach the disk first.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Name of the character device of the channel to the agent.
const AGENT: &str = "agent";

/// A new, empty file for a disk.
#[derive(Debug)]
pub struct Overlay {
    /// The number of the disk.
    pub disk: u32,
    /// The properties of the file; its format is qcow2.
    pub part: Part,
    /// The file, open for reading and writing.
    pub file: OwnedFd,
}

/// The files of a disk, as QEMU has them open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// QEMU's name for the file that the guest writes to.
    pub top: String,
    /// The number of files below that file.
    pub below: usize,
    /// The size of the disk in bytes, as the guest sees it.
    pub size: u64,
}

/// Returns the files of each disk in the machine, by the number of the disk. A snapshot of a running
/// guest puts a new file above those that the command line names.
///
/// # Errors
/// Fails if QEMU does not answer.
pub fn stacks(monitor: &mut Monitor) -> Result<BTreeMap<u32, Stack>, Error> {
    let said = monitor.execute("query-block", None, COMMAND_TIMEOUT)?;
    let stack = |one: &Value| {
        let inserted = &one["inserted"];
        let top = inserted["node-name"].as_str()?.to_owned();
        let below = inserted["backing_file_depth"].as_u64()?;
        let below = usize::try_from(below).ok()?;
        let size = inserted["image"]["virtual-size"].as_u64()?;
        Some((disk_of(&top)?, Stack { top, below, size }))
    };
    Ok(list(&said).filter_map(stack).collect())
}

/// Returns QEMU's name for the file that the guest writes to for a disk.
pub(crate) fn top_of(monitor: &mut Monitor, disk: u32) -> Result<String, Error> {
    let stack = stacks(monitor)?.remove(&disk);
    // A disk that is being removed is no longer in the machine.
    Ok(stack.map_or_else(|| node(disk, 0), |stack| stack.top))
}

/// Returns the number of the disk to which a file belongs that QEMU knows by this name.
pub(crate) fn disk_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("disk")?;
    rest.split('-').next()?.parse().ok()
}

/// Returns the number in the name of a file that a disk got while the guest ran.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    name.split_once("-n")?.1.parse().ok()
}

/// Returns true if the agent in the guest has opened its channel. A guest without an agent never
/// answers.
///
/// # Errors
/// Fails if QEMU does not answer.
pub fn has_agent(monitor: &mut Monitor) -> Result<bool, Error> {
    let said = monitor.execute("query-chardev", None, COMMAND_TIMEOUT)?;
    let mut found = list(&said).filter(|one| one["label"] == AGENT);
    Ok(found.any(|one| one["frontend-open"] == true))
}

/// Fails if the guest is paused: its last writes are not on its disks, and its agent cannot answer.
///
/// # Errors
/// Fails with [`Error::Refused`] and the state of the guest.
pub fn refuse_paused(monitor: &mut Monitor) -> Result<(), Error> {
    let status = monitor.execute("query-status", None, COMMAND_TIMEOUT)?;
    if status["running"] == true {
        return Ok(());
    }
    let what = printable(status["status"].as_str().unwrap_or("paused"));
    let why = format!("the guest does not run ({what})");
    Err(refused("stop", &why))
}

/// Pauses the guest, puts the overlays, if any, on the disks, calls `copy`, and lets the guest run again.
/// Returns the time for which the guest was paused.
///
/// After an error the guest runs on, and writes to the overlays or to the former files: see
/// [`stacks`].
///
/// # Errors
/// Fails with [`Error::Refused`] if the guest does not run or QEMU refuses, and with the error of
/// `copy`.
pub fn take(
    monitor: &mut Monitor,
    overlays: Vec<Overlay>,
    copy: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Duration, Error> {
    refuse_paused(monitor)?;
    let mut added = Vec::new();
    let taken =
        actions(monitor, overlays, &mut added).and_then(|actions| paused(monitor, &actions, copy));
    if taken.is_err() {
        for (name, set) in added {
            // QEMU refuses to close a file that it uses. The descriptor of such a file stays, too.
            let what = json!({ "node-name": name });
            if monitor
                .execute("blockdev-del", Some(what), COMMAND_TIMEOUT)
                .is_ok()
            {
                let what = json!({ "fdset-id": set });
                let _ = monitor.execute("remove-fd", Some(what), COMMAND_TIMEOUT);
            }
        }
    }
    taken
}

/// Makes QEMU open the overlays. Returns the actions that put them on the disks. Puts QEMU's name
/// and descriptor set of each open overlay into `added`.
fn actions(
    monitor: &mut Monitor,
    overlays: Vec<Overlay>,
    added: &mut Vec<(String, i64)>,
) -> Result<Vec<Value>, Error> {
    let stacks = stacks(monitor)?;
    let mut names = known(monitor)?;
    let mut actions = Vec::new();
    for one in overlays {
        let stack = stacks.get(&one.disk);
        let stack = stack.ok_or_else(|| refused("query-block", "a disk is not in the machine"))?;
        let name = new_name(&mut names, one.disk);
        let what = json!({ "opaque": opaque(one.disk) });
        let said = monitor.execute_with("add-fd", Some(what), one.file.as_fd(), COMMAND_TIMEOUT)?;
        let set = said["fdset-id"].as_i64();
        let set = set.ok_or_else(|| refused("add-fd", "QEMU told no number"))?;
        added.push((name.clone(), set));
        let block = block_of(&name, one.part, false, set, Some(json!(null)));
        monitor.execute("blockdev-add", Some(block), COMMAND_TIMEOUT)?;
        actions.push(json!({
            "type": "blockdev-snapshot",
            "data": { "node": stack.top, "overlay": name },
        }));
    }
    Ok(actions)
}

fn paused(
    monitor: &mut Monitor,
    actions: &[Value],
    copy: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Duration, Error> {
    let since = Instant::now();
    let all = json!({ "actions": actions });
    // QEMU writes all data of the guest to the disks when it pauses the guest.
    let done = monitor
        .execute("stop", None, PAUSE_TIMEOUT)
        .and_then(|_| match actions.is_empty() {
            true => Ok(Value::Null),
            false => monitor.execute("transaction", Some(all), PAUSE_TIMEOUT),
        })
        .and_then(|_| copy());
    // The guest runs on also after an error, even if QEMU has not answered in time.
    let runs = monitor.execute("cont", None, COMMAND_TIMEOUT);
    done?;
    runs?;
    Ok(since.elapsed())
}

/// Returns the names of all files that QEMU has open.
pub(crate) fn known(monitor: &mut Monitor) -> Result<Vec<String>, Error> {
    let flat = json!({ "flat": true });
    let said = monitor.execute("query-named-block-nodes", Some(flat), COMMAND_TIMEOUT)?;
    let names = list(&said).filter_map(|one| one["node-name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Returns a new name for a file of a disk, and adds it to the known ones.
fn new_name(known: &mut Vec<String>, disk: u32) -> String {
    let ours = known.iter().filter(|name| disk_of(name) == Some(disk));
    let last = ours.filter_map(|name| number_of(name)).max().unwrap_or(0);
    let name = format!("{}-n{}", node(disk, 0), last.saturating_add(1));
    known.push(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Format;
    use crate::parts::tests::qemu;

    fn overlay(disk: u32) -> Overlay {
        Overlay {
            disk,
            part: Part {
                format: Format::Qcow2,
                block_device: false,
                direct: false,
            },
            file: std::fs::File::open("/dev/null").unwrap().into(),
        }
    }

    /// Answers like a QEMU with two disks; disk 1 has a snapshot already.
    fn answer(command: &str) -> Value {
        let inserted = |name: &str, depth: u64| {
            let image = json!({ "virtual-size": 512 });
            json!({ "inserted": {
                "node-name": name, "backing_file_depth": depth, "image": image,
            } })
        };
        match command {
            "query-status" => json!({ "running": true, "status": "running" }),
            "query-block" => json!([
                inserted("disk0", 0),
                inserted("disk1-n3", 2),
                inserted("nvram", 0),
                { "device": "cd" },
            ]),
            "query-named-block-nodes" => json!([
                { "node-name": "disk1-n3" }, { "node-name": "disk1" }, { "node-name": "disk1-1" },
            ]),
            "add-fd" => json!({ "fdset-id": 9, "fd": 20 }),
            _ => json!({}),
        }
    }

    #[test]
    fn all_disks_get_their_overlays_while_the_guest_is_paused() {
        let (mut monitor, thread) = qemu(|command, arguments| {
            if command == "transaction" {
                let nodes: Vec<&Value> = list(&arguments["actions"])
                    .flat_map(|one| [&one["data"]["node"], &one["data"]["overlay"]])
                    .collect();
                assert_eq!(nodes, ["disk0", "disk0-n1", "disk1-n3", "disk1-n4"]);
            }
            Ok(answer(command))
        });
        let mut copied = 0;
        let copy = &mut || {
            copied += 1;
            Ok(())
        };
        take(&mut monitor, vec![overlay(0), overlay(1)], copy).unwrap();
        drop(monitor);
        assert_eq!(copied, 1);
        let told = thread.join().unwrap();
        let end = ["blockdev-add", "stop", "transaction", "cont"];
        assert!(told.ends_with(&end.map(str::to_owned)), "{told:?}");
    }

    #[test]
    fn after_a_failure_the_guest_runs_and_the_overlays_are_closed() {
        for failing in ["blockdev-add", "stop", "transaction", "copy"] {
            let (mut monitor, thread) = qemu(move |command, _| match command == failing {
                true => Err("no"),
                // QEMU uses the overlay after the transaction.
                false if command == "blockdev-del" && failing == "copy" => Err("in use"),
                false => Ok(answer(command)),
            });
            let copy = &mut || match failing == "copy" {
                true => Err(refused("copy", "no")),
                false => Ok(()),
            };
            let why = take(&mut monitor, vec![overlay(0)], copy).unwrap_err();
            assert_eq!(why.to_string(), format!("{failing}: no"));
            drop(monitor);
            let told = thread.join().unwrap();
            let has = |command: &str| told.iter().any(|one| one == command);
            assert_eq!(has("stop"), failing != "blockdev-add", "{told:?}");
            assert_eq!(has("cont"), has("stop"), "{told:?}");
            assert!(has("blockdev-del"), "{told:?}");
            assert_eq!(has("remove-fd"), failing != "copy", "{told:?}");
        }
    }

    #[test]
    fn a_guest_that_does_not_run_is_refused() {
        let (mut monitor, thread) =
            qemu(|_, _| Ok(json!({ "running": false, "status": "io-error" })));
        let why = take(&mut monitor, vec![overlay(0)], &mut || Ok(())).unwrap_err();
        assert!(why.to_string().contains("does not run (io-error)"), "{why}");
        drop(monitor);
        assert_eq!(thread.join().unwrap().len(), 2);
    }

    #[test]
    fn the_files_of_disks_are_found() {
        let (mut monitor, _thread) = qemu(|command, _| Ok(answer(command)));
        let found = stacks(&mut monitor).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|(id, stack)| (*id, stack.top.as_str(), stack.below, stack.size))
            .collect();
        assert_eq!(found, [(0, "disk0", 0, 512), (1, "disk1-n3", 2, 512)]);
        assert_eq!(top_of(&mut monitor, 1).unwrap(), "disk1-n3");
        assert_eq!(top_of(&mut monitor, 7).unwrap(), "disk7");
    }

    #[test]
    fn an_agent_counts_only_with_its_channel_open() {
        for (open, expected) in [(true, true), (false, false)] {
            let (mut monitor, _thread) = qemu(move |_, _| {
                Ok(json!([
                    { "label": "console", "frontend-open": true },
                    { "label": "agent", "frontend-open": open },
                ]))
            });
            assert_eq!(has_agent(&mut monitor).unwrap(), expected);
        }
    }
}
