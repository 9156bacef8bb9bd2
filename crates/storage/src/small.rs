//! Writes the contents of a small new top to disk, without waiting for writes of other
//! processes.
//!
//! `syncfs` writes all dirty data of the file system, so on a busy host a clone of three small
//! files would wait for gigabytes of data. If one journal keeps the order (see the crate's
//! documentation), a cheaper method is enough: each file's blocks are written and entered in its
//! inode before the index is written. The fsync of the index then commits the inodes, and makes the
//! disk write out its cache.

use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use crate::dataset::one_journal;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::layout::ROOT;

/// Maximum number of files that are synced one by one; for more files, one `syncfs` is faster.
const MAX_SINGLE_SYNCS: usize = 64;

/// Starts the writing of the files in the top of the dataset at `zonepath`, so that a
/// later fsync of `index`, an existing path, makes them durable. Returns false if this is
/// not enough: on file systems that do not write in order, for an index on another file
/// system, or for a large top.
///
/// # Errors
/// Fails if the top cannot be read or written.
pub fn write_out(zonepath: &Path, index: &Path) -> Result<bool> {
    let zonepath = Folder::open(zonepath)?;
    if !one_journal(&zonepath, index)? {
        return Ok(false);
    }
    let mut files = Vec::new();
    let mut folders = vec![zonepath.open_child(ROOT)?];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for (name, kind) in folder.entries()? {
            seen += 1;
            if seen > MAX_SINGLE_SYNCS {
                return Ok(false);
            }
            match kind {
                FileType::Directory => folders.push(folder.open_child(&name)?),
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let file = rustix::fs::openat(&folder, &name, flags, Mode::empty())
                        .map_err(|e| folder.fail("open", &name, e))?;
                    files.push((folder.path().join(name), file));
                }
                // The journal contains all other changes.
                _ => {}
            }
        }
    }
    // The first pass starts all writes, and the second pass waits for each of them.
    for wait in [false, true] {
        for (path, file) in &files {
            sys::write_out(file, wait).map_err(|e| Error::io("sync_file_range", path, e))?;
        }
    }
    Ok(true)
}
