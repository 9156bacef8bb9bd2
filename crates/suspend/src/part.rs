//! An image while it is written, under the name of an unfinished image.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::Error;

/// The suffix of an unfinished image's name. The name begins with a point.
const SUFFIX: &str = ".part";

/// The treatment of a file that has the name of the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Older {
    /// The existing file stays, and no new image is published.
    #[default]
    Refuse,
    /// The existing file is replaced when the new image is complete.
    Replace,
}

/// An unfinished image. Its file is removed on drop unless the image was published.
pub(crate) struct Part {
    file: File,
    path: PathBuf,
    aside: PathBuf,
    direct: AtomicBool,
    published: bool,
}

/// Returns the path of the unfinished image for the image at `path`.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(SUFFIX);
    path.with_file_name(name)
}

impl Part {
    /// Creates the unfinished file of the image at `path`. The unfinished file of a killed writer
    /// is used again, but the file of a running writer is not.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let aside = aside(path);
        let mut flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::DIRECT;
        loop {
            let file = match open(&aside, flags) {
                // The file system does not support direct writes, as some file systems in memory do
                // not.
                Err(error) if is(&error, Errno::INVAL) && flags.contains(OFlags::DIRECT) => {
                    flags -= OFlags::DIRECT;
                    continue;
                }
                opened => opened.map_err(Error::file("create", &aside))?,
            };
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(Error::Busy {
                        path: path.to_owned(),
                    });
                }
                Err(error) => return Err(Error::file("lock", &aside)(error.into())),
            }
            if !is_still(&file, &aside) {
                // The process that held the lock has just finished and has renamed or removed the
                // file.
                continue;
            }
            let part = Self {
                file,
                path: path.to_owned(),
                aside,
                direct: AtomicBool::new(flags.contains(OFlags::DIRECT)),
                published: false,
            };
            part.clear()?;
            return Ok(part);
        }
    }

    fn clear(&self) -> Result<(), Error> {
        let failed = Error::file("create", &self.aside);
        let found = self.file.metadata().map_err(&failed)?;
        if !found.is_file() || found.nlink() != 1 {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        self.file.set_len(0).map_err(&failed)?;
        rustix::fs::fchmod(&self.file, Mode::RUSR | Mode::WUSR)
            .map_err(|error| failed(error.into()))
    }

    /// Returns true if writes bypass the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Returns the number of free bytes that the image can use.
    pub(crate) fn free(&self) -> Result<u64, Error> {
        let found = rustix::fs::fstatvfs(&self.file)
            .map_err(|error| Error::file("look for free space for", &self.path)(error.into()))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Reserves this many bytes on the disk. Fails with [`Error::NoSpace`] if fewer bytes are free.
    pub(crate) fn reserve(&self, needed: u64) -> Result<(), Error> {
        let free = self.free()?;
        let full = || Error::NoSpace {
            path: self.path.clone(),
            needed,
            free,
        };
        if free < needed {
            return Err(full());
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, needed) {
            // Some file systems cannot reserve space.
            Ok(()) | Err(Errno::NOTSUP) => Ok(()),
            Err(Errno::NOSPC | Errno::DQUOT) => Err(full()),
            Err(error) => Err(Error::file("reserve space for", &self.path)(error.into())),
        }
    }

    /// Writes whole blocks from aligned memory to the image.
    pub(crate) fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.file.write_all_at(bytes, offset) {
            // The file system has larger blocks than an image, so O_DIRECT fails. Write through the
            // page cache instead.
            Err(error) if is(&error, Errno::INVAL) && self.is_direct() => {
                let flags = rustix::fs::fcntl_getfl(&self.file)?;
                rustix::fs::fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
                self.direct.store(false, Ordering::Relaxed);
                self.file.write_all_at(bytes, offset)
            }
            written => written,
        }
    }

    pub(crate) fn error(&self) -> impl Fn(io::Error) -> Error {
        Error::file("write", &self.path)
    }

    /// Truncates the file to its final length, and syncs the file if `sync` is set.
    pub(crate) fn complete(&self, length: u64, sync: bool) -> Result<(), Error> {
        self.file.set_len(length).map_err(self.error())?;
        if sync {
            let failed = Error::file("sync", &self.path);
            self.file.sync_all().map_err(failed)?;
        }
        Ok(())
    }

    /// Renames the unfinished image to its final name.
    pub(crate) fn publish(mut self, older: Older, sync: bool) -> Result<(), Error> {
        match older {
            Older::Replace => fs::rename(&self.aside, &self.path),
            Older::Refuse => rename_new(&self.aside, &self.path),
        }
        .map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Occupied {
                path: self.path.clone(),
            },
            _ => Error::file("rename to", &self.path)(error),
        })?;
        self.published = true;
        if sync {
            sync_folder_of(&self.path)?;
        }
        Ok(())
    }
}

impl AsFd for Part {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.published {
            // If the removal fails, readers still recognise the unfinished image and refuse it, and
            // the next image overwrites it.
            let _ = fs::remove_file(&self.aside);
        }
    }
}

/// Renames a file to a name that does not exist. Fails if the name exists.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not support this flag. There, another process must not create the
        // name between the check and the rename.
        Err(Errno::INVAL) => match fs::symlink_metadata(to) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        done => Ok(done?),
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(i32::from_ne_bytes(flags.bits().to_ne_bytes()))
        .open(path)
}

/// Returns true if the path still leads to the open file.
pub(crate) fn is_still(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(file), Ok(path)) => (file.dev(), file.ino()) == (path.dev(), path.ino()),
        _ => false,
    }
}

pub(crate) fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Syncs the folder of a path, so that a rename or removal survives a power cut.
pub(crate) fn sync_folder_of(path: &Path) -> Result<(), Error> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(Error::file("sync", folder))
}
