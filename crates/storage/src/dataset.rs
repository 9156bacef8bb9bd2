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
use crate::size::Found;
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
    /// Creates an empty dataset without layers below its top. Creates the zonepath (mode 0700; its
    /// parent must exist) if it does not exist.
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
            // The subvolume is created before its content.
            form.make(&dataset.zonepath, form.next())?;
            crash::point();
            dataset.take_next()?;
        }
        let root = form.make(&dataset.zonepath, form.name())?;
        rustix::fs::fchmod(&root, rustix::fs::Mode::from_raw_mode(0o755))
            .map_err(|e| root.fail("fchmod", "", e))?;
        Ok(dataset)
    }

    /// Opens a dataset. Completes or undoes a seal that a crash interrupted, and adopts a zonepath
    /// that was moved or copied by hand.
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
            // Another command may have moved the dataset before the lock.
            if !dataset.zonepath.is_at_its_path()? {
                return Err(Error::NoDataset(zonepath.to_owned()));
            }
            dataset.repair()?;
        }
        Ok(dataset)
    }

    /// Completes interrupted operations as [`Dataset::open`] does, except if another operation
    /// holds the lock of the dataset: that operation then completes them.
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
            Some(_lock) if dataset.zonepath.is_at_its_path()? => dataset.repair(),
            _ => Ok(()),
        }
    }

    /// Returns the zonepath.
    #[must_use]
    pub fn zonepath(&self) -> &Path {
        self.zonepath.path()
    }

    /// Returns the type name of the file system that holds the dataset.
    #[must_use]
    pub fn fstype(&self) -> String {
        fstype::name(&self.zonepath)
    }

    /// Returns a description of the storage for people, such as `layered on ext4`.
    pub fn kind(&self) -> Result<String> {
        let volume = match self.form()? {
            Form::Folder => "",
            Form::Volume => ", its top a subvolume",
        };
        Ok(format!("layered on {}{volume}", self.fstype()))
    }

    /// Returns the stack (top and layers) to mount as the zone's root.
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

    /// Moves the dataset with its zonepath and everything else in the zonepath to another path of
    /// the same file system (otherwise fails with EXDEV). The layers stay where they are.
    pub fn move_to(self, zonepath: &Path) -> Result<Self> {
        check_path(zonepath)?;
        if rustix::fs::lstat(zonepath).is_ok() {
            return Err(Error::Exists(zonepath.to_owned()));
        }
        remove::refuse_mounts(self.zonepath.path(), TOPS)?;
        {
            let _lock = self.lock()?;
            self.let_go_locked()?;
            // Absolute links are valid at the old and at the new path, so a crash can happen before
            // or after the rename.
            self.link_absolutely()?;
            for snapshot in self.snapshot_folders()? {
                snapshot.link_absolutely()?;
            }
            crash::point();
            let from = self.zonepath.path();
            rustix::fs::rename(from, zonepath).map_err(|e| Error::io("rename", from, e))?;
        }
        crash::point();
        // Opening the dataset detects the move and updates the reference on the layer.
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

    /// Makes sure that changes of the dataset itself reach the disk before a later write to `index`
    /// (an existing path). This excludes the files of the top, see [`Dataset::sync`].
    ///
    /// This costs nothing if the journal of the file system keeps the order and `index` is on the
    /// same file system (ext4, xfs). Otherwise it costs one `syncfs`. The documentation of this
    /// crate explains the reasons.
    pub fn settle(&self, index: &Path) -> Result<()> {
        if file_system(&self.zonepath)? == TMPFS || one_journal(&self.zonepath, index)? {
            return Ok(());
        }
        self.sync()
    }

    /// Writes all changes on the dataset's file system to disk. This is for a caller that has
    /// filled the top from the host, because file contents reach the disk in no fixed order.
    pub fn sync(&self) -> Result<()> {
        rustix::fs::syncfs(&self.zonepath).map_err(|e| self.zonepath.fail("syncfs", "", e))
    }

    /// Returns the space that this dataset uses. Walks through all files of the top.
    pub fn usage(&self) -> Result<Usage> {
        let (own_bytes, own_files) = crate::usage::tree(&self.top_paths()?.0)?;
        let chain = match self.bond()? {
            Some(bond) => bond.layer.chain()?,
            None => Vec::new(),
        };
        Ok(Usage {
            own_bytes,
            own_files,
            shared_bytes: {
                let bytes = chain.iter().map(|layer| layer.bytes(Found::Return));
                bytes.sum::<Result<u64>>()?
            },
            layers: chain.len(),
        })
    }

    pub(crate) fn at(zonepath: Folder) -> Self {
        Self { zonepath }
    }

    pub(crate) fn lock(&self) -> Result<crate::folder::Lock> {
        self.zonepath.lock(FlockOperation::LockExclusive)
    }

    /// Takes the shared lock, which keeps other processes from changing this dataset.
    pub(crate) fn lock_shared(&self) -> Result<crate::folder::Lock> {
        self.zonepath.lock(FlockOperation::LockShared)
    }

    /// Fails if the zonepath contains a dataset. The folder of a clone that was killed before its
    /// commit contains no dataset, so it is used again.
    fn refuse_existing(&self) -> Result<()> {
        let exists = || Err(Error::Exists(self.zonepath.path().to_owned()));
        for name in [LINK, VOLUME, SNAPSHOTS] {
            if self.zonepath.kind(name)?.is_some() {
                return exists();
            }
        }
        match self.zonepath.kind(ROOT)? {
            None => Ok(()),
            // The link `root` points into a subvolume that was never created.
            Some(FileType::Symlink)
                if self.zonepath.read_link(ROOT)?.as_deref() == Some(IN_VOLUME.as_ref()) =>
            {
                Ok(())
            }
            Some(_) => exists(),
        }
    }

    /// Prepares the form of the top of a new dataset (a folder or a subvolume), which the file
    /// system decides.
    fn choose_form(&self) -> Result<()> {
        match Form::best(&self.zonepath)? {
            Form::Folder => Ok(()),
            Form::Volume if self.zonepath.kind(ROOT)?.is_some() => Ok(()),
            Form::Volume => self.zonepath.link(ROOT, IN_VOLUME),
        }
    }
}

/// The `f_type` numbers of file systems: the journals of ext4 and xfs keep the order of changes to
/// folders.
const EXT4: rustix::fs::FsWord = 0xEF53;
const XFS: rustix::fs::FsWord = 0x5846_5342;
const TMPFS: rustix::fs::FsWord = 0x0102_1994;

/// Returns true if a later fsync of `index`, an existing path, also makes earlier changes of
/// metadata on the file system of `folder` durable, because one journal holds both changes.
pub(crate) fn one_journal(folder: &Folder, index: &Path) -> Result<bool> {
    let index = rustix::fs::stat(index).map_err(|e| Error::io("stat", index, e))?;
    Ok(matches!(file_system(folder)?, EXT4 | XFS) && index.st_dev == folder.device()?)
}

fn file_system(folder: &Folder) -> Result<rustix::fs::FsWord> {
    let vfs = rustix::fs::fstatfs(folder).map_err(|e| folder.fail("fstatfs", "", e))?;
    Ok(vfs.f_type)
}

/// Refuses a path that is not absolute and plain (without `..`, for example), because its text does
/// not say where it leads.
pub(crate) fn check_path(zonepath: &Path) -> Result<()> {
    let plain = zonepath
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if zonepath.is_absolute() && plain && zonepath.parent().is_some() {
        return Ok(());
    }
    Err(Error::BadPath(zonepath.to_owned()))
}
