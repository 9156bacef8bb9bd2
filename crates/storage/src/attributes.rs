//! The owner, mode and extended attributes of a root folder.
//!
//! In an overlay, the root folder of the topmost layer sets the attributes of `/` in the zone.
//! Therefore each new top gets the attributes of the sealed top.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::error::Result;
use crate::folder::Folder;

/// The prefix of the extended attributes that overlay itself writes. They are valid only at one
/// position in one stack, so they are not copied.
const OVERLAY: &[u8] = b"trusted.overlay.";

/// The kernel's limit, in bytes, for the value of one extended attribute and for the list of
/// attribute names.
const XATTR_LIMIT: usize = 65_536;

/// Extended attributes: name to value.
pub(crate) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The attributes of a folder. Two values are equal if a zone could not tell the folders apart,
/// except by their times.
#[derive(Debug, Clone)]
pub(crate) struct Attributes {
    mode: u32,
    uid: u32,
    gid: u32,
    xattrs: Xattrs,
    times: Timestamps,
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        (self.mode, self.uid, self.gid) == (other.mode, other.uid, other.gid)
            && self.xattrs == other.xattrs
    }
}

impl Attributes {
    pub(crate) fn of(folder: &Folder) -> Result<Self> {
        let stat = rustix::fs::fstat(folder).map_err(|e| folder.fail("fstat", "", e))?;
        let mut xattrs = xattrs(folder).map_err(|e| folder.fail("getxattr", "", e))?;
        xattrs.retain(|name, _| !name.starts_with(OVERLAY));
        Ok(Self {
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            xattrs,
            times: times(&stat),
        })
    }

    /// Sets these attributes on a new folder.
    pub(crate) fn apply(&self, folder: &Folder) -> Result<()> {
        rustix::fs::fchown(
            folder,
            Some(Uid::from_raw(self.uid)),
            Some(Gid::from_raw(self.gid)),
        )
        .map_err(|e| folder.fail("fchown", "", e))?;
        // The mode is set after the owner, because chown clears the set-id bits.
        rustix::fs::fchmod(folder, Mode::from_raw_mode(self.mode))
            .map_err(|e| folder.fail("fchmod", "", e))?;
        for (name, value) in &self.xattrs {
            rustix::fs::fsetxattr(folder, OsStr::from_bytes(name), value, XattrFlags::empty())
                .map_err(|e| folder.fail("fsetxattr", "", e))?;
        }
        rustix::fs::futimens(folder, &self.times).map_err(|e| folder.fail("futimens", "", e))
    }
}

/// Returns the access and modification times in the form that `futimens` takes.
pub(crate) fn times(stat: &rustix::fs::Stat) -> Timestamps {
    let nanoseconds = |n: u64| i64::try_from(n).unwrap_or(0);
    Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_atime,
            tv_nsec: nanoseconds(stat.st_atime_nsec),
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: nanoseconds(stat.st_mtime_nsec),
        },
    }
}

/// Reads all extended attributes of a file. Returns an empty map if the file system has no extended
/// attributes.
pub(crate) fn xattrs(file: impl AsFd) -> rustix::io::Result<Xattrs> {
    let file = file.as_fd();
    let names = match grow(|buffer| rustix::fs::flistxattr(file, buffer)) {
        Ok(names) => names,
        Err(Errno::NOTSUP) => return Ok(Xattrs::new()),
        Err(e) => return Err(e),
    };
    let mut xattrs = Xattrs::new();
    for name in names.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        match grow(|buffer| rustix::fs::fgetxattr(file, OsStr::from_bytes(name), buffer)) {
            Ok(value) => {
                xattrs.insert(name.to_vec(), value);
            }
            // The attribute was removed after the names were listed.
            Err(Errno::NODATA) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(xattrs)
}

/// Repeats `call` with a longer buffer while the buffer is too short.
pub(crate) fn grow(
    call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 512];
    let length = match call(&mut buffer) {
        Err(Errno::RANGE) => {
            buffer.resize(XATTR_LIMIT, 0);
            call(&mut buffer)?
        }
        other => other?,
    };
    buffer.truncate(length);
    Ok(buffer)
}
