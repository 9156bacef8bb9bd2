//! The folder that the engine sees. It has the same content for a backup and for a restoration:
//! the manifest, and the zone's root in `root`. The folder exists only in a mount namespace of its
//! own, and ends with it.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use model::Uuid;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use storage::Stack;
use store::xml::manifest::DETACHED;
use sys::mount::{Attr, Extent, Param};

use crate::{inventory, root_view};
use host::{Error, Host, flatten};

/// The name of the zone's root in the folder and in a moment.
pub(super) const ROOT: &str = "root";

/// Calls `work` with a folder that shows the manifest and a stack of layers, read-only. The path of
/// the folder has the uuid of the zone: the engine compares the files with those of the previous
/// moment with the same path.
pub(super) fn show<T: Send>(
    host: &Host,
    stack: &Stack,
    uuid: Option<Uuid>,
    manifest: &str,
    work: impl FnOnce(&Path) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let scratch = inventory::scratch(host)?;
    root_view::aside(|| {
        let view = storage::view(stack, &scratch)?;
        let name = uuid.map_or_else(|| "zone".to_owned(), |uuid| uuid.to_string());
        let folder = make(&scratch, &name)?;
        attach(&view, &folder.join(ROOT))?;
        let file = folder.join(DETACHED);
        fs::write(&file, manifest).map_err(Error::io(format!("write {}", file.display())))?;
        work(&folder)
    })
}

/// Calls `work` with a folder whose `root` is the folder `target`. Only `target` and the folders
/// `writable` can be written: a repository that lies must not change another file of the host.
pub(super) fn fill<T: Send>(
    host: &Host,
    target: &Path,
    writable: &[&Path],
    work: impl FnOnce(&Path) -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let scratch = inventory::scratch(host)?;
    root_view::aside(|| {
        let copy = |path: &Path| {
            let resolved =
                fs::canonicalize(path).map_err(Error::io(format!("look at {}", path.display())))?;
            let mount = sys::mount::open_tree(CWD, &resolved, Extent::One).map_err(refused)?;
            Ok::<_, Error>((mount, resolved))
        };
        let (target, _) = copy(target)?;
        let kept: Vec<_> = writable
            .iter()
            .filter(|path| path.exists())
            .map(|path| copy(path))
            .collect::<Result<_, _>>()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let all = rustix::fs::open("/", flags, Mode::empty())
            .map_err(|errno| Error::Io("open /".to_owned(), errno.into()))?;
        let attr = Attr {
            set: MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID,
            ..Attr::default()
        };
        sys::mount::set_attr(&all, &attr, Extent::Tree, Path::new("/")).map_err(refused)?;
        for (mount, path) in &kept {
            attach(mount, path)?;
        }
        let folder = make(&scratch, "zone")?;
        attach(&target, &folder.join(ROOT))?;
        work(&folder)
    })
}

/// Mounts a small file system at `scratch`. Returns its folder `name`, which has an empty folder
/// for the root.
fn make(scratch: &Path, name: &str) -> Result<PathBuf, Error> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let params = [Param::text("mode", "0700"), Param::text("size", "64m")];
    let tmpfs = sys::mount::new_fs("tmpfs", &params, flags).map_err(refused)?;
    attach(&tmpfs, scratch)?;
    let folder = scratch.join(name);
    let root = folder.join(ROOT);
    fs::create_dir_all(&root).map_err(Error::io(format!("make {}", root.display())))?;
    Ok(folder)
}

fn attach(mount: impl AsFd, at: &Path) -> Result<(), Error> {
    sys::mount::attach(mount, CWD, at).map_err(refused)
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn refused(error: sys::mount::Error) -> Error {
    Error::Refused(flatten(&error))
}
