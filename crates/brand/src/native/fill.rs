//! The one way by which anything gets into a new sparse root.

use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

use crate::install::{Error, Installed};
use crate::native::accounts::Accounts;
use crate::native::sparse::Layout;
use crate::tree::{Meta, Tree, is};

/// A root being filled from the host.
pub struct Fill<'a> {
    pub host: Tree,
    pub root: Tree,
    pub layout: Layout,
    pub accounts: Accounts,
    pub done: Installed,
    /// The directory of the last name, known to be there; most come in runs.
    pub last_parent: PathBuf,
    pub progress: &'a mut dyn FnMut(&str),
}

impl Fill<'_> {
    /// True when `name` is shared with the host and nothing may be put there.
    pub fn is_inherited(&self, name: &Path) -> bool {
        self.layout.covers(&Path::new("/").join(name))
    }

    /// True when something is at `name` already.
    pub fn has(&self, name: &Path) -> Result<bool, Error> {
        Ok(self.root.stat(name)?.is_some())
    }

    /// Puts a file into the root, and the directories on its way.
    pub fn file(&mut self, name: &Path, meta: Meta, content: &[u8]) -> Result<(), Error> {
        self.parents(name)?;
        self.root.write(name, self.owned(meta), content)?;
        self.done.files += 1;
        self.done.bytes += content.len() as u64;
        Ok(())
    }

    /// Puts a symbolic link of root's into the root, and the directories on its way.
    pub fn link(&mut self, name: &Path, target: &Path) -> Result<(), Error> {
        self.parents(name)?;
        self.root.symlink(name, target, 0, 0)?;
        self.done.links += 1;
        Ok(())
    }

    /// Puts a directory into the root, and those on its way.
    pub fn dir(&mut self, name: &Path, meta: Meta) -> Result<(), Error> {
        self.parents(name)?;
        let made = self.root.make_dir(name, self.owned(meta))?;
        self.done.directories += u64::from(made);
        Ok(())
    }

    /// Makes the missing directories on the way to `name`, as the host has them.
    pub fn parents(&mut self, name: &Path) -> Result<(), Error> {
        let Some(parent) = name.parent().filter(|name| !name.as_os_str().is_empty()) else {
            return Ok(());
        };
        if parent == self.last_parent {
            return Ok(());
        }
        if self.root.stat(parent)?.is_some() {
            self.last_parent = parent.to_owned();
            return Ok(());
        }
        let meta = match self.host.stat(parent)? {
            Some(stat) if is(&stat, FileType::Directory) => Meta::of(&stat),
            _ => Meta::root(0o755),
        };
        self.dir(parent, meta)
    }

    /// Says that `name` stays on the host, and why.
    pub fn leave_out(&mut self, name: &Path, why: &str) {
        self.done.left_out += 1;
        (self.progress)(&format!("Left out /{}: {why}.", name.display()));
    }

    /// Replaces an owner that the zone does not have by root.
    fn owned(&self, meta: Meta) -> Meta {
        Meta {
            uid: if self.accounts.has_uid(meta.uid) {
                meta.uid
            } else {
                0
            },
            gid: if self.accounts.has_gid(meta.gid) {
                meta.gid
            } else {
                0
            },
            ..meta
        }
    }

    /// Returns the target of a link at `name` as the zone sees it; by its text alone.
    pub fn leads_to(&self, name: &Path, target: &Path) -> PathBuf {
        let from = Path::new("/").join(name);
        let joined = from.parent().unwrap_or(Path::new("/")).join(target);
        self.layout.resolve(&joined)
    }
}

/// An absolute path as a name below the root; `None` for the root itself.
pub fn relative(path: &Path) -> Option<&Path> {
    let name = path.strip_prefix("/").unwrap_or(path);
    let plain = name
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (plain && !name.as_os_str().is_empty()).then_some(name)
}
