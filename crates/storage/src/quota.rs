//! A limit on the space of the files that a zone writes.
//!
//! btrfs counts the space of a subvolume, and ext4 and xfs that of a project (see `project.rs`).
//! The limit applies only to the top: layers belong to no zone, so sealed files do not count. The
//! limit is stored as the text of a link, and is set on each new top before the first write to that
//! top.

use rustix::io::Errno;

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::id::Id;
use crate::layers::Layers;
use crate::layout::{QUOTA, TOPS};
use crate::stack::Stack;
use crate::{project, remove};

impl Dataset {
    /// Limits the space of the files in the top to `bytes` bytes. `None` removes the limit. If
    /// [`Dataset::needs_halt_for_quota`] returns true, the zone must be halted.
    pub fn set_quota(&self, bytes: Option<u64>) -> Result<()> {
        let _lock = self.lock()?;
        match self.form()? {
            Form::Folder => self.limit_project(bytes)?,
            Form::Volume => self.limit_volume(bytes)?,
        }
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

    /// Returns true if the first limit changes each file of the top, so that the zone must be
    /// halted.
    pub fn needs_halt_for_quota(&self) -> Result<bool> {
        Ok(self.form()? == Form::Folder && project::of(&self.open_top()?).is_none())
    }

    /// Sets the dataset's limit on a new top. If quotas were disabled on the file system since, the
    /// new top has no limit.
    pub(crate) fn limit_next(&self, form: Form) -> Result<()> {
        let Some(bytes) = self.quota()? else {
            return Ok(());
        };
        let next = self.zonepath.open_child(form.next())?;
        match form {
            Form::Folder if project::why_not(&next).is_some() => Ok(()),
            Form::Folder => {
                let project = match project::of(&next) {
                    Some(project) => project,
                    None => project::assign_empty(&next)?,
                };
                project::limit(&next, project, Some(bytes))
            }
            Form::Volume => match limit(&next, Some(bytes)) {
                Ok(()) | Err(Errno::NOTCONN) => Ok(()),
                Err(e) => Err(next.fail("limit", "", e)),
            },
        }
    }

    /// Sets the limit of a dataset that is not mounted again, if its top is in no project. This is
    /// so after a crash, and after a copy of the zonepath to another file system. A file system
    /// without project quotas sets no limit.
    pub(crate) fn limit_again(stack: &Stack) -> Result<()> {
        let zonepath = Folder::open(&stack.zonepath)?;
        if zonepath.read_link(QUOTA)?.is_none() {
            return Ok(());
        }
        let dataset = Self::at(zonepath);
        let own = dataset.form()? == Form::Folder && dataset.top_paths()?.0 == stack.top;
        if !own || !dataset.needs_halt_for_quota()? || project::why_not(&dataset.zonepath).is_some()
        {
            return Ok(());
        }
        dataset.set_quota(dataset.quota()?)
    }

    fn limit_volume(&self, bytes: Option<u64>) -> Result<()> {
        let top = self.zonepath.open_child(Form::Volume.name())?;
        limit(&top, bytes).map_err(|e| match e {
            Errno::NOTCONN => self.no_quota(format!(
                "quotas are not enabled: run 'btrfs quota enable {}'",
                self.zonepath.path().display()
            )),
            e => top.fail("limit", "", e),
        })
    }

    fn limit_project(&self, bytes: Option<u64>) -> Result<()> {
        let why_not = self.why_no_project()?;
        let top = self.open_top()?;
        let project = match (project::of(&top), bytes, why_not) {
            (_, Some(_), Some(why)) => return Err(self.no_quota(why)),
            // Without quotas, no limit is in force.
            (_, None, Some(_)) | (None, None, None) => return Ok(()),
            (Some(project), _, None) => project,
            (None, Some(_), None) => {
                remove::refuse_mounts(self.zonepath.path(), TOPS)?;
                let (layers, _shared) = Layers::enter(&Layers::home(&self.zonepath)?)?;
                let name = Id::random()?.to_string();
                let place = project::Workplace::new(&layers.graves()?, &name)?;
                let (scratch, links) = place.open()?;
                project::assign(&top, scratch, links)?
            }
        };
        project::limit(&top, project, bytes)
    }

    /// Returns the reason why the top cannot be the root of a project, with the remedy, or `None`.
    fn why_no_project(&self) -> Result<Option<String>> {
        if let Some(why) = project::why_not(&self.zonepath) {
            return Ok(Some(why));
        }
        let home = Layers::home(&self.zonepath)?;
        let layers = match Folder::open(&home) {
            Err(e) if e.is_missing() => None,
            other => Some(other?),
        };
        for folder in layers.iter().chain([&self.zonepath]) {
            // A top could not be renamed to a layer in such a folder.
            if let Some(project) = project::passed_on(folder) {
                let path = folder.path().display();
                return Ok(Some(format!(
                    "{path} belongs to project {project}: run 'chattr -P -p 0 {path}'"
                )));
            }
        }
        Ok(None)
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
