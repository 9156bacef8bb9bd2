//! Compares two layers of changes that zones may share, and checks if such a layer can be inserted
//! below a zone's own layers.
//!
//! A layer that was written while a zone's root was mounted contains the changes of this time.
//! Above the own layers of another zone, such a layer would undo that zone's changes of folder
//! modes. It would hide that zone's files in folders that overlay marked opaque, and bring back
//! folders that the zone renamed. Therefore it is inserted below the zone's own layers. The result
//! is correct if the own layers contain no path that the layer changes, and no file where the layer
//! needs a folder.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::attributes::{Attributes, Xattrs, xattrs};
use crate::error::{Error, Result};
use crate::folder::Folder;

const OPAQUE: &[u8] = b"trusted.overlay.opaque";
const REDIRECT: &[u8] = b"trusted.overlay.redirect";
const OVERLAY: &[u8] = b"trusted.overlay.";

/// Maximum depth of nested folders in a comparison.
const MAX_FOLDER_DEPTH: usize = 256;

/// Number of bytes of two files that are compared at a time.
const COMPARED_BYTES: usize = 64 << 10;

/// The reason why a layer cannot go below a zone's own layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The path in the zone, relative to its root.
    pub path: PathBuf,
    /// The kind of obstacle.
    pub what: Obstacle,
}

/// The kind of file in a zone's own layers that prevents a layer below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The zone has this file itself, or has another file in its place.
    Own,
    /// The zone has this folder with other permissions or another owner.
    Folder,
    /// The zone removed this path.
    Removed,
    /// The zone deleted and recreated this folder, so its folder hides the folder below.
    Opaque,
    /// The zone renamed this folder.
    Moved,
    /// The layer itself renames a folder.
    Moves,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.what {
            Obstacle::Own => "was changed in this zone",
            Obstacle::Folder => "has other permissions or another owner in this zone",
            Obstacle::Removed => "was removed in this zone",
            Obstacle::Opaque => "was made anew in this zone",
            Obstacle::Moved => "was renamed in this zone",
            Obstacle::Moves => "is renamed by the patch",
        };
        write!(f, "/{} {what}", self.path.display())
    }
}

/// Returns the first obstacle, by name, in a zone's own layers (the trees `own`) for a layer with
/// the tree `patch` below them. Ignores the files and links that `except` selects.
pub fn misfit(
    patch: &Path,
    own: &[PathBuf],
    except: &dyn Fn(&Path) -> bool,
) -> Result<Option<Misfit>> {
    let patch = Folder::open(patch)?;
    if let Some(path) = moved(&patch, Path::new(""), 0)? {
        return Ok(Some(Misfit {
            path,
            what: Obstacle::Moves,
        }));
    }
    let mut folders = Vec::new();
    for tree in own {
        let folder = Folder::open(tree)?;
        // A file that the patch adds to a renamed folder would stay at the old path.
        if let Some(path) = moved(&folder, Path::new(""), 0)? {
            return Ok(Some(Misfit {
                path,
                what: Obstacle::Moved,
            }));
        }
        folders.push(folder);
    }
    in_the_way(&patch, &folders, except, Path::new(""), 0)
}

/// Returns the first folder of the layer with the tree `patch` that a zone itself made, or whose
/// permissions or owner it changed. `own` are the trees of the zone's own layers, and `below` are the
/// trees that it shares with other zones, each topmost first. Ignores the folders that `except`
/// selects.
///
/// The layer has such a folder with the zone's permissions, because overlay copies a folder before a
/// file is written into it. Other zones must not get these permissions.
pub fn changed_folder(
    patch: &Path,
    own: &[PathBuf],
    below: &[PathBuf],
    except: &dyn Fn(&Path) -> bool,
) -> Result<Option<Misfit>> {
    let beside = Beside::open(own, below)?;
    changed_inside(&Folder::open(patch)?, &beside, except, Path::new(""), 0)
}

fn changed_inside(
    patch: &Folder,
    beside: &Beside,
    except: &dyn Fn(&Path) -> bool,
    at: &Path,
    depth: usize,
) -> Result<Option<Misfit>> {
    too_deep(patch, depth)?;
    if let Some(what) = beside.change()? {
        return Ok(Some(Misfit {
            path: at.to_owned(),
            what,
        }));
    }
    let mut names = patch.entries()?;
    names.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, _) in names {
        let path = at.join(&name);
        if except(&path) || !patch.is_folder(&name)? {
            continue;
        }
        let (child, beside) = (patch.open_child(&name)?, beside.child(&name)?);
        if let Some(misfit) = changed_inside(&child, &beside, except, &path, depth + 1)? {
            return Ok(Some(misfit));
        }
    }
    Ok(None)
}

/// The same folder in the layers that a zone alone has, and in those below, each topmost first.
#[derive(Debug)]
struct Beside {
    own: Vec<Folder>,
    below: Vec<Folder>,
}

impl Beside {
    fn open(own: &[PathBuf], below: &[PathBuf]) -> Result<Self> {
        let open = |trees: &[PathBuf]| -> Result<Vec<Folder>> {
            trees.iter().map(|tree| Folder::open(tree)).collect()
        };
        Ok(Self {
            own: open(own)?,
            below: open(below)?,
        })
    }

    /// Returns the change that the zone made to the folder itself.
    fn change(&self) -> Result<Option<Obstacle>> {
        Ok(match (self.own.first(), self.below.first()) {
            (None, _) => None,
            (Some(_), None) => Some(Obstacle::Own),
            (Some(own), Some(below)) => {
                (Attributes::of(own)? != Attributes::of(below)?).then_some(Obstacle::Folder)
            }
        })
    }

    fn child(&self, name: &OsStr) -> Result<Self> {
        let inner = |all: &[Folder]| -> Result<Vec<Folder>> {
            let mut inner = Vec::new();
            for folder in all {
                match stat(folder, name)?.map(|stat| kind(&stat)) {
                    None => {}
                    Some(Kind::Folder) => inner.push(folder.open_child(name)?),
                    // This entry hides the folders of the lower layers.
                    Some(Kind::Whiteout | Kind::Other) => break,
                }
            }
            Ok(inner)
        };
        Ok(Self {
            own: inner(&self.own)?,
            below: inner(&self.below)?,
        })
    }
}

/// Returns true if a tree contains a file, link or folder at this path.
pub fn holds(tree: &Path, path: &Path) -> Result<bool> {
    let mut folder = Folder::open(tree)?;
    let Some(name) = path.file_name() else {
        return Ok(true);
    };
    for part in path.parent().into_iter().flat_map(Path::iter) {
        if !folder.is_folder(part)? {
            return Ok(false);
        }
        folder = folder.open_child(part)?;
    }
    Ok(folder.kind(name)?.is_some())
}

fn in_the_way(
    patch: &Folder,
    own: &[Folder],
    except: &dyn Fn(&Path) -> bool,
    at: &Path,
    depth: usize,
) -> Result<Option<Misfit>> {
    if own.is_empty() {
        return Ok(None);
    }
    too_deep(patch, depth)?;
    let mut names = patch.entries()?;
    names.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, _) in names {
        let path = at.join(&name);
        let found = |what| {
            Ok(Some(Misfit {
                path: path.clone(),
                what,
            }))
        };
        let is_folder = patch.is_folder(&name)?;
        if !is_folder && except(&path) {
            continue;
        }
        let mut inner = Vec::new();
        for folder in own {
            let Some(stat) = stat(folder, &name)? else {
                continue;
            };
            match kind(&stat) {
                Kind::Whiteout => return found(Obstacle::Removed),
                Kind::Folder if is_folder => inner.push(folder.open_child(&name)?),
                _ => return found(Obstacle::Own),
            }
        }
        if inner.is_empty() {
            continue;
        }
        let patched = patch.open_child(&name)?;
        if has(&patched, OPAQUE)? {
            return found(Obstacle::Opaque);
        }
        let look = Attributes::of(&patched)?;
        for folder in &inner {
            if has(folder, OPAQUE)? {
                return found(Obstacle::Opaque);
            }
            if Attributes::of(folder)? != look {
                return found(Obstacle::Folder);
            }
        }
        if let Some(misfit) = in_the_way(&patched, &inner, except, &path, depth + 1)? {
            return Ok(Some(misfit));
        }
    }
    Ok(None)
}

/// Returns the path of the first renamed folder.
fn moved(folder: &Folder, at: &Path, depth: usize) -> Result<Option<PathBuf>> {
    too_deep(folder, depth)?;
    for (name, _) in folder.entries()? {
        if !folder.is_folder(&name)? {
            continue;
        }
        let (inner, path) = (folder.open_child(&name)?, at.join(&name));
        if has(&inner, REDIRECT)? {
            return Ok(Some(path));
        }
        if let Some(path) = moved(&inner, &path, depth + 1)? {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns the first `most` paths at which two layers differ in type, mode, owner, attributes or
/// content. Ignores times, and the files and links that `except` selects.
pub fn differences(
    a: &Path,
    b: &Path,
    except: &dyn Fn(&Path) -> bool,
    most: usize,
) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let (a, b) = (Folder::open(a)?, Folder::open(b)?);
    let mut walk = Differences {
        except,
        most,
        found: &mut found,
    };
    walk.folders(&a, &b, Path::new(""), 0)?;
    Ok(found)
}

struct Differences<'a> {
    except: &'a dyn Fn(&Path) -> bool,
    most: usize,
    found: &'a mut Vec<PathBuf>,
}

impl Differences<'_> {
    fn folders(&mut self, a: &Folder, b: &Folder, at: &Path, depth: usize) -> Result<()> {
        too_deep(a, depth)?;
        if Attributes::of(a)? != Attributes::of(b)? || marks(a)? != marks(b)? {
            self.found.push(at.to_owned());
        }
        let mut names: BTreeMap<OsString, ()> = BTreeMap::new();
        for folder in [a, b] {
            names.extend(folder.entries()?.into_iter().map(|(name, _)| (name, ())));
        }
        for name in names.into_keys() {
            if self.found.len() >= self.most {
                return Ok(());
            }
            let path = at.join(&name);
            let stats = (stat(a, &name)?, stat(b, &name)?);
            let folders = [&stats.0, &stats.1].into_iter().flatten();
            let a_folder = folders.clone().any(|stat| kind(stat) == Kind::Folder);
            if !a_folder && (self.except)(&path) {
                continue;
            }
            match stats {
                (Some(one), Some(other)) if kind(&one) == kind(&other) => {
                    if kind(&one) == Kind::Folder {
                        let inner = (a.open_child(&name)?, b.open_child(&name)?);
                        self.folders(&inner.0, &inner.1, &path, depth + 1)?;
                    } else if !alike(a, b, &name, (&one, &other))? {
                        self.found.push(path);
                    }
                }
                // A folder that contains only exceptions is an exception, too.
                (Some(_), None) if a_folder && self.only_exceptions(a, &name, &path, depth)? => {}
                (None, Some(_)) if a_folder && self.only_exceptions(b, &name, &path, depth)? => {}
                _ => self.found.push(path),
            }
        }
        Ok(())
    }

    fn only_exceptions(
        &self,
        parent: &Folder,
        name: &OsStr,
        at: &Path,
        depth: usize,
    ) -> Result<bool> {
        let folder = parent.open_child(name)?;
        too_deep(&folder, depth)?;
        let mut any = false;
        for (name, _) in folder.entries()? {
            let path = at.join(&name);
            any = true;
            let excepted = match folder.is_folder(&name)? {
                true => self.only_exceptions(&folder, &name, &path, depth + 1)?,
                false => (self.except)(&path),
            };
            if !excepted {
                return Ok(false);
            }
        }
        Ok(any)
    }
}

/// Returns true if two files of the same type, which are not folders, are equal.
fn alike(a: &Folder, b: &Folder, name: &OsStr, (one, other): (&Stat, &Stat)) -> Result<bool> {
    let look = |stat: &Stat| (stat.st_mode, stat.st_uid, stat.st_gid, stat.st_rdev);
    if look(one) != look(other) {
        return Ok(false);
    }
    match kind(one) {
        Kind::Whiteout => Ok(true),
        Kind::Folder => Ok(false),
        Kind::Other => match FileType::from_raw_mode(one.st_mode) {
            FileType::Symlink => Ok(a.read_link(name)? == b.read_link(name)?),
            FileType::RegularFile => {
                if one.st_size != other.st_size {
                    return Ok(false);
                }
                let (mut one, mut other) = (open(a, name)?, open(b, name)?);
                let plain = |file: &std::fs::File| -> Result<Xattrs> {
                    let mut all = xattrs(file).map_err(|e| a.fail("getxattr", name, e))?;
                    all.retain(|name, _| !name.starts_with(OVERLAY));
                    Ok(all)
                };
                Ok(plain(&one)? == plain(&other)?
                    && same_content(&mut one, &mut other).map_err(|e| a.fail("read", name, e))?)
            }
            _ => Ok(true),
        },
    }
}

/// Returns true if two files have the same content from their positions on.
pub(crate) fn same_content(a: &mut std::fs::File, b: &mut std::fs::File) -> std::io::Result<bool> {
    let (mut one, mut other) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    loop {
        let length = a.read(&mut one)?;
        if length == 0 {
            return Ok(b.read(&mut other)? == 0);
        }
        match b.read_exact(&mut other[..length]) {
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
            read => read?,
        }
        if one[..length] != other[..length] {
            return Ok(false);
        }
    }
}

/// Removes the files, links and whiteouts that `drop` selects from a tree that no dataset uses yet.
/// The tree is a copy of a zone's topmost layer. `own` are the trees of the zone's other layers, and
/// `below` those that it shares with other zones, each topmost first. A folder that `drop` selects, and
/// whose permissions or owner the zone changed, gets those of `below`.
pub(crate) fn strip(
    top: &Folder,
    drop: &dyn Fn(&Path) -> bool,
    own: &[PathBuf],
    below: &[PathBuf],
) -> Result<()> {
    fn inner(
        folder: &Folder,
        beside: &Beside,
        at: &Path,
        drop: &dyn Fn(&Path) -> bool,
        depth: usize,
    ) -> Result<()> {
        too_deep(folder, depth)?;
        let before = Attributes::of(folder)?;
        let mut changed = false;
        for (name, _) in folder.entries()? {
            let path = at.join(&name);
            if folder.is_folder(&name)? {
                let (child, beside) = (folder.open_child(&name)?, beside.child(&name)?);
                inner(&child, &beside, &path, drop, depth + 1)?;
                if let (true, Some(below), Some(_)) =
                    (drop(&path), beside.below.first(), beside.change()?)
                {
                    Attributes::of(below)?.apply(&child)?;
                }
            } else if drop(&path) {
                folder.unlink(&name)?;
                changed = true;
            }
        }
        // The attributes are set again, because the removals changed the folder's times.
        if changed {
            before.apply(folder)
        } else {
            Ok(())
        }
    }
    inner(top, &Beside::open(own, below)?, Path::new(""), drop, 0)
}

/// Keeps only the files, links and whiteouts that `keep` selects, and their parent folders, in a
/// tree that no dataset uses yet. The remaining entries hide nothing in the layers below, except
/// the files that they replace.
pub(crate) fn retain(top: &Folder, keep: &dyn Fn(&Path) -> bool) -> Result<()> {
    /// Returns true if the folder still contains an entry.
    fn inner(
        folder: &Folder,
        at: &Path,
        keep: &dyn Fn(&Path) -> bool,
        depth: usize,
    ) -> Result<bool> {
        too_deep(folder, depth)?;
        let before = Attributes::of(folder)?;
        let (mut left, mut changed) = (false, false);
        for (name, _) in folder.entries()? {
            let path = at.join(&name);
            let stays = match folder.is_folder(&name)? {
                true => {
                    let child = folder.open_child(&name)?;
                    let stays = inner(&child, &path, keep, depth + 1)?;
                    if !stays {
                        folder
                            .rmdir(&name)
                            .map_err(|e| folder.fail("rmdir", &name, e))?;
                    }
                    stays
                }
                false => {
                    let stays = keep(&path);
                    if !stays {
                        folder.unlink(&name)?;
                    }
                    stays
                }
            };
            left |= stays;
            changed |= !stays;
        }
        match rustix::fs::fremovexattr(folder, OsStr::from_bytes(OPAQUE)) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(e) => return Err(folder.fail("removexattr", "", e)),
        }
        // The attributes are set again, because the removals changed the folder's times.
        if changed {
            before.apply(folder)?;
        }
        Ok(left)
    }
    inner(top, Path::new(""), keep, 0).map(drop)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    Whiteout,
    Other,
}

fn stat(at: &Folder, name: &OsStr) -> Result<Option<Stat>> {
    match rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(at.fail("stat", name, e)),
    }
}

fn kind(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Folder,
        FileType::CharacterDevice if stat.st_rdev == 0 => Kind::Whiteout,
        _ => Kind::Other,
    }
}

fn open(at: &Folder, name: &OsStr) -> Result<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(at, name, flags, Mode::empty(), resolve)
        .map(std::fs::File::from)
        .map_err(|e| at.fail("open", name, e))
}

/// Returns the marks of a folder that tell overlay how to search the layers below.
fn marks(folder: &Folder) -> Result<Xattrs> {
    let mut all = xattrs(folder).map_err(|e| folder.fail("getxattr", "", e))?;
    all.retain(|name, _| name == OPAQUE || name == REDIRECT);
    Ok(all)
}

fn has(folder: &Folder, mark: &[u8]) -> Result<bool> {
    let marks = marks(folder)?;
    let value = marks.get(mark).map(Vec::as_slice);
    // The value "x" means that whiteouts may be stored as attributes, and these programs never
    // store them so.
    Ok(match mark {
        OPAQUE => value == Some(b"y"),
        _ => value.is_some(),
    })
}

fn too_deep(folder: &Folder, depth: usize) -> Result<()> {
    match depth > MAX_FOLDER_DEPTH {
        true => Err(Error::TooDeep(folder.path().to_owned())),
        false => Ok(()),
    }
}
