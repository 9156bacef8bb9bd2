//! The folder of sealed layers, and who uses them.
//!
//! ```text
//! .layers/            0700
//!   <id>/tree/        the sealed top; never written again
//!   <id>/vol/root/    the same, where the top was a btrfs subvolume
//!   <id>/parent       link to the layer below, absent for the lowest
//!   <id>/refs/        one link per user, named dataset-<id> or layer-<id>,
//!                     leading to the user
//!   .dead/            trees being removed; whatever is here is garbage
//! ```
//!
//! A layer lives while its `refs` folder exists. A process that adds a reference holds one already,
//! or another process holds one for it. So the removal of the folder of references, which succeeds
//! only if the folder is empty, ends a layer without a lock.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::folder::{Folder, Lock};
use crate::form::Form;
use crate::id::Id;
use crate::layout::{DEAD, LAYERS, PARENT, REFS, ROOT, TREE, VOLUME};
use crate::merge::{Below, merge};
use crate::{crash, remove};

/// Prefix of the marks in [`DEAD`] that show that an operation is at work.
const BUSY: &str = "busy-";

/// Maximum number of layers of a stack: names 0 to 63 with colons fit the 255 bytes that a mount
/// option may have on kernels before 6.5.
pub const MAX_LAYERS: usize = 64;

/// The path of a sealed layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerPath {
    /// The folder of layers, absolute.
    pub(crate) layers: PathBuf,
    pub(crate) id: Id,
}

impl LayerPath {
    pub(crate) fn path(&self) -> PathBuf {
        self.layers.join(self.id.to_string())
    }

    pub(crate) fn refs(&self) -> PathBuf {
        self.path().join(REFS)
    }

    /// The layer below, if any.
    pub(crate) fn parent(&self) -> Result<Option<Self>> {
        self.parent_in(&self.open()?)
    }

    /// [`LayerPath::parent`] of this layer, which is open.
    fn parent_in(&self, folder: &Folder) -> Result<Option<Self>> {
        let Some(text) = folder.read_link(PARENT)? else {
            return Ok(None);
        };
        parse_layer(folder.path(), Path::new(&text))
            .map(Some)
            .ok_or_else(|| bad_link(folder.path().join(PARENT), &text))
    }

    pub(crate) fn open(&self) -> Result<Folder> {
        let folder = Folder::open(&self.path())?;
        folder.must_be_known()?;
        Ok(folder)
    }

    /// This layer and all below it, topmost first.
    pub(crate) fn chain(&self) -> Result<Vec<Self>> {
        self.walk(|layer, _| Ok(layer))
    }

    /// The trees of this layer and of all below it, topmost first.
    pub(crate) fn trees(&self) -> Result<Vec<PathBuf>> {
        self.walk(|_, folder| tree_in(folder))
    }

    /// Opens this layer and all below it, topmost first, and returns what `look` finds in each.
    fn walk<T>(&self, look: impl Fn(Self, &Folder) -> Result<T>) -> Result<Vec<T>> {
        let mut found = Vec::new();
        let mut next = Some(self.clone());
        while let Some(layer) = next {
            if found.len() >= MAX_LAYERS {
                return Err(Error::TooManyLayers(self.path()));
            }
            let folder = layer.open()?;
            next = layer.parent_in(&folder)?;
            found.push(look(layer, &folder)?);
        }
        Ok(found)
    }

    /// The form of this layer's tree; nothing when it has none yet.
    pub(crate) fn form(&self) -> Result<Option<Form>> {
        match self.open() {
            Ok(folder) => form_in(&folder),
            Err(e) if e.is_missing() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns the path of the tree.
    pub(crate) fn tree(&self) -> Result<PathBuf> {
        match self.open() {
            Ok(folder) => tree_in(&folder),
            Err(e) if e.is_missing() => Ok(self.path().join(TREE)),
            Err(e) => Err(e),
        }
    }

    /// Opens the tree.
    pub(crate) fn open_tree(&self) -> Result<Folder> {
        let folder = self.open()?;
        let form = form_in(&folder)?.unwrap_or(Form::Folder);
        form.open_tree(&folder, form.sealed())
    }

    /// Names `user` as a user of this layer, with a link to where it is.
    pub(crate) fn add_ref(&self, user: &str, place: &Path) -> Result<()> {
        let refs = Folder::open(&self.refs())?;
        refs.relink(user, place)
    }

    /// Drops a user. Layers that nobody uses any more are put aside, this one
    /// and those below, and returned for [`crate::remove::bury`].
    ///
    /// May be repeated after a crash at any point.
    pub(crate) fn drop_ref(&self, user: &str) -> Result<Vec<PathBuf>> {
        let mut dead: Vec<Self> = Vec::new();
        let mut layer = self.clone();
        let mut user = user.to_owned();
        loop {
            match Folder::open(&layer.path()) {
                Ok(folder) => {
                    folder.must_be_known()?;
                    match folder.open_child(REFS) {
                        Ok(refs) => {
                            refs.unlink(&user)?;
                        }
                        // The process that dropped the last reference removed it.
                        Err(e) if e.is_missing() => {}
                        Err(e) => return Err(e),
                    }
                    crash::point();
                    match folder.rmdir(REFS) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(Errno::NOTEMPTY | Errno::EXIST) => break,
                        Err(e) => return Err(folder.fail("rmdir", REFS, e)),
                    }
                }
                Err(e) if e.is_missing() => break,
                Err(e) => return Err(e),
            }
            crash::point();
            user = layer_ref(layer.id);
            let parent = match layer.parent() {
                // Another user that went at the same time has put the layer aside, and
                // sees to those below.
                Err(e) if e.is_missing() => break,
                other => other?,
            };
            dead.push(layer);
            match parent {
                Some(parent) => layer = parent,
                None => break,
            }
        }
        // The lowest first: a layer that is still in its place has dropped its
        // own reference already, so a crash leaves none from nowhere.
        let mut graves = Vec::new();
        for layer in dead.iter().rev() {
            crash::point();
            let layers = Layers::open(&layer.layers)?;
            if let Some(grave) = layers.put_aside(&layers.folder, layer.id.to_string().as_ref())? {
                graves.push(grave);
            }
        }
        Ok(graves)
    }
}

/// The form of the tree in an open layer; nothing when it has none yet.
fn form_in(layer: &Folder) -> Result<Option<Form>> {
    for form in [Form::Folder, Form::Volume] {
        if layer.is_folder(form.sealed())? {
            return Ok(Some(form));
        }
    }
    Ok(None)
}

/// Returns the path of the tree in an open layer.
fn tree_in(layer: &Folder) -> Result<PathBuf> {
    Ok(match form_in(layer)? {
        Some(Form::Volume) => layer.path().join(VOLUME).join(ROOT),
        _ => layer.path().join(TREE),
    })
}

/// Name of the reference that a dataset holds.
pub(crate) fn dataset_ref(id: Id) -> String {
    format!("dataset-{id}")
}

/// Name of the reference that a layer holds on the one below.
pub(crate) fn layer_ref(id: Id) -> String {
    format!("layer-{id}")
}

pub(crate) fn bad_link(path: PathBuf, text: &OsStr) -> Error {
    Error::BadLink {
        path,
        text: text.to_string_lossy().into_owned(),
    }
}

/// Reads the path of a layer as written in a link that lies in `base`.
pub(crate) fn parse_layer(base: &Path, text: &Path) -> Option<LayerPath> {
    let id = Id::parse(text.file_name()?)?;
    let layers = resolve(base, text.parent()?)?;
    Some(LayerPath { layers, id })
}

/// Joins two paths by their text, taking ".." only at the front.
pub(crate) fn resolve(base: &Path, text: &Path) -> Option<PathBuf> {
    let mut path = base.to_owned();
    for part in text.components() {
        match part {
            Component::RootDir => path = PathBuf::from("/"),
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Writes `target` as seen from the folder `base`: relative when both are below
/// `common`, so that the whole can be moved or mounted elsewhere.
pub(crate) fn relative(base: &Path, target: &Path, common: &Path) -> PathBuf {
    match (base.strip_prefix(common), target.strip_prefix(common)) {
        (Ok(up), Ok(down)) => {
            let mut path = PathBuf::new();
            for _ in up.components() {
                path.push("..");
            }
            path.push(down);
            path
        }
        _ => target.to_owned(),
    }
}

/// An open folder of layers.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) folder: Folder,
}

impl Layers {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let folder = Folder::open(path)?;
        folder.must_be_known()?;
        Ok(Self { folder })
    }

    /// Returns the folder for the layers of a dataset: beside the zonepath, or inside it when it is
    /// a file system of its own, since a rename cannot leave one.
    pub(crate) fn home(zonepath: &Folder) -> Result<PathBuf> {
        let path = zonepath.path();
        let beside = path
            .parent()
            .ok_or_else(|| Error::BadPath(path.to_owned()))?;
        let parent = Folder::open(beside)?;
        let home = if parent.device()? == zonepath.device()? {
            beside
        } else {
            path
        };
        Ok(home.join(LAYERS))
    }

    /// Opens the folder, making it when it is missing, and keeps
    /// [`crate::collect`] and its removal away while the returned value lives.
    pub(crate) fn enter(path: &Path) -> Result<(Self, AtWork)> {
        let (layers, mut at_work) = Self::enter_unmarked(path)?;
        at_work.mark(&layers)?;
        Ok((layers, at_work))
    }

    /// [`Layers::enter`] for a caller that first of all moves a tree to `.dead`: until the tree is
    /// removed, it has the meaning of a mark.
    pub(crate) fn enter_unmarked(path: &Path) -> Result<(Self, AtWork)> {
        loop {
            let (folder, _) = match Folder::open_or_make(path) {
                Err(e) if e.is_missing() && path.parent().is_some_and(Path::exists) => continue,
                other => other?,
            };
            folder.must_be_known()?;
            let lock = match folder.lock(FlockOperation::LockShared) {
                Err(e) if e.is_missing() => continue,
                other => other?,
            };
            // Removed between opening and locking: a new one is needed.
            if folder.is_at_its_path()? {
                let at_work = AtWork {
                    mark: None,
                    _lock: lock,
                };
                return Ok((Self { folder }, at_work));
            }
        }
    }

    /// See [`AtWork::mark`].
    fn mark(&self) -> Result<Option<(Folder, String)>> {
        // Now, as a full disk has no room for it when something must go.
        self.folder.make(DEAD)?;
        let dead = self.graves()?;
        let name = format!("{BUSY}{}", Id::random()?);
        match rustix::fs::mkdirat(&dead, &name, rustix::fs::Mode::RWXU) {
            Ok(()) => Ok(Some((dead, name))),
            // A command that frees space must not need space.
            Err(Errno::NOSPC | Errno::DQUOT | Errno::ROFS) => Ok(None),
            Err(e) => Err(dead.fail("mkdir", name, e)),
        }
    }

    pub(crate) fn lock_exclusive(&self) -> Result<Lock> {
        self.folder.lock(FlockOperation::LockExclusive)
    }

    /// Makes a new layer without a tree yet, used by `user` at `place`.
    pub(crate) fn make(
        &self,
        parent: Option<&LayerPath>,
        user: &str,
        place: &Path,
    ) -> Result<LayerPath> {
        loop {
            let layer = self.reserve()?;
            if self.make_reserved(&layer, parent, user, place)? {
                return Ok(layer);
            }
        }
    }

    /// Chooses the name of a new layer, without making it.
    pub(crate) fn reserve(&self) -> Result<LayerPath> {
        Ok(LayerPath {
            layers: self.folder.path().to_owned(),
            id: Id::random()?,
        })
    }

    /// [`Layers::make`] of a layer whose name is known already; false when it is there.
    pub(crate) fn make_reserved(
        &self,
        layer: &LayerPath,
        parent: Option<&LayerPath>,
        user: &str,
        place: &Path,
    ) -> Result<bool> {
        let id = layer.id;
        if !self.folder.make(id.to_string())? {
            return Ok(false);
        }
        crash::point();
        let folder = self.folder.open_child(id.to_string())?;
        if let Some(parent) = parent {
            folder.link(
                PARENT,
                relative(folder.path(), &parent.path(), &self.common()),
            )?;
        }
        crash::point();
        folder.make(REFS)?;
        let refs = folder.open_child(REFS)?;
        refs.link(user, relative(refs.path(), place, &self.common()))?;
        crash::point();
        if let Some(parent) = parent {
            let place = relative(&parent.refs(), folder.path(), &self.common());
            parent.add_ref(&layer_ref(id), &place)?;
        }
        crash::point();
        Ok(true)
    }

    /// The folder within which links are written relative.
    pub(crate) fn common(&self) -> PathBuf {
        let path = self.folder.path();
        path.parent().unwrap_or(path).to_owned()
    }

    /// Renames `name` in `from` to a grave; nothing when it does not exist.
    pub(crate) fn put_aside(&self, from: &Folder, name: &OsStr) -> Result<Option<PathBuf>> {
        // Most names that are looked for do not exist, and need no grave.
        while from.kind(name)?.is_some() {
            self.folder.make(DEAD)?;
            let dead = match self.folder.open_child(DEAD) {
                // Removed as empty since.
                Err(e) if e.is_missing() => continue,
                other => other?,
            };
            let grave = OsString::from(Id::random()?.to_string());
            match rustix::fs::renameat(from, name, &dead, &grave) {
                Ok(()) => return Ok(Some(dead.path().join(grave))),
                Err(Errno::NOENT) => {}
                Err(e) => return Err(from.fail("rename", name, e)),
            }
        }
        Ok(None)
    }

    /// Merges adjacent layers, topmost first, into a new tree among the graves: garbage until it is
    /// taken up. Returns it, and the trees to remove.
    pub(crate) fn merge(
        &self,
        layers: &[LayerPath],
        more: bool,
    ) -> Result<(PathBuf, Vec<PathBuf>)> {
        let mut garbage = Vec::new();
        let mut merged: Option<PathBuf> = None;
        for (n, lower) in layers.iter().enumerate() {
            let lower = lower.tree()?;
            let Some(upper) = merged.take() else {
                merged = Some(lower);
                continue;
            };
            let below = if more || n + 1 < layers.len() {
                Below::More
            } else {
                Below::Nothing
            };
            let dead = self.graves()?;
            let (name, links) = (Id::random()?.to_string(), Id::random()?.to_string());
            dead.make(&name)?;
            dead.make(&links)?;
            let out = dead.path().join(name);
            crash::point();
            let merged_to = merge(&upper, &lower, below, &out, dead.open_child(&links)?);
            garbage.push(dead.path().join(links));
            // Copied files must be on disk before their originals are removed.
            let merged_to = merged_to.and_then(|copied| match copied.copied_bytes {
                0 => Ok(()),
                _ => rustix::fs::syncfs(&dead).map_err(|e| dead.fail("syncfs", "", e)),
            });
            if let Err(error) = merged_to {
                garbage.push(out);
                garbage.iter().for_each(|grave| drop(remove::bury(grave)));
                return Err(error);
            }
            if n > 1 {
                garbage.push(upper);
            }
            merged = Some(out);
        }
        let merged = merged.ok_or_else(|| Error::BadPath(self.folder.path().to_owned()))?;
        Ok((merged, garbage))
    }

    /// Makes a tree among the graves the tree of a layer.
    pub(crate) fn take_up(&self, tree: &Path, layer: &LayerPath, form: Form) -> Result<()> {
        let name = tree.file_name().unwrap_or_default();
        self.folder
            .open_child(DEAD)?
            .rename(name, &layer.open()?, form.sealed())
    }

    /// Removes this folder when nothing is in it, unless somebody is at work here.
    pub(crate) fn leave(path: &Path) -> Result<()> {
        let layers = match Self::open(path) {
            Err(e) if e.is_missing() => return Ok(()),
            other => other?,
        };
        let is_used = || -> Result<bool> {
            let entries = layers.folder.entries()?;
            Ok(entries.iter().any(|(name, _)| name != DEAD))
        };
        if is_used()? {
            return Ok(());
        }
        let Some(_lock) = layers.folder.try_lock()? else {
            return Ok(());
        };
        if is_used()? {
            return Ok(());
        }
        for at in [path.join(DEAD), path.to_owned()] {
            match rustix::fs::rmdir(&at) {
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(e) => return Err(Error::io("rmdir", at, e)),
            }
        }
        Ok(())
    }

    /// The layers in this folder.
    pub(crate) fn list(&self) -> Result<Vec<LayerPath>> {
        let entries = self.folder.entries()?;
        Ok(entries
            .iter()
            .filter_map(|(name, _)| Id::parse(name))
            .map(|id| LayerPath {
                layers: self.folder.path().to_owned(),
                id,
            })
            .collect())
    }
}

/// Keeps [`crate::collect`] away from a folder of layers while it lives.
#[derive(Debug)]
#[must_use = "it ends with this value"]
pub(crate) struct AtWork {
    /// The folder of graves, and the name of the mark in it.
    mark: Option<(Folder, String)>,
    // After the mark: the next holder of the lock finds only marks of killed processes.
    _lock: Lock,
}

impl AtWork {
    /// Leaves a mark among the graves, unless it is there, that says that somebody is at work. A
    /// killed process leaves its mark, so [`crate::tidy`] knows that there may be leftovers.
    pub(crate) fn mark(&mut self, layers: &Layers) -> Result<()> {
        if self.mark.is_none() {
            self.mark = layers.mark()?;
        }
        Ok(())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        // An operation that ended by a panic leaves the same trees as a killed one.
        if std::thread::panicking() {
            return;
        }
        if let Some((dead, name)) = &self.mark {
            let _ = dead.rmdir(name);
        }
    }
}

/// Returns whether an entry of the folder of graves is a mark and no tree.
pub(crate) fn is_mark(name: &OsStr) -> bool {
    name.as_bytes().starts_with(BUSY.as_bytes())
}

/// Returns whether something is left in a folder of layers by an operation that was killed, and
/// nobody is at work there now. Costs a look into one folder.
pub(crate) fn has_remains(layers: &Path) -> Result<bool> {
    let dead = match Folder::open(&layers.join(DEAD)) {
        Err(e) if e.is_missing() => return Ok(false),
        other => other?,
    };
    if dead.is_empty()? {
        return Ok(false);
    }
    let layers = match Layers::open(layers) {
        Err(e) if e.is_missing() => return Ok(false),
        other => other?,
    };
    // In this order: a tree that exists while no operation is at work has no owner.
    Ok(layers.folder.try_lock()?.is_some() && !dead.is_empty()?)
}

/// The kind of user that a reference names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Dataset(Id),
    Layer(Id),
}

impl User {
    pub(crate) fn parse(name: &OsStr) -> Option<Self> {
        let text = name.to_str()?;
        if let Some(id) = text.strip_prefix("dataset-") {
            return id.parse().ok().map(Self::Dataset);
        }
        text.strip_prefix("layer-")?.parse().ok().map(Self::Layer)
    }
}

/// Compares paths as bytes; a name with a trailing slash is the same path.
pub(crate) fn same_path(a: &Path, b: &Path) -> bool {
    a.components().eq(b.components()) || a.as_os_str().as_bytes() == b.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative_only_below_the_common_folder() {
        let common = Path::new("/z");
        let link = relative(Path::new("/z/web"), Path::new("/z/.layers/a"), common);
        assert_eq!(link, Path::new("../.layers/a"));
        assert_eq!(
            relative(Path::new("/z/web"), Path::new("/y/.layers/a"), common),
            Path::new("/y/.layers/a")
        );
        assert_eq!(
            resolve(Path::new("/z/web"), &link),
            Some(PathBuf::from("/z/.layers/a"))
        );
        assert_eq!(resolve(Path::new("/z"), Path::new("../../../x")), None);
    }
}
