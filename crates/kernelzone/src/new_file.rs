//! Makes the files of a kernel zone in the zonepath.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Makes a file that only root can read and write. Fails if a file of this name exists.
pub(crate) fn create(path: &Path) -> Result<File, AnyError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| format!("{}: {error}", path.display()).into())
}

/// Makes the file of a disk, or opens the existing file of this name.
pub(crate) fn create_or_open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0))
        .open(path)
}

/// Writes a new file. The content is on stable storage when this function returns.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> Result<(), AnyError> {
    let mut file = create(path)?;
    file.write_all(content)?;
    Ok(file.sync_all()?)
}
