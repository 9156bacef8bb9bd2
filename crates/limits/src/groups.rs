//! The control groups of a zone: their paths, how a group is made, and the processes in it.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::{Error, cpus};

/// Flags with which a group is opened.
pub(crate) const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// Maximum number of attempts to make a group while other commands remove empty groups, each
/// command once.
const MAX_ATTEMPTS: usize = 10;

/// Makes a group and calls `open` on it. Tries again if another command removed the group in
/// between.
pub(crate) fn make_and<T>(
    path: &Path,
    open: impl Fn(&Path) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut tries = MAX_ATTEMPTS;
    loop {
        match make(path).and_then(|()| open(path)) {
            Err(Error::File { source, .. }) if is_gone(&source) && tries > 0 => tries -= 1,
            other => return other,
        }
    }
}

/// Returns true if this is the error of a group that was removed before or after it was opened.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

fn make(path: &Path) -> Result<(), Error> {
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path).map_err(Error::file("make", path))
        }
        Err(error) => Err(Error::file("make", path)(error)),
    }
}

/// Makes a group in a v1 hierarchy that processes can enter.
pub(crate) fn make_v1(path: &Path) -> Result<(), Error> {
    make_and(path, |path| {
        if path.join("cpuset.cpus").exists() {
            cpus::fill(path)?;
        }
        Ok(())
    })
}

/// Returns the processes in a v2 group and in the groups below it, down to `MAX_DEPTH` levels.
pub(crate) fn processes(group: &Path) -> Vec<i32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(processes(&entry.path()));
        }
    }
    pids
}

/// The control groups of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneCgroups {
    pub(crate) v2: PathBuf,
    pub(crate) v1: Vec<PathBuf>,
}

/// Moves every process of a zone into a v1 group. A process that is born in the meantime is found
/// in the next round. After the last round, every parent is in the group, and so is every new
/// child.
pub(crate) fn move_into(group: &Path, zone: &Path) -> Result<(), Error> {
    let file = group.join("cgroup.procs");
    let mut moved = std::collections::BTreeSet::new();
    loop {
        let mut more = false;
        for pid in processes(zone) {
            if !moved.insert(pid) {
                continue;
            }
            more = true;
            match fs::write(&file, pid.to_string()) {
                Err(error)
                    if error.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error()) =>
                {
                    return Err(Error::file("write", &file)(error));
                }
                _ => {}
            }
        }
        if !more {
            return Ok(());
        }
    }
}

/// Locks the base of all zones, so that two zones that boot at once do not get the same CPUs or
/// weights.
pub(crate) fn lock(base: &Path) -> Result<OwnedFd, Error> {
    let folder = rustix::fs::open(base, FOLDER, Mode::empty())
        .map_err(|errno| Error::file("open", base)(errno.into()))?;
    flock(&folder, FlockOperation::LockExclusive)
        .map_err(|errno| Error::file("lock", base)(errno.into()))?;
    Ok(folder)
}

/// The groups of zones in a base.
pub(crate) fn zones(base: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut zones: Vec<PathBuf> = folders
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
        .collect();
    zones.sort();
    zones
}

/// Returns true if a path is, or would be, in a v1 hierarchy that only binds to CPUs. A group of
/// controllers that share a hierarchy is made together with the zone.
pub(crate) fn is_cpuset(path: &Path) -> bool {
    path.ancestors()
        .find(|path| path.exists())
        .is_some_and(|group| {
            let has = |file: &str| group.join(file).exists();
            has("cpuset.cpus") && !has("cpu.shares") && !has("memory.limit_in_bytes")
        })
}
