//! The space that a dataset uses.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::error::Result;
use crate::folder::Folder;
use crate::stack::Stack;

/// The space that a dataset uses, as bytes allocated on disk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in the top, whose files belong to this dataset alone.
    pub own_bytes: u64,
    /// Number of files, folders and links in the top, without its root folder.
    pub own_files: u64,
    /// Bytes in all layers below the top, each of which other datasets may share.
    pub shared_bytes: u64,
    /// Number of layers below the top.
    pub layers: usize,
}

/// Maximum depth of the folders that are counted. The path to each folder is walked from the root.
const MAX_FOLDER_DEPTH: usize = 256;

/// Adds up the space of a stack. The duration grows with the number of files, because each file
/// needs one stat.
pub(crate) fn of(stack: &Stack) -> Result<Usage> {
    let (own_bytes, own_files) = tree(&stack.top)?;
    let mut shared_bytes = 0;
    for lower in &stack.lowers {
        shared_bytes += tree(lower)?.0;
    }
    Ok(Usage {
        own_bytes,
        own_files,
        shared_bytes,
        layers: stack.lowers.len(),
    })
}

/// Returns the bytes and the number of entries in a tree. Does not enter other mounts.
pub(crate) fn tree(root: &Path) -> Result<(u64, u64)> {
    let mut bytes = 0;
    let mut files = 0;
    let mut linked = BTreeSet::new();
    // Each entry is a list of names from the root, which are opened one by one: the path may be
    // longer than the kernel's limit, and this needs only one descriptor.
    let mut pending: Vec<Vec<std::ffi::OsString>> = vec![Vec::new()];
    while let Some(names) = pending.pop() {
        let mut folder = Folder::open(root)?;
        let mut gone = false;
        for name in &names {
            match folder.open_child(name) {
                Ok(child) => folder = child,
                Err(e) if e.is_missing() || e.is_other_mount() => {
                    gone = true;
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        if gone {
            continue;
        }
        for (name, _) in folder.entries()? {
            let stat = match rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(e) => return Err(folder.fail("stat", &name, e)),
            };
            files += 1;
            let is_folder = stat.st_mode & 0o170_000 == 0o040_000;
            if stat.st_nlink < 2 || is_folder || linked.insert((stat.st_dev, stat.st_ino)) {
                // `st_blocks` counts units of 512 bytes, whatever the block size of the file system
                // is.
                bytes += u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
            }
            if is_folder && names.len() < MAX_FOLDER_DEPTH {
                let mut names = names.clone();
                names.push(name);
                pending.push(names);
            }
        }
    }
    Ok((bytes, files))
}
