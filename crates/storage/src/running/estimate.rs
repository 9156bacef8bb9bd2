//! Estimates the space of a snapshot of a running zone before anything is copied.

use std::collections::BTreeSet;

use rustix::fs::FileType;

use super::compare::{Last, is_of_a_change, stat};
use super::stamp::Stamp;
use crate::error::{Error, Result};
use crate::folder::Folder;

/// Maximum depth of nested folders in a walk; one descriptor is open for each level.
const MAX_FOLDER_DEPTH: usize = 256;

/// Returns the number of bytes in files of a top that differ from those in the last snapshot, by
/// their stamps. Files and folders that vanish meanwhile do not count.
pub(super) fn changed_bytes(top: &Folder, last: Option<&Last<'_>>) -> Result<u64> {
    below(top, last, &mut BTreeSet::new(), 0)
}

fn below(
    top: &Folder,
    last: Option<&Last<'_>>,
    counted: &mut BTreeSet<u64>,
    depth: usize,
) -> Result<u64> {
    if depth > MAX_FOLDER_DEPTH {
        return Err(Error::TooDeep(top.path().to_owned()));
    }
    let mut bytes = 0;
    for (name, _) in top.entries()? {
        let found = match stat(top, &name) {
            Err(error) if is_of_a_change(&error) => continue,
            other => other?,
        };
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            let inner = last.and_then(|last| last.below(&name));
            let inside = top
                .open_child(&name)
                .and_then(|folder| below(&folder, inner.as_ref(), counted, depth + 1));
            match inside {
                Err(error) if is_of_a_change(&error) || error.is_other_mount() => {}
                other => bytes += other?,
            }
            continue;
        }
        let known = last.and_then(|last| last.known.get(&name));
        let is_same = known.is_some_and(|known| known.stamp == Stamp::of(&found));
        // Several names of a file have one content.
        if !is_same && (found.st_nlink < 2 || counted.insert(found.st_ino)) {
            // `st_blocks` counts units of 512 bytes, whatever the block size of the file system is.
            bytes += u64::try_from(found.st_blocks).unwrap_or(0) * 512;
        }
    }
    Ok(bytes)
}
