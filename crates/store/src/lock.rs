//! A lock per zone: every process that changes a zone or its configuration holds it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use model::ZoneName;
use rustix::fs::{FlockOperation, MemfdFlags, flock};
use rustix::io::Errno;

use crate::{Error, Root};

mod holder;

pub use holder::Busy;

/// The behaviour when another process holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Give up with [`Error::Locked`].
    No,
    /// Wait for it.
    Yes,
}

/// A held lock; dropping it releases it, and so does the death of the process.
#[derive(Debug)]
pub struct ZoneLock {
    file: File,
}

/// To hand the lock on: it is held as long as any process has the descriptor.
impl AsFd for ZoneLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl ZoneLock {
    /// Takes over the lock of a zone that another process held and handed on as an open file.
    ///
    /// # Errors
    /// [`Error::Locked`] when the file is not that of a lock which was held.
    pub fn handed_on(root: &Root, zone: &ZoneName, file: File) -> Result<Self, Error> {
        let path = root.lock(zone);
        let identity = |meta: io::Result<fs::Metadata>| meta.map(|meta| (meta.dev(), meta.ino()));
        let same = identity(file.metadata()).and_then(|ours| {
            let there = identity(fs::metadata(&path))?;
            Ok(ours == there)
        });
        if !same.map_err(Error::file("take over the lock", &path))? {
            return Err(Error::Locked(zone.clone().into()));
        }
        // It is ours already; a file that was only opened must not pass for a held lock.
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { file }),
            Err(Errno::WOULDBLOCK) => Err(Error::Locked(Busy::of(zone, &path))),
            Err(errno) => Err(Error::file("take over the lock", &path)(errno.into())),
        }
    }
}

/// Takes the lock of a zone.
///
/// # Errors
/// [`Error::Locked`] when it is held and `wait` is [`Wait::No`].
pub fn zone(root: &Root, zone: &ZoneName, wait: Wait) -> Result<ZoneLock, Error> {
    let path = root.lock(zone);
    match take(&path, wait).map_err(Error::file("lock", &path))? {
        Some(file) => Ok(ZoneLock { file }),
        None => Err(Error::Locked(Busy::of(zone, &path))),
    }
}

/// Takes the lock of a zone, waiting for it no longer than `patience`.
///
/// # Errors
/// [`Error::Locked`] when it is held that long.
pub fn zone_within(root: &Root, zone: &ZoneName, patience: Duration) -> Result<ZoneLock, Error> {
    let path = root.lock(zone);
    exclusive_within(&path, patience)?
        .map(|file| ZoneLock { file })
        .ok_or_else(|| Error::Locked(Busy::of(zone, &path)))
}

/// Takes the lock of a zone for a command that only shows its plan. Where nobody has ever
/// taken the lock, nobody holds it, and its file is not made.
///
/// # Errors
/// [`Error::Locked`] when it is held that long.
pub fn zone_for_plan(root: &Root, zone: &ZoneName, patience: Duration) -> Result<ZoneLock, Error> {
    let path = root.lock(zone);
    if path.exists() {
        return zone_within(root, zone, patience);
    }
    let nothing = rustix::fs::memfd_create("lock", MemfdFlags::CLOEXEC);
    let nothing = nothing.map_err(|errno| Error::file("lock", &path)(errno.into()))?;
    Ok(ZoneLock {
        file: nothing.into(),
    })
}

/// Takes the lock of a zone that is being deleted, so that its file goes too.
///
/// # Errors
/// When the file cannot be removed.
pub fn forget(root: &Root, zone: &ZoneName, held: &ZoneLock) -> Result<(), Error> {
    let _ = held;
    for path in [
        root.running(zone),
        root.root_lock(zone),
        root.adopt_lock(zone),
        root.lock(zone),
    ] {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::file("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Locks any file of ours, waiting for it; the lock ends with the returned file.
///
/// # Errors
/// [`Error::File`].
pub fn exclusive(path: &Path) -> Result<File, Error> {
    // Waiting, so there is always a file.
    take(path, Wait::Yes)
        .and_then(|file| file.ok_or_else(|| ErrorKind::WouldBlock.into()))
        .map_err(Error::file("lock", path))
}

/// Locks any file of ours without waiting; `None` when another process holds it.
///
/// # Errors
/// [`Error::File`].
pub fn try_exclusive(path: &Path) -> Result<Option<File>, Error> {
    take(path, Wait::No).map_err(Error::file("lock", path))
}

/// Returns whether a process holds a lock on a file of ours.
///
/// # Errors
/// [`Error::File`].
pub fn is_held(path: &Path) -> Result<bool, Error> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other.map_err(Error::file("open", path))?,
    };
    // Shared, so that two who look do not see each other.
    match rustix::io::retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockShared)) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(Error::file("lock", path)(errno.into())),
    }
}

/// [`exclusive`], but gives up after `patience` with `None`.
///
/// # Errors
/// [`Error::File`].
pub fn exclusive_within(path: &Path, patience: Duration) -> Result<Option<File>, Error> {
    const RETRY_INTERVAL: Duration = Duration::from_millis(1);
    let deadline = Instant::now() + patience;
    loop {
        // There is no lock call with a time limit, and a signal for one is not ours
        // to take from the program.
        if let Some(file) = take(path, Wait::No).map_err(Error::file("lock", path))? {
            return Ok(Some(file));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// Locks the file at `path`; `None` when it is held and we do not wait.
pub(crate) fn take(path: &Path, wait: Wait) -> io::Result<Option<File>> {
    let operation = match wait {
        Wait::No => FlockOperation::NonBlockingLockExclusive,
        Wait::Yes => FlockOperation::LockExclusive,
    };
    loop {
        let file = open(path)?;
        match rustix::io::retry_on_intr(|| flock(&file, operation)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // The holder before us may have deleted the zone and with it this file: then another
        // process may hold a lock on a new file of the same name.
        let ours = file.metadata()?;
        match fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                return Ok(Some(file));
            }
            _ => {}
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let open = || {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
    };
    match open() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            open()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_lock_is_told_and_a_forgotten_one_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let name: ZoneName = "web".parse().unwrap();
        let held = zone(&root, &name, Wait::No).unwrap();
        assert!(matches!(
            zone(&root, &name, Wait::No),
            Err(Error::Locked(_))
        ));
        let adopting = try_exclusive(&root.adopt_lock(&name)).unwrap().unwrap();
        assert!(try_exclusive(&root.adopt_lock(&name)).unwrap().is_none());
        assert!(is_held(&root.adopt_lock(&name)).unwrap());
        assert!(!is_held(&root.root_lock(&name)).unwrap());
        drop(adopting);
        exclusive(&root.root_lock(&name)).unwrap();
        forget(&root, &name, &held).unwrap();
        assert_eq!(fs::read_dir(root.run()).unwrap().count(), 0);
        let again = zone(&root, &name, Wait::No).unwrap();
        drop(held);
        assert!(matches!(
            zone(&root, &name, Wait::No),
            Err(Error::Locked(_))
        ));
        drop(again);
        zone(&root, &name, Wait::Yes).unwrap();
    }

    #[test]
    fn a_lock_is_handed_on_without_a_moment_in_which_it_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let name: ZoneName = "web".parse().unwrap();
        let held = zone(&root, &name, Wait::No).unwrap();
        let copy = || File::from(held.as_fd().try_clone_to_owned().unwrap());
        let taken = ZoneLock::handed_on(&root, &name, copy()).unwrap();
        let opened = File::open(root.lock(&name)).unwrap();
        assert!(ZoneLock::handed_on(&root, &name, opened).is_err());
        let other = File::create(dir.path().join("other")).unwrap();
        assert!(ZoneLock::handed_on(&root, &name, other).is_err());
        drop(held);
        assert!(zone(&root, &name, Wait::No).is_err());
        drop(taken);
        zone(&root, &name, Wait::No).unwrap();
    }
}
