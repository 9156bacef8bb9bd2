//! The errors of suspend images.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::Difference;

/// The part of an image that was changed after it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file is truncated, or its trailer is not one of an image.
    End,
    /// The damage is in the index of the chunks.
    Index,
    /// The damage is in the chunk with this number.
    Chunk(u64),
    /// The damage is between two chunks, at this offset in bytes.
    Gap(u64),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End => f.write_str("its end is missing or was changed"),
            Self::Index => f.write_str("its header, index or end was changed"),
            Self::Chunk(number) => write!(f, "chunk {number} was changed"),
            Self::Gap(offset) => write!(f, "the data at offset {offset} was changed"),
        }
    }
}

/// The reason why no image was saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be used.
    #[error("{path}: cannot {action}", path = path.display())]
    File {
        /// The action that failed.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file system has fewer free bytes than the image may need.
    #[error("{path}: needs up to {needed} bytes, {free} are free", path = path.display())]
    NoSpace {
        /// The path of the image for which space is missing.
        path: PathBuf,
        /// The space that the image may need, in bytes.
        needed: u64,
        /// The free space of the file system, in bytes.
        free: u64,
    },
    /// Another process writes this image, or resumes from it.
    #[error("{path}: in use by another suspend or resume", path = path.display())]
    Busy {
        /// The path of the image.
        path: PathBuf,
    },
    /// Another file got the name of the image while the image was written.
    #[error("{path}: another file is there", path = path.display())]
    Occupied {
        /// The path at which the image could not be published.
        path: PathBuf,
    },
    /// The file is not an image, or is an unfinished image.
    #[error("{path}: not a suspend image", path = path.display())]
    NotAnImage {
        /// The path of the file.
        path: PathBuf,
    },
    /// A later release wrote the image.
    #[error("{path}: version {found} of the format is unknown here", path = path.display())]
    Version {
        /// The path of the image.
        path: PathBuf,
        /// The format version of the image.
        found: u32,
    },
    /// The given key does not decrypt the image.
    #[error("{path}: made with another key, or its header was changed", path = path.display())]
    Key {
        /// The path of the image.
        path: PathBuf,
    },
    /// The image was changed after it was written.
    #[error("{path}: {damage}", path = path.display())]
    Damaged {
        /// The path of the image.
        path: PathBuf,
        /// The damaged part.
        damage: Damage,
    },
    /// The image was consumed, removed or replaced after it was opened.
    #[error("{path}: is no longer the image that was opened", path = path.display())]
    Gone {
        /// The path of the image.
        path: PathBuf,
    },
    /// The guest that was saved in the image differs from the guest to restore.
    #[error("{path}: does not fit this zone: {}", list(differences), path = path.display())]
    Differs {
        /// The path of the image.
        path: PathBuf,
        /// The facts that differ.
        differences: Vec<Difference>,
    },
    /// The image has no stream of this name.
    #[error("{path}: has no stream {name}", path = path.display())]
    NoStream {
        /// The path of the image.
        path: PathBuf,
        /// The name of the requested stream.
        name: String,
    },
    /// The format has no representation for the request. The text says why.
    #[error("cannot be saved: {0}")]
    Request(&'static str),
    /// The memory to save could not be read.
    #[error("cannot read {stream} at {offset}")]
    Source {
        /// The name of the stream.
        stream: String,
        /// The offset in the stream, in bytes.
        offset: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The memory to restore could not be written.
    #[error("cannot restore {stream} at {offset}")]
    Target {
        /// The name of the stream.
        stream: String,
        /// The offset in the stream, in bytes.
        offset: u64,
        /// The error of the system.
        source: io::Error,
    },
    /// The pager could not answer page faults.
    #[error("cannot {action} for page faults")]
    Faults {
        /// The action that failed.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The kernel returned no random numbers, or the encryption failed.
    #[error("cannot encrypt")]
    Crypto,
    /// The [`Watch`](crate::Watch) cancelled the operation.
    #[error("cancelled")]
    Cancelled,
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::File {
            action,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn damaged(path: &Path, damage: Damage) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            damage,
        }
    }

    /// Returns true if the image itself is the reason of the error, not the host or the request.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NotAnImage { .. }
                | Self::Version { .. }
                | Self::Key { .. }
                | Self::Damaged { .. }
                | Self::Gone { .. }
                | Self::Differs { .. }
                | Self::NoStream { .. }
        )
    }
}

fn list(differences: &[Difference]) -> String {
    let all: Vec<String> = differences.iter().map(ToString::to_string).collect();
    all.join("; ")
}
