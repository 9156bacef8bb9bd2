//! A limit on the space of the files that a zone writes.
//!
//! btrfs counts the space of a subvolume. The limit applies only to the top: layers belong to no
//! zone, so sealed files do not count. The limit is stored as the text of a link, and is set on
//! each new top before the first write to that top.

use rustix::io::Errno;

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::fstype;
use crate::layout::QUOTA;

impl Dataset {
    /// Limits the space of the files in the top to `bytes` bytes. `None` removes the limit.
    pub fn set_quota(&self, bytes: Option<u64>) -> Result<()> {
        let _lock = self.lock()?;
        let form = self.form()?;
        if form == Form::Folder {
            return match bytes {
                None => Ok(()),
                Some(_) => Err(self.no_quota(format!(
                    "{} limits no single folder; put the zonepath on btrfs, or on a file \
                     system of its own",
                    fstype::name(&self.zonepath)
                ))),
            };
        }
        let top = self.zonepath.open_child(form.name())?;
        limit(&top, bytes).map_err(|e| match e {
            Errno::NOTCONN => self.no_quota(format!(
                "quotas are not enabled: run 'btrfs quota enable {}'",
                self.zonepath.path().display()
            )),
            e => top.fail("limit", "", e),
        })?;
        match bytes {
            Some(bytes) => self.zonepath.relink(QUOTA, bytes.to_string()),
            None => self.zonepath.unlink(QUOTA).map(drop),
        }
    }

    /// Returns the limit of the top in bytes, or `None` without a limit.
    pub fn quota(&self) -> Result<Option<u64>> {
        let text = self.zonepath.read_link(QUOTA)?;
        Ok(text.and_then(|text| text.to_str()?.parse().ok()))
    }

    /// Sets the dataset's limit on a new top. If quotas were disabled on the file system since, the
    /// new top has no limit.
    pub(crate) fn limit_next(&self, form: Form) -> Result<()> {
        let Some(bytes) = self.quota()?.filter(|_| form == Form::Volume) else {
            return Ok(());
        };
        let next = self.zonepath.open_child(form.next())?;
        match limit(&next, Some(bytes)) {
            Ok(()) | Err(Errno::NOTCONN) => Ok(()),
            Err(e) => Err(next.fail("limit", "", e)),
        }
    }

    fn no_quota(&self, why: String) -> Error {
        Error::NoQuota {
            zonepath: self.zonepath.path().to_owned(),
            why,
        }
    }
}

fn limit(subvolume: &Folder, bytes: Option<u64>) -> rustix::io::Result<()> {
    sys::btrfs::limit_subvolume(subvolume, bytes)
        .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))
}
