//! Changes existing objects of a tree, for sources that build a root step by step.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;

use super::{Tree, is};
use crate::Error;

/// Size of the kernel's longest list of attribute names, in bytes (`XATTR_LIST_MAX`).
const MAX_ATTRIBUTE_NAMES: usize = 64 << 10;

impl Tree {
    /// Renames an object. An existing object with the new name is replaced, as rename(2) does.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let renamed = self.parent(from).and_then(|(old, last)| {
            let (new, name) = self.parent(to)?;
            rustix::fs::renameat(old.as_fd(), last, new.as_fd(), name)
        });
        renamed.map_err(self.fail("rename", from))
    }

    /// Sets the owner of `name` itself.
    pub fn set_owner(&self, name: &Path, uid: u32, gid: u32) -> Result<(), Error> {
        let set = self.parent(name).and_then(|(parent, last)| {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let stat = rustix::fs::statat(parent.as_fd(), last, flags)?;
            if (stat.st_uid, stat.st_gid) == (uid, gid) {
                return Ok(());
            }
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::fs::chownat(parent.as_fd(), last, Some(uid), Some(gid), flags)
        });
        set.map_err(self.fail("set the owner of", name))
    }

    /// Sets the permissions of a file, folder or FIFO.
    pub fn set_mode(&self, name: &Path, mode: u32) -> Result<(), Error> {
        let set = self
            .open_itself(name)
            .and_then(|fd| rustix::fs::fchmod(fd, Mode::from_raw_mode(mode)));
        set.map_err(self.fail("set the permissions of", name))
    }

    /// Sets an extended attribute of a file or folder. A file system without attributes is not an
    /// error.
    pub fn set_attribute_of_any(&self, name: &Path, key: &str, value: &[u8]) -> Result<(), Error> {
        let set = self
            .open_itself(name)
            .and_then(|fd| rustix::fs::fsetxattr(fd, key, value, XattrFlags::empty()));
        match set {
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => other.map_err(self.fail("set an attribute of", name)),
        }
    }

    /// Removes the extended attributes of `name` itself that `keeps` does not select. Returns the
    /// number of removed attributes. A file system without attributes is not an error.
    pub fn drop_attributes(&self, name: &Path, keeps: impl Fn(&str) -> bool) -> Result<u64, Error> {
        let dropped = self.resolve(name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty());
        let dropped = dropped.and_then(|fd| {
            // An O_PATH descriptor has no attributes of its own. Its link in /proc leads to the
            // object itself, even if the object is a symbolic link.
            let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
            let mut names = vec![0; MAX_ATTRIBUTE_NAMES];
            let length = match rustix::fs::listxattr(&path, &mut names[..]) {
                Err(Errno::OPNOTSUPP) => return Ok(0),
                length => length?,
            };
            let mut count = 0;
            for key in names[..length].split(|&byte| byte == 0) {
                let kept = std::str::from_utf8(key).is_ok_and(&keeps);
                if !key.is_empty() && !kept {
                    rustix::fs::removexattr(&path, key)?;
                    count += 1;
                }
            }
            Ok(count)
        });
        dropped.map_err(self.fail("look at the attributes of", name))
    }

    /// Opens an existing regular file for reading and writing.
    pub fn open_to_write(&self, name: &Path) -> Result<File, Error> {
        let stat = self.stat(name)?;
        if !stat.is_some_and(|stat| is(&stat, FileType::RegularFile)) {
            return Err(self.fail("write", name)(Errno::INVAL));
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = self.lookup(name, flags).map(File::from);
        opened.map_err(self.fail("write", name))
    }

    /// A tree contains no devices, so the open has no effect.
    fn open_itself(&self, name: &Path) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        self.lookup(name, flags)
    }
}
