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

use std::path::PathBuf;

use rustix::fs::FileType;

use crate::attributes::Attributes;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::layout::{ROOT, VOLUME, WORK};

impl Dataset {
    /// The form of this dataset's top. In each, `root` says which it is, from
    /// before the first top is there until after the last is gone.
    pub(crate) fn form(&self) -> Result<Form> {
        Ok(Form::of_root(self.zonepath.kind(ROOT)?))
    }

    /// Returns whether there is a top.
    pub(crate) fn has_top(&self) -> Result<bool> {
        Ok(self.form_and_top()?.1)
    }

    /// The form of this dataset's top, and whether there is a top.
    pub(crate) fn form_and_top(&self) -> Result<(Form, bool)> {
        let root = self.zonepath.kind(ROOT)?;
        Ok(match Form::of_root(root) {
            Form::Folder => (Form::Folder, root == Some(FileType::Directory)),
            Form::Volume => (Form::Volume, self.zonepath.is_folder(VOLUME)?),
        })
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
