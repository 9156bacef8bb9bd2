//! Compares a top with the last snapshot.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use super::stamp::{Entries, Moment, Node, Stamp};
use crate::copy::{flush, open_file};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::patch::same_content;

/// Maximum depth of nested folders in a walk; one descriptor is open for each level.
const MAX_FOLDER_DEPTH: usize = 256;

/// The content of a folder in the last snapshot.
#[derive(Debug)]
pub(super) struct Last<'a> {
    pub(super) folder: Folder,
    pub(super) known: &'a Entries,
    /// True if equal stamps mean equal files. Otherwise the contents are compared, too.
    pub(super) is_trusted: bool,
}

impl<'a> Last<'a> {
    /// Returns the root of a layer's tree with its table.
    pub(super) fn new(folder: Folder, root: &'a Node, is_trusted: bool) -> Option<Self> {
        Some(Self {
            folder,
            known: root.inner.as_ref()?,
            is_trusted,
        })
    }

    /// Returns a folder of this folder.
    pub(super) fn below(&self, name: &OsStr) -> Option<Self> {
        let known = self.known.get(name)?.inner.as_ref()?;
        Some(Self {
            folder: self.folder.open_child(name).ok()?,
            known,
            is_trusted: self.is_trusted,
        })
    }
}

/// Returns true if a call failed because the zone changed or removed the object.
pub(super) fn is_of_a_change(error: &Error) -> bool {
    let source = match error {
        Error::Io { source, .. } => source,
        // An object is no longer a symbolic link.
        Error::BadLink { .. } => return true,
        _ => return false,
    };
    let changes = [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::ISDIR,
        Errno::LOOP,
        Errno::STALE,
        Errno::NXIO,
        Errno::EXIST,
    ];
    Errno::from_io_error(source).is_some_and(|number| changes.contains(&number))
}

/// Returns true if a file of the top has the same content as in the last snapshot.
pub(super) fn has_same_content(
    top: &Folder,
    last: &Last<'_>,
    name: &OsStr,
    stat: &Stat,
) -> Result<bool> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Ok(top.read_link(name)? == last.folder.read_link(name)?),
        FileType::RegularFile => {
            let file = open_file(top, name)?;
            let now = flush(&file).map_err(|e| top.fail("sync_file_range", name, e))?;
            let Ok(other) = open_file(&last.folder, name) else {
                return Ok(false);
            };
            Ok(Stamp::of(&now) == Stamp::of(stat)
                && same_content(&mut File::from(file), &mut File::from(other))
                    .map_err(|e| top.fail("read", name, e))?)
        }
        _ => Ok(true),
    }
}

/// Returns true if the top has the same content as the last snapshot. The zone may run: each object
/// is found unchanged after the call began, so all objects were unchanged when it began.
pub(super) fn is_same(top: &Folder, last: &Last<'_>, known: &Node) -> Result<bool> {
    if stamp_of(top)? != known.stamp {
        return Ok(false);
    }
    let is_alike =
        known.settled || has_same_names(top, last)? && is_dressed_alike(top, &last.folder)?;
    if !is_alike {
        return Ok(false);
    }
    for (name, child) in last.known {
        let stat = stat(top, name)?;
        if child.inner.is_some() {
            let Some(below) = last.below(name) else {
                return Ok(false);
            };
            if !is_same(&top.open_child(name)?, &below, child)? {
                return Ok(false);
            }
        } else if Stamp::of(&stat) != child.stamp
            || !child.settled && !has_same_content(top, last, name, &stat)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_same_names(top: &Folder, last: &Last<'_>) -> Result<bool> {
    let names = top.entries()?.into_iter().map(|(name, _)| name);
    let names: BTreeSet<OsString> = names.collect();
    Ok(names.iter().eq(last.known.keys()))
}

fn is_dressed_alike(one: &Folder, other: &Folder) -> Result<bool> {
    let dress = |folder: &Folder| -> Result<_> {
        let stat = rustix::fs::fstat(folder).map_err(|e| folder.fail("fstat", "", e))?;
        let all = crate::attributes::xattrs(folder).map_err(|e| folder.fail("getxattr", "", e))?;
        Ok((stat.st_mode, stat.st_uid, stat.st_gid, all))
    };
    Ok(dress(one)? == dress(other)?)
}

/// Returns the stamps of a tree that does not change.
pub(super) fn stamps_of(tree: &Folder, depth: usize) -> Result<Node> {
    if depth > MAX_FOLDER_DEPTH {
        return Err(Error::TooDeep(tree.path().to_owned()));
    }
    let mut inner = Entries::new();
    for (name, _) in tree.entries()? {
        let (now, stamp) = (Moment::now(), Stamp::of(&stat(tree, &name)?));
        let node = match stamp.is_folder() {
            true => stamps_of(&tree.open_child(&name)?, depth + 1)?,
            false => Node::file(stamp, now),
        };
        inner.insert(name, node);
    }
    let now = Moment::now();
    Ok(Node {
        inner: Some(inner),
        ..Node::file(stamp_of(tree)?, now)
    })
}

pub(super) fn stamp_of(folder: &Folder) -> Result<Stamp> {
    let stat = rustix::fs::fstat(folder).map_err(|e| folder.fail("fstat", "", e))?;
    Ok(Stamp::of(&stat))
}

pub(super) fn stat(at: &Folder, name: &OsStr) -> Result<Stat> {
    rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| at.fail("stat", name, e))
}
