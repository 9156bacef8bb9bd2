//! Removes trees with untrusted content, without ever following a link or a mount out of the tree.
//!
//! Three checks protect the host, whose /usr is mounted into zones. First, a removal fails if any
//! file system is mounted below the zonepath. Second, each folder is opened with a lookup that
//! refuses links and mounts (even bind mounts of the same file system). Third, the tree is renamed
//! into a grave before the removal, where no other process uses it.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::crash;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::id::Id;

/// Maximum number of folders that are open at once. Deeper folders are moved up into the folder of
/// graves, so that a deep tree needs no more descriptors or stack.
const MAX_OPEN_FOLDERS: usize = 32;

/// Maximum number of passes over a folder. A pass removes the entries that existed when the pass
/// began, so a need for more passes means that a process writes into the folder.
const MAX_PASSES: usize = 8;

/// Fails if a file system is mounted at or below one of the entries `names` in `zonepath`.
pub(crate) fn refuse_mounts(zonepath: &Path, names: &[&str]) -> Result<()> {
    // The mount table contains real paths, but the zonepath may contain symbolic links.
    let real = std::fs::canonicalize(zonepath).map_err(|e| Error::io("realpath", zonepath, e))?;
    let mounts =
        sys::mountinfo::own().map_err(|e| Error::io("read", "/proc/thread-self/mountinfo", e))?;
    for mount in mounts {
        let is_below = |name: &&str| mount.point.starts_with(real.join(name));
        if names.iter().any(is_below) {
            return Err(Error::Busy {
                zonepath: zonepath.to_owned(),
                mounted: mount.point,
            });
        }
    }
    Ok(())
}

/// Removes a folder and its content. Fails without removing anything if a file system is mounted at
/// or below the folder. Does not enter a file system that is mounted during the removal. A missing
/// folder is no error.
///
/// # Errors
/// [`Error::Busy`] if a file system is mounted; errors of the kernel.
pub fn remove_tree(folder: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        return Err(Error::BadPath(folder.to_owned()));
    };
    match rustix::fs::lstat(folder) {
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(Error::io("stat", folder, e)),
        // A symbolic link itself is removed, and its target stays.
        Ok(stat) if !FileType::from_raw_mode(stat.st_mode).is_dir() => {}
        Ok(_) => {
            let name = name
                .to_str()
                .ok_or_else(|| Error::BadPath(folder.to_owned()))?;
            refuse_mounts(parent, &[name])?;
        }
    }
    bury(folder)
}

/// Removes a grave. A missing grave is no error, because two processes may remove the same grave.
pub(crate) fn bury(grave: &Path) -> Result<()> {
    let (Some(dead), Some(name)) = (grave.parent(), grave.file_name()) else {
        return Err(Error::BadPath(grave.to_owned()));
    };
    let dead = match Folder::open(dead) {
        Err(e) if e.is_missing() => return Ok(()),
        other => other?,
    };
    let mut digger = Digger {
        subvolumes: Form::best(&dead)? == Form::Volume,
        dead: &dead,
        pending: vec![name.to_owned()],
    };
    while let Some(name) = digger.pending.pop() {
        crash::point();
        digger.remove(&dead, &name, FileType::Unknown, 0)?;
    }
    Ok(())
}

struct Digger<'a> {
    dead: &'a Folder,
    /// True if the tree may contain subvolumes, each of which one call removes.
    subvolumes: bool,
    /// The graves that are not yet empty.
    pending: Vec<OsString>,
}

impl Digger<'_> {
    fn remove(&mut self, at: &Folder, name: &OsStr, kind: FileType, depth: usize) -> Result<()> {
        if kind != FileType::Directory && kind != FileType::Unknown {
            at.unlink(name)?;
            return Ok(());
        }
        match rustix::fs::unlinkat(at.as_fd(), name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // unlink(2) fails for a folder with EISDIR on Linux, and with EPERM in POSIX.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(e) => return Err(at.fail("unlink", name, e)),
        }
        // The subvolume is the grave itself, or the tree of a layer in the grave.
        if self.subvolumes && depth < 2 && sys::btrfs::destroy_subvolume(at, name).is_ok() {
            return Ok(());
        }
        for _ in 0..MAX_PASSES {
            match at.rmdir(name) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(e) => return Err(at.fail("rmdir", name, e)),
            }
            if depth >= MAX_OPEN_FOLDERS {
                return self.move_up(at, name);
            }
            let folder = match at.open_child(name) {
                Err(e) if e.is_missing() => return Ok(()),
                other => other?,
            };
            for (entry, kind) in folder.entries()? {
                self.remove(&folder, &entry, kind, depth + 1)?;
            }
        }
        Err(Error::NotEmptied(at.path().join(name)))
    }

    fn move_up(&mut self, at: &Folder, name: &OsStr) -> Result<()> {
        let grave = OsString::from(Id::random()?.to_string());
        match at.rename(name, self.dead, &grave) {
            // Another process, which removes the same grave, has moved the folder.
            Err(e) if e.is_missing() => {}
            other => {
                other?;
                self.pending.push(grave);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_a_tree_deeper_than_paths_can_be() {
        let scratch = tempfile::tempdir().unwrap();
        let grave = scratch.path().join("g");
        std::fs::create_dir(&grave).unwrap();
        let mut folder = Folder::open(&grave).unwrap();
        // The path has 3,000 levels of 40 bytes (120 KB), but the kernel's limit of a path is 4 KB.
        let name = "d".repeat(40);
        for level in 0..3000 {
            folder.make(&name).unwrap();
            if level % 100 == 0 {
                folder.link("l", "/etc").unwrap();
            }
            folder = folder.open_child(&name).unwrap();
        }
        bury(&grave).unwrap();
        assert!(!grave.exists());
        assert!(Folder::open(scratch.path()).unwrap().is_empty().unwrap());
    }

    /// Puts this thread into its own mount namespace and bind-mounts the folder `from` at `to`.
    /// Returns false if the host does not allow this.
    fn mount_apart(from: &Path, to: &Path) -> bool {
        use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};
        let apart = || sys::namespace::unshare(sys::process::ns::MOUNT);
        if !rustix::process::geteuid().is_root() || apart().is_err() {
            eprintln!("skipped: mount_apart: needs root and a mount namespace of its own");
            return false;
        }
        let flags = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
        mount_change("/", flags).unwrap();
        mount_bind(from, to).unwrap();
        true
    }

    #[test]
    fn a_tree_below_which_something_is_mounted_stays() {
        let scratch = tempfile::tempdir().unwrap();
        // In the mount table, the kernel writes the blank as \040.
        let (zone, of_host) = (scratch.path().join("a b"), scratch.path().join("usr"));
        let below = zone.join(".machine-work/usr");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir(&of_host).unwrap();
        std::fs::write(of_host.join("file"), "the host's").unwrap();
        std::fs::write(zone.join(".machine-work/a"), "the zone's").unwrap();
        std::thread::scope(|scope| {
            let tried = scope.spawn(|| {
                if !mount_apart(&of_host, &below) {
                    return;
                }
                let refused = remove_tree(&zone.join(".machine-work"));
                assert!(matches!(refused, Err(Error::Busy { mounted, .. }) if mounted == below));
            });
            tried.join().unwrap();
        });
        assert!(of_host.join("file").exists());
        assert!(zone.join(".machine-work/a").exists());
        // The other mount namespace no longer exists, and neither do its mounts.
        remove_tree(&zone.join(".machine-work")).unwrap();
        remove_tree(&zone.join(".machine-work")).unwrap();
        assert!(!zone.join(".machine-work").exists() && of_host.join("file").exists());
    }

    #[test]
    fn links_are_removed_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let kept = scratch.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "text").unwrap();
        let grave = scratch.path().join("g");
        std::fs::create_dir(&grave).unwrap();
        std::os::unix::fs::symlink(&kept, grave.join("link")).unwrap();
        bury(&grave).unwrap();
        assert!(!grave.exists());
        assert!(kept.join("file").exists());
    }
}
