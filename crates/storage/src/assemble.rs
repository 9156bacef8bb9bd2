//! Mounts a stack as one tree, under the owners that a zone sees.
//!
//! Each layer becomes a mount of its own, id-mapped, `nodev` and, but for the
//! top, read-only; overlay is put together from those, as overlay itself
//! cannot be id-mapped. Its options are all said explicitly, because
//! distributions build kernels with different defaults:
//!
//! | option | why |
//! |---|---|
//! | `index=off` | an index pins a top to the very layers below it; a sealed top could not be used again |
//! | `metacopy=off` | a sealed top must hold its files whole; and a forged metacopy attribute could show other files |
//! | `redirect_dir=on` | renaming a folder of a lower layer otherwise fails with EXDEV |
//! | `xino=off` | layers of one file system have right inode numbers without it; on several it would depend on unused bits |
//! | `nfs_export=off` | needs an index |
//!
//! Trusted attributes are used, not `userxattr`: that excludes `redirect_dir`.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use sys::mount::{Attr, Extent, MountFd, Param};

use crate::dataset::{ROOT, WORK};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::stack::Stack;

/// How the layers are shown to overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As detached mounts, by descriptor: nothing is attached anywhere. Kernels
    /// before 6.5 cannot, some later ones refuse detached mounts.
    Detached,
    /// Attached for a moment below the scratch folder. Any kernel since 5.15.
    Attached,
}

/// Mounts `stack`, detached: the caller attaches it or hands it on.
///
/// With `idmap`, a user namespace, files show the owners it maps; `base` is the
/// host's number of the zone's first id. Without it owners are as on disk.
///
/// The calling thread needs a mount namespace of its own, made by it with
/// `unshare` (then its working directory is its own, too) and without
/// propagation: on kernels that do not take detached layers they are attached
/// at `scratch`, any folder, until this returns.
pub fn assemble(
    stack: &Stack,
    idmap: Option<BorrowedFd<'_>>,
    base: u32,
    scratch: &Path,
) -> Result<MountFd> {
    match assemble_by(Way::Detached, stack, idmap, base, scratch) {
        Err(Error::Mount(e)) if e.call.starts_with("fsconfig") => {
            assemble_by(Way::Attached, stack, idmap, base, scratch)
        }
        other => other,
    }
}

/// [`assemble`] in one of its two ways, for tests and measurements.
pub fn assemble_by(
    way: Way,
    stack: &Stack,
    idmap: Option<BorrowedFd<'_>>,
    base: u32,
    scratch: &Path,
) -> Result<MountFd> {
    if stack.lowers.is_empty() {
        return layer(&stack.top, idmap, MountAttrFlags::empty());
    }
    let mut lowers = Vec::with_capacity(stack.lowers.len());
    for path in &stack.lowers {
        lowers.push(layer(path, idmap, MountAttrFlags::MOUNT_ATTR_RDONLY)?);
    }
    // Top and work through one mount: overlay renames from one to the other.
    let top = layer(&stack.zonepath, idmap, MountAttrFlags::empty())?;
    // Overlay makes files in `work` as whoever mounted it, and the host's root
    // has no id on an id-mapped mount.
    let first = idmap.map(|_| base);
    let mount = match way {
        Way::Detached => overlay(&detached(&top, &lowers), first),
        Way::Attached => {
            let place = Scratch::new(scratch)?;
            for (n, lower) in lowers.iter().enumerate() {
                place.attach(lower, &n.to_string())?;
            }
            place.attach(&top, "t")?;
            overlay(&attached(lowers.len()), first)
        }
    }?;
    if sys::mount::is_read_only(&mount)? {
        return Err(Error::ReadOnly(stack.zonepath.clone()));
    }
    Ok(mount)
}

/// One layer as a mount.
fn layer(path: &Path, idmap: Option<BorrowedFd<'_>>, set: MountAttrFlags) -> Result<MountFd> {
    let mount = sys::mount::open_tree(CWD, path, Extent::One)?;
    let attr = Attr {
        set: set | MountAttrFlags::MOUNT_ATTR_NODEV,
        private: true,
        idmap,
        ..Attr::default()
    };
    match sys::mount::set_attr(&mount, &attr, Extent::One, path) {
        Ok(()) => Ok(mount),
        Err(e) if idmap.is_some() && e.source.kind() == std::io::ErrorKind::InvalidInput => {
            Err(Error::NoIdmap {
                path: path.to_owned(),
                fstype: fstype(&mount),
            })
        }
        Err(e) => Err(e.into()),
    }
}

/// The name of a mount's file system type, or its number in hexadecimal.
fn fstype(mount: impl AsFd) -> String {
    let Ok(vfs) = rustix::fs::fstatfs(mount) else {
        return "its file system".to_owned();
    };
    let name = match vfs.f_type {
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlay",
        0x2fc1_2fc1 => "zfs",
        0x6969 => "nfs",
        0x6573_5546 => "fuse",
        other => return format!("file system type {other:#x}"),
    };
    name.to_owned()
}

/// Options that name the parts of a stack, with values that live long enough.
type Parts = Vec<(&'static str, OsString)>;

fn detached(top: &OwnedFd, lowers: &[OwnedFd]) -> Parts {
    let path = |fd: &OwnedFd| format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
    let mut parts: Parts = lowers
        .iter()
        .map(|fd| ("lowerdir+", path(fd).into()))
        .collect();
    parts.push(("upperdir", format!("{}/{ROOT}", path(top)).into()));
    parts.push(("workdir", format!("{}/{WORK}", path(top)).into()));
    parts
}

fn attached(lowers: usize) -> Parts {
    let names: Vec<_> = (0..lowers).map(|n| n.to_string()).collect();
    vec![
        ("lowerdir", names.join(":").into()),
        ("upperdir", format!("t/{ROOT}").into()),
        ("workdir", format!("t/{WORK}").into()),
    ]
}

fn overlay(parts: &Parts, first_id: Option<u32>) -> Result<MountFd> {
    let mut params = vec![
        Param::text("source", "zone"),
        Param::text("index", "off"),
        Param::text("metacopy", "off"),
        Param::text("redirect_dir", "on"),
        Param::text("xino", "off"),
        Param::text("nfs_export", "off"),
    ];
    params.extend(parts.iter().map(|(key, value)| Param::Text(key, value)));
    let mount = || sys::mount::new_fs("overlay", &params, MountAttrFlags::MOUNT_ATTR_NODEV);
    let mount = match first_id {
        Some(id) => sys::idmap::with_fs_ids(id, mount)??,
        None => mount()?,
    };
    Ok(mount)
}

/// A small file system that is the working directory while it lives, so that
/// layers have one-letter names: an option holds 255 bytes.
#[derive(Debug)]
struct Scratch<'a> {
    place: &'a Path,
    former: OwnedFd,
}

impl<'a> Scratch<'a> {
    fn new(place: &'a Path) -> Result<Self> {
        let former = rustix::fs::openat(
            CWD,
            ".",
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(|e| Error::io("open", ".", e))?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let mount = sys::mount::new_fs("tmpfs", &[Param::text("mode", "0700")], flags)?;
        sys::mount::attach(&mount, CWD, place)?;
        let scratch = Self { place, former };
        rustix::process::fchdir(&mount).map_err(|e| Error::io("fchdir", place, e))?;
        Ok(scratch)
    }

    fn attach(&self, mount: &MountFd, name: &str) -> Result<()> {
        rustix::fs::mkdirat(CWD, name, Mode::RWXU)
            .map_err(|e| Error::io("mkdir", self.place.join(name), e))?;
        Ok(sys::mount::attach(mount, CWD, Path::new(name))?)
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        // Overlay has its own copies by now. Failing leaves an unused mount in
        // a namespace that is about to end: not worth losing the result.
        let _ = rustix::process::fchdir(&self.former);
        let _ = sys::mount::detach(self.place);
    }
}

/// Tells early whether a zonepath can hold a zone whose root is id-mapped.
pub fn check_idmap(zonepath: &Path, idmap: BorrowedFd<'_>) -> Result<()> {
    Folder::open(zonepath)?;
    layer(zonepath, Some(idmap), MountAttrFlags::empty()).map(drop)
}
