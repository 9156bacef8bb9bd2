//! The destination of a copy: an existing folder, or a new name in one.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::{Error, name};

/// The meaning of a destination that is no folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The destination is the new name of the only source.
    Rename,
    /// The destination must be a folder.
    Keep,
}

/// An open destination.
#[derive(Debug)]
pub struct Target {
    pub(crate) folder: OwnedFd,
    /// The new name of the only source; `None` if the sources keep their names.
    pub(crate) rename: Option<OsString>,
    /// The path for messages.
    pub(crate) shown: String,
}

impl Target {
    /// Opens the destination `path` in `root`, with the rules of cp(1). Links in the path are
    /// followed inside the root.
    ///
    /// # Errors
    /// Fails with [`Error::Path`] if the folder does not exist, and with [`Error::Target`] if the
    /// destination must be a folder and is none.
    pub fn open(root: BorrowedFd<'_>, path: &Path, naming: Naming) -> Result<Self, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match sys::root::open(root, path, flags) {
            Ok(folder) => {
                return Ok(Self {
                    folder,
                    rename: None,
                    shown: name::shown(path),
                });
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => return Err(Error::path(path)(errno)),
        }
        let bytes = path.as_os_str().as_bytes();
        if naming == Naming::Keep || bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
            let shown = name::shown(path);
            return Err(Error::Target(format!(
                "{shown}: expected an existing folder"
            )));
        }
        let (parent, file) = path
            .parent()
            .zip(path.file_name())
            .ok_or_else(|| Error::path(path)(Errno::NOENT))?;
        let folder = sys::root::open(root, parent, flags).map_err(Error::path(parent))?;
        Ok(Self {
            folder,
            rename: Some(file.to_owned()),
            shown: name::shown(parent),
        })
    }
}

/// Changes the names of members if their only top has a new name.
#[derive(Debug)]
pub(crate) struct Renamer {
    to: Option<OsString>,
    /// The first component of the first member; empty for a copy of the content of a folder.
    top: Option<OsString>,
}

impl Renamer {
    pub(crate) const fn new(to: Option<OsString>) -> Self {
        Self { to, top: None }
    }

    /// Returns the components of the new name of a member. Fails with the reason if the stream has
    /// several tops.
    pub(crate) fn components(&mut self, name: &[u8]) -> Result<Vec<OsString>, &'static str> {
        let list = name::components(name)?;
        let owned = |list: &[&OsStr]| list.iter().map(|&part| part.to_owned()).collect();
        let Some(to) = &self.to else {
            return Ok(owned(&list));
        };
        let first = list.first().copied().unwrap_or_default();
        let top = self.top.get_or_insert_with(|| first.to_owned());
        let rest = match top.is_empty() {
            true => &list[..],
            false if first == top.as_os_str() => &list[1..],
            false => return Err("is not the only source, so the destination must be a folder"),
        };
        let mut new = vec![to.clone()];
        new.extend(owned(rest));
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(to: Option<&str>, names: &[&str]) -> Vec<Result<String, ()>> {
        let mut renamer = Renamer::new(to.map(OsString::from));
        let text = |list: Vec<OsString>| list.join(OsStr::new("/")).into_string().unwrap();
        names
            .iter()
            .map(|name| renamer.components(name.as_bytes()).map(text).map_err(drop))
            .collect()
    }

    #[test]
    fn the_only_source_gets_the_name_of_the_destination() {
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(
            renamed(Some("new"), &["site", "site/a", "other", "site"]),
            [ok("new"), ok("new/a"), Err(()), ok("new")]
        );
        assert_eq!(
            renamed(Some("new"), &["./", "./a", "b/c"]),
            [ok("new"), ok("new/a"), ok("new/b/c")]
        );
        assert_eq!(renamed(None, &["site/a", "./x"]), [ok("site/a"), ok("x")]);
    }
}
