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
    /// Whoever works in it does without anything being written to disk in time: for a
    /// copy that is synced as a whole, or thrown away. It can be mounted only once.
    pub volatile: bool,
}
