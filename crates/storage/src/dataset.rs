//! A zone's dataset: one writable top on a chain of sealed layers.

mod bond;
mod clone;
mod destroy;
mod mounted;
mod seal;
mod switch;

use std::path::{Component, Path};

use rustix::fs::{FileType, FlockOperation};

use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::layout::{LINK, ROOT, SNAPSHOTS, TOPS, VOLUME};
use crate::stack::Stack;
use crate::usage::Usage;
use crate::{crash, fstype, remove};

pub(crate) use crate::layout::MOUNTED;
pub(crate) use bond::{Bond, has_tree, ref_target};
pub use seal::{LAYERS_AFTER_MERGE, MERGE_DEPTH};

/// The text of the link `root` of a dataset whose top is a subvolume.
const IN_VOLUME: &str = "vol/root";

/// The dataset at a zonepath.
#[derive(Debug)]
pub struct Dataset {
    pub(crate) zonepath: Folder,
}

impl Dataset {
    /// Makes an empty dataset without layers below. The zonepath is made (0700,
    /// its parent must exist) unless it is there.
    pub fn create(zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        let (folder, _) = Folder::open_or_make(zonepath)?;
        let dataset = Self { zonepath: folder };
        let _lock = dataset.lock()?;
        dataset.refuse_existing()?;
        dataset.choose_form()?;
        crash::point();
        let form = dataset.form()?;
        if form == Form::Volume {
            // A subvolume is made before its content.
            form.make(&dataset.zonepath, form.next())?;
            crash::point();
            dataset.take_next()?;
        }
        let root = form.make(&dataset.zonepath, form.name())?;
        rustix::fs::fchmod(&root, rustix::fs::Mode::from_raw_mode(0o755))
            .map_err(|e| root.fail("fchmod", "", e))?;
        Ok(dataset)
    }

    /// Opens a dataset, finishing or taking back a seal that a crash cut off,
    /// and adopting a zonepath that was moved or copied by hand.
    pub fn open(zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        let folder = match Folder::open(zonepath) {
            Ok(folder) => folder,
            Err(e) if e.is_missing() => {
                return Err(Error::NoDataset(zonepath.to_owned()));
            }
            Err(e) => return Err(e),
        };
        folder.must_be_known()?;
        let dataset = Self { zonepath: folder };
        if !dataset.is_sound()? {
            let _lock = dataset.lock()?;
            dataset.repair()?;
        }
        Ok(dataset)
    }

    /// Completes interrupted operations as [`Dataset::open`] does, unless another operation is at
    /// work on the dataset, which then does so.
    pub(crate) fn mend(zonepath: &Path) -> Result<()> {
        let dataset = match Folder::open(zonepath) {
            Ok(folder) => Self { zonepath: folder },
            Err(e) if e.is_missing() => return Ok(()),
            Err(e) => return Err(e),
        };
        dataset.zonepath.must_be_known()?;
        if dataset.is_sound()? {
            return Ok(());
        }
        match dataset.zonepath.try_lock()? {
            Some(_lock) => dataset.repair(),
            None => Ok(()),
        }
    }

    /// The zonepath.
    #[must_use]
    pub fn zonepath(&self) -> &Path {
        self.zonepath.path()
    }

    /// The name of the type of file system that the dataset is on.
    #[must_use]
    pub fn fstype(&self) -> String {
        fstype::name(&self.zonepath)
    }

    /// Returns a description of the storage for people: `layered on ext4`. `layered on ext4`.
    pub fn kind(&self) -> Result<String> {
        let volume = match self.form()? {
            Form::Folder => "",
            Form::Volume => ", its top a subvolume",
        };
        Ok(format!("layered on {}{volume}", self.fstype()))
    }

    /// Returns the stack to mount as the zone's root.
    pub fn stack(&self) -> Result<Stack> {
        let lowers = match self.bond()? {
            Some(bond) => bond.layer.trees()?,
            None => Vec::new(),
        };
        let (top, work) = self.top_paths()?;
        Ok(Stack {
            zonepath: self.zonepath.path().to_owned(),
            top,
            work,
            lowers,
            volatile: false,
        })
    }

    /// Moves the dataset with its zonepath, and all else in that, to another
    /// path of the same file system (EXDEV otherwise). Layers stay where they are.
    pub fn move_to(self, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        if rustix::fs::lstat(zonepath).is_ok() {
            return Err(Error::Exists(zonepath.to_owned()));
        }
        remove::refuse_mounts(self.zonepath.path(), TOPS)?;
        {
            let _lock = self.lock()?;
            self.let_go_locked()?;
            // Right at both places, wherever a crash leaves it.
            self.link_absolutely()?;
            for snapshot in self.snapshot_folders()? {
                snapshot.link_absolutely()?;
            }
            crash::point();
            let from = self.zonepath.path();
            rustix::fs::rename(from, zonepath).map_err(|e| Error::io("rename", from, e))?;
        }
        crash::point();
        // Opening sees that it was moved, and tells the layer.
        let moved = Self::open(zonepath)?;
        {
            let _lock = moved.lock()?;
            for one in std::iter::once(Self::open(zonepath)?).chain(moved.snapshot_folders()?) {
                if let Some(bond) = one.bond()? {
                    one.write_bond(&bond)?;
                }
            }
        }
        Ok(moved)
    }

    /// Makes sure that the dataset's own changes (not the files of the top, see [`Dataset::sync`])
    /// are on disk before a later write to `index` (a path that exists) can be.
    ///
    /// Free where the file system's journal keeps the order anyway and `index`
    /// is on the same one (ext4, xfs); one `syncfs` elsewhere. See the crate's
    /// documentation for the reasoning.
    pub fn settle(&self, index: &Path) -> Result<()> {
        if file_system(&self.zonepath)? == TMPFS || one_journal(&self.zonepath, index)? {
            return Ok(());
        }
        self.sync()
    }

    /// Writes everything on the dataset's file system to disk. For a caller that has filled the top
    /// from the host: file contents reach the disk in no fixed order.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.zonepath).map_err(|e| self.zonepath.fail("syncfs", "", e))
    }

    /// The space this dataset takes; walks through all of it.
    pub fn usage(&self) -> Result<Usage> {
        crate::usage::of(&self.stack()?)
    }

    pub(crate) fn at(zonepath: Folder) -> Self {
        Self { zonepath }
    }

    pub(crate) fn lock(&self) -> Result<crate::folder::Lock> {
        self.zonepath.lock(FlockOperation::LockExclusive)
    }

    /// Keeps those away who change this dataset.
    pub(crate) fn lock_shared(&self) -> Result<crate::folder::Lock> {
        self.zonepath.lock(FlockOperation::LockShared)
    }

    /// Refuses a zonepath with a dataset in it. The folder of a clone that was killed before its
    /// commit is no dataset, and is used again.
    fn refuse_existing(&self) -> Result<()> {
        let exists = || Err(Error::Exists(self.zonepath.path().to_owned()));
        for name in [LINK, VOLUME, SNAPSHOTS] {
            if self.zonepath.kind(name)?.is_some() {
                return exists();
            }
        }
        match self.zonepath.kind(ROOT)? {
            None => Ok(()),
            // A link into a volume that was never made.
            Some(FileType::Symlink)
                if self.zonepath.read_link(ROOT)?.as_deref() == Some(IN_VOLUME.as_ref()) =>
            {
                Ok(())
            }
            Some(_) => exists(),
        }
    }

    /// Chooses the form of the top of a new dataset, by its file system.
    fn choose_form(&self) -> Result<()> {
        match Form::best(&self.zonepath)? {
            Form::Folder => Ok(()),
            Form::Volume if self.zonepath.kind(ROOT)?.is_some() => Ok(()),
            Form::Volume => self.zonepath.link(ROOT, IN_VOLUME),
        }
    }
}

/// File system types whose journal keeps the order of changes to folders.
const EXT4: rustix::fs::FsWord = 0xEF53;
const XFS: rustix::fs::FsWord = 0x5846_5342;
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// Returns whether a later fsync of `index`, a path that exists, makes earlier changes of metadata
/// on the file system of `folder` durable, too: one journal holds both.
pub(crate) fn one_journal(folder: &Folder, index: &Path) -> Result<bool> {
    let index = rustix::fs::stat(index).map_err(|e| Error::io("stat", index, e))?;
    Ok(matches!(file_system(folder)?, EXT4 | XFS) && index.st_dev == folder.device()?)
}

fn file_system(folder: &Folder) -> Result<rustix::fs::FsWord> {
    let vfs = rustix::fs::fstatfs(folder).map_err(|e| folder.fail("fstatfs", "", e))?;
    Ok(vfs.f_type)
}

/// Refuses paths whose text does not say where they lead.
pub(crate) fn check_path(zonepath: &Path) -> Result<()> {
    let plain = zonepath
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if zonepath.is_absolute() && plain && zonepath.parent().is_some() {
        return Ok(());
    }
    Err(Error::BadPath(zonepath.to_owned()))
}
