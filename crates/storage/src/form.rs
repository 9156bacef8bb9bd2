//! The forms of a top: a plain folder, or a btrfs subvolume.

use std::ffi::OsStr;

use rustix::fs::{FileType, FsWord};
use rustix::io::Errno;

use crate::error::Result;
use crate::folder::Folder;
use crate::layout::{NEXT_ROOT, NEXT_VOLUME, ROOT, TREE, VOLUME, WORK};

/// The form of a top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A plain folder on the file system of the zonepath.
    Folder,
    /// A btrfs subvolume.
    Volume,
}

impl Form {
    /// Returns the form for new datasets in a folder.
    pub(crate) fn best(at: &Folder) -> Result<Self> {
        let vfs = rustix::fs::fstatfs(at).map_err(|e| at.fail("fstatfs", "", e))?;
        Ok(match vfs.f_type {
            BTRFS => Self::Volume,
            _ => Self::Folder,
        })
    }

    /// Returns the form of a dataset whose entry `root` has this file type.
    pub(crate) fn of_root(root: Option<FileType>) -> Self {
        match root {
            Some(FileType::Symlink) => Self::Volume,
            _ => Self::Folder,
        }
    }

    /// Returns the name of the folder in the zonepath that a seal renames into a layer.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Folder => ROOT,
            Self::Volume => VOLUME,
        }
    }

    /// Returns the name of the next top during a seal.
    pub(crate) const fn next(self) -> &'static str {
        match self {
            Self::Folder => NEXT_ROOT,
            Self::Volume => NEXT_VOLUME,
        }
    }

    /// Returns the name that the sealed top has in its layer.
    pub(crate) const fn sealed(self) -> &'static str {
        match self {
            Self::Folder => TREE,
            Self::Volume => VOLUME,
        }
    }

    /// Opens the tree of the top with the name `name` in `at`.
    pub(crate) fn open_tree(self, at: &Folder, name: &str) -> Result<Folder> {
        let folder = at.open_child(name)?;
        match self {
            Self::Folder => Ok(folder),
            Self::Volume => folder.open_child(ROOT),
        }
    }

    /// Creates an empty top with the name `name` in `at`, and its work folder.
    pub(crate) fn make(self, at: &Folder, name: &str) -> Result<Folder> {
        match self {
            Self::Folder => {
                at.make(WORK)?;
                at.make(name)?;
            }
            Self::Volume => {
                if at.kind(name)?.is_none() {
                    sys::btrfs::create_subvolume(at, OsStr::new(name))
                        .map_err(|e| at.fail("make the subvolume", name, e))?;
                }
                let volume = at.open_child(name)?;
                volume.make(WORK)?;
                volume.make(ROOT)?;
            }
        }
        self.open_tree(at, name)
    }

    /// Removes a top that contains no files yet.
    pub(crate) fn unmake(self, at: &Folder, name: &str) -> Result<()> {
        if self == Self::Volume && at.is_folder(name)? {
            let volume = at.open_child(name)?;
            for inner in [ROOT, WORK] {
                absent(volume.rmdir(inner)).map_err(|e| volume.fail("rmdir", inner, e))?;
            }
        }
        // rmdir(2) also removes an empty subvolume.
        absent(at.rmdir(name)).map_err(|e| at.fail("rmdir", name, e))
    }
}

/// The `f_type` number of btrfs.
const BTRFS: FsWord = 0x9123_683E;

fn absent(removed: std::result::Result<(), Errno>) -> rustix::io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(e),
    }
}
