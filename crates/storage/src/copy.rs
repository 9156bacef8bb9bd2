//! Copies a top or a layer with all files and attributes that overlay keeps in it.
//!
//! A copy keeps whiteouts, overlay's own attributes, owners, times and hard links. Data blocks are
//! shared if the file system supports this (btrfs, xfs). Otherwise the data is copied and holes
//! stay holes.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, SeekFrom, Stat, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::attributes::{Xattrs, grow, times, xattrs};
use crate::error::{Error, Result};
use crate::folder::Folder;

/// Maximum depth of nested folders in a copy; two descriptors are open for each level.
const MAX_FOLDER_DEPTH: usize = 256;

/// Number of bytes that are copied by one call.
const COPY_BYTES: usize = 1 << 20;

/// The numbers of files and bytes of a copy.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// Number of files, folders, links and whiteouts.
    pub entries: u64,
    /// Number of bytes in regular files whose blocks are shared with the original.
    pub shared_bytes: u64,
    /// Number of bytes in regular files that were copied.
    pub copied_bytes: u64,
    /// Number of entries that are further names of unchanged files in the last snapshot. `entries`
    /// does not count these.
    pub linked: u64,
}

/// Number of bytes after which a copy of a large file reports its progress.
const BYTES_BETWEEN_REPORTS: u64 = 64 << 20;

/// A function that receives the progress of a copy.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(&Copied);

/// A copy in progress.
pub(crate) struct Copier<'a> {
    /// The folder with one extra hard link for each copied file that has several names. The name of
    /// the extra link is the file's inode number. The next name of the file is linked from this
    /// folder, so the copier need not remember the path of the first name.
    links: Folder,
    /// True if each copy replaces its original. The count of names of an original then falls with
    /// each copy, so the last name may belong to a file that was copied already.
    replaces: bool,
    /// True if a running zone may have dirty pages of the originals: these are written to disk
    /// before the copy, so that a later store through a mapping sets the change time.
    flushes: bool,
    pub(crate) done: Copied,
    watch: Option<Watch<'a>>,
}

impl std::fmt::Debug for Copier<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copier")
            .field("links", &self.links)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<'a> Copier<'a> {
    /// `links` is an empty folder on the file system of the copy. The caller removes it after the
    /// copy.
    pub(crate) fn new(links: Folder) -> Self {
        Self {
            links,
            replaces: false,
            flushes: false,
            done: Copied::default(),
            watch: None,
        }
    }

    /// As [`Copier::new`]; continues the count of `done`, and reports its progress to `watch`.
    pub(crate) fn watched(links: Folder, done: Copied, watch: Watch<'a>) -> Self {
        Self {
            done,
            watch: Some(watch),
            ..Self::new(links)
        }
    }

    /// Runs [`Copier::new`] for the files of a running zone, which may be changed and replaced
    /// during the copy. Continues the count of `done`.
    pub(crate) fn flushing(links: Folder, done: Copied) -> Self {
        Self {
            flushes: true,
            done,
            ..Self::new(links)
        }
    }

    fn tell(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch(&self.done);
        }
    }

    /// Runs [`Copier::new`] for a caller that replaces each original with its copy.
    pub(crate) fn replacing(links: Folder) -> Self {
        Self {
            replaces: true,
            ..Self::new(links)
        }
    }

    /// Copies the content of `from` into the empty folder `to`, and gives `to` the attributes of
    /// `from`.
    pub(crate) fn folder(&mut self, from: &Folder, to: &Folder) -> Result<()> {
        self.fill(from, to, 0)
    }

    fn fill(&mut self, from: &Folder, to: &Folder, depth: usize) -> Result<()> {
        if depth > MAX_FOLDER_DEPTH {
            return Err(Error::TooDeep(from.path().to_owned()));
        }
        for (name, _) in from.entries()? {
            let stat = stat(from, &name)?;
            if kind(&stat) == FileType::Directory {
                let inner = from.open_child(&name)?;
                to.make(&name)?;
                self.done.entries += 1;
                self.fill(&inner, &to.open_child(&name)?, depth + 1)?;
            } else {
                self.entry(from, to, &name)?;
            }
        }
        // The attributes are set last, because creating files in the folder changes its times.
        dress_folder(from, to)
    }

    /// Copies the object `name`, which is not a folder. Returns its properties before the copy.
    pub(crate) fn entry(&mut self, from: &Folder, to: &Folder, name: &OsStr) -> Result<Stat> {
        let mut stat = stat(from, name)?;
        let several = stat.st_nlink > 1;
        if (several || self.replaces) && self.again(to, name, &stat)? {
            self.done.entries += 1;
            return Ok(stat);
        }
        match kind(&stat) {
            FileType::RegularFile => self.file(from, to, name, &mut stat)?,
            other => special(from, to, name, &stat, other)?,
        }
        self.done.entries += 1;
        self.tell();
        if several {
            // linkat fails if the file has reached its maximum number of names. The next name then
            // becomes a separate file.
            self.remember(to, name, &stat);
        }
        Ok(stat)
    }

    /// Makes the names that a file gets later in this copy links to its copy `name`.
    pub(crate) fn remember(&self, to: &Folder, name: &OsStr, stat: &Stat) {
        let _ = rustix::fs::linkat(to, name, &self.links, number(stat), AtFlags::empty());
    }

    /// Gives a file that was copied already the additional name `name`. Returns false if the file
    /// was not copied yet.
    pub(crate) fn again(&self, to: &Folder, name: &OsStr, stat: &Stat) -> Result<bool> {
        relink(&self.links, &number(stat), to, name)
    }

    fn file(&mut self, from: &Folder, to: &Folder, name: &OsStr, stat: &mut Stat) -> Result<()> {
        let source = open_file(from, name)?;
        if self.flushes {
            *stat = flush(&source).map_err(|e| from.fail("sync_file_range", name, e))?;
        }
        let stat = &*stat;
        let target = rustix::fs::openat(
            to,
            name,
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::RUSR | Mode::WUSR,
        )
        .map_err(|e| to.fail("create", name, e))?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        match rustix::fs::ioctl_ficlone(&target, &source) {
            Ok(()) => self.done.shared_bytes += size,
            Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS) => {
                self.data(&source, &target, size)
                    .map_err(|e| to.fail("write", name, e))?;
            }
            Err(e) => return Err(to.fail("ficlone", name, e)),
        }
        let all = xattrs(&source).map_err(|e| from.fail("getxattr", name, e))?;
        dress(&target, stat, &all).map_err(|e| to.fail("set attributes of", name, e))
    }

    /// Copies the data between holes, and counts its bytes.
    fn data(&mut self, from: &OwnedFd, to: &OwnedFd, size: u64) -> rustix::io::Result<()> {
        rustix::fs::ftruncate(to, size)?;
        let mut at = 0;
        while at < size {
            let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
                Ok(start) => start,
                // The rest of the file is a hole.
                Err(Errno::NXIO) => break,
                Err(e) => return Err(e),
            };
            let end = rustix::fs::seek(from, SeekFrom::Hole(start))?.min(size);
            let end = end.min(start.saturating_add(BYTES_BETWEEN_REPORTS));
            piece(from, to, start, end)?;
            self.done.copied_bytes += end.saturating_sub(start);
            self.tell();
            at = end.max(start + 1);
        }
        Ok(())
    }
}

/// Opens a file of a top or layer for reading. Fails with ESTALE for an object of another kind, which
/// a running zone may have put in place of the file.
pub(crate) fn open_file(at: &Folder, name: &OsStr) -> Result<OwnedFd> {
    let file = rustix::fs::openat2(
        at,
        name,
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOATIME | OFlags::NONBLOCK,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
    )
    .map_err(|e| at.fail("open", name, e))?;
    let stat = rustix::fs::fstat(&file).map_err(|e| at.fail("fstat", name, e))?;
    match kind(&stat) {
        FileType::RegularFile => Ok(file),
        _ => Err(at.fail("open", name, Errno::STALE)),
    }
}

/// Writes the dirty pages of a file to disk, and returns its properties after that. The kernel
/// write-protects clean pages in mappings, so that the next store sets the change time.
pub(crate) fn flush(file: &OwnedFd) -> std::io::Result<Stat> {
    sys::write_out(file, true)?;
    Ok(rustix::fs::fstat(file)?)
}

/// Returns the name of a file in the folder of extra links.
fn number(stat: &Stat) -> OsString {
    OsString::from(format!("{:x}-{:x}", stat.st_dev, stat.st_ino))
}

/// Gives the folder `to` the attributes of `from`, and removes all others.
pub(crate) fn dress_folder(from: &Folder, to: &Folder) -> Result<()> {
    let all = xattrs(from).map_err(|e| from.fail("getxattr", "", e))?;
    let stat = rustix::fs::fstat(from).map_err(|e| from.fail("fstat", "", e))?;
    let dress = || -> rustix::io::Result<()> {
        for name in xattrs(to)?.into_keys() {
            // Labels of security modules belong to every file, and cannot be removed.
            if !all.contains_key(&name) && !name.starts_with(b"security.") {
                rustix::fs::fremovexattr(to, OsStr::from_bytes(&name))?;
            }
        }
        dress(to, &stat, &all)
    };
    dress().map_err(|e| to.fail("set attributes of", "", e))
}

fn stat(at: &Folder, name: &OsStr) -> Result<Stat> {
    rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| at.fail("stat", name, e))
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Gives a file that was copied already the additional name `name`. Returns false if the file was
/// not copied yet.
fn relink(links: &Folder, number: &OsStr, to: &Folder, name: &OsStr) -> Result<bool> {
    match rustix::fs::linkat(links, number, to, name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::MLINK) => Ok(false),
        Err(e) => Err(to.fail("link", name, e)),
    }
}

/// Sets the owner, mode, attributes and times of an open file or folder.
fn dress(fd: impl AsFd, stat: &Stat, all: &Xattrs) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    rustix::fs::fchown(&fd, Some(uid), Some(gid))?;
    // The mode and the attributes are set after the owner, because chown clears the set-id bits and
    // the capabilities.
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    for (name, value) in all {
        rustix::fs::fsetxattr(&fd, OsStr::from_bytes(name), value, XattrFlags::empty())?;
    }
    rustix::fs::futimens(&fd, &times(stat))
}

/// Copies a symbolic link, whiteout, fifo or socket.
fn special(from: &Folder, to: &Folder, name: &OsStr, stat: &Stat, kind: FileType) -> Result<()> {
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    match kind {
        FileType::Symlink => {
            let text = from.read_link(name)?.unwrap_or_default();
            to.link(name, text)?;
        }
        other => rustix::fs::mknodat(to, name, other, mode, stat.st_rdev)
            .map_err(|e| to.fail("mknod", name, e))?,
    }
    let dress = || -> rustix::io::Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        rustix::fs::chownat(to, name, Some(uid), Some(gid), flags)?;
        if kind != FileType::Symlink {
            rustix::fs::chmodat(to, name, mode, AtFlags::empty())?;
        }
        copy_link_xattrs(&by_descriptor(from, name), &by_descriptor(to, name))?;
        let times: Timestamps = times(stat);
        rustix::fs::utimensat(to, name, &times, flags)
    };
    dress().map_err(|e| to.fail("set attributes of", name, e))
}

/// Returns a path to an entry of an open folder, for calls that take no descriptor.
fn by_descriptor(at: &Folder, name: &OsStr) -> PathBuf {
    let fd = at.as_fd().as_raw_fd();
    PathBuf::from(format!("/proc/self/fd/{fd}")).join(name)
}

fn copy_link_xattrs(from: &Path, to: &Path) -> rustix::io::Result<()> {
    let names = match grow(|buffer| rustix::fs::llistxattr(from, buffer)) {
        Err(Errno::NOTSUP) => return Ok(()),
        other => other?,
    };
    for name in names.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        let value = grow(|buffer| rustix::fs::lgetxattr(from, name, buffer))?;
        rustix::fs::lsetxattr(to, name, &value, XattrFlags::empty())?;
    }
    Ok(())
}

fn piece(from: &OwnedFd, to: &OwnedFd, start: u64, end: u64) -> rustix::io::Result<()> {
    let (mut read, mut written) = (start, start);
    while read < end {
        let want = usize::try_from(end - read)
            .unwrap_or(COPY_BYTES)
            .min(COPY_BYTES);
        match rustix::fs::copy_file_range(from, Some(&mut read), to, Some(&mut written), want) {
            // The file has become shorter. No zone writes during a copy, but a program of the host
            // may.
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => {
                return by_hand(from, to, read, end);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Copies bytes with read and write, between file systems that support no faster call.
fn by_hand(from: &OwnedFd, to: &OwnedFd, mut at: u64, end: u64) -> rustix::io::Result<()> {
    let mut buffer = vec![0_u8; 128 << 10];
    while at < end {
        let want = usize::try_from(end - at)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = rustix::io::pread(from, &mut buffer[..want], at)?;
        if read == 0 {
            return Ok(());
        }
        let mut done = 0;
        while done < read {
            let offset = at + done as u64;
            done += rustix::io::pwrite(to, &buffer[done..read], offset)?;
        }
        at += read as u64;
    }
    Ok(())
}
