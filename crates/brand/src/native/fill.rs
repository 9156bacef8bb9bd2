//! The only functions that write to a new sparse root.

use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;

use crate::install::{Error, Installed};
use crate::native::accounts::Accounts;
use crate::native::sparse::Layout;
use crate::tree::{Meta, Tree, is};

/// A root that is being filled from the host.
pub struct Fill<'a> {
    pub host: Tree,
    pub root: Tree,
    pub layout: Layout,
    pub accounts: Accounts,
    pub done: Installed,
    /// The last used directory, which exists. Most names of one directory come in sequence.
    pub last_parent: PathBuf,
    pub progress: &'a mut dyn FnMut(&str),
}

impl Fill<'_> {
    /// Returns true if `name` is shared with the host, so that nothing may be written there.
    pub fn is_inherited(&self, name: &Path) -> bool {
        self.layout.covers(&Path::new("/").join(name))
    }

    /// Returns true if `name` exists already.
    pub fn has(&self, name: &Path) -> Result<bool, Error> {
        Ok(self.root.stat(name)?.is_some())
    }

    /// Writes a file to the root, and creates its parent directories.
    pub fn file(&mut self, name: &Path, meta: Meta, content: &[u8]) -> Result<(), Error> {
        self.parents(name)?;
        self.root.write(name, self.owned(meta), content)?;
        self.done.files += 1;
        self.done.bytes += content.len() as u64;
        Ok(())
    }

    /// Writes a symbolic link, owned by root, and creates its parent directories.
    pub fn link(&mut self, name: &Path, target: &Path) -> Result<(), Error> {
        self.parents(name)?;
        self.root.symlink(name, target, 0, 0)?;
        self.done.links += 1;
        Ok(())
    }

    /// Makes a directory in the root, and its parent directories.
    pub fn dir(&mut self, name: &Path, meta: Meta) -> Result<(), Error> {
        self.parents(name)?;
        let made = self.root.make_dir(name, self.owned(meta))?;
        self.done.directories += u64::from(made);
        Ok(())
    }

    /// Makes the missing parent directories of `name`, with the attributes of the host.
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

    /// Reports that `name` stays on the host, with the reason.
    pub fn leave_out(&mut self, name: &Path, why: &str) {
        self.done.left_out += 1;
        (self.progress)(&format!("Left out /{}: {why}.", name.display()));
    }

    /// Replaces an owner that does not exist in the zone by root.
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

    /// Returns the target of a link at `name` as the zone sees it, from its text alone.
    pub fn leads_to(&self, name: &Path, target: &Path) -> PathBuf {
        let from = Path::new("/").join(name);
        let joined = from.parent().unwrap_or(Path::new("/")).join(target);
        self.layout.resolve(&joined)
    }
}

/// Returns an absolute path as a name relative to the root; `None` for the root itself.
pub fn relative(path: &Path) -> Option<&Path> {
    let name = path.strip_prefix("/").unwrap_or(path);
    let plain = name
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (plain && !name.as_os_str().is_empty()).then_some(name)
}
