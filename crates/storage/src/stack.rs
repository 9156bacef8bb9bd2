//! What a dataset's root is mounted from.

use std::path::PathBuf;

/// The parts of a zone's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The zonepath; top and work are in it.
    pub zonepath: PathBuf,
    /// The writable top.
    pub top: PathBuf,
    /// Overlay's work folder, on the same mount as the top.
    pub work: PathBuf,
    /// The sealed layers below, topmost first; none for a plain tree.
    pub lowers: Vec<PathBuf>,
}
