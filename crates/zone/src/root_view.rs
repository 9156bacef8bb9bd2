//! Mounts the whole root of a zone on the host, permanently or for one call.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::MountAttrFlags;
use storage::{Stack, driver_at};
use sys::process::ns;

use host::Error;
use host::flatten;

/// Mounts the whole root of a halted zone at a folder, writable. Makes the folder if it is missing.
pub(crate) fn show(zonepath: &Path, at: &Path) -> Result<(), Error> {
    match fs::create_dir(at) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(Error::Io(format!("make {}", at.display()), error));
        }
        _ => {}
    }
    let stack = driver_at(zonepath)?.stack(zonepath)?;
    let root = aside(|| Ok(storage::assemble(&stack, None, 0, at)?))?;
    let attr = sys::mount::Attr {
        set: MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID,
        private: true,
        ..sys::mount::Attr::default()
    };
    let mounted = sys::mount::set_attr(&root, &attr, sys::mount::Extent::One, at)
        .and_then(|()| sys::mount::attach(&root, CWD, at));
    mounted.map_err(|error| {
        let _ = fs::remove_dir(at);
        Error::Refused(flatten(&error))
    })
}

/// Maximum time for which the unmount of a busy root is repeated. A process that is being started
/// has copies of its parent's file descriptors until it executes its program.
const UNMOUNT_RETRY_TIME: Duration = Duration::from_secs(1);

/// Interval between two attempts to unmount a root.
const UNMOUNT_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Unmounts a root that [`show`] has mounted, and removes the folder.
pub(crate) fn hide(at: &Path) -> Result<(), Error> {
    uncover(at)?;
    fs::remove_dir(at).map_err(Error::io(format!("remove {}", at.display())))
}

/// Unmounts the root at a folder and keeps the folder. If no root is mounted there, this is no
/// error.
pub(crate) fn uncover(at: &Path) -> Result<(), Error> {
    if !subject::is_mount(at) {
        return Ok(());
    }
    let end = Instant::now() + UNMOUNT_RETRY_TIME;
    loop {
        match sys::mount::unmount(at) {
            Ok(()) => return Ok(()),
            Err(error) if is_busy(&error) && Instant::now() < end => {
                std::thread::sleep(UNMOUNT_RETRY_INTERVAL);
            }
            Err(error) => return Err(refused(error)),
        }
    }
}

fn is_busy(error: &sys::mount::Error) -> bool {
    error.errno() == rustix::io::Errno::BUSY.raw_os_error()
}

/// Returns a folder that exists: `scratch` itself, or the nearest folder above it.
pub(crate) fn any_folder(scratch: &Path) -> &Path {
    let there = scratch.ancestors().find(|folder| folder.is_dir());
    there.unwrap_or(Path::new("/"))
}

/// Calls `look` with the whole root of a zone, mounted read-only as the zone sees it, including the
/// inherited folders of the host. The zone may be running. `scratch` may be any existing folder.
pub(crate) fn with_view<T: Send>(
    stack: &Stack,
    inherited: &[PathBuf],
    scratch: &Path,
    look: impl FnOnce(OwnedFd) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    aside(|| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = storage::view(stack, scratch)?;
        sys::mount::attach(&root, CWD, scratch).map_err(refused)?;
        for dir in inherited {
            let shared =
                sys::mount::open_tree(CWD, dir, sys::mount::Extent::One).map_err(refused)?;
            let place = sys::root::open(&root, dir, flags)
                .map_err(|errno| Error::Io(format!("open {}", dir.display()), errno.into()))?;
            sys::mount::attach(&shared, &place, Path::new("")).map_err(refused)?;
        }
        let root = openat(CWD, scratch, flags, Mode::empty())
            .map_err(|errno| Error::Io(format!("open {}", scratch.display()), errno.into()))?;
        look(root)
    })
}

/// Calls `work` with the path of the whole root of a halted zone. The root is writable, contains no
/// inherited folders of the host, and is visible only to this call. `scratch` may be any existing
/// folder.
pub(crate) fn with_root<T: Send>(
    stack: &Stack,
    scratch: &Path,
    work: impl FnOnce(&Path) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    aside(|| {
        let root = storage::assemble(stack, None, 0, scratch)?;
        sys::mount::attach(&root, CWD, scratch).map_err(refused)?;
        let done = work(scratch)?;
        // The written files must be on stable storage before success is reported.
        let synced = fs::File::open(scratch).and_then(|open| Ok(rustix::fs::syncfs(open)?));
        synced.map_err(Error::io(format!("sync {}", scratch.display())))?;
        Ok(done)
    })
}

/// Calls `work` with the whole root of a halted zone, as the running zone has it: writable, with the
/// inherited folders of the host mounted read-only. Devices and set-id bits have no effect. The
/// root is visible only to this call. `scratch` may be any existing folder.
pub(crate) fn with_whole_root<T: Send>(
    stack: &Stack,
    inherited: &[PathBuf],
    scratch: &Path,
    work: impl FnOnce(OwnedFd) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let harmless = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    let restrict = |mount: &OwnedFd, set, path: &Path| {
        let attr = sys::mount::Attr {
            set,
            private: true,
            ..sys::mount::Attr::default()
        };
        sys::mount::set_attr(mount, &attr, sys::mount::Extent::One, path).map_err(refused)
    };
    aside(|| {
        let root = storage::assemble(stack, None, 0, scratch)?;
        restrict(&root, harmless, scratch)?;
        sys::mount::attach(&root, CWD, scratch).map_err(refused)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, scratch, flags, Mode::empty());
        let root = opened
            .map_err(|errno| Error::Io(format!("open {}", scratch.display()), errno.into()))?;
        for dir in inherited {
            let shared =
                sys::mount::open_tree(CWD, dir, sys::mount::Extent::One).map_err(refused)?;
            restrict(&shared, harmless | MountAttrFlags::MOUNT_ATTR_RDONLY, dir)?;
            let place = sys::root::open(&root, dir, flags)
                .map_err(|errno| Error::Io(format!("open {}", dir.display()), errno.into()))?;
            sys::mount::attach(&shared, &place, Path::new("")).map_err(refused)?;
        }
        let done = work(root)?;
        // The written files must be on stable storage before success is reported.
        let synced = fs::File::open(scratch).and_then(|open| Ok(rustix::fs::syncfs(open)?));
        synced.map_err(Error::io(format!("sync {}", scratch.display())))?;
        Ok(done)
    })
}

/// Calls `work` in a mount namespace that ends with this call. The layers of a root are mounted
/// separately for a moment, and the host must not see these mounts.
pub(crate) fn aside<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let work = || -> Result<T, Error> {
        sys::namespace::unshare(ns::MOUNT).map_err(Error::io("leave the host's mounts"))?;
        sys::mount::make_private_recursive().map_err(refused)?;
        work()
    };
    // Mount namespaces belong to threads, so a new thread enters the new namespace and ends there.
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|_| Err(Error::Refused("could not assemble the root".to_owned())))
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn refused(error: sys::mount::Error) -> Error {
    Error::Refused(flatten(&error))
}
