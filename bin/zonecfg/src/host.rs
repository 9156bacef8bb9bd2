//! What a new zone's configuration depends on in this host.

use std::fs;

/// Directories of software, as far as this host has them as real directories:
/// just /usr where /usr is merged and the others are links into it.
pub fn software_dirs() -> Vec<&'static str> {
    [
        "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    ]
    .into_iter()
    .filter(|dir| fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()))
    .collect()
}
