//! Names and messages of a hostile source, made fit to be printed.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns a library's message about an archive without control characters and shortened: it can
/// contain bytes of the archive.
pub(super) fn harmless(problem: &str) -> String {
    problem
        .chars()
        .take(500)
        .map(|char| if char.is_control() { '?' } else { char })
        .collect()
}

/// Returns the name of a member for messages: short, and without terminal tricks.
pub(super) fn shown(member: &Path) -> String {
    let name = member.as_os_str().as_bytes();
    name[..name.len().min(200)].escape_ascii().to_string()
}
