//! Images of several layers, which share their lower layers with other images.
//!
//! An imported image may name the stack of layers up to each of its layers. The layer keeps this
//! name as the text of the link `stack`, and the digest of the same stack as the text of the link
//! `stack-digest`. If a stack that exists on this host is the beginning of a new image, the new
//! image uses the existing layers.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::{Images, Import};
use crate::error::{Error, Result};
use crate::id::Id;
use crate::layers::{AtWork, LayerPath, Layers, layer_ref};
use crate::merge::{Below, merge};
use crate::remove;
use crate::sha256::Digest;

/// The name of the link whose text is the name that other programs give to the stack up to a layer.
pub(super) const STACK: &str = "stack";

/// The name of the link whose text is the digest that these programs compute for the stack up to a
/// layer.
pub(super) const DIGEST: &str = "stack-digest";

/// Maximum number of layers of an image; the layers above this number are merged into one. A zone
/// adds its own layers, and each layer makes the first lookup of a file slower.
const MAX_IMAGE_LAYERS: usize = 5;

/// A tree that is to become a layer of an image.
#[derive(Debug)]
pub struct Part {
    /// The import that fills the tree.
    pub import: Import,
    /// The name of the stack up to this layer, which is the same on all hosts.
    pub stack: Option<String>,
}

/// The existing layers on which an import builds. The layers are kept while this value exists.
#[derive(Debug)]
pub struct Base {
    pub(super) layer: LayerPath,
    pub(super) digest: Digest,
    trees: Vec<PathBuf>,
    known: usize,
    reference: String,
    // The mark that keeps `collect` from removing the reference on the layers.
    _shared: AtWork,
}

impl Base {
    /// Returns the trees of the layers, the uppermost first.
    #[must_use]
    pub fn trees(&self) -> &[PathBuf] {
        &self.trees
    }

    /// Returns the position of the found stack in the list given to [`Images::base`], counted from
    /// one.
    #[must_use]
    pub fn known(&self) -> usize {
        self.known
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        // [`Images::prune`] removes the trees that cannot be removed now.
        for grave in self.layer.drop_ref(&self.reference).unwrap_or_default() {
            let _ = remove::bury(&grave);
        }
    }
}

impl Images {
    /// Finds the highest of these stacks that exists on this host. Each stack in the list is built
    /// on the stack before it.
    pub fn base(&self, stacks: &[String]) -> Result<Option<Base>> {
        loop {
            let (layers, shared) = Layers::enter(&self.layers())?;
            let mut all: HashMap<OsString, LayerPath> = HashMap::new();
            for layer in layers.list()? {
                let folder = match layer.open() {
                    Err(e) if e.is_missing() => continue,
                    other => other?,
                };
                if let Some(name) = folder.read_link(STACK)? {
                    if layer.form()?.is_some() {
                        all.insert(name, layer);
                    }
                }
            }
            let found = stacks.iter().enumerate().rev();
            let mut found =
                found.filter_map(|(n, name)| Some((n + 1, all.get(&OsString::from(name))?)));
            let Some((known, layer)) = found.next() else {
                return Ok(None);
            };
            // The reference looks like that of a layer above that does not exist. If the import is
            // killed, the reference is therefore stale.
            let id = Id::random()?;
            let reference = layer_ref(id);
            let place = layers.folder.path().join(id.to_string());
            match layer.add_ref(&reference, &place) {
                // The last user of the layer was removed in the meantime.
                Err(e) if e.is_missing() => continue,
                other => other?,
            }
            let folder = layer.open()?;
            let digest = folder.read_link(DIGEST)?.unwrap_or_default();
            let digest = digest.to_string_lossy().parse();
            let chain = layer.chain()?;
            let base = Base {
                layer: layer.clone(),
                digest: digest.map_err(|_| Error::BadPath(folder.path().join(DIGEST)))?,
                trees: chain.iter().map(LayerPath::tree).collect::<Result<_>>()?,
                known,
                reference,
                _shared: shared,
            };
            return Ok(Some(base));
        }
    }

    /// Merges the uppermost layers if the image would have too many layers.
    pub(super) fn squash(&self, base: Option<&Base>, parts: &mut Vec<Part>) -> Result<()> {
        let below = base.map_or(0, |base| base.trees.len());
        let most = MAX_IMAGE_LAYERS.saturating_sub(below).max(1);
        while parts.len() > most {
            let (Some(upper), Some(lower)) = (parts.pop(), parts.pop()) else {
                return Ok(());
            };
            let rest = match below + parts.len() {
                0 => Below::Nothing,
                _ => Below::More,
            };
            let merged = self.begin()?;
            let links = self.begin()?;
            let done = crate::folder::Folder::open(links.tree()).and_then(|folder| {
                merge(
                    upper.import.tree(),
                    lower.import.tree(),
                    rest,
                    merged.tree(),
                    folder,
                )
            });
            for import in [upper.import, lower.import, links] {
                import.discard();
            }
            if let Err(error) = done {
                merged.discard();
                return Err(error);
            }
            parts.push(Part {
                import: merged,
                stack: upper.stack,
            });
        }
        Ok(())
    }
}

/// Returns the digest of the stack that a tree forms on the stack `below`.
pub(super) fn stacked(below: Option<&Digest>, tree: &Digest) -> Digest {
    match below {
        None => *tree,
        Some(below) => Digest::of_bytes(format!("zones-stack 1\n{below}\n{tree}\n").as_bytes()),
    }
}

/// Returns the digest of an image with this stack and this configuration.
pub(super) fn configured(stack: &Digest, config: &[u8]) -> Digest {
    let config = Digest::of_bytes(config);
    Digest::of_bytes(format!("zones-image 1\n{stack}\n{config}\n").as_bytes())
}
