//! A top that is in memory while it is worked on.
//!
//! Programs that replace a file in an overlay mostly give the old one another name first, as dpkg
//! does. For overlay that is a change of a file below, so it copies it to the top, where it is
//! removed a moment later: as many files are made and removed once more as are replaced. In memory
//! that costs next to nothing, and the disk sees each file that stays once.

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

/// A top in memory; it ends with the mount namespace that it was made in.
#[derive(Debug)]
pub struct MemoryTop {
    folder: Folder,
    stack: Stack,
}

impl Dataset {
    /// Puts a top in memory, of at most so many bytes, in the place of the dataset's own, which
    /// must be untouched. For a thread with a mount namespace of its own, which the thread that
    /// mounts the stack has to share.
    pub fn memory_top(&self, bytes: u64) -> Result<MemoryTop> {
        let mut stack = self.stack()?;
        let size = bytes.to_string();
        // Files take memory, too, whatever is in them.
        let files = (bytes >> 10).to_string();
        let params = [
            Param::text("source", "zone"),
            Param::text("mode", "0700"),
            Param::text("size", &size),
            Param::text("nr_inodes", &files),
        ];
        let memory = sys::mount::new_fs("tmpfs", &params, MountAttrFlags::MOUNT_ATTR_NODEV)?;
        // Nobody needs the work folder meanwhile.
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

    /// Copies a top in memory into the dataset's own top.
    pub fn keep_memory(&self, memory: &MemoryTop) -> Result<Copied> {
        // Files that were opened in another mount namespace are on another mount, and a hard link
        // cannot join two mounts: a file with several names would become several files.
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
    /// Returns the stack to mount.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }
}
