//! Files in memory.

use std::fs::File;

use rustix::fs::MemfdFlags;

use crate::error::ScratchError;

/// Makes a file in memory (memfd) that can be sealed.
pub(super) fn scratch() -> Result<File, ScratchError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("devices", flags);
    let file = file.map_err(|errno| ScratchError::Make(errno.into()))?;
    Ok(File::from(file))
}
