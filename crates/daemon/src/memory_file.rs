//! Files in memory.

use std::fs::File;

use rustix::fs::MemfdFlags;

/// Makes a file in memory, which can be sealed.
pub(super) fn scratch() -> Result<File, String> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("devices", flags);
    let file = file.map_err(|errno| format!("make a file in memory: {errno}"))?;
    Ok(File::from(file))
}
