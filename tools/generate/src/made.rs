//! The type of generated files.

use std::path::PathBuf;

/// The path of a generated file below the project's folder, and its required content.
pub type Made = (PathBuf, String);
