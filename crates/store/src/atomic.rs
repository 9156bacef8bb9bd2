//! Writes files atomically: writes a temporary file, syncs it, renames it, and syncs the folder.
//! After a crash a reader sees either the old content or the new content.
//!
//! The temporary file of NAME is always `.NAME.new`, and its writer holds a lock on it. If a writer
//! was killed, the next writer overwrites its temporary file. The removal of NAME also removes the
//! temporary file.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock};
use rustix::io::Errno;

use crate::Error;
use sys::crash::point;

/// The durability of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The write survives a power cut.
    Stable,
    /// The content is on stable storage. The name becomes durable with the next stable write in the
    /// same folder.
    Content,
    /// The file is complete at any moment, but a crash of the host may lose it. All files in /run
    /// have this durability.
    Volatile,
}

/// Replaces the content of `path` with `bytes`, durably. Creates the folder if it is missing.
///
/// # Errors
/// Fails with [`Error::File`], which names the failed step. If the write fails, the file keeps its
/// old content.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    replace(path, bytes, mode, Durability::Stable)
}

/// Replaces the content of `path` with `bytes`, with the requested durability.
///
/// # Errors
/// Fails like [`write()`].
pub fn replace(path: &Path, bytes: &[u8], mode: u32, durability: Durability) -> Result<(), Error> {
    let aside = aside(path);
    // The lock on the temporary file is held until the rename.
    let mut file = open_aside(&aside, mode)?;
    let written = fill(&mut file, &aside, bytes, durability)
        .inspect(|()| point())
        .and_then(|()| fs::rename(&aside, path).map_err(Error::file("rename to", path)));
    if written.is_err() {
        // The error of the write is more useful than an error of the cleanup.
        let _ = fs::remove_file(&aside);
        return written;
    }
    point();
    if durability == Durability::Stable {
        sync_folder_of(path)?;
    }
    Ok(())
}

/// Creates a file with `bytes`, durably. Returns false if the file exists already, and does not
/// change its content.
///
/// # Errors
/// Fails like [`write()`]. If the call fails, no file is created.
pub fn create(path: &Path, bytes: &[u8], mode: u32) -> Result<bool, Error> {
    let aside = aside(path);
    let mut file = open_aside(&aside, mode)?;
    let made = fill(&mut file, &aside, bytes, Durability::Stable).and_then(|()| {
        match rename_new(&aside, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::file("rename to", path)(error)),
        }
    });
    if !matches!(made, Ok(true)) {
        let _ = fs::remove_file(&aside);
        return made;
    }
    sync_folder_of(path).map(|()| true)
}

fn rename_new(from: &Path, to: &Path) -> std::io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not have RENAME_NOREPLACE, but they have hard links.
        Err(Errno::INVAL) => fs::hard_link(from, to).and_then(|()| fs::remove_file(from)),
        done => Ok(done?),
    }
}

/// Renames a file within its folder, durably.
///
/// # Errors
/// Fails with [`Error::File`] if the rename or the sync of the folder fails.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(Error::file("rename to", to))?;
    sync_folder_of(to)
}

/// Removes `path` durably, and also the temporary file of a killed writer. A missing `path` is no
/// error.
///
/// # Errors
/// Fails with [`Error::File`] if the file cannot be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    remove_aside(path);
    point();
    match fs::remove_file(path) {
        Ok(()) => sync_folder_of(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::file("remove", path)(error)),
    }
}

/// Removes the temporary file that a killed writer of `path` left. A caller that removes `path`
/// without [`remove`] must call `remove_aside` first.
pub fn remove_aside(path: &Path) {
    let aside = aside(path);
    let Ok(file) = File::open(&aside) else {
        return;
    };
    // A live writer holds the lock on its temporary file.
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() && is_at(&file, &aside) {
        let _ = fs::remove_file(&aside);
    }
}

/// Returns the temporary files that killed writers left in a folder, sorted. A missing folder has
/// no temporary files.
///
/// # Errors
/// Fails with [`Error::File`] if the folder cannot be read.
pub fn left_aside(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(Error::file("read", folder))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::file("read", folder))?.path();
        let Some(target) = target_of(&path) else {
            continue;
        };
        let Ok(file) = OpenOptions::new()
            .read(true)
            .custom_flags(i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0))
            .open(&path)
        else {
            continue;
        };
        // A live writer holds the lock on its temporary file.
        let free = flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
        if free && aside(&target) == path && is_at(&file, &path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the path for which a temporary file is written, or `None` if `aside` is not the name of
/// a temporary file.
#[must_use]
pub fn target_of(aside: &Path) -> Option<PathBuf> {
    let name = aside.file_name()?.to_str()?;
    let name = name.strip_prefix('.')?.strip_suffix(".new")?;
    (!name.is_empty()).then(|| aside.with_file_name(name))
}

/// Returns the path of the temporary file of `path`.
fn aside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".new");
    path.with_file_name(name)
}

/// Opens the temporary file, empty and locked against other writers.
fn open_aside(aside: &Path, mode: u32) -> Result<File, Error> {
    let open = || {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default())
            .mode(mode)
            .open(aside)
    };
    loop {
        let file = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let folder = aside.parent().unwrap_or(Path::new("/"));
                fs::create_dir_all(folder).map_err(Error::file("make folder", folder))?;
                open()
            }
            other => other,
        }
        .map_err(Error::file("write", aside))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|errno| Error::file("lock", aside)(errno.into()))?;
        // The former holder of the lock has renamed or removed the file, so this loop opens a new
        // file.
        if !is_at(&file, aside) {
            continue;
        }
        let about = file.metadata().map_err(Error::file("write", aside))?;
        if about.len() > 0 {
            // A killed writer left this file, perhaps with another mode.
            let kept = file.set_len(0);
            let kept = kept.and_then(|()| file.set_permissions(Permissions::from_mode(mode)));
            kept.map_err(Error::file("write", aside))?;
        }
        return Ok(file);
    }
}

/// Returns true if `path` is the open file `file`.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn fill(file: &mut File, aside: &Path, bytes: &[u8], durability: Durability) -> Result<(), Error> {
    file.write_all(bytes).map_err(Error::file("write", aside))?;
    if durability != Durability::Volatile {
        file.sync_all().map_err(Error::file("sync", aside))?;
    }
    Ok(())
}

fn sync_folder_of(path: &Path) -> Result<(), Error> {
    let folder = match path.parent() {
        // A path without a folder is a file in the current folder.
        Some(here) if here.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    };
    File::open(folder)
        .and_then(|dir| dir.sync_all())
        .map_err(Error::file("sync", folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn replaces_whole_files_and_leaves_nothing_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/folder/file");
        write(&path, b"one", 0o600).unwrap();
        write(&path, b"two", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn concurrent_creators_see_one_whole_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let made: Vec<bool> = std::thread::scope(|scope| {
            let one = |byte: u8| {
                let path = &path;
                scope.spawn(move || {
                    let made = create(path, &[byte; 4096], 0o600).unwrap();
                    let found = fs::read(path).unwrap();
                    assert_eq!(found, vec![found[0]; 4096]);
                    assert!(!made || found[0] == byte);
                    made
                })
            };
            let all: Vec<_> = (0..8).map(one).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(made.iter().filter(|made| **made).count(), 1);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // `create` does not write to an existing file, and does not follow a link.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        assert!(!create(&link, b"x", 0o600).unwrap());
        assert!(!dir.path().join("elsewhere").exists());
    }

    #[test]
    fn leftovers_of_a_killed_writer_are_removed_by_the_next_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let left = || {
            let mut file = open_aside(&aside(&path), 0o600).unwrap();
            fill(
                &mut file,
                &path,
                b"half of a longer text",
                Durability::Volatile,
            )
            .unwrap();
        };
        left();
        assert_eq!(left_aside(dir.path()).unwrap(), [aside(&path)]);
        assert_eq!(target_of(&aside(&path)), Some(path.clone()));
        assert_eq!(target_of(&path), None);
        let writer = open_aside(&aside(&path), 0o600).unwrap();
        assert_eq!(left_aside(dir.path()).unwrap(), [] as [PathBuf; 0]);
        drop(writer);
        left();
        write(&path, b"two", 0o644).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        left();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn many_writers_of_one_file_leave_it_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::thread::scope(|scope| {
            for byte in 0..8_u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        replace(path, &[byte; 4096], 0o600, Durability::Volatile).unwrap();
                        let found = fs::read(path).unwrap();
                        assert_eq!(found, vec![found[0]; 4096]);
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("occupied");
        fs::create_dir_all(path.join("child")).unwrap();
        assert!(write(&path, b"x", 0o600).is_err());
        assert!(path.join("child").is_dir());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
