//! The lock of each zone. Every process that changes a zone or its configuration holds the lock.

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

/// The behaviour if another process holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The call fails with [`Error::Locked`].
    No,
    /// The call waits for the lock.
    Yes,
}

/// A held lock. The lock is released when this value is dropped or the process ends.
#[derive(Debug)]
pub struct ZoneLock {
    file: File,
}

/// Passes the lock to another process: the lock is held while any process has the descriptor open.
impl AsFd for ZoneLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl ZoneLock {
    /// Takes over the lock of a zone from another process, which passed the lock as an open file.
    ///
    /// # Errors
    /// Fails with [`Error::Locked`] if the file is not the lock file of the zone, or another open
    /// file holds the lock.
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
        // This call succeeds if the passed file already holds the lock. The call fails if another
        // open file holds the lock.
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
/// Fails with [`Error::Locked`] if another process holds the lock and `wait` is [`Wait::No`].
pub fn zone(root: &Root, zone: &ZoneName, wait: Wait) -> Result<ZoneLock, Error> {
    let path = root.lock(zone);
    match take(&path, wait).map_err(Error::file("lock", &path))? {
        Some(file) => Ok(ZoneLock { file }),
        None => Err(Error::Locked(Busy::of(zone, &path))),
    }
}

/// Takes the lock of a zone, and waits at most `patience` for it.
///
/// # Errors
/// Fails with [`Error::Locked`] if another process holds the lock for that time.
pub fn zone_within(root: &Root, zone: &ZoneName, patience: Duration) -> Result<ZoneLock, Error> {
    let path = root.lock(zone);
    exclusive_within(&path, patience)?
        .map(|file| ZoneLock { file })
        .ok_or_else(|| Error::Locked(Busy::of(zone, &path)))
}

/// Takes the lock of a zone for a command that only shows its plan. If the lock file does not
/// exist, no process holds the lock, and the file is not created.
///
/// # Errors
/// Fails with [`Error::Locked`] if another process holds the lock for that time.
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

/// Removes the lock files and the running configuration of a zone that is being deleted. The caller
/// must hold the zone's lock.
///
/// # Errors
/// Fails if a file cannot be removed.
pub fn forget(root: &Root, zone: &ZoneName, held: &ZoneLock) -> Result<(), Error> {
    let _ = held;
    forget_name(root, zone)
}

/// As [`forget`], for the old name of a renamed zone, whose lock the caller or its caller holds.
///
/// # Errors
/// Fails if a file cannot be removed.
pub fn forget_name(root: &Root, zone: &ZoneName) -> Result<(), Error> {
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

/// Locks a file and waits for the lock. The lock is released when the returned file is closed.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn exclusive(path: &Path) -> Result<File, Error> {
    // This call waits, so it always returns a file.
    take(path, Wait::Yes)
        .and_then(|file| file.ok_or_else(|| ErrorKind::WouldBlock.into()))
        .map_err(Error::file("lock", path))
}

/// Locks a file together with other processes that call this function: [`exclusive`] waits for all
/// of them.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn shared(path: &Path) -> Result<File, Error> {
    take_as(path, FlockOperation::LockShared)
        .and_then(|file| file.ok_or_else(|| ErrorKind::WouldBlock.into()))
        .map_err(Error::file("lock", path))
}

/// Locks a file without waiting for the lock. Returns `None` if another process holds the lock.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn try_exclusive(path: &Path) -> Result<Option<File>, Error> {
    take(path, Wait::No).map_err(Error::file("lock", path))
}

/// Returns true if a process holds the lock on a file.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn is_held(path: &Path) -> Result<bool, Error> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other.map_err(Error::file("open", path))?,
    };
    // The test takes a shared lock, so that two tests at the same time do not report each other.
    match rustix::io::retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockShared)) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(Error::file("lock", path)(errno.into())),
    }
}

/// Locks a file like [`exclusive`], but returns `None` if the lock is not free within `patience`.
///
/// # Errors
/// Fails with [`Error::File`].
pub fn exclusive_within(path: &Path, patience: Duration) -> Result<Option<File>, Error> {
    const RETRY_INTERVAL: Duration = Duration::from_millis(1);
    let deadline = Instant::now() + patience;
    loop {
        // No lock call has a time limit, so this loop tries again and again. A signal could
        // interrupt the call, but signals belong to the program, not to this library.
        if let Some(file) = take(path, Wait::No).map_err(Error::file("lock", path))? {
            return Ok(Some(file));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// Locks the file at `path`. Returns `None` if another process holds the lock and `wait` is
/// [`Wait::No`].
pub(crate) fn take(path: &Path, wait: Wait) -> io::Result<Option<File>> {
    let operation = match wait {
        Wait::No => FlockOperation::NonBlockingLockExclusive,
        Wait::Yes => FlockOperation::LockExclusive,
    };
    take_as(path, operation)
}

fn take_as(path: &Path, operation: FlockOperation) -> io::Result<Option<File>> {
    loop {
        let file = open(path)?;
        match rustix::io::retry_on_intr(|| flock(&file, operation)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // The former holder may have deleted the zone and with it this lock file. In this case
        // another process may hold the lock on a new file of the same name.
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
