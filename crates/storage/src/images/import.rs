//! Imports an image: downloads the image, fills trees with its files, and makes layers from the
//! trees.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, RenameFlags};

use super::about::write_about;
use super::stack::{Base, DIGEST, Part, STACK, configured, stacked};
use super::{About, CONFIG, FETCH, HALF, Image, Images};
use crate::dataset::{Bond, Dataset};
use crate::error::{Error, Result};
use crate::folder::{Folder, Lock};
use crate::form::Form;
use crate::id::Id;
use crate::layers::{AtWork, LayerPath, Layers, dataset_ref, relative};
use crate::sha256::Digest;
use crate::{crash, remove};

/// A tree that is being filled for a new image. If this value is dropped, [`Images::prune`] removes
/// the tree.
#[derive(Debug)]
pub struct Import {
    tree: PathBuf,
    // The mark that keeps `collect` from removing the tree, which no layer uses yet.
    _shared: AtWork,
}

impl Import {
    /// Returns the path of the empty folder to fill.
    #[must_use]
    pub fn tree(&self) -> &Path {
        &self.tree
    }

    /// Removes the unpacked files.
    pub fn discard(self) {
        // [`Images::prune`] removes the files that cannot be removed now.
        let _ = remove::bury(&self.tree);
    }
}

/// A folder for a download, removed when this value is dropped.
#[derive(Debug)]
pub struct Download {
    folder: Folder,
    _lock: Lock,
}

impl Download {
    /// Returns the path of the folder for the download.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // [`Images::prune`] removes the files that cannot be removed now.
        let _ = remove::bury(self.folder.path());
    }
}

impl Images {
    /// Begins an import with a new, empty tree.
    pub fn begin(&self) -> Result<Import> {
        let (layers, shared) = Layers::enter(&self.layers())?;
        let dead = layers.graves()?;
        let name = Id::random()?.to_string();
        dead.make(&name)?;
        let tree = dead.open_child(&name)?;
        rustix::fs::fchmod(&tree, Mode::from_raw_mode(0o755))
            .map_err(|e| tree.fail("fchmod", "", e))?;
        Ok(Import {
            tree: tree.path().to_owned(),
            _shared: shared,
        })
    }

    /// Creates a folder for a download.
    pub fn download(&self) -> Result<Download> {
        let name = format!("{FETCH}{}", Id::random()?);
        // The lock is needed because, before the folder is locked, the folder looks like the
        // leftover of a killed download.
        let _lock = self.lock()?;
        self.folder.make(&name)?;
        let folder = self.folder.open_child(&name)?;
        let lock = folder.lock(rustix::fs::FlockOperation::LockExclusive)?;
        Ok(Download {
            folder,
            _lock: lock,
        })
    }

    /// Makes an image from a filled tree. If an image with the same files exists, removes the tree
    /// and returns that image.
    pub fn finish(&self, import: Import, about: &About) -> Result<Image> {
        let part = Part {
            import,
            stack: None,
        };
        self.finish_on(None, vec![part], about, None)
    }

    /// Makes an image, like [`Images::finish`], from several trees (the lowest first) on top of
    /// layers that exist already. `config` is the configuration of the image.
    pub fn finish_on(
        &self,
        base: Option<Base>,
        mut parts: Vec<Part>,
        about: &About,
        config: Option<&[u8]>,
    ) -> Result<Image> {
        let made = match self.squash(base.as_ref(), &mut parts) {
            Ok(()) => self.take(base.as_ref(), &parts, about, config),
            Err(error) => Err(error),
        };
        if !matches!(made, Ok((_, true))) {
            for part in parts {
                part.import.discard();
            }
        }
        drop(base);
        let digest = made?.0;
        self.image(&digest)?
            .ok_or_else(|| Error::NoImage(digest.to_string()))
    }

    fn take(
        &self,
        base: Option<&Base>,
        parts: &[Part],
        about: &About,
        config: Option<&[u8]>,
    ) -> Result<(Digest, bool)> {
        let mut digests = Vec::with_capacity(parts.len());
        let mut below = base.map(|base| base.digest);
        for part in parts {
            let digest = stacked(below.as_ref(), &Digest::of_tree(part.import.tree())?);
            digests.push(digest);
            below = Some(digest);
        }
        let stack = below.ok_or_else(|| Error::NoImage(String::new()))?;
        let digest = config.map_or(stack, |config| configured(&stack, config));
        // The lock lets one import finish at a time, because two commands may import the same
        // image.
        let _lock = self.lock()?;
        if self.image(&digest)?.is_some() {
            return Ok((digest, false));
        }
        self.clear(&digest.hex())?;
        let (layers, _shared) = Layers::enter(&self.layers())?;
        rustix::fs::syncfs(&self.folder).map_err(|e| self.folder.fail("syncfs", "", e))?;
        let id = Id::random()?;
        let place = self.folder.path().join(digest.hex());
        let mut made: Vec<LayerPath> = Vec::with_capacity(parts.len());
        for (part, digest) in parts.iter().zip(&digests) {
            let below = made.last().or(base.map(|base| &base.layer)).cloned();
            let layer = layers.make(below.as_ref(), &dataset_ref(id), &place)?;
            crash::point();
            let folder = layer.open()?;
            folder.link(DIGEST, digest.to_string())?;
            if let Some(name) = &part.stack {
                folder.link(STACK, name)?;
            }
            // The layer above now holds a reference on this layer, so the temporary reference is
            // dropped.
            if let Some(below) = made.last() {
                below.drop_ref(&dataset_ref(id))?;
            }
            made.push(layer);
        }
        let top = made.last().or(base.map(|base| &base.layer));
        let top = top.ok_or_else(|| Error::NoImage(String::new()))?.clone();
        let half = OsString::from(format!("{HALF}{id}"));
        self.folder.make(&half)?;
        crash::point();
        let folder = self.folder.open_child(&half)?;
        let bond = Bond {
            layer: top.clone(),
            id,
        };
        write_about(&folder, about)?;
        if let Some(config) = config {
            let at = folder.path().join(CONFIG);
            std::fs::write(&at, config).map_err(|e| Error::io("write", &at, e))?;
        }
        // The folder has the same depth as the final folder of the image, so that the relative
        // links stay valid after the rename.
        Dataset::at(folder).write_bond(&bond)?;
        crash::point();
        let (from, to) = (&self.folder, digest.hex());
        rustix::fs::renameat_with(from, &half, from, &to, RenameFlags::NOREPLACE)
            .map_err(|e| from.fail("rename", &to, e))?;
        crash::point();
        if made.is_empty() {
            let place = relative(&top.refs(), &place, &layers.common());
            top.add_ref(&dataset_ref(id), &place)?;
        }
        for (part, layer) in parts.iter().zip(&made) {
            layers.take_up(part.import.tree(), layer, Form::Folder)?;
            crash::point();
        }
        // The content of the trees was synced before. This call also writes their names to disk.
        rustix::fs::syncfs(&self.folder).map_err(|e| self.folder.fail("syncfs", "", e))?;
        Ok((digest, true))
    }
}
