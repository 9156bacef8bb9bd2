//! Changes the parts of a machine while its guest runs.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::machine::{self, Disk, PART, node, part_name, port_name};
use crate::qmp::Monitor;
use crate::snapshot;

/// Timeout of a QEMU command that acts at once.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the guest to release a part that is removed.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);

/// Timeout for QEMU to let go of the files of a removed disk.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between checks whether the guest has released a part.
const RELEASE_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout for the growth of a disk: a file system may write out much data first.
const GROW_TIMEOUT: Duration = Duration::from_secs(60);

/// Grows a disk to a size in bytes. QEMU makes the file longer and tells the guest the new size. If
/// the disk is a block device that the host has grown, QEMU reads the size of the device again.
///
/// # Errors
/// Fails with [`Error::Refused`] and the error of QEMU: the file system is full, or another
/// operation uses the disk.
pub fn grow_disk(monitor: &mut Monitor, id: u32, size: u64) -> Result<(), Error> {
    let what = json!({ "node-name": snapshot::top_of(monitor, id)?, "size": size });
    monitor
        .execute("block_resize", Some(what), GROW_TIMEOUT)
        .map(drop)
}

/// Adds a disk in its port. `files` are the open files of the disk's parts, in their order. A disk
/// that is there already stays unchanged.
///
/// # Errors
/// Fails with [`Error::Refused`] and the error of QEMU. The machine is then unchanged.
pub fn add_disk(monitor: &mut Monitor, disk: &Disk, files: &[OwnedFd]) -> Result<(), Error> {
    let Some(port) = disk.port else {
        return Err(refused("device_add", "the disk has no port"));
    };
    if present(monitor)?.contains(&part_name(disk.id)) {
        return Ok(());
    }
    // A killed zoneadmd may have left files of this disk.
    release(monitor, disk.id)?;
    let added = attach(monitor, disk, port, files);
    if added.is_err() {
        // This error is ignored, because the first error is reported.
        let _ = release(monitor, disk.id);
    }
    added
}

fn attach(monitor: &mut Monitor, disk: &Disk, port: u32, files: &[OwnedFd]) -> Result<(), Error> {
    // The base files come first, because the upper files refer to them.
    let parts = disk.parts.iter().zip(files).enumerate();
    for (place, (part, file)) in parts.collect::<Vec<_>>().into_iter().rev() {
        let what = json!({ "opaque": opaque(disk.id) });
        let said = monitor.execute_with("add-fd", Some(what), file.as_fd(), COMMAND_TIMEOUT)?;
        let set = said["fdset-id"].as_i64();
        let set = set.ok_or_else(|| refused("add-fd", "QEMU told no number"))?;
        let block = disk.block(place, *part, set);
        monitor.execute("blockdev-add", Some(block), COMMAND_TIMEOUT)?;
    }
    let device = json!({
        "driver": "virtio-blk-pci",
        "id": part_name(disk.id),
        "bus": port_name(port),
        "drive": node(disk.id, 0),
        "serial": format!("disk{}", disk.id),
    });
    monitor
        .execute("device_add", Some(device), COMMAND_TIMEOUT)
        .map(drop)
}

/// Removes a disk from its port: asks the guest to release the disk, waits for the release, and
/// closes the files of the disk. A disk that is not there is no error.
///
/// # Errors
/// Fails with [`Error::Kept`] if the guest does not release the disk in time; a later attempt
/// continues. Fails with [`Error::Refused`] if the disk has no port.
pub fn remove_disk(monitor: &mut Monitor, id: u32) -> Result<(), Error> {
    unplug(monitor, &part_name(id), "").map_err(|error| match error {
        Error::KeptPart { seconds, .. } => Error::Kept { id, seconds },
        other => other,
    })?;
    release(monitor, id)
}

/// Asks the guest to release a part, and waits for the release. A part that is not there is no
/// error.
///
/// # Errors
/// Fails with [`Error::KeptPart`] if the guest does not release the part in time; `what` names the
/// part in the message.
pub(crate) fn unplug(monitor: &mut Monitor, name: &str, what: &str) -> Result<(), Error> {
    let end = Instant::now() + RELEASE_TIMEOUT;
    if present(monitor)?.contains(name) {
        let device = json!({ "id": name });
        match monitor.execute("device_del", Some(device), COMMAND_TIMEOUT) {
            // An earlier attempt has asked the guest already.
            Err(Error::Refused { why, .. }) if why.contains("already in the process of unplug") => {
            }
            other => other.map(drop)?,
        }
    }
    while present(monitor)?.contains(name) {
        if Instant::now() > end {
            return Err(Error::KeptPart {
                what: what.to_owned(),
                seconds: RELEASE_TIMEOUT.as_secs(),
            });
        }
        std::thread::sleep(RELEASE_POLL_INTERVAL);
    }
    Ok(())
}

/// Closes the files of a disk that no device uses.
fn release(monitor: &mut Monitor, id: u32) -> Result<(), Error> {
    let flat = json!({ "flat": true });
    let said = monitor.execute("query-named-block-nodes", Some(flat), COMMAND_TIMEOUT)?;
    let names: BTreeSet<&str> = list(&said)
        .filter_map(|one| one["node-name"].as_str())
        .collect();
    // An upper file is closed before the files below it. Files that came while the guest ran are
    // above the others.
    let mut ours: Vec<&str> = names.into_iter().collect();
    ours.retain(|name| snapshot::disk_of(name) == Some(id));
    ours.sort_by_key(|name| {
        let place = name
            .split_once('-')
            .and_then(|(_, place)| place.parse().ok());
        (Reverse(snapshot::number_of(name)), place.unwrap_or(0_usize))
    });
    close(monitor, ours)?;
    let said = monitor.execute("query-fdsets", None, COMMAND_TIMEOUT)?;
    let ours = opaque(id);
    for set in list(&said) {
        let mut files = list(&set["fds"]);
        if files.any(|file| file["opaque"] == ours) {
            let what = json!({ "fdset-id": set["fdset-id"] });
            monitor.execute("remove-fd", Some(what), COMMAND_TIMEOUT)?;
        }
    }
    Ok(())
}

/// Closes files of a disk. QEMU lets go of a removed device only some time after the device has left
/// the machine. A file that another one uses is closed after that one.
fn close(monitor: &mut Monitor, mut names: Vec<&str>) -> Result<(), Error> {
    let end = Instant::now() + CLOSE_TIMEOUT;
    loop {
        let before = names.len();
        let mut failed = None;
        let mut left = Vec::new();
        for name in names {
            let what = json!({ "node-name": name });
            match monitor.execute("blockdev-del", Some(what), COMMAND_TIMEOUT) {
                Ok(_) => {}
                Err(Error::Refused { command, why }) if is_busy(&why) => {
                    left.push(name);
                    failed = Some(Error::Refused { command, why });
                }
                Err(error) => return Err(error),
            }
        }
        match failed {
            None => return Ok(()),
            Some(error) if left.len() == before => {
                if Instant::now() > end {
                    return Err(error);
                }
                std::thread::sleep(RELEASE_POLL_INTERVAL);
            }
            Some(_) => {}
        }
        names = left;
    }
}

fn is_busy(why: &str) -> bool {
    why.contains("in use") || why.contains("busy")
}

/// Returns the text with which the files of a disk are marked in QEMU.
pub(crate) fn opaque(id: u32) -> String {
    format!("{PART}{}", node(id, 0))
}

pub(crate) fn list(said: &Value) -> impl Iterator<Item = &Value> {
    said.as_array().into_iter().flatten()
}

/// Returns the names of the parts that the machine has in its ports.
pub(crate) fn present(monitor: &mut Monitor) -> Result<BTreeSet<String>, Error> {
    let path = json!({ "path": "/machine/peripheral" });
    let said = monitor.execute("qom-list", Some(path), COMMAND_TIMEOUT)?;
    let names = list(&said).filter_map(|one| one["name"].as_str());
    let parts = names.filter(|name| name.starts_with(PART));
    Ok(parts.map(str::to_owned).collect())
}

/// Returns the parts by which a machine differs from the command line of its QEMU, because they
/// came or went while the guest ran. The state of such a machine fits no QEMU with this command
/// line.
///
/// # Errors
/// Fails if QEMU does not answer.
pub fn changed<'a>(
    monitor: &mut Monitor,
    words: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<String>, Error> {
    let started: BTreeSet<String> = words.into_iter().filter_map(started).collect();
    let now = present(monitor)?;
    let differ = now.symmetric_difference(&started);
    Ok(differ.map(|name| shown(name)).collect())
}

/// Returns the name of a part for messages. A network card is shown by its Ethernet address.
fn shown(name: &str) -> String {
    let card = name.strip_prefix(machine::CARD);
    if let Some((_, mac)) = card.and_then(|rest| rest.split_once('-')) {
        let pairs = mac.as_bytes().chunks(2).map(String::from_utf8_lossy);
        return format!("network card {}", pairs.collect::<Vec<_>>().join(":"));
    }
    name.trim_start_matches(PART).to_owned()
}

/// Returns the name of the part that a word of QEMU's command line makes.
fn started(word: &str) -> Option<String> {
    let id = word
        .split(',')
        .find_map(|option| option.strip_prefix("id="))?;
    (id.starts_with(PART)).then(|| id.to_owned())
}

pub(crate) fn refused(command: &str, why: &str) -> Error {
    Error::Refused {
        command: command.to_owned(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::machine::{Format, Kind, Part};

    /// Returns a monitor of a test QEMU, and the commands that the test QEMU receives. `answer`
    /// returns the result of a command, or an error text.
    pub(crate) fn qemu(
        answer: impl Fn(&str, &Value) -> Result<Value, &'static str> + Send + 'static,
    ) -> (Monitor, std::thread::JoinHandle<Vec<String>>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let version = json!({ "major": 7, "minor": 2, "micro": 22 });
            let greeting = json!({ "QMP": { "version": { "qemu": version } } });
            writeln!(theirs, "{greeting}").unwrap();
            let mut told = Vec::new();
            for line in BufReader::new(theirs.try_clone().unwrap()).lines() {
                let call: Value = serde_json::from_str(&line.unwrap()).unwrap();
                let command = call["execute"].as_str().unwrap().to_owned();
                let said = match answer(&command, &call["arguments"]) {
                    Ok(value) => json!({ "return": value, "id": call["id"] }),
                    Err(why) => json!({ "error": { "desc": why }, "id": call["id"] }),
                };
                told.push(command);
                writeln!(theirs, "{said}").unwrap();
            }
            told
        });
        let monitor = Monitor::greet(ours.into(), Duration::from_secs(30)).unwrap();
        (monitor, thread)
    }

    fn disk() -> Disk {
        let part = |format| Part {
            format,
            block_device: false,
            direct: false,
        };
        Disk {
            id: 1,
            kind: Kind::Disk,
            boot: None,
            read_only: false,
            port: Some(3),
            parts: vec![part(Format::Qcow2), part(Format::Raw)],
        }
    }

    fn files() -> Vec<OwnedFd> {
        let file = || std::fs::File::open("/dev/null").unwrap().into();
        vec![file(), file()]
    }

    #[test]
    fn a_disk_is_added_from_its_base_upwards() {
        let (mut monitor, thread) = qemu(|command, _| match command {
            "add-fd" => Ok(json!({ "fdset-id": 5, "fd": 20 })),
            "qom-list" | "query-named-block-nodes" | "query-fdsets" => Ok(json!([])),
            "blockdev-add" | "device_add" | "qmp_capabilities" => Ok(json!({})),
            _ => Err("not expected"),
        });
        add_disk(&mut monitor, &disk(), &files()).unwrap();
        drop(monitor);
        let told = thread.join().unwrap();
        assert_eq!(
            told[4..],
            [
                "add-fd",
                "blockdev-add",
                "add-fd",
                "blockdev-add",
                "device_add"
            ]
        );
    }

    #[test]
    fn a_failed_addition_leaves_no_file_open() {
        let (mut monitor, thread) = qemu(|command, _| match command {
            "add-fd" => Ok(json!({ "fdset-id": 5, "fd": 20 })),
            "qom-list" => Ok(json!([])),
            "query-named-block-nodes" => {
                Ok(json!([{ "node-name": "disk1" }, { "node-name": "disk1-1" }]))
            }
            "query-fdsets" => Ok(json!([
                { "fdset-id": 5, "fds": [{ "opaque": "part-disk1" }] },
                { "fdset-id": 7, "fds": [{ "fd": 7 }] },
            ])),
            "device_add" => Err("no such bus"),
            _ => Ok(json!({})),
        });
        let why = add_disk(&mut monitor, &disk(), &files()).unwrap_err();
        assert_eq!(why.to_string(), "device_add: no such bus");
        drop(monitor);
        let told = thread.join().unwrap();
        let after = told.iter().position(|one| one == "device_add").unwrap();
        let closed = ["blockdev-del", "blockdev-del", "query-fdsets", "remove-fd"];
        assert_eq!(told[after + 2..], closed);
    }

    #[test]
    fn a_disk_that_the_guest_releases_is_closed() {
        let there = std::sync::atomic::AtomicU32::new(3);
        let (mut monitor, thread) = qemu(move |command, _| match command {
            "qom-list" => {
                let left = there.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                Ok(match left > 0 {
                    true => json!([{ "name": "part-disk1", "type": "child<virtio-blk-pci>" }]),
                    false => json!([{ "name": "port0", "type": "child<pcie-root-port>" }]),
                })
            }
            "device_del" => Err("Device part-disk1 is already in the process of unplug"),
            "query-named-block-nodes" => Ok(json!([{ "node-name": "disk1" }])),
            "query-fdsets" => Ok(json!([])),
            _ => Ok(json!({})),
        });
        remove_disk(&mut monitor, 1).unwrap();
        drop(monitor);
        assert!(thread.join().unwrap().contains(&"blockdev-del".to_owned()));
    }

    #[test]
    fn parts_that_came_or_went_are_found() {
        let (mut monitor, _thread) = qemu(|command, _| match command {
            "qom-list" => Ok(json!([{ "name": "part-disk2" }, { "name": "channels" }])),
            _ => Ok(json!({})),
        });
        let disk =
            |id| format!("virtio-blk-pci,drive=disk{id},serial=x,id=part-disk{id},bus=port0");
        let same = [disk(2)];
        let words = |line: &'static [&'static str]| line.iter().copied();
        let started = same.iter().map(String::as_str).chain(words(&["-m", "64M"]));
        assert_eq!(changed(&mut monitor, started).unwrap(), [""; 0]);
        let card = "virtio-net-pci,mac=02:08:20:00:00:01,id=part-card1-020820000001,bus=port1";
        let found = changed(&mut monitor, [same[0].as_str(), card]).unwrap();
        assert_eq!(found, ["network card 02:08:20:00:00:01"]);
        let other = disk(1);
        let found = changed(&mut monitor, [other.as_str()]).unwrap();
        assert_eq!(found, ["disk1", "disk2"]);
    }
}
