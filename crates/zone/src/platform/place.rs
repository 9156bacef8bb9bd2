//! Mount points in a zone, made where they are missing, and what is mounted there.
//!
//! To be used by a process that is the zone's root and no more: whatever the zone
//! makes of its paths, they lead to what its root can reach anyway.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use rustix::io::Errno;
use store::runtime::Mounted;

use super::relative;

/// STATX_MNT_ID_UNIQUE of statx(2), from kernel 6.8 on.
const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// Why something in a zone could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{path} in the zone")]
pub(crate) struct Error {
    path: String,
    source: std::io::Error,
}

fn fail(path: &Path) -> impl FnOnce(Errno) -> Error {
    let path = format!("/{}", path.display());
    move |errno| Error {
        path,
        source: errno.into(),
    }
}

/// Opens a mount point for `mount`, a folder or a file as that is itself.
pub(crate) fn open_or_make(
    root: impl AsFd,
    path: &Path,
    mount: impl AsFd,
) -> Result<OwnedFd, Error> {
    let path = relative(path);
    let stat = rustix::fs::fstat(mount).map_err(fail(&path))?;
    let is_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
    match open(&root, &path) {
        Err(Errno::NOENT) => {}
        other => return other.map_err(fail(&path)),
    }
    let mut parents: Vec<&Path> = path.ancestors().skip(1).collect();
    parents.pop();
    for folder in parents.into_iter().rev() {
        make_folder(&root, folder)?;
    }
    if is_folder {
        make_folder(&root, &path)?;
    } else {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o644);
        let made = openat2(&root, &path, flags, mode, ResolveFlags::IN_ROOT);
        made.map_err(fail(&path))?;
    }
    open(&root, &path).map_err(fail(&path))
}

/// Opens what is there; every link leads to where the zone's root would follow it.
pub(super) fn open(root: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags, Mode::empty(), resolve)
}

fn make_folder(root: impl AsFd, path: &Path) -> Result<(), Error> {
    if !matches!(open(&root, path), Err(Errno::NOENT)) {
        return Ok(());
    }
    let parent = path.parent().unwrap_or(path);
    let parent = open(&root, parent).map_err(fail(path))?;
    let name = path.file_name().unwrap_or_default();
    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(fail(path)(errno)),
    }
}

/// The numbers of a mount, attached or not, for what was mounted `at` a place.
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

/// The numbers of what is mounted at a place in a zone.
pub(crate) fn find(root: impl AsFd, at: &Path) -> Result<Mounted, Error> {
    let path = relative(at);
    let place = open(root, &path).map_err(fail(&path))?;
    remember(place, at).map_err(fail(&path))
}
