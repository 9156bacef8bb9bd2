//! The writable top of a dataset, in its two forms.
//!
//! | | plain folder | btrfs subvolume |
//! |---|---|---|
//! | the top | `root` | `vol/root`, and `root` is a link to it |
//! | overlay's work folder | `work` | `vol/work` |
//! | the next top | `root.new` | `vol.new` |
//! | sealed, in its layer | `tree` | `vol/root` |
//!
//! Overlay renames from its work folder to the top, and no rename leaves a
//! subvolume: so both are in one, apart from the zonepath. A subvolume can be
//! renamed as a folder can, so that the steps are the same for both.

use std::ffi::OsStr;
use std::path::PathBuf;

use rustix::fs::{FileType, FsWord};
use rustix::io::Errno;

use crate::attributes::Attributes;
use crate::dataset::{Dataset, NEXT_ROOT, ROOT, WORK};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::layers::{LayerPath, TREE, VOLUME};

/// The next top, as a subvolume.
const NEXT_VOLUME: &str = "vol.new";

/// `f_type` of btrfs.
const BTRFS: FsWord = 0x9123_683E;

/// The forms of a top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A folder of the file system that the zonepath is on.
    Folder,
    /// A btrfs subvolume.
    Volume,
}

impl Form {
    /// The form for new datasets in a folder.
    pub(crate) fn best(at: &Folder) -> Result<Self> {
        let vfs = rustix::fs::fstatfs(at).map_err(|e| at.fail("fstatfs", "", e))?;
        Ok(match vfs.f_type {
            BTRFS => Self::Volume,
            _ => Self::Folder,
        })
    }

    /// What is renamed into a layer to seal it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Folder => ROOT,
            Self::Volume => VOLUME,
        }
    }

    /// Name of the next top, while a seal is under way.
    pub(crate) const fn next(self) -> &'static str {
        match self {
            Self::Folder => NEXT_ROOT,
            Self::Volume => NEXT_VOLUME,
        }
    }

    /// What the sealed top is called in its layer.
    pub(crate) const fn sealed(self) -> &'static str {
        match self {
            Self::Folder => TREE,
            Self::Volume => VOLUME,
        }
    }

    /// Opens the tree of a top that is called `name` in `at`.
    pub(crate) fn open_tree(self, at: &Folder, name: &str) -> Result<Folder> {
        let folder = at.open_child(name)?;
        match self {
            Self::Folder => Ok(folder),
            Self::Volume => folder.open_child(ROOT),
        }
    }

    /// Makes an empty top called `name` in `at`, with a work folder.
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

    /// Removes a top into which nobody has written yet.
    pub(crate) fn unmake(self, at: &Folder, name: &str) -> Result<()> {
        if self == Self::Volume && at.is_folder(name)? {
            let volume = at.open_child(name)?;
            for inner in [ROOT, WORK] {
                absent(volume.rmdir(inner)).map_err(|e| volume.fail("rmdir", inner, e))?;
            }
        }
        // The kernel takes an empty subvolume for a folder here.
        absent(at.rmdir(name)).map_err(|e| at.fail("rmdir", name, e))
    }
}

fn absent(removed: std::result::Result<(), Errno>) -> rustix::io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(e),
    }
}

impl Dataset {
    /// The form of this dataset's top. In each, `root` says which it is, from
    /// before the first top is there until after the last is gone.
    pub(crate) fn form(&self) -> Result<Form> {
        Ok(match self.zonepath.kind(ROOT)? {
            Some(FileType::Symlink) => Form::Volume,
            _ => Form::Folder,
        })
    }

    /// Whether there is a top.
    pub(crate) fn has_top(&self) -> Result<bool> {
        self.zonepath.is_folder(self.form()?.name())
    }

    /// Opens the top.
    pub(crate) fn open_top(&self) -> Result<Folder> {
        let form = self.form()?;
        match form.open_tree(&self.zonepath, form.name()) {
            Err(e) if e.is_missing() => Err(Error::NoDataset(self.zonepath.path().to_owned())),
            other => other,
        }
    }

    /// Makes the next top, looking like `attributes` says.
    pub(crate) fn make_next(&self, attributes: &Attributes) -> Result<()> {
        let form = self.form()?;
        let next = form.make(&self.zonepath, form.next())?;
        self.limit_next(form)?;
        attributes.apply(&next)
    }

    /// Makes the next top the top.
    pub(crate) fn take_next(&self) -> Result<()> {
        let form = self.form()?;
        self.zonepath
            .rename(form.next(), &self.zonepath, form.name())
    }

    /// The paths of top and work folder.
    pub(crate) fn top_paths(&self) -> Result<(PathBuf, PathBuf)> {
        let path = self.zonepath.path();
        let at = match self.form()? {
            Form::Folder => path.to_owned(),
            Form::Volume => path.join(VOLUME),
        };
        Ok((at.join(ROOT), at.join(WORK)))
    }
}

impl LayerPath {
    /// The form of this layer's tree; nothing when it has none yet.
    pub(crate) fn form(&self) -> Result<Option<Form>> {
        let folder = match self.open() {
            Err(e) if e.is_missing() => return Ok(None),
            other => other?,
        };
        for form in [Form::Folder, Form::Volume] {
            if folder.is_folder(form.sealed())? {
                return Ok(Some(form));
            }
        }
        Ok(None)
    }

    /// Where the tree is.
    pub(crate) fn tree(&self) -> Result<PathBuf> {
        Ok(match self.form()? {
            Some(Form::Volume) => self.path().join(VOLUME).join(ROOT),
            _ => self.path().join(TREE),
        })
    }

    /// Opens the tree.
    pub(crate) fn open_tree(&self) -> Result<Folder> {
        let form = self.form()?.unwrap_or(Form::Folder);
        form.open_tree(&self.open()?, form.sealed())
    }
}
