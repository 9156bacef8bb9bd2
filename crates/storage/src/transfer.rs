//! Identifies layers on different hosts by the digests of their content.
//!
//! ```text
//! <layer>/digest   link whose text is the digest of the layer, once it was asked for
//! <layer>/chain    link whose text is the digest of the digests up to this layer
//! ```

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::dataset::Dataset;
use crate::digest::Keeps;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::layers::{LayerPath, Layers};
use crate::layout::LAYERS;
use crate::sha256::Digest;

const DIGEST: &str = "digest";
const CHAIN: &str = "chain";

/// A layer with its digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The path of the layer's tree.
    pub tree: PathBuf,
    /// The digest of the layer's tree, see [`Digest::of_layer`].
    pub digest: Digest,
    /// The digest of this layer and all layers below, see [`Digest::of_chain`].
    pub chain: Digest,
}

impl Dataset {
    /// Returns the layers below the top with their digests, the lowest first. Computes and stores
    /// each missing digest, which reads the whole layer.
    pub fn known_layers(&self, keeps: Keeps<'_>) -> Result<Vec<Known>> {
        self.digested_layers(keeps, &note)
    }

    /// Runs [`Dataset::known_layers`] for a command that only shows its plan: missing digests are
    /// computed, but not stored.
    pub fn look_at_layers(&self, keeps: Keeps<'_>) -> Result<Vec<Known>> {
        self.digested_layers(keeps, &|_, _, _| Ok(()))
    }

    fn digested_layers(
        &self,
        keeps: Keeps<'_>,
        keep: &dyn Fn(&Folder, Digest, Digest) -> Result<()>,
    ) -> Result<Vec<Known>> {
        let _lock = self.lock_shared()?;
        let chain = match self.bond()? {
            Some(bond) => bond.layer.chain()?,
            None => Vec::new(),
        };
        let (mut all, mut parts) = (Vec::new(), Vec::new());
        for layer in chain.iter().rev() {
            let tree = layer.tree()?;
            let folder = layer.open()?;
            let digest = match read(&folder, DIGEST)? {
                Some(digest) => digest,
                None => Digest::of_layer(&tree, keeps)?,
            };
            parts.push(digest);
            let chain = Digest::of_chain(&parts);
            keep(&folder, digest, chain)?;
            all.push(Known {
                tree,
                digest,
                chain,
            });
        }
        Ok(all)
    }

    /// Returns true if [`Dataset::stand_on_chain`] would find a layer with this chain.
    pub fn has_chain(chain: &Digest, zonepath: &Path) -> Result<bool> {
        let home = zonepath.with_file_name(LAYERS);
        if !home.exists() {
            return Ok(false);
        }
        for layer in Layers::open(&home)?.list()? {
            let Ok(folder) = layer.open() else { continue };
            if read(&folder, CHAIN)? == Some(*chain) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Creates a dataset at `zonepath` on the layer whose chain has this digest. Returns `None` if
    /// no layer is known to have this digest.
    pub fn stand_on_chain(chain: &Digest, zonepath: &Path) -> Result<Option<Self>> {
        let (folder, made) = Folder::open_or_make(zonepath)?;
        let home = Layers::home(&folder)?;
        if !home.exists() {
            return Ok(None);
        }
        let (layers, _shared) = Layers::enter(&home)?;
        for layer in layers.list()? {
            let Ok(folder) = layer.open() else { continue };
            if read(&folder, CHAIN)? != Some(*chain) || !layer.refs().exists() {
                continue;
            }
            return match Self::make_on(&layer, zonepath) {
                // The last user of the layer was removed at this moment.
                Err(error) if error.is_missing() => Ok(None),
                other => other.map(Some),
            };
        }
        if made {
            let _ = std::fs::remove_dir(zonepath);
        }
        Ok(None)
    }

    /// Seals the top, and stores the given digests with the new layer.
    pub fn seal_known(&self, digest: Digest, chain: Digest) -> Result<()> {
        let _lock = self.lock()?;
        let below = self.bond()?.map(|bond| bond.layer);
        let layer: LayerPath = self.seal_locked()?.layer;
        // An unchanged top gives no new layer.
        if below.as_ref() == Some(&layer) {
            return Ok(());
        }
        note(&layer.open()?, digest, chain)
    }
}

fn read(folder: &Folder, name: &str) -> Result<Option<Digest>> {
    let text = match folder.read_link(name) {
        Ok(text) => text,
        Err(Error::BadLink { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(text.and_then(|text| text.to_str()?.parse().ok()))
}

fn note(folder: &Folder, digest: Digest, chain: Digest) -> Result<()> {
    for (name, digest) in [(DIGEST, digest), (CHAIN, chain)] {
        if read(folder, name)? != Some(digest) {
            match rustix::fs::symlinkat(digest.to_string(), folder, name) {
                Ok(()) => {}
                // Another command has stored the digest at this moment, or the link is damaged.
                Err(Errno::EXIST) if read(folder, name)? == Some(digest) => {}
                Err(Errno::EXIST) => folder.relink(name, digest.to_string())?,
                Err(e) => return Err(folder.fail("symlink", name, e)),
            }
        }
    }
    Ok(())
}
