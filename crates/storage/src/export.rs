//! The folder of a zone with a label that zones of higher labels can read.
//!
//! The zone writes through an overlay of its own over an empty folder, and readers get the upper
//! folder of this overlay. So the inodes of the writer and of the readers differ: a reader cannot
//! use sockets, FIFOs, locks, leases or watches to send to the writer.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use sys::mount::MountFd;

use crate::assemble::assemble_keeping;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::id::Id;
use crate::layers::Layers;
use crate::layout::{EXPORT, ROOT, WORK};
use crate::project;
use crate::stack::Stack;

/// The name of the empty folder below the overlay.
const EMPTY: &str = "empty";

/// Makes the folders of `zonepath`/export that are missing, and mounts the overlay with the ids of
/// the user namespace `users`, whose root has the id `base` on the host. `scratch` is an empty
/// folder for mounts that end with this call. The calling thread needs its own mount namespace.
///
/// # Errors
/// Fails with the error of the kernel: the file system must support id-mapped mounts.
pub fn export(
    zonepath: &Path,
    users: BorrowedFd<'_>,
    base: u32,
    scratch: &Path,
) -> Result<MountFd> {
    let folder = zonepath.join(EXPORT);
    make(&folder, 0o700)?;
    make(&folder.join(ROOT), 0o755)?;
    make(&folder.join(WORK), 0o700)?;
    make(&folder.join(EMPTY), 0o755)?;
    count_with_top(zonepath, &folder.join(ROOT))?;
    let stack = stack_of(folder);
    assemble_keeping(&stack, Some(users), base, scratch).map(|(mount, _)| mount)
}

/// Moves the exported files to the project of the top, so that its limit counts them. A new top has
/// another project, so the files move again. No process may use the files meanwhile.
fn count_with_top(zonepath: &Path, exported: &Path) -> Result<()> {
    let dataset = Dataset::at(Folder::open(zonepath)?);
    // A dataset of another driver has no top here, and no project.
    let Ok(top) = dataset.open_top() else {
        return Ok(());
    };
    let wanted = project::of(&top);
    let exported = Folder::open(exported)?;
    if project::of(&exported) == wanted {
        return Ok(());
    }
    let home = Layers::home(&Folder::open(zonepath)?)?;
    let (layers, _at_work) = Layers::enter(&home)?;
    let name = Id::random()?.to_string();
    let place = project::Workplace::new(&layers.graves()?, &name)?;
    let (scratch, links) = place.open()?;
    project::move_to(&exported, wanted, scratch, links)
}

fn stack_of(folder: PathBuf) -> Stack {
    Stack {
        top: folder.join(ROOT),
        work: folder.join(WORK),
        lowers: vec![folder.join(EMPTY)],
        zonepath: folder,
        volatile: false,
    }
}

fn make(path: &Path, mode: u32) -> Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(Error::io("mkdir", path, error))
        }
        _ => Ok(()),
    }
}
