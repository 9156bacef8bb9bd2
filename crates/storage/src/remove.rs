//! Removing trees that strangers filled, without ever leaving them.
//!
//! Three nets, as the host's /usr is mounted into zones: nothing may be mounted
//! below the zonepath to begin with; every folder is opened with a lookup that
//! refuses links and mounts (bind mounts of the same file system too); and the
//! tree was renamed into a grave first, out of everybody's way.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::crash;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::id::Id;
use crate::top::Form;

/// Folders held open at once; what lies deeper is moved up into the grave, so
/// that depth costs neither descriptors nor stack.
const DEPTH: usize = 32;

/// Passes over one folder before giving up: a pass empties what was there when
/// it began, so more than a few mean that somebody writes.
const PASSES: usize = 8;

/// Fails when anything is mounted at or below one of `names` in `zonepath`.
pub(crate) fn refuse_mounts(zonepath: &Path, names: &[&str]) -> Result<()> {
    let path = "/proc/self/mountinfo";
    let text = std::fs::read(path).map_err(|e| Error::io("read", path, e))?;
    // The table has the true path; the zonepath may lead through links.
    let real = std::fs::canonicalize(zonepath).map_err(|e| Error::io("realpath", zonepath, e))?;
    for mounted in mount_points(&text) {
        if names
            .iter()
            .any(|name| mounted.starts_with(real.join(name)))
        {
            return Err(Error::Busy {
                zonepath: zonepath.to_owned(),
                mounted,
            });
        }
    }
    Ok(())
}

/// The mount points in the text of a mountinfo file.
fn mount_points(text: &[u8]) -> impl Iterator<Item = PathBuf> {
    text.split(|b| *b == b'\n')
        .filter_map(|line| line.split(|b| *b == b' ').nth(4))
        .map(|field| PathBuf::from(unescape(field)))
}

/// Undoes the kernel's `\040` for space, tab, newline and backslash.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// Removes a grave. One that is gone already is no error: two may dig.
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
    /// Whether there may be subvolumes, which go in one piece.
    subvolumes: bool,
    /// Graves still to be emptied.
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
            // A folder: Linux says EISDIR, POSIX EPERM.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(e) => return Err(at.fail("unlink", name, e)),
        }
        // A grave is one, or a layer whose tree is one.
        if self.subvolumes && depth < 2 && sys::btrfs::destroy_subvolume(at, name).is_ok() {
            return Ok(());
        }
        for _ in 0..PASSES {
            match at.rmdir(name) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(e) => return Err(at.fail("rmdir", name, e)),
            }
            if depth >= DEPTH {
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
        at.rename(name, self.dead, &grave)?;
        self.pending.push(grave);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn reads_mount_points_with_odd_names() {
        let text = b"36 35 98:0 /mnt1 /z/a\\040b rw - ext4 /dev/x rw\n37 36 0:3 / /z/back\\134slash rw - proc p rw\n";
        let points: Vec<_> = mount_points(text).collect();
        assert_eq!(points, [Path::new("/z/a b"), Path::new("/z/back\\slash")]);
        assert_eq!(unescape(b"a\\9x"), OsStr::from_bytes(b"a\\9x"));
    }

    #[test]
    fn removes_a_tree_deeper_than_paths_can_be() {
        let scratch = tempfile::tempdir().unwrap();
        let grave = scratch.path().join("g");
        std::fs::create_dir(&grave).unwrap();
        let mut folder = Folder::open(&grave).unwrap();
        // 3,000 levels of 40 bytes: 120 KB of path, the limit is 4 KB.
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
