//! The errors of images.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::Difference;

/// The part of an image that was changed after it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The file ends too early, or not at all as an image does.
    End,
    /// The index of the chunks.
    Index,
    /// A chunk, by its number.
    Chunk(u64),
    /// The bytes between two chunks, at this offset.
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

/// Why nothing was saved, or nothing is restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be used.
    #[error("{path}: cannot {action}", path = path.display())]
    File {
        /// The action that failed.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Fewer bytes are free than the image may need.
    #[error("{path}: needs up to {needed} bytes, {free} are free", path = path.display())]
    NoSpace {
        /// The image that there is no room for.
        path: PathBuf,
        /// Bytes.
        needed: u64,
        /// Bytes.
        free: u64,
    },
    /// Another process writes this image, or resumes from it.
    #[error("{path}: in use by another suspend or resume", path = path.display())]
    Busy {
        /// The image.
        path: PathBuf,
    },
    /// Another file has the name by now.
    #[error("{path}: another file is there", path = path.display())]
    Occupied {
        /// The image that was to be.
        path: PathBuf,
    },
    /// The file never was one, or is one that was not finished.
    #[error("{path}: not a suspend image", path = path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
    },
    /// Made by a later release.
    #[error("{path}: version {found} of the format is unknown here", path = path.display())]
    Version {
        /// The image.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The key does not open the image.
    #[error("{path}: made with another key, or its header was changed", path = path.display())]
    Key {
        /// The image.
        path: PathBuf,
    },
    /// The image was changed after it was written.
    #[error("{path}: {damage}", path = path.display())]
    Damaged {
        /// The image.
        path: PathBuf,
        /// The damaged part.
        damage: Damage,
    },
    /// The image was used, removed or replaced since it was opened.
    #[error("{path}: is no longer the image that was opened", path = path.display())]
    Gone {
        /// The image.
        path: PathBuf,
    },
    /// The machine that the image was made of is not the one it would be restored to.
    #[error("{path}: does not fit this zone: {}", list(differences), path = path.display())]
    Differs {
        /// The image.
        path: PathBuf,
        /// The differences.
        differences: Vec<Difference>,
    },
    /// There is no stream of this name.
    #[error("{path}: has no stream {name}", path = path.display())]
    NoStream {
        /// The image.
        path: PathBuf,
        /// The name of the requested stream.
        name: String,
    },
    /// The request cannot be put into the format.
    #[error("cannot be saved: {0}")]
    Request(&'static str),
    /// Memory could not be read.
    #[error("cannot read {stream} at {offset}")]
    Source {
        /// The stream.
        stream: String,
        /// The offset in bytes.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// Memory could not be written.
    #[error("cannot restore {stream} at {offset}")]
    Target {
        /// The stream.
        stream: String,
        /// The offset in bytes.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// Faults could not be answered.
    #[error("cannot {action} for page faults")]
    Faults {
        /// The action that failed.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel gave no random numbers, or the encryption failed.
    #[error("cannot encrypt")]
    Crypto,
    /// The watch broke it off.
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

    /// Returns whether the image itself is the reason: not the host, not the request.
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
