//! Mounts a stack of layers as one tree, with the file owners that the zone sees.
//!
//! Each layer becomes its own mount: id-mapped, `nodev` and, except for the top, read-only. The
//! overlay is built from these mounts, because an overlay itself cannot be id-mapped. All options
//! of the overlay are set explicitly, because distributions build kernels with different defaults:
//!
//! | option | why |
//! |---|---|
//! | `index=off` | an index pins a top to the very layers below it; a sealed top could not be used again |
//! | `metacopy=off` | a sealed top must hold its files whole; and a forged metacopy attribute could show other files |
//! | `redirect_dir=on` | renaming a folder of a lower layer otherwise fails with EXDEV |
//! | `xino=off` | layers of one file system have right inode numbers without it; on several it would depend on unused bits |
//! | `nfs_export=off` | needs an index |
//!
//! Overlay stores its attributes as `trusted.overlay.*`, because the option `userxattr` excludes
//! `redirect_dir`.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use sys::mount::{Attr, Extent, MountFd, Param};

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::layout::{ROOT, WORK};
use crate::stack::Stack;
use crate::{fstype, project, zfs};

/// Mounts `stack` as a detached mount, which the caller attaches or passes on.
///
/// `idmap` is a user namespace: the files show the owners to which this namespace maps them, and
/// `base` is the host's number of the zone's first id. Without `idmap` the files show the owners
/// stored on disk.
///
/// The calling thread needs its own mount namespace without propagation. The thread itself must
/// have made this namespace with `unshare`, which also gives it its own working directory. The
/// layers are attached at `scratch`, any folder, until this function returns. Overlay on kernel 6.1
/// accepts no detached mounts as layers. Kernel 6.18 accepts them, but the scratch folder is as
/// fast: closing each detached mount waits for one RCU grace period, while detaching the scratch
/// folder waits for one in total.
pub fn assemble(
    stack: &Stack,
    idmap: Option<BorrowedFd<'_>>,
    base: u32,
    scratch: &Path,
) -> Result<MountFd> {
    assemble_keeping(stack, idmap, base, scratch).map(|(mount, _)| mount)
}

/// Mounts `stack` like [`assemble`], but the mounts of the layers stay at `scratch` until the
/// returned [`Scratch`] is dropped. The drop waits for an RCU grace period (about 30 us on an idle
/// host, 4 ms on a busy host), and a boot need not wait for it.
pub fn assemble_keeping(
    stack: &Stack,
    idmap: Option<BorrowedFd<'_>>,
    base: u32,
    scratch: &Path,
) -> Result<(MountFd, Option<Scratch>)> {
    Dataset::limit_again(stack)?;
    if stack.lowers.is_empty() {
        // Without id-mapped mounts on ZFS, the files are already stored with the host ids of this
        // zone, so this root needs no id map.
        let given = idmap.is_some() && zfs::is_given(&stack.top, base)?;
        let idmap = idmap.filter(|_| !given);
        let top = layer(&stack.top, idmap, MountAttrFlags::empty())?;
        return Ok((top, None));
    }
    project::align_work(&stack.top, &stack.work)?;
    let former = working_folder()?;
    let place = Scratch::new(scratch)?;
    let mount = assemble_here(&place, stack, idmap, base);
    rustix::process::fchdir(&former).map_err(|e| Error::io("fchdir", "former folder", e))?;
    let mount = mount?;
    if sys::mount::is_read_only(&mount)? {
        return Err(Error::ReadOnly(stack.zonepath.clone()));
    }
    Ok((mount, Some(place)))
}

/// Attaches the layers in the scratch folder and mounts them as one overlay.
fn assemble_here(
    place: &Scratch,
    stack: &Stack,
    idmap: Option<BorrowedFd<'_>>,
    base: u32,
) -> Result<MountFd> {
    place.enter()?;
    let mut names = Vec::with_capacity(stack.lowers.len());
    for (n, path) in stack.lowers.iter().enumerate() {
        let name = n.to_string();
        let lower = layer(path, idmap, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        place.attach(&lower, &name)?;
        names.push(name);
    }
    // The top and the work folder must be in one mount, because overlay renames files from the work
    // folder to the top.
    let both = stack.top.parent().unwrap_or(&stack.zonepath);
    let top = layer(both, idmap, MountAttrFlags::empty())?;
    place.attach(&top, TOP)?;
    // Overlay creates files in `work` as the user who mounted the overlay, and the host's root has
    // no id on an id-mapped mount.
    match idmap {
        Some(_) => sys::idmap::with_fs_ids(base, || overlay(&names, Some(TOP), stack.volatile))?,
        None => overlay(&names, Some(TOP), stack.volatile),
    }
}

/// Mounts `stack` read-only, with the owners stored on disk. This function changes neither the top
/// nor the work folder, so it is safe while the zone runs. Changes that the zone makes meanwhile
/// may or may not be visible. As for [`assemble`], the calling thread needs its own mount
/// namespace.
pub fn view(stack: &Stack, scratch: &Path) -> Result<MountFd> {
    let top = layer(&stack.top, None, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
    if stack.lowers.is_empty() {
        return Ok(top);
    }
    let place = Scratch::new(scratch)?;
    let former = working_folder()?;
    let mount = view_here(&place, &top, stack);
    rustix::process::fchdir(&former).map_err(|e| Error::io("fchdir", "former folder", e))?;
    mount
}

fn view_here(place: &Scratch, top: &MountFd, stack: &Stack) -> Result<MountFd> {
    place.enter()?;
    place.attach(top, TOP)?;
    let mut names = vec![TOP.to_owned()];
    for (n, path) in stack.lowers.iter().enumerate() {
        let lower = layer(path, None, MountAttrFlags::MOUNT_ATTR_RDONLY)?;
        place.attach(&lower, &n.to_string())?;
        names.push(n.to_string());
    }
    overlay(&names, None, false)
}

fn working_folder() -> Result<OwnedFd> {
    rustix::fs::openat(
        CWD,
        ".",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|e| Error::io("open", ".", e))
}

/// Opens a layer as a detached mount.
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
                fstype: fstype::name(&mount),
            })
        }
        Err(e) => Err(e.into()),
    }
}

/// Mounts an overlay of the layers that are attached in the working directory. The overlay is
/// writable if `both` is the name at which the folder of the top and the work folder is attached.
fn overlay(lowers: &[String], both: Option<&str>, volatile: bool) -> Result<MountFd> {
    let lowers = lowers.join(":");
    let mut params = vec![
        Param::text("source", "zone"),
        Param::text("index", "off"),
        Param::text("metacopy", "off"),
        Param::text("redirect_dir", "on"),
        Param::text("xino", "off"),
        Param::text("nfs_export", "off"),
        Param::text("lowerdir", &lowers),
    ];
    let writable = both.map(|name| (format!("{name}/{ROOT}"), format!("{name}/{WORK}")));
    let mut attrs = MountAttrFlags::MOUNT_ATTR_NODEV;
    match &writable {
        Some((upper, work)) => {
            params.push(Param::text("upperdir", upper));
            params.push(Param::text("workdir", work));
            if volatile {
                params.push(Param::Flag("volatile"));
            }
        }
        None => attrs |= MountAttrFlags::MOUNT_ATTR_RDONLY,
    }
    Ok(sys::mount::new_fs("overlay", &params, attrs)?)
}

/// The name in the scratch folder at which the folder of the top is attached.
const TOP: &str = "t";

/// The layers of an assembled root, each one a mount in a small tmpfs at the scratch folder.
/// Overlay has its own copies of these mounts, so dropping a `Scratch` only removes the extra
/// mounts.
#[derive(Debug)]
pub struct Scratch {
    place: PathBuf,
    tmpfs: MountFd,
}

impl Scratch {
    fn new(place: &Path) -> Result<Self> {
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let tmpfs = sys::mount::new_fs("tmpfs", &[Param::text("mode", "0700")], flags)?;
        sys::mount::attach(&tmpfs, CWD, place)?;
        Ok(Self {
            place: place.to_owned(),
            tmpfs,
        })
    }

    /// Makes the scratch folder the working directory, so that the layers have short names: a mount
    /// option holds at most 255 bytes.
    fn enter(&self) -> Result<()> {
        rustix::process::fchdir(&self.tmpfs).map_err(|e| Error::io("fchdir", &self.place, e))
    }

    fn attach(&self, mount: &MountFd, name: &str) -> Result<()> {
        rustix::fs::mkdirat(CWD, name, Mode::RWXU)
            .map_err(|e| Error::io("mkdir", self.place.join(name), e))?;
        Ok(sys::mount::attach(mount, CWD, Path::new(name))?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failed detach leaves an unused mount in a namespace that ends with its processes. That
        // is better than the loss of the overlay.
        let _ = sys::mount::detach(&self.place);
    }
}
