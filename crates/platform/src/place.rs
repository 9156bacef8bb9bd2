//! Opens mount points in a zone, makes missing ones, and identifies their mounts.
//!
//! The zone may change its paths, but the paths never lead out of its root. Missing folders are
//! made by a process that has only the rights of the zone's root, or with the ids of the zone's
//! root.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use store::runtime::Mounted;

use host::volumes::relative;

/// STATX_MNT_ID_UNIQUE of statx(2), which Linux 6.8 and later have.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The reason why a path in a zone could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{path} in the zone")]
pub(crate) struct Error {
    path: String,
    source: io::Error,
}

fn fail<E: Into<io::Error>>(path: &Path) -> impl FnOnce(E) -> Error {
    let path = format!("/{}", path.display());
    move |error| Error {
        path,
        source: error.into(),
    }
}

/// Opens a mount point for `mount`, and makes the mount point if it is missing: a folder for a
/// folder, a file for a file.
pub(crate) fn open_or_make(
    root: impl AsFd,
    path: &Path,
    mount: impl AsFd,
) -> Result<OwnedFd, Error> {
    let path = relative(path);
    let stat = rustix::fs::fstat(mount).map_err(fail(&path))?;
    if FileType::from_raw_mode(stat.st_mode).is_dir() {
        return open_or_make_folder(root.as_fd(), &path, &make_folder);
    }
    match open(&root, &path) {
        Err(Errno::NOENT) => {}
        other => return other.map_err(fail(&path)),
    }
    let folder = path.parent().unwrap_or(&path);
    let folder = open_or_make_folder(root.as_fd(), folder, &make_folder)?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let name = path.file_name().unwrap_or_default();
    rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o644)).map_err(fail(&path))?;
    open(&root, &path).map_err(fail(&path))
}

/// Opens a folder. If the folder or its parents are missing, calls `make` with the open parent
/// folder and the missing name.
pub(super) fn open_or_make_folder(
    root: BorrowedFd<'_>,
    path: &Path,
    make: &dyn Fn(BorrowedFd<'_>, &OsStr) -> io::Result<()>,
) -> Result<OwnedFd, Error> {
    let path = relative(path);
    match open(root, &path) {
        Err(Errno::NOENT) => {}
        other => return other.map_err(fail(&path)),
    }
    let folder = match path.parent() {
        Some(parent) => open_or_make_folder(root, parent, make)?,
        None => return Err(fail(&path)(Errno::NOENT)),
    };
    match make(folder.as_fd(), path.file_name().unwrap_or_default()) {
        // The error `AlreadyExists` is not a failure: a process in the zone has made the folder
        // first.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(fail(&path)(error));
        }
        _ => {}
    }
    open(root, &path).map_err(fail(&path))
}

fn make_folder(folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(
        folder,
        name,
        Mode::from_raw_mode(0o755),
    )?)
}

/// Opens an existing path; links are followed as inside the zone's root.
pub(crate) fn open(root: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    sys::root::open(root, path, OFlags::PATH)
}

/// Returns the ids of a mount, attached or not, that is or will be mounted at `at`.
pub(crate) fn remember(mount: impl AsFd, at: &Path) -> Result<Mounted, Errno> {
    let ask = |what| statx(&mount, "", AtFlags::EMPTY_PATH, what);
    let stat = ask(StatxFlags::MNT_ID)?;
    let unique = ask(UNIQUE)?;
    let has = unique.stx_mask & UNIQUE.bits() != 0;
    Ok(Mounted {
        at: at.to_owned(),
        id: stat.stx_mnt_id,
        unique: has.then_some(unique.stx_mnt_id),
    })
}

/// Returns the ids of the mount at a path in a zone.
pub(crate) fn find(root: impl AsFd, at: &Path) -> Result<Mounted, Error> {
    let path = relative(at);
    let place = open(root, &path).map_err(fail(&path))?;
    remember(place, at).map_err(fail(&path))
}
