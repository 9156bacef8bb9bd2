//! The interpreter of programs for another kind of processor.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An interpreter of programs for another kind of processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The kind, as qemu calls it.
    pub machine: String,
    /// The host's program that runs them; none where it has none.
    pub program: Option<PathBuf>,
    /// The line that registers it (binfmt_misc).
    pub line: String,
}
