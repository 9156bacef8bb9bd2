//! Images of several layers, which share those that others have, too.
//!
//! A layer that came with a name for the stack up to it keeps that name as the text of a
//! link, `stack`, and the digest of that stack as another, `stack-digest`. An image whose
//! stack begins like one that is here is put on those layers.

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

/// The name of the link to the stack up to a layer, for other programs.
pub(super) const STACK: &str = "stack";

/// The name of our link to it.
pub(super) const DIGEST: &str = "stack-digest";

/// Maximum number of layers of an image; higher ones are merged into one. A zone adds its own, and
/// each layer costs time at the first look at a file.
const MAX_IMAGE_LAYERS: usize = 5;

/// A tree that is to be a layer.
#[derive(Debug)]
pub struct Part {
    /// The tree.
    pub import: Import,
    /// The digest of the stack up to it, wherever it is.
    pub stack: Option<String>,
}

/// Layers that are here, and stay here as long as this lives.
#[derive(Debug)]
pub struct Base {
    pub(super) layer: LayerPath,
    pub(super) digest: Digest,
    trees: Vec<PathBuf>,
    known: usize,
    reference: String,
    // Keeps `collect` away from the reference.
    _shared: AtWork,
}

impl Base {
    /// The trees of the layers, the uppermost first.
    #[must_use]
    pub fn trees(&self) -> &[PathBuf] {
        &self.trees
    }

    /// Returns the number of the stack, counted from one.
    #[must_use]
    pub fn known(&self) -> usize {
        self.known
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        // Trees that cannot be removed now are garbage for `prune`.
        for grave in self.layer.drop_ref(&self.reference).unwrap_or_default() {
            let _ = remove::bury(&grave);
        }
    }
}

impl Images {
    /// Finds the highest of these stacks, each of which stands on the one before.
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
            // As of a layer above that is not there: stale, should this be cut off.
            let id = Id::random()?;
            let reference = layer_ref(id);
            let place = layers.folder.path().join(id.to_string());
            match layer.add_ref(&reference, &place) {
                // Its last user went since.
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

    /// Merges layers if there would be too many.
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

/// Names the stack that a tree makes on another.
pub(super) fn stacked(below: Option<&Digest>, tree: &Digest) -> Digest {
    match below {
        None => *tree,
        Some(below) => Digest::of_bytes(format!("zones-stack 1\n{below}\n{tree}\n").as_bytes()),
    }
}

/// Names an image of a stack that says this of itself.
pub(super) fn configured(stack: &Digest, config: &[u8]) -> Digest {
    let config = Digest::of_bytes(config);
    Digest::of_bytes(format!("zones-image 1\n{stack}\n{config}\n").as_bytes())
}
