//! The space a dataset takes.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use crate::error::Result;
use crate::folder::Folder;
use crate::stack::Stack;

/// Space in bytes as allocated on disk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The top: the files of this dataset alone.
    pub own_bytes: u64,
    /// Files, folders and links in the top, without its root.
    pub own_files: u64,
    /// All layers below, each of which other datasets may share.
    pub shared_bytes: u64,
    /// Layers below.
    pub layers: usize,
}

/// Maximum depth of folders that are counted: the path to each is walked from the root.
const MAX_FOLDER_DEPTH: usize = 256;

/// Adds up a stack. Takes time by the number of files: a stat for each.
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

/// The bytes and the number of objects in a tree. Does not enter other mounts.
pub(crate) fn tree(root: &Path) -> Result<(u64, u64)> {
    let mut bytes = 0;
    let mut files = 0;
    let mut linked = BTreeSet::new();
    // Names from the root, opened one by one: a path may be longer than the
    // kernel takes, and one descriptor is enough.
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
                // Blocks are 512 bytes whatever the file system's are.
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
