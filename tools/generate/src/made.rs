//! The files that are made.

use std::path::PathBuf;

/// A file below the project's folder and what must be in it.
pub type Made = (PathBuf, String);
