//! Reads the properties of a ZFS file system, and the mark of a zone's file system.

use std::path::Path;

use rustix::fs::FsWord;

use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::zfs::command::{FileSystem, zfs};

/// The `f_type` number of ZFS.
const ZFS: FsWord = 0x2fc1_2fc1;

/// The name of the link whose text is the name of the zone's file system.
pub(crate) const LINK: &str = "zfs";

/// A user property with the zonepath for which a file system was made. A file system without this
/// mark is never destroyed, whatever the link says.
pub(crate) const OWNER: &str = "zones:zonepath";

/// Returns true if a folder is on ZFS.
pub(crate) fn is_on(folder: &Folder) -> Result<bool> {
    let vfs = rustix::fs::fstatfs(folder).map_err(|e| folder.fail("fstatfs", "", e))?;
    Ok(vfs.f_type == ZFS)
}

pub(crate) fn fail(path: &Path, why: impl Into<String>) -> Error {
    Error::ZfsRoot {
        zonepath: path.to_owned(),
        why: why.into(),
    }
}

/// Returns the value of a property, or `None` if the file system does not exist.
pub(crate) fn property(of: &FileSystem, name: &str) -> Result<Option<String>> {
    match zfs(&["get", "-H", "-p", "-o", "value", name, of.as_str()]) {
        Ok(text) => Ok(Some(text.trim_end_matches('\n').to_owned())),
        Err(e) if is_missing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

pub(crate) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Zfs { why, .. } if why.contains("does not exist"))
}

pub(crate) fn number(of: &FileSystem, name: &str) -> Result<u64> {
    let text = property(of, name)?.unwrap_or_default();
    text.parse().map_err(|_| Error::Zfs {
        command: format!("zfs get {name} {of}"),
        why: format!("not a number: {text:?}"),
    })
}

/// The name of the file system that receives a stream, and of the folder in the zonepath where it
/// is mounted.
pub(crate) const RECEIVED: &str = "received";
