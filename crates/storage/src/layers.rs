//! The folder of sealed layers, and the references of the users of each layer.
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
//! A layer exists while its `refs` folder exists. A process that adds a reference already holds a
//! reference, or another process holds one for it. Therefore the removal of `refs`, which succeeds
//! only if the folder is empty, ends a layer without a lock.
//!
//! A dataset names its layer by a link, and a reference without such a link is stale:
//! [`crate::collect()`] removes it. An operation that moves a dataset to another layer, or adds the
//! reference before the link, therefore holds [`AtWork`] in the folder of that reference, from before
//! the first of these changes until after the last one.

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

/// Prefix of the names of the marks in [`DEAD`]. A mark shows that an operation is in progress.
const BUSY: &str = "busy-";

/// Maximum number of layers of a stack: the names 0 to 63 with colons fit into 255 bytes, the limit
/// of a mount option before kernel 6.5.
pub const MAX_LAYERS: usize = 64;

/// The path of a sealed layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LayerPath {
    /// The absolute path of the folder of layers.
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

    /// Returns the layer below this layer, or `None` for the lowest layer.
    pub(crate) fn parent(&self) -> Result<Option<Self>> {
        self.parent_in(&self.open()?)
    }

    /// Runs [`LayerPath::parent`] for a layer whose folder is already open.
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

    /// Returns this layer and all layers below, topmost first.
    pub(crate) fn chain(&self) -> Result<Vec<Self>> {
        self.walk(|layer, _| Ok(layer))
    }

    /// Returns the trees of this layer and of all layers below, topmost first.
    pub(crate) fn trees(&self) -> Result<Vec<PathBuf>> {
        self.walk(|_, folder| tree_in(folder))
    }

    /// Opens this layer and all layers below, topmost first, and returns the results of `look` for
    /// each layer.
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

    /// Returns the form of this layer's tree, or `None` if the layer has no tree yet.
    pub(crate) fn form(&self) -> Result<Option<Form>> {
        match self.open() {
            Ok(folder) => form_in(&folder),
            Err(e) if e.is_missing() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Returns the path of the layer's tree.
    pub(crate) fn tree(&self) -> Result<PathBuf> {
        match self.open() {
            Ok(folder) => tree_in(&folder),
            Err(e) if e.is_missing() => Ok(self.path().join(TREE)),
            Err(e) => Err(e),
        }
    }

    /// Opens the layer's tree.
    pub(crate) fn open_tree(&self) -> Result<Folder> {
        let folder = self.open()?;
        let form = form_in(&folder)?.unwrap_or(Form::Folder);
        form.open_tree(&folder, form.sealed())
    }

    /// Records `user` as a user of this layer, with a link to the user's path.
    pub(crate) fn add_ref(&self, user: &str, place: &Path) -> Result<()> {
        let refs = Folder::open(&self.refs())?;
        refs.relink(user, place)
    }

    /// Removes the reference of a user. If this layer, or a layer below, then has no user, moves
    /// that layer to the graves. Returns the graves for [`crate::remove::bury`].
    ///
    /// After a crash at any point, the call may be repeated.
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
                        // Another process, which removed the last reference, has removed the folder
                        // already.
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
                // Another process, which removed a user at the same time, has moved this layer to
                // the graves. That process also removes the unused layers below.
                Err(e) if e.is_missing() => break,
                other => other?,
            };
            dead.push(layer);
            match parent {
                Some(parent) => layer = parent,
                None => break,
            }
        }
        // The lowest layer is moved first. A layer that is not moved yet has dropped its own
        // reference already, so a crash leaves no reference from a missing layer.
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

/// Returns the form of the tree in an open layer, or `None` if the layer has no tree yet.
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

/// Returns the name of the reference that a dataset holds on its layer.
pub(crate) fn dataset_ref(id: Id) -> String {
    format!("dataset-{id}")
}

/// Returns the name of the reference that a layer holds on the layer below.
pub(crate) fn layer_ref(id: Id) -> String {
    format!("layer-{id}")
}

pub(crate) fn bad_link(path: PathBuf, text: &OsStr) -> Error {
    Error::BadLink {
        path,
        text: text.to_string_lossy().into_owned(),
    }
}

/// Parses the path of a layer from the text of a link in the folder `base`.
pub(crate) fn parse_layer(base: &Path, text: &Path) -> Option<LayerPath> {
    let id = Id::parse(text.file_name()?)?;
    let layers = resolve(base, text.parent()?)?;
    Some(LayerPath { layers, id })
}

/// Joins two paths by their text. Accepts ".." only at the beginning of `text`.
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

/// Returns the path `target` as seen from the folder `base`. The result is relative if both paths
/// are below `common`, so that this folder can be moved or mounted elsewhere.
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

    /// Returns the path of the folder for the layers of a dataset. The folder is beside the
    /// zonepath, or inside the zonepath if that is its own file system, because a rename cannot
    /// cross file systems.
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

    /// Opens the folder of layers, and creates it if it does not exist. While the returned
    /// [`AtWork`] exists, [`crate::collect()`] does not run on the folder and no process removes the
    /// folder.
    pub(crate) fn enter(path: &Path) -> Result<(Self, AtWork)> {
        let (layers, mut at_work) = Self::enter_unmarked(path)?;
        at_work.mark(&layers)?;
        Ok((layers, at_work))
    }

    /// Runs [`Layers::enter`] for a caller whose first step is to move a tree to `.dead`. Until the
    /// tree is removed, it serves as the mark.
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
            // If another process removed the folder between the open and the lock, the loop creates
            // a new folder.
            if folder.is_at_its_path()? {
                let at_work = AtWork {
                    mark: None,
                    _lock: lock,
                };
                return Ok((Self { folder }, at_work));
            }
        }
    }

    /// Enters each of these folders that exists, without marks. For operations that change references
    /// in several folders: the layers of a moved zone, or of an image, are not in the zone's home.
    pub(crate) fn enter_each(mut folders: Vec<PathBuf>) -> Result<Vec<AtWork>> {
        folders.sort();
        folders.dedup();
        let there = folders.iter().filter(|folder| folder.exists());
        let entered = there.map(|folder| Self::enter_unmarked(folder));
        entered.map(|entered| Ok(entered?.1)).collect()
    }

    /// Creates the mark of [`AtWork::mark`].
    fn mark(&self) -> Result<Option<(Folder, String)>> {
        // The folder of graves is created now, because a full disk may have no space for it at the
        // time of a removal.
        self.folder.make(DEAD)?;
        let dead = self.graves()?;
        let name = format!("{BUSY}{}", Id::random()?);
        match rustix::fs::mkdirat(&dead, &name, rustix::fs::Mode::RWXU) {
            Ok(()) => Ok(Some((dead, name))),
            // A command that frees space must work on a full or read-only file system, so a missing
            // mark is no error.
            Err(Errno::NOSPC | Errno::DQUOT | Errno::ROFS) => Ok(None),
            Err(e) => Err(dead.fail("mkdir", name, e)),
        }
    }

    pub(crate) fn lock_exclusive(&self) -> Result<Lock> {
        self.folder.lock(FlockOperation::LockExclusive)
    }

    /// Creates a new layer, which has no tree yet and whose user is `user` at `place`.
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

    /// Chooses the name of a new layer without creating the layer.
    pub(crate) fn reserve(&self) -> Result<LayerPath> {
        Ok(LayerPath {
            layers: self.folder.path().to_owned(),
            id: Id::random()?,
        })
    }

    /// Runs [`Layers::make`] for a layer whose name is already chosen. Returns false if the layer
    /// exists.
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
            // The name is new, so the link replaces none.
            Folder::open(&parent.refs())?.link(layer_ref(id), place)?;
        }
        crash::point();
        Ok(true)
    }

    /// Returns the folder within which the texts of links are relative.
    pub(crate) fn common(&self) -> PathBuf {
        let path = self.folder.path();
        path.parent().unwrap_or(path).to_owned()
    }

    /// Moves the entry `name` of the folder `from` to a grave. Returns `None` if the entry does not
    /// exist.
    pub(crate) fn put_aside(&self, from: &Folder, name: &OsStr) -> Result<Option<PathBuf>> {
        // This check comes first, because most of the requested names do not exist and need no
        // grave.
        while from.kind(name)?.is_some() {
            self.folder.make(DEAD)?;
            let dead = match self.folder.open_child(DEAD) {
                // Another process removed the empty folder of graves in the meantime.
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

    /// Merges adjacent layers (topmost first) into a new tree among the graves. The new tree is
    /// garbage until [`Layers::take_up`] makes it part of a layer. Returns the new tree, and the
    /// trees to remove.
    pub(crate) fn merge(
        &self,
        layers: &[LayerPath],
        more: bool,
    ) -> Result<(PathBuf, Vec<PathBuf>)> {
        let mut garbage = Vec::new();
        let mut merged: Option<PathBuf> = None;
        for (n, lower) in layers.iter().enumerate() {
            lower.note_links()?;
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
            // Copied files must be on disk before the original files are removed.
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

    /// Moves a tree from the graves into a layer, as the tree of this layer.
    pub(crate) fn take_up(&self, tree: &Path, layer: &LayerPath, form: Form) -> Result<()> {
        let name = tree.file_name().unwrap_or_default();
        self.folder
            .open_child(DEAD)?
            .rename(name, &layer.open()?, form.sealed())
    }

    /// Removes this folder of layers if it is empty and no operation is in progress in it.
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
        // Another process may have removed the folder before the lock, and a third one made a new one.
        if !layers.folder.is_at_its_path()? || is_used()? {
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

    /// Returns the layers in this folder.
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

/// Keeps [`crate::collect()`] from running on a folder of layers while this value exists.
#[derive(Debug)]
#[must_use = "it ends with this value"]
pub(crate) struct AtWork {
    /// The folder of graves, and the name of this operation's mark in that folder.
    mark: Option<(Folder, String)>,
    // The lock is dropped after the mark. Therefore the next holder of the lock finds only marks of
    // killed processes.
    _lock: Lock,
}

impl AtWork {
    /// Creates a mark among the graves, unless this operation has one. The mark shows that an
    /// operation is in progress. A killed process leaves its mark, which tells [`crate::tidy`] to
    /// look for leftovers.
    pub(crate) fn mark(&mut self, layers: &Layers) -> Result<()> {
        if self.mark.is_none() {
            self.mark = layers.mark()?;
        }
        Ok(())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        // An operation that ended by a panic leaves its mark, because the same trees remain as
        // after a kill.
        if std::thread::panicking() {
            return;
        }
        if let Some((dead, name)) = &self.mark {
            let _ = dead.rmdir(name);
        }
    }
}

/// Returns true if an entry of the folder of graves is a mark and not a tree.
pub(crate) fn is_mark(name: &OsStr) -> bool {
    name.as_bytes().starts_with(BUSY.as_bytes())
}

/// Returns true if a killed operation left files in a folder of layers, and no operation is in
/// progress there now. Reads only one folder.
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
    // The lock is checked first: while no operation is in progress, every entry of the folder is a
    // leftover.
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

/// Returns true if two paths are the same as text, except for a trailing slash.
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
