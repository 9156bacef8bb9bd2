//! Parses the descriptions of container images: references, indexes, manifests, configurations,
//! layouts, credentials.
//!
//! All input comes from strangers. The size of a document is limited before the document is read, a
//! document with a digest is checked against that digest, and only the fields of [`Image`] are
//! used. This crate uses no network (`zonefetch` does) and unpacks nothing (`brand` does).
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
pub use reference::{BadReference, Reference, is_authority, is_loopback};

/// Maximum number of layers of an image; other tools have the same limit.
pub const MAX_LAYERS: usize = 127;

/// Maximum size of an index or a manifest, in bytes: the size that registries must accept.
pub const MAX_MANIFEST: u64 = 4 << 20;

/// Maximum size of a configuration, in bytes.
pub const MAX_CONFIG: u64 = 4 << 20;

/// Maximum size of a compressed layer, in bytes.
pub const MAX_LAYER: u64 = 1 << 38;

/// The reason why an image cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A document or file of the image has invalid content.
    #[error("{what}: {problem}")]
    Bad {
        /// The name of the document or file.
        what: String,
        /// The description of the problem.
        problem: String,
    },
    /// A blob does not match its digest.
    #[error("{what}: expected {expected}, found {found}")]
    Mismatch {
        /// The name of the blob.
        what: String,
        /// The requested digest.
        expected: Digest,
        /// The digest of the content.
        found: Digest,
    },
    /// A file of the image cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
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

/// Returns untrusted text in a form that is safe in a message: short, and without control
/// characters for the terminal.
#[must_use]
pub fn shown(text: &str) -> String {
    text.chars()
        .take(100)
        .collect::<String>()
        .escape_debug()
        .to_string()
}
