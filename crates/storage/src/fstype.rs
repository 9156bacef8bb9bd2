//! Names of file systems, for messages.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::FsWord;

use crate::error::Result;
use crate::folder::Folder;

const EXT4: FsWord = 0xEF53;
const XFS: FsWord = 0x5846_5342;
const BTRFS: FsWord = 0x9123_683E;
const BCACHEFS: FsWord = 0xca45_1a4e;

/// Returns the type name of the file system that holds a folder.
pub fn name_at(path: &Path) -> Result<String> {
    Ok(name(&Folder::open(path)?))
}

/// Returns true if the file system sets the change time of a file at every change, also at the first
/// store to a clean page through a mapping. tmpfs does not.
pub(crate) fn tells_changes(of: impl AsFd) -> bool {
    rustix::fs::fstatfs(of).is_ok_and(|vfs| matches!(vfs.f_type, EXT4 | XFS | BTRFS))
}

/// Returns true if files of the file system can share blocks.
pub(crate) fn shares_blocks(of: impl AsFd) -> bool {
    rustix::fs::fstatfs(of).is_ok_and(|vfs| matches!(vfs.f_type, XFS | BTRFS | BCACHEFS))
}

/// Returns the type name of the file system that holds an open file or folder, or the type number
/// in hexadecimal if its name is unknown.
pub(crate) fn name(of: impl AsFd) -> String {
    let Ok(vfs) = rustix::fs::fstatfs(of) else {
        return "its file system".to_owned();
    };
    let name = match vfs.f_type {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlay",
        0x2fc1_2fc1 => "zfs",
        0x6969 => "nfs",
        0x6573_5546 => "fuse",
        other => return format!("file system type {other:#x}"),
    };
    name.to_owned()
}
