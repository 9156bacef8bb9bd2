//! Parses the descriptions of container images: references, indexes, manifests, configurations,
//! layouts, credentials.
//!
//! All input comes from strangers: its size is bounded before it is read, it is checked against its
//! digest if it has one, and only the fields of [`Image`] are used. There is no network here (that
//! is `zonefetch`), and nothing is unpacked (that is `brand`).
//!
//! | file | holds |
//! |---|---|
//! | [`digest`](Digest) | SHA-256 digests, the only ones that are taken |
//! | [`reference`](Reference) | `docker://host/name:tag@digest` |
//! | [`manifest`] | indexes and manifests |
//! | [`config`] | the configuration of an image: layers, and the command |
//! | [`layout`] | OCI layouts and `docker save` archives, unpacked in a folder |
//! | [`auth`] | credentials, and challenges of a registry |

pub mod auth;
pub mod config;
mod digest;
pub mod layout;
pub mod manifest;
mod reference;

use std::io;
use std::path::PathBuf;

pub use config::{Command, Config};
pub use digest::{BadDigest, Digest, Hasher};
pub use layout::{Image, Layer, Layout};
pub use manifest::{Descriptor, Document, Manifest, Platform};
pub use reference::{BadReference, Reference, is_loopback};

/// Most layers of an image, as in other tools.
pub const MAX_LAYERS: usize = 127;

/// Maximum size of an index or a manifest, in bytes: the size that registries must accept.
pub const MAX_MANIFEST: u64 = 4 << 20;

/// Most bytes of a configuration.
pub const MAX_CONFIG: u64 = 4 << 20;

/// Most bytes of a layer as it is transferred.
pub const MAX_LAYER: u64 = 1 << 38;

/// An image cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its content is invalid.
    #[error("{what}: {problem}")]
    Bad {
        /// The document, or the file.
        what: String,
        /// The description of the problem.
        problem: String,
    },
    /// A blob does not match its digest.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// The blob.
        what: String,
        /// The requested digest.
        expected: Digest,
        /// The digest of the content.
        found: Digest,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    pub(crate) fn bad(what: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Bad {
            what: what.into(),
            problem: problem.into(),
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self::Io {
            path: path.into(),
            source: source.into(),
        }
    }
}

/// A text of a stranger for a message: short, and without terminal tricks.
#[must_use]
pub fn shown(text: &str) -> String {
    text.chars()
        .take(100)
        .collect::<String>()
        .escape_debug()
        .to_string()
}
