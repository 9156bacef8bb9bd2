//! The writable top of a dataset, which is a folder or a subvolume.
//!
//! | | plain folder | btrfs subvolume |
//! |---|---|---|
//! | the top | `root` | `vol/root`, and `root` is a link to it |
//! | overlay's work folder | `work` | `vol/work` |
//! | the next top | `root.new` | `vol.new` |
//! | sealed, in its layer | `tree` | `vol/root` |
//!
//! Overlay renames files from its work folder to the top, and a rename cannot cross subvolumes.
//! Therefore a subvolume contains both the top and the work folder, and is separate from the
//! zonepath. A subvolume can be renamed like a folder, so the steps are the same for both forms.

use std::path::PathBuf;

use rustix::fs::FileType;

use crate::attributes::Attributes;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::layout::{ROOT, VOLUME, WORK};

impl Dataset {
    /// Returns the form of this dataset's top. The entry `root` of the zonepath shows the form,
    /// from before the first top exists until after the last top is removed.
    pub(crate) fn form(&self) -> Result<Form> {
        Ok(Form::of_root(self.zonepath.kind(ROOT)?))
    }

    /// Returns true if the dataset has a top.
    pub(crate) fn has_top(&self) -> Result<bool> {
        Ok(self.form_and_top()?.1)
    }

    /// Returns the form of this dataset's top, and true if a top exists.
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

    /// Creates the next top with these attributes.
    pub(crate) fn make_next(&self, attributes: &Attributes) -> Result<()> {
        let form = self.form()?;
        let next = form.make(&self.zonepath, form.next())?;
        self.limit_next(form)?;
        attributes.apply(&next)
    }

    /// Renames the next top, which becomes the top.
    pub(crate) fn take_next(&self) -> Result<()> {
        let form = self.form()?;
        self.zonepath
            .rename(form.next(), &self.zonepath, form.name())
    }

    /// Returns the paths of the top and of the work folder.
    pub(crate) fn top_paths(&self) -> Result<(PathBuf, PathBuf)> {
        let path = self.zonepath.path();
        let at = match self.form()? {
            Form::Folder => path.to_owned(),
            Form::Volume => path.join(VOLUME),
        };
        Ok((at.join(ROOT), at.join(WORK)))
    }
}
