//! Removes a dataset.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Dataset, check_path};
use crate::collect::{Lost, Wait, collect_around};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::layers::{AtWork, Layers, has_remains};
use crate::layout::{BACK, EXPORT, QUOTA, ROOT, TOPS, WORK};
use crate::{crash, project, remove};

impl Dataset {
    /// Removes the dataset at `zonepath`, in whatever state the dataset is, and every layer that no
    /// other dataset uses. The zonepath and its other content stay.
    ///
    /// Fails if a file system is mounted below the top. A missing dataset is no error.
    pub fn destroy(zonepath: &Path) -> Result<()> {
        check_path(zonepath)?;
        let folder = match Folder::open(zonepath) {
            Ok(folder) => folder,
            Err(e) if e.is_missing() => {
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        folder.must_be_known()?;
        let dataset = Self { zonepath: folder };
        // The format is checked before the first removal. Other damage of the bond does not prevent
        // the removal.
        if let Err(newer @ Error::Newer { .. }) = dataset.bond() {
            return Err(newer);
        }
        remove::refuse_mounts(zonepath, TOPS)?;
        let home = Layers::home(&dataset.zonepath)?;
        {
            let _lock = dataset.lock()?;
            dataset.clear_killed_merge()?;
        }
        // The shared lock is held until the graves are empty, so that no other process removes the
        // same trees.
        let (layers, mut shared) = Layers::enter_unmarked(&home)?;
        let graves = {
            let _lock = dataset.lock()?;
            dataset.destroy_locked(&layers, &mut shared)?
        };
        crash::point();
        // The dataset is removed for all readers now. The rest only frees space, and `collect` can
        // complete it after a crash.
        let mut emptied = vec![home];
        for grave in graves {
            remove::bury(&grave)?;
            // A grave is at `<layers>/.dead/<grave>`. The graves of a moved dataset are in several
            // folders of layers.
            emptied.extend(grave.ancestors().nth(2).map(Path::to_owned));
        }
        drop(shared);
        emptied.sort();
        emptied.dedup();
        for layers in emptied {
            if has_remains(&layers)? {
                collect_around(&layers, Lost::Keep, None, Wait::No)?;
            }
            Layers::leave(&layers)?;
        }
        Ok(())
    }

    /// Moves the parts of the dataset to the graves, and returns the trees to remove. The caller
    /// has entered `home`, the layers of the dataset.
    pub(super) fn destroy_locked(
        &self,
        home: &Layers,
        at_work: &mut AtWork,
    ) -> Result<Vec<PathBuf>> {
        let mut graves = Vec::new();
        let form = self.form()?;
        // The root is removed first, because without a root no program treats the rest as a zone.
        for name in [form.next(), form.name()] {
            let top = form.open_tree(&self.zonepath, name).ok();
            graves.extend(home.put_aside(&self.zonepath, OsStr::new(name))?);
            top.iter().for_each(project::forget);
            crash::point();
        }
        // The root in its grave marks a removal in progress until all important changes are done.
        // Without a root in a grave, another mark is needed.
        if graves.is_empty() {
            at_work.mark(home)?;
        }
        graves.extend(self.drop_snapshots(home)?);
        graves.extend(self.drop_mounted()?);
        crash::point();
        graves.extend(self.drop_all_refs(home)?);
        crash::point();
        graves.extend(self.drop_bond()?);
        crash::point();
        for name in [BACK, QUOTA, "back.new", "quota.new", "dataset.new"] {
            self.zonepath.unlink(name)?;
        }
        crash::point();
        if form == Form::Volume {
            self.zonepath.unlink(ROOT)?;
        }
        graves.extend(home.put_aside(&self.zonepath, OsStr::new(EXPORT))?);
        graves.extend(self.drop_work(home)?);
        crash::point();
        Ok(graves)
    }

    /// Removes overlay's work folder, which usually contains only one empty folder.
    fn drop_work(&self, home: &Layers) -> Result<Option<PathBuf>> {
        match self.zonepath.open_child(WORK) {
            Ok(work) => drop(work.rmdir(WORK)),
            Err(e) if e.is_missing() => return Ok(None),
            Err(_) => {}
        }
        crash::point();
        match self.zonepath.rmdir(WORK) {
            Ok(()) => Ok(None),
            Err(_) => home.put_aside(&self.zonepath, OsStr::new(WORK)),
        }
    }
}
