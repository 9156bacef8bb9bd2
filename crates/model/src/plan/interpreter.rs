//! The interpreter of programs for another processor architecture.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An interpreter of programs for another processor architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The architecture, by QEMU's name for it.
    pub machine: String,
    /// The interpreter program of the host, or `None` if the host has no such program.
    pub program: Option<PathBuf>,
    /// The line that registers the interpreter (binfmt_misc).
    pub line: String,
}
