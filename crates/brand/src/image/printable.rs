//! Makes names and messages of a hostile source safe to print.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns a library's message about an archive, shortened and without control characters: the
/// message may contain bytes of the archive.
pub(super) fn harmless(problem: &str) -> String {
    problem
        .chars()
        .take(500)
        .map(|char| if char.is_control() { '?' } else { char })
        .collect()
}

/// Returns the name of a member for messages: short, and without control characters for the
/// terminal.
pub(super) fn shown(member: &Path) -> String {
    let name = member.as_os_str().as_bytes();
    name[..name.len().min(200)].escape_ascii().to_string()
}
