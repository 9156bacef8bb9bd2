//! A top that is in memory while a program changes its files.
//!
//! Programs that replace a file in an overlay usually rename the old file first, as dpkg does. For
//! overlay, this rename changes a file of a lower layer, so overlay copies the file to the top, and
//! the program removes the copy a moment later. For each replaced file, one more file is created
//! and removed. In memory this costs almost nothing, and the disk receives each remaining file only
//! once.

use rustix::fs::CWD;
use rustix::mount::MountAttrFlags;
use sys::mount::Param;

use crate::attributes::Attributes;
use crate::copy::{Copied, Copier};
use crate::dataset::Dataset;
use crate::error::Result;
use crate::folder::Folder;
use crate::id::Id;
use crate::layers::Layers;
use crate::layout::{ROOT, WORK};
use crate::remove;
use crate::stack::Stack;

/// A top in memory, which exists while its mount namespace exists.
#[derive(Debug)]
pub struct MemoryTop {
    folder: Folder,
    stack: Stack,
}

impl Dataset {
    /// Mounts a top in memory, of at most `bytes` bytes, in place of the dataset's own top, which
    /// must be unchanged. The calling thread needs its own mount namespace, and the thread that
    /// mounts the stack must be in the same namespace.
    pub fn memory_top(&self, bytes: u64) -> Result<MemoryTop> {
        let mut stack = self.stack()?;
        let size = bytes.to_string();
        // The number of files is limited, too, because even an empty file uses memory.
        let files = (bytes >> 10).to_string();
        let params = [
            Param::text("source", "zone"),
            Param::text("mode", "0700"),
            Param::text("size", &size),
            Param::text("nr_inodes", &files),
        ];
        let memory = sys::mount::new_fs("tmpfs", &params, MountAttrFlags::MOUNT_ATTR_NODEV)?;
        // The work folder of the dataset is not used while the top is in memory, so the tmpfs is
        // mounted there.
        sys::mount::attach(&memory, CWD, &stack.work)?;
        let folder = Folder::open(&stack.work)?;
        folder.make(WORK)?;
        folder.make(ROOT)?;
        let root = folder.open_child(ROOT)?;
        Attributes::of(&self.open_top()?)?.apply(&root)?;
        stack.top = folder.path().join(ROOT);
        stack.work = folder.path().join(WORK);
        Ok(MemoryTop { folder, stack })
    }

    /// Copies the files of a top in memory into the dataset's own top.
    pub fn keep_memory(&self, memory: &MemoryTop) -> Result<Copied> {
        // The dataset is opened again in this mount namespace. A folder that was opened in another
        // mount namespace belongs to another mount, and a hard link cannot cross mounts: a file
        // with several names would become several files.
        let here = Self::open(self.zonepath())?;
        let (layers, _shared) = Layers::enter(&Layers::home(&here.zonepath)?)?;
        let dead = layers.graves()?;
        let links = Id::random()?.to_string();
        dead.make(&links)?;
        let mut copier = Copier::new(dead.open_child(&links)?);
        let done = copier.folder(&memory.folder.open_child(ROOT)?, &here.open_top()?);
        remove::bury(&dead.path().join(&links))?;
        done.map(|()| copier.done)
    }
}

impl MemoryTop {
    /// Returns the stack to mount, whose top is in memory.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }
}
