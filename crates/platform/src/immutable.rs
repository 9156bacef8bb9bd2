//! The root of an immutable zone.
//!
//! zoneadmd mounts the folders that stay writable, and the read-only files in them, over the root.
//! All of these are mounts of the root's own file system, so the zone keeps its data when it is
//! booted writable. The last step makes the root itself read-only. Then the first process copies
//! the mounts for its less privileged namespace, and the kernel locks each mount and its flags:
//! root of the zone can neither unmount it nor make it writable.
//!
//! The boot itself needs a writable root for mount points and for the files of name resolution. It
//! uses a further mount of the root, which the zone loses when the first process enters its root.
//! No process of the zone runs before that.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use model::immutable::{Kept, Layout, PROPERTY};
use model::plan::InsideStep;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use sys::mount::{Attr, Extent};

use crate::folders::{HELD, ROOT, WRITABLE};
use crate::place;
use host::volumes::relative;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Mounts the folders of a layout over the root on the scratch file system, and the root itself at
/// [`WRITABLE`].
///
/// # Errors
/// Fails if a part of a read-only path is a symbolic link: root of the zone could replace the link.
pub(crate) fn lay_out(layout: &Layout, scratch: &Path, first_id: u32) -> Result<(), AnyError> {
    let at = scratch.join(ROOT);
    let from = sys::mount::open_tree(CWD, &at, Extent::One)?;
    let writable = scratch.join(WRITABLE);
    fs::create_dir(&writable)?;
    sys::mount::attach(&from, CWD, &writable)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, &at, flags, Mode::empty())?;
    for path in &layout.writable {
        // A link needs no mount: the folder behind it is writable if it lies in a writable folder.
        if let Ok(Some(folder)) = find(&from, path)
            && !is_link(&folder)?
        {
            put(&folder, &root, path, Flags::AsRoot)?;
        }
    }
    for path in &layout.pinned {
        let folder = find(&from, path).map_err(|errno| changeable(path, errno))?;
        let Some(folder) = folder else { continue };
        if is_link(&folder)? {
            return Err(changeable(path, Errno::LOOP));
        }
        put(&folder, &root, path, Flags::AsRoot)?;
    }
    for one in &layout.kept {
        if let Some(found) = find_kept(&from, one, first_id)? {
            put(&found, &root, &one.path, Flags::ReadOnly)?;
        }
    }
    Ok(())
}

/// Makes the root on the scratch file system read-only. The mounts on it stay as they are.
pub(crate) fn seal(scratch: &Path) -> Result<(), sys::mount::Error> {
    let at = scratch.join(ROOT);
    let root = sys::mount::open_path(&at)?;
    sys::mount::set_attr(&root, &read_only(), Extent::One, &at)
}

fn read_only<'a>() -> Attr<'a> {
    Attr {
        set: MountAttrFlags::MOUNT_ATTR_RDONLY,
        ..Attr::default()
    }
}

/// Opens a path in the root without following any link. Returns `None` if it does not exist.
pub(crate) fn find(root: &OwnedFd, path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, relative(path), flags, Mode::empty(), resolve) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        other => other.map(Some),
    }
}

/// Opens a file or folder that stays read-only, and makes a missing folder if the layout wants it.
fn find_kept(root: &OwnedFd, one: &Kept, first_id: u32) -> Result<Option<OwnedFd>, AnyError> {
    let look = || find(root, &one.path).map_err(|errno| changeable(&one.path, errno));
    let found = look()?;
    if found.is_some() || !one.made {
        return Ok(found);
    }
    let (Some(above), Some(name)) = (one.path.parent(), one.path.file_name()) else {
        return Ok(None);
    };
    let Some(above) = find(root, above).map_err(|errno| changeable(above, errno))? else {
        return Ok(None);
    };
    let make = || rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(0o755));
    match sys::idmap::with_fs_ids(first_id, make)? {
        Ok(()) | Err(Errno::EXIST) => look(),
        Err(errno) => Err(format!("make {} in the zone: {errno}", one.path.display()).into()),
    }
}

pub(crate) fn is_link(file: &OwnedFd) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(file)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

fn changeable(path: &Path, errno: Errno) -> AnyError {
    let path = path.display();
    match errno {
        Errno::LOOP => format!(
            "{path} in the zone, or a folder above it, is a symbolic link, which root of the zone could replace: expected a folder; clear {PROPERTY}, or replace the link"
        ),
        other => format!("{path} in the zone: {other}"),
    }
    .into()
}

/// The flags of a mount over the root.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flags {
    /// The flags that the root still has.
    AsRoot,
    /// The flags of the root, and read-only.
    ReadOnly,
}

/// Mounts a file or folder of the root over itself.
fn put(file: &OwnedFd, root: &OwnedFd, path: &Path, flags: Flags) -> Result<(), AnyError> {
    let mount = sys::mount::open_tree(file, Path::new(""), Extent::One)?;
    if flags == Flags::ReadOnly {
        sys::mount::set_attr(&mount, &read_only(), Extent::One, path)?;
    }
    let place = find(root, path)?.ok_or(Errno::NOENT)?;
    Ok(sys::mount::attach(&mount, &place, Path::new(""))?)
}

/// Makes missing mount points of the first process's steps. The working directory is the read-only
/// root.
pub(crate) fn make_mount_points(targets: &[PathBuf], steps: &[InsideStep]) -> Result<(), AnyError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let beside = |name: &Path| openat(CWD, Path::new("..").join(name), flags, Mode::empty());
    let root = beside(Path::new(WRITABLE))?;
    for target in targets {
        match place::open(CWD, &relative(target)) {
            Err(Errno::NOENT) => {}
            other => {
                other.map_err(|errno| format!("{} in the zone: {errno}", target.display()))?;
                continue;
            }
        }
        // The mount point of a file is a file.
        let held = steps.iter().find_map(|step| match step {
            InsideStep::Place { held, target: at } if at == target => Some(*held),
            _ => None,
        });
        let held = held.map(|held| beside(&Path::new(HELD).join(held.to_string())));
        let like = held.transpose()?;
        place::open_or_make(&root, target, like.as_ref().unwrap_or(&root).as_fd())?;
    }
    Ok(())
}

/// Calls `write` with the writable mount of the root as root folder. The working directory is the
/// read-only root.
pub(crate) fn on_writable_mount(write: impl FnOnce()) -> Result<(), AnyError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, "/", flags, Mode::empty())?;
    let here = openat(CWD, ".", flags, Mode::empty())?;
    rustix::process::chdir(Path::new("..").join(WRITABLE))?;
    rustix::process::chroot(".")?;
    write();
    rustix::process::fchdir(&root)?;
    rustix::process::chroot(".")?;
    Ok(rustix::process::fchdir(&here)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn root() -> (tempfile::TempDir, OwnedFd) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("var/lib/dpkg")).unwrap();
        symlink("/etc", folder.path().join("var/cache")).unwrap();
        symlink("/nowhere", folder.path().join("var/lib/rpm")).unwrap();
        let root = fs::File::open(folder.path()).unwrap().into();
        (folder, root)
    }

    fn kept(path: &str, made: bool) -> Kept {
        Kept {
            path: path.into(),
            made,
        }
    }

    #[test]
    fn a_link_above_a_read_only_path_is_refused() {
        let (_folder, root) = root();
        let error = find_kept(&root, &kept("/var/cache/apt", false), 0).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("/var/cache/apt in the zone, or a folder above it"),
            "{text}"
        );
        assert!(
            find_kept(&root, &kept("/var/lib/dpkg", false), 0)
                .unwrap()
                .is_some()
        );
        assert!(
            find_kept(&root, &kept("/var/lib/apt", false), 0)
                .unwrap()
                .is_none()
        );
        assert!(
            find_kept(&root, &kept("/var/spool/cron", true), 0)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn a_link_at_the_end_is_opened_itself() {
        let (_folder, root) = root();
        let found = find_kept(&root, &kept("/var/lib/rpm", false), 0).unwrap();
        assert!(is_link(&found.unwrap()).unwrap());
    }

    #[test]
    fn a_wanted_folder_is_made_once() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let (folder, root) = root();
        for _ in 0..2 {
            assert!(
                find_kept(&root, &kept("/var/lib/linger", true), 0)
                    .unwrap()
                    .is_some()
            );
        }
        assert!(folder.path().join("var/lib/linger").is_dir());
    }
}
