//! The folders that a dataset's root is mounted from.

use std::path::PathBuf;

/// The parts of a zone's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The zonepath; top and work are in it, or in one folder in it.
    pub zonepath: PathBuf,
    /// The writable top, called `root` in the folder it is in.
    pub top: PathBuf,
    /// Overlay's work folder, called `work` beside the top.
    pub work: PathBuf,
    /// The sealed layers below, topmost first; none for a plain tree.
    pub lowers: Vec<PathBuf>,
    /// Syncs in it write nothing to disk: for a copy that is synced as a whole at the
    /// end, or removed. It can be mounted only once.
    pub volatile: bool,
}
