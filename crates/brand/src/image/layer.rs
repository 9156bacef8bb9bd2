//! Layers of container images: trees that are stacked on each other.
//!
//! Special names in a layer hide files of the layers below: `.wh.NAME` hides NAME, and
//! `.wh..wh..opq` hides everything that a folder held. They become the marks of overlay: a
//! character device 0/0, and the attribute `trusted.overlay.opaque`. A mark is made only if there
//! is something to hide. Marks in the archive itself are not used: devices and `trusted.*` are left
//! out of every archive.
//!
//! A layer may have a file in a folder that the layer itself does not contain. This folder is then
//! made with the attributes of the layers below. If the layers below have a link to a folder
//! instead, the file goes to that folder, as it would in the running image. A link from the same
//! archive is never followed.

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

/// The name of a marker that hides all entries of its folder in lower layers.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Other names with this prefix, which some tools use for themselves.
const RESERVED: &[u8] = b".wh..wh.";

/// The attribute of a folder that hides all entries of the same folder in lower layers.
const OPAQUE_ATTRIBUTE: &str = "trusted.overlay.opaque";

/// Maximum number of links in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Finds `name` in stacked trees, the uppermost first.
fn find<'t>(trees: &[&'t Tree], name: &Path) -> Result<Option<(&'t Tree, Stat)>, Error> {
    for tree in trees {
        if let Some(stat) = tree.stat(name)? {
            return Ok((!is_whiteout(&stat)).then_some((*tree, stat)));
        }
        // A component of the path may hide everything below it.
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
    /// Returns only the layers below.
    fn below(&self) -> Vec<&Tree> {
        self.lowers.iter().collect()
    }

    /// Returns this layer, as far as it is unpacked, and the layers below.
    fn all(&self) -> Vec<&Tree> {
        std::iter::once(&self.root).chain(&self.lowers).collect()
    }

    /// Processes a name that hides others. Returns false for all other names.
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
            // In a folder of this layer, only the objects of the layers below are hidden.
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

    /// Hides everything that the layers below have in a folder.
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
        // overlay ignores this attribute at the root itself, so each name in the root is hidden
        // separately.
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

    /// Makes a folder, or sets the owner and mode of an existing one. A folder that was hidden
    /// before is empty at first.
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

    /// Returns the path to which `name` leads through the links of the layers below.
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

    /// Makes the parent folders of `name`, with the attributes of the layers below.
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

    /// Makes sure that this layer contains `target`, which will get one more name. A file of the
    /// layers below is copied, because a hard link cannot join two layers.
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

/// The resolution of a path, component by component, except the last one.
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

    /// Returns the next folder of the path; `None` if only the last component is left.
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

    /// Continues at the target of a link. Returns false if there were too many links.
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
