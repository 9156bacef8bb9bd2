//! The sizes of layers. A layer never changes, so its sizes are found once and stored beside it. The
//! operations that change a zone's snapshots do this; lists only read.
//!
//! ```text
//! <layer>/size     link: the bytes of the layer's tree
//! <layer>/own      link: the bytes that only this layer has, and the neighbours for which this
//!                  figure holds
//! <layer>/linked   link, if other layers may have hard links to files of this layer
//! ```
//!
//! Layers of one zone can share files (as hard links) and blocks (on btrfs and xfs). The
//! snapshots of a zone form a line in time, and a file or block that two snapshots share is also in
//! all snapshots between both. So the bytes that only one layer has depend only on the snapshots
//! before and after it, and `own` holds until one of these changes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;

use crate::copy::open_file;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::layers::LayerPath;
use crate::{fstype, usage};

const SIZE: &str = "size";
const OWN: &str = "own";
const LINKED: &str = "linked";

/// Maximum depth of nested folders in a walk; up to three descriptors are open for each level.
const MAX_FOLDER_DEPTH: usize = 256;

/// The treatment of a size that had to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The size is stored beside the layer.
    Store,
    /// The size is only returned, for a command that changes nothing.
    Return,
}

/// The layers before and after a layer in the line of a zone's snapshots. After the newest one
/// comes the zone's top.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neighbours<'a> {
    pub(crate) before: Option<&'a LayerPath>,
    pub(crate) after: Option<&'a LayerPath>,
}

impl Neighbours<'_> {
    fn key(self) -> String {
        let name = |layer: Option<&LayerPath>| layer.map(|layer| layer.id.to_string());
        let before = name(self.before).unwrap_or_else(|| "none".to_owned());
        let after = name(self.after).unwrap_or_else(|| "top".to_owned());
        format!("{before} {after}")
    }
}

impl LayerPath {
    /// Returns the bytes on disk of the layer's tree, including bytes that other layers share.
    pub(crate) fn bytes(&self, found: Found) -> Result<u64> {
        let folder = self.open()?;
        if let Some((bytes, _)) = read(&folder, SIZE)? {
            return Ok(bytes);
        }
        let bytes = usage::tree(&self.tree()?)?.0;
        if found == Found::Store {
            store(&folder, SIZE, &bytes.to_string());
        }
        Ok(bytes)
    }

    /// Returns the bytes on disk that only this layer has: those that its removal frees.
    pub(crate) fn own_bytes(&self, neighbours: Neighbours<'_>, found: Found) -> Result<u64> {
        let folder = self.open()?;
        let shares_blocks = fstype::shares_blocks(&folder);
        // A running zone writes new blocks in place of those that its top shares with the newest
        // layer.
        let is_final =
            (neighbours.after.is_some() || !shares_blocks) && folder.kind(LINKED)?.is_none();
        let key = neighbours.key();
        if is_final {
            if let Some((bytes, rest)) = read(&folder, OWN)? {
                if rest == key {
                    return Ok(bytes);
                }
            }
        }
        let mut alike = Vec::new();
        if self.form()? == Some(Form::Volume) {
            for layer in [neighbours.before, neighbours.after].into_iter().flatten() {
                alike.push(layer.open_tree()?);
            }
        }
        let bytes = exclusive(&self.open_tree()?, shares_blocks, &alike)?;
        if is_final && found == Found::Store {
            store(&folder, OWN, &format!("{bytes} {key}"));
        }
        Ok(bytes)
    }

    /// Records that other layers may have hard links to files of this layer.
    pub(crate) fn note_links(&self) -> Result<()> {
        let folder = self.open()?;
        if folder.kind(LINKED)?.is_none() {
            match rustix::fs::symlinkat("yes", &folder, LINKED) {
                // Another operation makes hard links to files of the same layer.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(folder.fail("symlink", LINKED, e)),
            }
        }
        folder.unlink(OWN).map(drop)
    }
}

/// Reads a number, and the text after it.
fn read(folder: &Folder, name: &str) -> Result<Option<(u64, String)>> {
    let text = match folder.read_link(name) {
        Ok(text) => text,
        Err(Error::BadLink { .. }) => None,
        Err(error) => return Err(error),
    };
    Ok(text.and_then(|text| {
        let text = text.to_str()?;
        let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some((number.parse().ok()?, rest.to_owned()))
    }))
}

/// Stores a figure. A failure does no harm, because the next caller finds the figure again: the
/// disk may be full or read-only.
fn store(folder: &Folder, name: &str, text: &str) {
    let _ = folder.relink(name, text);
}

/// Returns the bytes of a tree that no file outside of the tree shares. `alike` are trees of
/// snapshots of the same subvolume, whose unchanged files share all blocks.
fn exclusive(tree: &Folder, shares_blocks: bool, alike: &[Folder]) -> Result<u64> {
    let mut walk = Walk::new(shares_blocks);
    let alike: Vec<&Folder> = alike.iter().collect();
    walk.folder(tree, &alike, Path::new(""), 0)?;
    walk.finish(&[tree])
}

/// Returns the bytes in the trees of layers, the oldest first, that no file outside of them shares.
/// Subvolumes share the blocks of unchanged files, so each has only the files that changed since the
/// one before it.
pub(crate) fn together(layers: &[LayerPath]) -> Result<u64> {
    let mut trees = Vec::new();
    for layer in layers {
        trees.push(layer.open_tree()?);
    }
    let Some(first) = layers.first() else {
        return Ok(0);
    };
    let are_volumes = first.form()? == Some(Form::Volume);
    let shares_blocks = !are_volumes && fstype::shares_blocks(&first.open()?);
    let mut walk = Walk::new(shares_blocks);
    for (number, tree) in trees.iter().enumerate() {
        walk.tree = number;
        let before = number.checked_sub(1).and_then(|number| trees.get(number));
        let alike: Vec<&Folder> = before.filter(|_| are_volumes).into_iter().collect();
        walk.folder(tree, &alike, Path::new(""), 0)?;
    }
    walk.finish(&trees.iter().collect::<Vec<_>>())
}

/// A file with several names.
struct Linked {
    stat: Stat,
    /// Number of names in the tree.
    seen: u64,
    /// The number of the tree that has one of the names.
    tree: usize,
    /// The path of one of the names, relative to the tree.
    path: PathBuf,
}

struct Walk {
    shares_blocks: bool,
    /// The files with several names, by inode number.
    linked: HashMap<u64, Linked>,
    /// The number of the tree that is walked.
    tree: usize,
    bytes: u64,
}

impl Walk {
    fn new(shares_blocks: bool) -> Self {
        Self {
            shares_blocks,
            linked: HashMap::new(),
            tree: 0,
            bytes: 0,
        }
    }

    /// Adds the files all of whose names are in the trees, and returns the sum.
    fn finish(mut self, trees: &[&Folder]) -> Result<u64> {
        let linked = std::mem::take(&mut self.linked).into_values();
        for file in linked.filter(|file| file.seen == file.stat.st_nlink) {
            let tree = trees[file.tree];
            self.bytes += self.of_file(tree, file.path.as_os_str(), &file.stat)?;
        }
        Ok(self.bytes)
    }

    fn folder(&mut self, at: &Folder, alike: &[&Folder], path: &Path, depth: usize) -> Result<()> {
        // As in `usage`: deeper folders are not counted.
        if depth > MAX_FOLDER_DEPTH {
            return Ok(());
        }
        for (name, _) in at.entries()? {
            let stat = stat(at, &name)?;
            if FileType::from_raw_mode(stat.st_mode).is_dir() {
                self.bytes += allocated(&stat);
                let inner: Vec<Folder> = alike
                    .iter()
                    .filter_map(|other| other.open_child(&name).ok())
                    .collect();
                let inner: Vec<&Folder> = inner.iter().collect();
                self.folder(&at.open_child(&name)?, &inner, &path.join(&name), depth + 1)?;
            } else if stat.st_nlink > 1 {
                let tree = self.tree;
                let file = self.linked.entry(stat.st_ino).or_insert_with(|| Linked {
                    stat,
                    seen: 0,
                    tree,
                    path: path.join(&name),
                });
                file.seen += 1;
            } else if !alike.iter().any(|other| is_same(other, &name, &stat)) {
                self.bytes += self.of_file(at, &name, &stat)?;
            }
        }
        Ok(())
    }

    fn of_file(&self, at: &Folder, name: &OsStr, stat: &Stat) -> Result<u64> {
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        if !self.shares_blocks || !is_file || stat.st_blocks == 0 {
            return Ok(allocated(stat));
        }
        let file = open_file(at, name)?;
        Ok(sys::extents::exclusive_bytes(&file).unwrap_or_else(|_| allocated(stat)))
    }
}

/// Returns the bytes that are allocated for a file. The unit of `st_blocks` is 512 bytes on every
/// file system.
fn allocated(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0) * 512
}

/// Returns true if a snapshot of the same subvolume has this file, too, with the same content.
fn is_same(other: &Folder, name: &OsStr, found: &Stat) -> bool {
    let key = |stat: &Stat| (stat.st_ino, stat.st_ctime, stat.st_ctime_nsec, stat.st_size);
    stat(other, name).is_ok_and(|stat| key(&stat) == key(found))
}

fn stat(at: &Folder, name: &OsStr) -> Result<Stat> {
    rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| at.fail("stat", name, e))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_another_tree_links_are_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for tree in [&one, &two] {
            fs::create_dir_all(tree.join("d")).unwrap();
        }
        fs::write(one.join("d/alone"), vec![1; 100 << 10]).unwrap();
        fs::hard_link(one.join("d/alone"), one.join("again")).unwrap();
        fs::write(one.join("shared"), vec![1; 300 << 10]).unwrap();
        fs::hard_link(one.join("shared"), two.join("shared")).unwrap();
        let bytes = || exclusive(&Folder::open(&one).unwrap(), false, &[]).unwrap();
        rustix::fs::syncfs(fs::File::open(&one).unwrap()).unwrap();
        let before = bytes();
        assert!((100 << 10..200 << 10).contains(&before), "{before}");
        fs::remove_file(two.join("shared")).unwrap();
        assert!(bytes() >= before + (300 << 10));
    }
}
