//! The folders from which a dataset's root is mounted.

use std::path::PathBuf;

/// The parts of a zone's root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stack {
    /// The zonepath, which contains the top and the work folder, directly or in one subfolder.
    pub zonepath: PathBuf,
    /// The path of the writable top, whose name is `root`.
    pub top: PathBuf,
    /// The path of overlay's work folder, whose name is `work`, beside the top.
    pub work: PathBuf,
    /// The trees of the sealed layers below the top, topmost first; empty if the top has no layers
    /// below.
    pub lowers: Vec<PathBuf>,
    /// True for an overlay in which a sync writes nothing to disk. This is for a copy that is
    /// synced as a whole at the end, or removed. Such an overlay can be mounted only once.
    pub volatile: bool,
}

impl Stack {
    /// Returns the trees of a stack for reading, the topmost first.
    #[must_use]
    pub fn trees(&self) -> Vec<PathBuf> {
        let top = std::iter::once(&self.top);
        top.chain(&self.lowers).cloned().collect()
    }
}
