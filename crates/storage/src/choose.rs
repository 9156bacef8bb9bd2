//! Chooses the storage driver of a zonepath.

use std::path::Path;

use crate::driver::{Driver, Layered, nearest};
use crate::error::Result;
use crate::folder::Folder;
use crate::form::Form;
use crate::layout::ROOT;
use crate::zfs;
use crate::zfs::Zfs;

/// Returns the driver of the dataset at `zonepath`. Without a dataset, returns the driver that
/// suits the file system of the zonepath, or of its nearest existing parent folder.
pub fn driver_at(zonepath: &Path) -> Result<&'static dyn Driver> {
    static FOLDERS: Layered = Layered(Form::Folder);
    static SUBVOLUMES: Layered = Layered(Form::Volume);
    let nearest_form = || {
        let nearest = nearest(zonepath)?;
        match crate::zfs::property::is_on(&nearest)? {
            true => Ok(None),
            false => Form::best(&nearest).map(Some),
        }
    };
    let form = match Folder::open(zonepath) {
        Ok(folder) => {
            folder.must_be_known()?;
            // This check comes first and looks at nothing else, because a ZFS dataset may be half
            // removed.
            if zfs::is_at(&folder)? {
                return Ok(&Zfs);
            }
            match folder.kind(ROOT)? {
                None => nearest_form()?,
                root => Some(Form::of_root(root)),
            }
        }
        Err(_) => nearest_form()?,
    };
    Ok(match form {
        Some(Form::Folder) => &FOLDERS,
        Some(Form::Volume) => &SUBVOLUMES,
        None => &Zfs,
    })
}
