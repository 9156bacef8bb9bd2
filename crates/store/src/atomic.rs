//! Files that are whole at any moment: written aside, fsynced, renamed, and the
//! folder fsynced. After a crash a reader sees the old content or the new.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::Error;

/// Whether a write must be on stable storage when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power cut.
    Stable,
    /// The content is on stable storage; the name follows with the next stable write
    /// in the same folder.
    Content,
    /// Whole at any moment, but may be lost with the host (everything in /run).
    Volatile,
}

/// Replaces `path` with `bytes`, durably; makes the folder when it is missing.
///
/// # Errors
/// [`Error::File`] names the step that failed; the old content is then in place.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Error> {
    replace(path, bytes, mode, Durability::Stable)
}

/// Replaces `path` with `bytes`, as durably as asked.
///
/// # Errors
/// See [`write`].
pub fn replace(path: &Path, bytes: &[u8], mode: u32, durability: Durability) -> Result<(), Error> {
    let aside = aside(path);
    let written = write_aside(&aside, bytes, mode, durability)
        .and_then(|()| fs::rename(&aside, path).map_err(Error::file("rename to", path)));
    if written.is_err() {
        // The write's own error tells more than that of cleaning up after it.
        let _ = fs::remove_file(&aside);
        return written;
    }
    if durability == Durability::Stable {
        sync_folder_of(path)?;
    }
    Ok(())
}

/// Makes a file with `bytes`, durably; false where there is one already, which stays.
///
/// # Errors
/// See [`write`]; there is then no such file.
pub fn create(path: &Path, bytes: &[u8], mode: u32) -> Result<bool, Error> {
    let aside = aside(path);
    let made =
        write_aside(&aside, bytes, mode, Durability::Stable).and_then(|()| {
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
        // Not every file system can do that; those can make links.
        Err(Errno::INVAL) => fs::hard_link(from, to).and_then(|()| fs::remove_file(from)),
        done => Ok(done?),
    }
}

/// Renames a file within its folder, durably.
///
/// # Errors
/// [`Error::File`] when it could not be renamed, or not be made durable.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(Error::file("rename to", to))?;
    sync_folder_of(to)
}

/// Removes `path` durably; a file that is not there is fine.
///
/// # Errors
/// [`Error::File`] when the file could not be removed.
pub fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Ok(()) => sync_folder_of(path),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::file("remove", path)(error)),
    }
}

/// A name in the same folder that no two processes or threads share.
fn aside(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(
        ".{}.{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    ));
    path.with_file_name(name)
}

fn write_aside(aside: &Path, bytes: &[u8], mode: u32, durability: Durability) -> Result<(), Error> {
    let open = || {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(mode)
            .open(aside)
    };
    let mut file = match open() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let folder = aside.parent().unwrap_or(Path::new("/"));
            fs::create_dir_all(folder).map_err(Error::file("make folder", folder))?;
            open()
        }
        other => other,
    }
    .map_err(Error::file("write", aside))?;
    file.write_all(bytes).map_err(Error::file("write", aside))?;
    if durability != Durability::Volatile {
        file.sync_all().map_err(Error::file("sync", aside))?;
    }
    Ok(())
}

fn sync_folder_of(path: &Path) -> Result<(), Error> {
    let folder = match path.parent() {
        // A name alone is one in the current folder.
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
    fn one_of_many_makes_a_new_file_and_all_see_it_whole() {
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
        // Nothing that is in the way is written to, and no link is followed.
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        assert!(!create(&link, b"x", 0o600).unwrap());
        assert!(!dir.path().join("elsewhere").exists());
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
