//! The trusted path into an immutable zone: `zlogin -T` and `zlogin -U`.
//!
//! The zone's own mounts are read-only for ever, so a trusted login has other mounts of the same
//! root. zoneadmd keeps them as a mount namespace in which no process runs. A trusted login copies
//! this namespace, and adds a /proc, /dev, /run and /tmp of its own. Its processes have the user
//! ids, network, control groups and privileges of the zone, but they are in another pid namespace:
//! otherwise root of the zone would reach the writable root through /proc/PID/root. They make no
//! sockets of the family AF_UNIX, because a service of the zone would get a pidfd of its peer.
//!
//! With `-T` the folders that the zone can write to are empty, so no program and no data of the
//! zone can mislead the administrator. With `-U` they are as the zone sees them.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use model::immutable::Layout;
use rustix::fs::{CWD, Mode, OFlags, openat, symlinkat};
use rustix::mount::MountAttrFlags;
use sys::mount::{Attr, Extent, MountFd, Param};
use sys::process::ns;

use crate::folders::ROOT;
use crate::immutable::{find, is_link};
use crate::inside::mask;
use crate::place;
use crate::plan::boot::MASKED;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The mount point of the root for trusted logins, on the scratch file system.
const KEPT: &str = "trusted";

/// The devices of the host in /dev of a trusted login.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Maximum size of each file system in memory of a trusted login.
const MEMORY_SIZE: &str = "64m";

/// The files that a trusted login needs if it does not see /etc of the zone.
const ACCOUNTS: [(&str, &[u8]); 2] = [
    ("passwd", b"root:x:0:0:root:/root:/bin/sh\n"),
    ("group", b"root:x:0:\ntty:x:5:\n"),
];

/// The treatment of the folders that the zone can write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The folders are empty (`-T`).
    Hidden,
    /// The folders are as the zone sees them (`-U`).
    Shown,
}

/// Returns the mount namespace of the calling process, reduced to the root with its mounts, all of
/// which are writable as far as they belong to the zone. The process must leave the namespace.
pub(crate) fn keep(scratch: &Path, layout: &Layout) -> Result<OwnedFd, AnyError> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let space = openat(CWD, "/proc/thread-self/ns/mnt", flags, Mode::empty())?;
    let tree = sys::mount::open_tree(CWD, &scratch.join(ROOT), Extent::Tree)?;
    let at = scratch.join(KEPT);
    fs::create_dir(&at)?;
    sys::mount::attach(&tree, CWD, &at)?;
    let writable = Attr {
        clear: MountAttrFlags::MOUNT_ATTR_RDONLY,
        ..Attr::default()
    };
    sys::mount::set_attr(&tree, &writable, Extent::One, &at)?;
    for one in &layout.kept {
        if let Some(file) = find(&tree, &one.path)? {
            sys::mount::set_attr(&file, &writable, Extent::One, &one.path)?;
        }
    }
    rustix::process::chdir(&at)?;
    sys::mount::pivot_into_cwd()?;
    Ok(space)
}

/// Moves the calling process into a copy of the namespace that [`keep`] returned. The process has
/// the rights of the host's root, and is the first process of a new pid namespace.
pub(crate) fn arrange(
    space: BorrowedFd<'_>,
    layout: &Layout,
    sight: Sight,
    first_id: u32,
    zone: &str,
) -> Result<(), AnyError> {
    let open = |name: &str| sys::mount::open_tree(CWD, &Path::new("/dev").join(name), Extent::One);
    let devices = DEVICES
        .map(open)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    sys::namespace::join(space, ns::MOUNT)?;
    sys::namespace::unshare(ns::MOUNT)?;
    sys::mount::make_private_recursive()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, "/", flags, Mode::empty())?;
    let owner = first_id.to_string();
    if sight == Sight::Hidden {
        for top in &layout.writable {
            hide(&root, top, layout, first_id, &owner)?;
        }
    }
    cover(&root, "/dev", &in_memory("0755", &owner)?)?;
    make_devices(&root, &devices, first_id, &owner)?;
    let run = in_memory("0755", &owner)?;
    cover(&root, "/run", &run)?;
    write(&run, "zonename", format!("{zone}\n").as_bytes())?;
    for path in layout.profile.in_memory() {
        cover(&root, path, &in_memory("1777", &owner)?)?;
    }
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    cover(&root, "/proc", &sys::mount::new_fs("proc", &[], flags)?)?;
    rustix::process::chdir("/")?;
    let masked: Vec<PathBuf> = MASKED.iter().map(PathBuf::from).collect();
    mask(&masked)
}

/// Returns a new file system in memory that belongs to root of the zone.
fn in_memory(mode: &str, owner: &str) -> Result<MountFd, sys::mount::Error> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let params = [
        Param::text("mode", mode),
        Param::text("size", MEMORY_SIZE),
        Param::text("uid", owner),
        Param::text("gid", owner),
    ];
    sys::mount::new_fs("tmpfs", &params, flags)
}

/// Attaches a mount at a folder. A root without the folder needs no such mount.
fn cover(root: &OwnedFd, path: &str, mount: &MountFd) -> Result<(), AnyError> {
    match find(root, Path::new(path))? {
        Some(place) => Ok(sys::mount::attach(mount, &place, Path::new(""))?),
        None => Ok(()),
    }
}

fn make_devices(
    root: &OwnedFd,
    devices: &[MountFd],
    first_id: u32,
    owner: &str,
) -> Result<(), AnyError> {
    let dev = find(root, Path::new("/dev"))?.ok_or("the zone has no /dev")?;
    for (name, device) in DEVICES.iter().zip(devices) {
        write(&dev, name, b"")?;
        sys::mount::attach(device, &dev, Path::new(name))?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlinkat(target, &dev, name)?;
    }
    for name in ["pts", "shm"] {
        rustix::fs::mkdirat(&dev, name, Mode::from_raw_mode(0o755))?;
    }
    // The group tty of the zone.
    let group = (first_id + 5).to_string();
    let params = [
        Param::Flag("newinstance"),
        Param::text("ptmxmode", "0666"),
        Param::text("mode", "0620"),
        Param::text("gid", &group),
    ];
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let terminals = sys::mount::new_fs("devpts", &params, flags)?;
    sys::mount::attach(&terminals, &dev, Path::new("pts"))?;
    let shared = in_memory("1777", owner)?;
    Ok(sys::mount::attach(&shared, &dev, Path::new("shm"))?)
}

/// Makes a writable folder empty, except for the files in it that the zone cannot write to.
fn hide(
    root: &OwnedFd,
    top: &Path,
    layout: &Layout,
    first_id: u32,
    owner: &str,
) -> Result<(), AnyError> {
    let Some(place) = find(root, top)? else {
        return Ok(());
    };
    if is_link(&place)? {
        return Ok(());
    }
    let mut kept = Vec::new();
    for one in layout.kept.iter().filter(|one| one.path.starts_with(top)) {
        if let Some(file) = find(root, &one.path)? {
            kept.push((
                one,
                sys::mount::open_tree(&file, Path::new(""), Extent::One)?,
            ));
        }
    }
    let empty = in_memory("0755", owner)?;
    sys::mount::attach(&empty, &place, Path::new(""))?;
    for (one, mount) in kept {
        let make = || place::open_or_make(root, &one.path, &mount);
        let place = sys::idmap::with_fs_ids(first_id, make)??;
        sys::mount::attach(&mount, &place, Path::new(""))?;
    }
    if top == Path::new("/etc") {
        for (name, text) in ACCOUNTS {
            write(&empty, name, text)?;
        }
    }
    Ok(())
}

/// Writes a new file that everybody can read.
fn write(folder: impl AsFd, name: &str, text: &[u8]) -> Result<(), AnyError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(file, text)?;
    Ok(())
}
