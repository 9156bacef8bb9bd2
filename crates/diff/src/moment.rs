//! The input of a comparison, and its result.

use std::path::PathBuf;

/// Maximum depth of folders that are compared.
pub const MAX_DEPTH: usize = 4096;

/// The layers of a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The trees of the layers, topmost first; at least one.
    pub layers: Vec<PathBuf>,
}

/// The proof that two files without common blocks have the same content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proof {
    /// The bytes of both files.
    #[default]
    Bytes,
    /// The bytes, unless both files have the same inode number, size and time of change. This holds
    /// for a file system and its snapshots, whose files keep their numbers, as on ZFS.
    InodeAndChangeTime,
}

/// The reason why a comparison ends early, or why its result is not complete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A layer cannot be opened.
    #[error("open {0}")]
    Layer(PathBuf, #[source] std::io::Error),
    /// A layer was removed during the comparison.
    #[error(
        "{0} was removed during the comparison, so the output is not complete: give the command again"
    )]
    Removed(PathBuf),
}

/// The counts of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The number of changes.
    pub changes: u64,
    /// The number of files that could not be compared.
    pub problems: u64,
    /// True if the receiver of the events ended the comparison.
    pub ended: bool,
}
