//! Layers of container images: a tree that is put on others.
//!
//! Special names in a layer hide files of the layers below: `.wh.NAME` hides NAME,
//! `.wh..wh..opq` hides all that a folder held. Here they become the marks that overlay
//! reads: a character device 0/0, and the attribute `trusted.overlay.opaque`. Both are
//! made only where there is something to hide, and none that stands in the archive itself
//! passes: devices and `trusted.*` are left out of every archive.
//!
//! A layer may name a file in a folder that it does not hold itself: the folder is then
//! made as the layers below have it, and where they have a link to a folder, the file
//! goes there, as it would in the running image. A link that the same archive made is
//! never gone through.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Stat};

use super::content::Content;
use super::directory;
use super::unpack::Unpack;
use crate::Error;
use crate::tree::{Meta, Tree, is};

/// The prefix of a name that hides another name.
const WHITEOUT: &[u8] = b".wh.";

/// The name of a marker that hides all entries of the folder in lower layers.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Other names of that kind, which some tools use for themselves.
const RESERVED: &[u8] = b".wh..wh.";

/// The attribute of a folder that hides all that it held below.
const OPAQUE_ATTRIBUTE: &str = "trusted.overlay.opaque";

/// Links gone through on the way to one name, as in the kernel.
const MAX_LINKS: usize = 40;

/// Finds `name` in trees that are put on one another, the uppermost first.
fn find<'t>(trees: &[&'t Tree], name: &Path) -> Result<Option<(&'t Tree, Stat)>, Error> {
    for tree in trees {
        if let Some(stat) = tree.stat(name)? {
            return Ok((!is_whiteout(&stat)).then_some((*tree, stat)));
        }
        // Something on the way may hide all that is below.
        for above in name.ancestors().skip(1) {
            if above.as_os_str().is_empty() {
                break;
            }
            if let Some(stat) = tree.stat(above)? {
                if !is(&stat, FileType::Directory) || is_opaque(tree, above)? {
                    return Ok(None);
                }
            }
        }
    }
    Ok(None)
}

fn is_whiteout(stat: &Stat) -> bool {
    is(stat, FileType::CharacterDevice)
}

fn is_opaque(tree: &Tree, name: &Path) -> Result<bool, Error> {
    Ok(tree.attribute(name, OPAQUE_ATTRIBUTE)?.as_deref() == Some(b"y"))
}

impl Unpack<'_> {
    /// The layers below alone.
    fn below(&self) -> Vec<&Tree> {
        self.lowers.iter().collect()
    }

    /// This layer as far as it was made, and those below.
    fn all(&self) -> Vec<&Tree> {
        std::iter::once(&self.root).chain(&self.lowers).collect()
    }

    /// Handles a name that hides others. Returns false for other names.
    pub(super) fn mark(&mut self, name: &Path, shown: &Path) -> Result<bool, Error> {
        let last = name.file_name().unwrap_or_default().as_bytes();
        if !last.starts_with(WHITEOUT) {
            return Ok(false);
        }
        let folder = name.parent().unwrap_or(Path::new(""));
        if last == OPAQUE {
            self.hide_all(folder, shown)?;
        } else if last.starts_with(RESERVED) {
            self.skipped.other += 1;
        } else {
            let hidden = &last[WHITEOUT.len()..];
            if matches!(hidden, b"" | b"." | b"..") {
                return Err(self.bad(shown, "hides no name"));
            }
            let hidden = folder.join(OsStr::from_bytes(hidden));
            self.hide(&hidden, shown)?;
        }
        Ok(true)
    }

    /// Hides the object with this name in the layers below.
    fn hide(&mut self, name: &Path, shown: &Path) -> Result<(), Error> {
        let name = self.follow(name, shown)?;
        if find(&self.below(), &name)?.is_none() {
            return Ok(());
        }
        match self.root.stat(&name)? {
            // A folder of this layer: only objects of the layers below are hidden in it.
            Some(stat) if is(&stat, FileType::Directory) => {
                self.set_opaque(&name).map_err(self.blame(shown))
            }
            Some(_) => Ok(()),
            None if find(&self.all(), &name)?.is_none() => Ok(()),
            None => {
                let name = self.make_way_above(&name, shown)?;
                self.root.whiteout(&name).map_err(self.blame(shown))
            }
        }
    }

    /// Hides all that the layers below have in a folder.
    fn hide_all(&mut self, folder: &Path, shown: &Path) -> Result<(), Error> {
        if self.lowers.is_empty() {
            return Ok(());
        }
        if !folder.as_os_str().is_empty() {
            let folder = self.follow(folder, shown)?;
            let below = find(&self.below(), &folder)?;
            if !below.is_some_and(|(_, stat)| is(&stat, FileType::Directory)) {
                return Ok(());
            }
            let inner = self.make_way_above(&folder.join("x"), shown)?;
            let folder = inner.parent().unwrap_or(Path::new(""));
            return self.set_opaque(folder).map_err(self.blame(shown));
        }
        // Of the root itself overlay takes no such word: each name in it is hidden.
        let mut names = Vec::new();
        for tree in &self.lowers {
            names.extend(tree.names(Path::new(""))?);
        }
        names.sort();
        names.dedup();
        for name in names {
            self.hide(Path::new(&name), shown)?;
        }
        Ok(())
    }

    fn set_opaque(&self, folder: &Path) -> Result<(), Error> {
        self.root.set_attribute(folder, OPAQUE_ATTRIBUTE, b"y")
    }

    /// Makes a folder, or gives one that is there this owner and mode. One that was
    /// hidden a moment ago begins empty.
    pub(super) fn folder(&mut self, name: &Path, meta: Meta) -> Result<bool, Error> {
        let over = self.layer || self.content == Content::Layer;
        let hidden = over && self.root.stat(name)?.is_some_and(|stat| is_whiteout(&stat));
        if hidden {
            self.root.remove(name)?;
        }
        let made = self.root.make_dir(name, meta)?;
        if hidden && self.layer {
            self.set_opaque(name)?;
        }
        Ok(made)
    }

    /// Returns the path that `name` leads to through the links of the layers below.
    fn follow(&self, name: &Path, shown: &Path) -> Result<PathBuf, Error> {
        let mut way = Way::to(name);
        while let Some(next) = way.step() {
            let found = find(&self.all(), &next)?;
            match found {
                Some((tree, stat)) if is(&stat, FileType::Symlink) => {
                    let text = tree.read_link(&next)?.unwrap_or_default();
                    if std::ptr::eq(tree, &self.root) || !way.turn(&text) {
                        return Err(self.bad(shown, "its name goes through a symbolic link"));
                    }
                }
                _ => way.take(next),
            }
        }
        Ok(way.end())
    }

    /// Makes the folders on the way to `name` as the layers below have them.
    pub(super) fn make_way_above(&mut self, name: &Path, shown: &Path) -> Result<PathBuf, Error> {
        let name = self.follow(name, shown)?;
        let mut missing = Vec::new();
        for folder in name.ancestors().skip(1) {
            if folder.as_os_str().is_empty() {
                break;
            }
            match self.root.stat(folder)? {
                Some(stat) if is(&stat, FileType::Directory) => break,
                Some(stat) if !is_whiteout(&stat) => {
                    return Err(self.bad(shown, "its name goes through a file"));
                }
                _ => missing.push(folder.to_owned()),
            }
        }
        for folder in missing.iter().rev() {
            let below = match self.root.stat(folder)? {
                Some(_) => None,
                None => find(&self.all(), folder)?,
            };
            let like = below.filter(|(_, stat)| is(stat, FileType::Directory));
            let (meta, mtime) = match &like {
                Some((_, stat)) => (Meta::of(stat), Some(directory::mtime(stat))),
                None => (Meta::root(0o755), None),
            };
            let attributes = match like {
                Some((tree, _)) => directory::attributes(tree, folder)?,
                None => Vec::new(),
            };
            let blame = self.blame(shown);
            let made = self.folder(folder, meta).map_err(&blame)?;
            self.done.directories += u64::from(made);
            for (key, value) in attributes {
                let set = self.root.set_attribute(folder, &key, &value);
                set.map_err(&blame)?;
            }
            if let Some(mtime) = mtime {
                self.dirs.push((folder.clone(), mtime));
            }
        }
        Ok(name)
    }

    /// Makes sure that `target`, which is to get one more name, is in this layer: a file
    /// of the layers below is copied, because a hard link cannot join two layers.
    pub(super) fn fetch(&mut self, target: &Path, shown: &Path) -> Result<PathBuf, Error> {
        let target = self.follow(target, shown)?;
        if self
            .root
            .stat(&target)?
            .is_some_and(|stat| !is_whiteout(&stat))
        {
            return Ok(target);
        }
        let Some((tree, stat)) = find(&self.all(), &target)? else {
            return Err(self.bad(shown, "a hard link to a missing file"));
        };
        let mtime = directory::mtime(&stat);
        let opened = tree.open_regular(&target)?;
        let text = tree.read_link(&target)?;
        let target = self.make_way_above(&target, shown)?;
        let blame = self.blame(shown);
        match (opened, text) {
            (Some((mut from, stat)), _) => {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                self.check_bytes(size)?;
                let mut to = self
                    .root
                    .create(&target, Meta::root(0o600))
                    .map_err(&blame)?;
                let copied = io::copy(&mut from, &mut to);
                copied.map_err(|error| self.bad(shown, format!("cannot copy it: {error}")))?;
                self.count_bytes(size, size)?;
                self.root
                    .finish(&target, &to, Meta::of(&stat))
                    .map_err(&blame)?;
                directory::copy_attributes(&from, &to)
                    .map_err(|errno| self.bad(shown, format!("cannot copy it: {errno}")))?;
            }
            (None, Some(text)) => {
                let made = self.root.symlink(&target, &text, stat.st_uid, stat.st_gid);
                made.map_err(&blame)?;
            }
            (None, None) => return Err(self.bad(shown, "a hard link to a path that is not a file")),
        }
        self.root.set_mtime(&target, mtime).map_err(&blame)?;
        Ok(target)
    }
}

/// A walk along a name, whose last part is not looked at.
struct Way {
    done: PathBuf,
    todo: VecDeque<OsString>,
    links: usize,
}

impl Way {
    fn to(name: &Path) -> Self {
        Self {
            done: PathBuf::new(),
            todo: name
                .components()
                .map(|part| part.as_os_str().to_owned())
                .collect(),
            links: 0,
        }
    }

    /// The next folder on the way; nothing when only the last part is left.
    fn step(&mut self) -> Option<PathBuf> {
        while self.todo.len() > 1 {
            let part = self.todo.pop_front()?;
            if part == ".." {
                self.done.pop();
            } else {
                return Some(self.done.join(part));
            }
        }
        None
    }

    fn take(&mut self, next: PathBuf) {
        self.done = next;
    }

    /// Goes on where a link leads; false when there were too many.
    fn turn(&mut self, text: &Path) -> bool {
        self.links += 1;
        for part in text.components().rev() {
            match part {
                Component::Normal(name) => self.todo.push_front(name.to_owned()),
                Component::ParentDir => self.todo.push_front("..".into()),
                Component::RootDir => self.done = PathBuf::new(),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
        self.links <= MAX_LINKS && self.todo.len() < 4096
    }

    fn end(mut self) -> PathBuf {
        match self.todo.pop_front() {
            Some(last) => self.done.join(last),
            None => self.done,
        }
    }
}
