//! Chooses the kind of storage of a zonepath.

use std::path::Path;

use crate::dataset::Dataset;
use crate::driver::{Driver, Layered, nearest};
use crate::error::Result;
use crate::folder::Folder;
use crate::form::Form;
use crate::layout::ROOT;
use crate::zfs;
use crate::zfs::Zfs;

/// The driver of the dataset at `zonepath`; where there is none, the one that suits
/// the file system, of the next folder above while the zonepath is not made.
pub fn driver_at(zonepath: &Path) -> Result<&'static dyn Driver> {
    static FOLDERS: Layered = Layered(Form::Folder);
    static SUBVOLUMES: Layered = Layered(Form::Volume);
    let folder = Folder::open(zonepath);
    if let Ok(folder) = &folder {
        folder.must_be_known()?;
    }
    let form = match folder {
        // Without a look at more: a dataset may be half removed.
        Ok(folder) if zfs::is_at(&folder)? => return Ok(&Zfs),
        Ok(folder) if folder.kind(ROOT)?.is_some() => Dataset::at(folder).form()?,
        _ => {
            let nearest = nearest(zonepath)?;
            if crate::zfs::property::is_on(&nearest)? {
                return Ok(&Zfs);
            }
            Form::best(&nearest)?
        }
    };
    Ok(match form {
        Form::Folder => &FOLDERS,
        Form::Volume => &SUBVOLUMES,
    })
}
