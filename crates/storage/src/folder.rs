//! A folder that is held open, and the few file system calls that datasets need.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// An open folder, and the path at which the folder was opened (for messages and mounts).
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

const OPEN: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The link whose text is the format of a zonepath, of a folder of layers, of a layer or of the
/// folder of images. A folder without this link has format 1.
const FORMAT_LINK: &str = "format";

/// The newest format that these programs can read.
const FORMAT: u64 = 1;

/// Fails with [`Error::Newer`] if only newer programs can read the format of a zonepath, or of the
/// layers beside the zonepath. A missing zonepath is no error.
pub fn must_be_known(zonepath: &Path) -> Result<()> {
    let layers = zonepath.with_file_name(crate::layout::LAYERS);
    for path in [zonepath, &layers, &zonepath.join(crate::layout::LAYERS)] {
        match must_be_known_at(path) {
            // An unreadable link is ignored here: a caller that needs the folder reports the error.
            Ok(()) | Err(Error::Io { .. }) => {}
            refused => return refused,
        }
    }
    Ok(())
}

/// Runs [`Folder::must_be_known`] on the folder at a path. A folder that does not exist is no
/// error.
pub(crate) fn must_be_known_at(path: &Path) -> Result<()> {
    check_format(path, read_link_at(&path.join(FORMAT_LINK))?)
}

/// Returns the text of a symbolic link, or `None` if the link does not exist.
pub(crate) fn read_link_at(path: &Path) -> Result<Option<OsString>> {
    link_text(path, rustix::fs::readlinkat(CWD, path, Vec::new()))
}

/// Fails if `text`, the text of the link [`FORMAT_LINK`] in a folder, is not a known format.
fn check_format(folder: &Path, text: Option<OsString>) -> Result<()> {
    let Some(text) = text else {
        return Ok(());
    };
    let found = text.to_str().and_then(|text| text.parse().ok());
    let found = found.ok_or_else(|| Error::BadLink {
        path: folder.join(FORMAT_LINK),
        text: text.to_string_lossy().into_owned(),
    })?;
    match found <= FORMAT {
        true => Ok(()),
        false => Err(Error::Newer {
            path: folder.to_owned(),
            found,
            known: FORMAT,
        }),
    }
}

/// Converts the result of readlink(2) for the symbolic link at a path.
fn link_text(path: &Path, answer: std::result::Result<CString, Errno>) -> Result<Option<OsString>> {
    match answer {
        Ok(text) => Ok(Some(OsString::from_vec(text.into_bytes()))),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::INVAL) => Err(Error::BadLink {
            path: path.to_owned(),
            text: "(not a symbolic link)".to_owned(),
        }),
        Err(e) => Err(Error::io("readlink", path, e)),
    }
}

impl Folder {
    /// Opens a folder. The last component of the path must not be a symbolic link.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let fd = rustix::fs::openat(CWD, path, OPEN, Mode::empty())
            .map_err(|e| Error::io("open", path, e))?;
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }

    /// Opens a folder, and creates it first (mode 0700) if it does not exist. The flag is true if
    /// the folder was created.
    pub(crate) fn open_or_make(path: &Path) -> Result<(Self, bool)> {
        let made = match rustix::fs::mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(e) => return Err(Error::io("mkdir", path, e)),
        };
        Ok((Self::open(path)?, made))
    }

    /// Opens the subfolder `name`. Follows no symbolic link and enters no other mount, not even a
    /// bind mount of the same file system.
    pub(crate) fn open_child(&self, name: impl AsRef<OsStr>) -> Result<Self> {
        let name = name.as_ref();
        let fd = rustix::fs::openat2(
            &self.fd,
            name,
            OPEN,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
        )
        .map_err(|e| self.fail("openat2", name, e))?;
        Ok(Self {
            fd,
            path: self.path.join(name),
        })
    }

    /// Fails with [`Error::Newer`] if the link [`FORMAT_LINK`] in the folder names a format that
    /// these programs cannot read. Zonepaths, layers and images without this link have format 1.
    pub(crate) fn must_be_known(&self) -> Result<()> {
        check_format(&self.path, self.read_link(FORMAT_LINK)?)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fail(
        &self,
        call: &'static str,
        name: impl AsRef<OsStr>,
        e: impl Into<std::io::Error>,
    ) -> Error {
        Error::io(call, self.path.join(name.as_ref()), e)
    }

    /// Returns the device number of the file system that holds this folder.
    pub(crate) fn device(&self) -> Result<u64> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|e| Error::io("fstat", &self.path, e))?;
        Ok(stat.st_dev)
    }

    /// Creates a subfolder. Returns false if an entry of that name exists.
    pub(crate) fn make(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = name.as_ref();
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(e) => Err(self.fail("mkdir", name, e)),
        }
    }

    /// Returns the file type of the entry `name`, or `None` if no such entry exists.
    pub(crate) fn kind(&self, name: impl AsRef<OsStr>) -> Result<Option<FileType>> {
        let name = name.as_ref();
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(e) => Err(self.fail("stat", name, e)),
        }
    }

    pub(crate) fn is_folder(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        Ok(self.kind(name)? == Some(FileType::Directory))
    }

    /// Makes a symbolic link.
    pub(crate) fn link(&self, name: impl AsRef<OsStr>, text: impl AsRef<OsStr>) -> Result<()> {
        let name = name.as_ref();
        rustix::fs::symlinkat(text.as_ref(), &self.fd, name)
            .map_err(|e| self.fail("symlink", name, e))
    }

    /// Creates a symbolic link, and replaces a link that has the same name.
    pub(crate) fn relink(&self, name: &str, text: impl AsRef<OsStr>) -> Result<()> {
        let aside = format!("{name}.new");
        self.unlink(&aside)?;
        self.link(&aside, text)?;
        self.rename(aside, self, name)
    }

    /// Returns the text of a symbolic link, or `None` if the name does not exist.
    pub(crate) fn read_link(&self, name: impl AsRef<OsStr>) -> Result<Option<OsString>> {
        let name = name.as_ref();
        let answer = rustix::fs::readlinkat(&self.fd, name, Vec::new());
        link_text(&self.path.join(name), answer)
    }

    pub(crate) fn rename(
        &self,
        name: impl AsRef<OsStr>,
        to: &Self,
        new: impl AsRef<OsStr>,
    ) -> Result<()> {
        let name = name.as_ref();
        rustix::fs::renameat(&self.fd, name, &to.fd, new.as_ref())
            .map_err(|e| self.fail("rename", name, e))
    }

    /// Removes a file or link. Returns false if the name does not exist.
    pub(crate) fn unlink(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = name.as_ref();
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(e) => Err(self.fail("unlink", name, e)),
        }
    }

    /// Removes an empty folder. Returns the plain error number, because callers branch on it.
    pub(crate) fn rmdir(&self, name: impl AsRef<OsStr>) -> std::result::Result<(), Errno> {
        rustix::fs::unlinkat(&self.fd, name.as_ref(), AtFlags::REMOVEDIR)
    }

    /// Returns the names in this folder, unsorted, with their file types if the file system reports
    /// them.
    pub(crate) fn entries(&self) -> Result<Vec<(OsString, FileType)>> {
        let mut names = Vec::new();
        for entry in self.read()? {
            let entry = entry.map_err(|e| Error::io("getdents", &self.path, e))?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push((OsStr::from_bytes(name).to_owned(), entry.file_type()));
            }
        }
        Ok(names)
    }

    pub(crate) fn is_empty(&self) -> Result<bool> {
        for entry in self.read()? {
            let entry = entry.map_err(|e| Error::io("getdents", &self.path, e))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the folder through a new file description, so that no other reader shares its
    /// position.
    fn read(&self) -> Result<Dir> {
        Dir::read_from(&self.fd).map_err(|e| Error::io("open", &self.path, e))
    }

    /// Waits for the lock of this folder. Dropping the returned value releases the lock.
    pub(crate) fn lock(&self, how: FlockOperation) -> Result<Lock> {
        loop {
            let fd = self.reopen()?;
            match rustix::fs::flock(&fd, how) {
                Ok(()) => return Ok(Lock { fd }),
                Err(Errno::INTR) => {}
                Err(e) => return Err(Error::io("flock", &self.path, e)),
            }
        }
    }

    /// Takes the exclusive lock, or returns `None` if another process or thread holds a lock of
    /// this folder.
    pub(crate) fn try_lock(&self) -> Result<Option<Lock>> {
        let fd = self.reopen()?;
        match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock { fd })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(Error::io("flock", &self.path, e)),
        }
    }

    /// Opens the folder again, for a new file description: threads that share `self` must not share
    /// a lock.
    fn reopen(&self) -> Result<OwnedFd> {
        rustix::fs::openat(&self.fd, ".", OPEN, Mode::empty())
            .map_err(|e| Error::io("open", &self.path, e))
    }

    /// Returns true if the path still leads to this folder.
    pub(crate) fn is_at_its_path(&self) -> Result<bool> {
        let own = rustix::fs::fstat(&self.fd).map_err(|e| Error::io("fstat", &self.path, e))?;
        match rustix::fs::lstat(&self.path) {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(Error::io("stat", &self.path, e)),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A held lock of a folder.
#[derive(Debug)]
#[must_use = "the lock ends with this value"]
pub(crate) struct Lock {
    fd: OwnedFd,
}

impl Drop for Lock {
    /// Releases the lock explicitly, because closing the descriptor may not release it: a process
    /// that another thread starts has a copy of the descriptor from fork(2) until execve(2), and
    /// this copy would keep the lock.
    fn drop(&mut self) {
        // An error is ignored, because the lock ends in any case when the last copy of the
        // descriptor is closed.
        let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_in_another_process_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let lock = folder.try_lock().unwrap().unwrap();
        // A process that another thread starts has such a copy of the descriptor.
        let copy = rustix::io::dup(&lock.fd).unwrap();
        assert!(folder.try_lock().unwrap().is_none());
        drop(lock);
        assert!(folder.try_lock().unwrap().is_some());
        drop(copy);
    }
}
