//! The comparison of two files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat, fstat, openat, seek};
use rustix::io::Errno;

use crate::change::What;
use crate::layer::Entry;

/// The begin of the attributes that belong to the kernel's overlay and not to the file.
const OVERLAY: &[u8] = b"trusted.overlay.";

/// Maximum size of an attribute, and of the list of names, in bytes (XATTR_SIZE_MAX,
/// XATTR_LIST_MAX).
const XATTR_BYTES: usize = 65_536;

/// Size of the first buffer for an attribute, in bytes.
const SMALL_XATTR_BYTES: usize = 256;

/// Size of a piece that is read at once, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// Opens the regular file that was listed. Returns `None` if another file has its name now. The open
/// never waits, and opens no device: a device could get the name only from a process that can make
/// devices.
pub(crate) fn open(
    folder: impl AsFd,
    name: &OsStr,
    listed: &Entry,
) -> Result<Option<(OwnedFd, Stat)>, Errno> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(&folder, name, flags | OFlags::NOATIME, Mode::empty()) {
        // Only the owner of a file, and root, may leave its time of access.
        Err(Errno::PERM) => openat(&folder, name, flags, Mode::empty()),
        other => other,
    };
    let file = match file {
        // A link, or a socket.
        Err(Errno::LOOP | Errno::NXIO) => return Ok(None),
        other => other?,
    };
    let stat = fstat(&file)?;
    let same = (stat.st_dev, stat.st_ino) == listed.id;
    Ok((same && FileType::from_raw_mode(stat.st_mode).is_file()).then_some((file, stat)))
}

/// Compares the content and the attributes of two regular files.
pub(crate) fn files(
    before: (impl AsFd, &OsStr, &Entry),
    after: (impl AsFd, &OsStr, &Entry),
) -> Result<What, Errno> {
    let one = open(before.0, before.1, before.2)?;
    let other = open(after.0, after.1, after.2)?;
    let (Some((one, stat)), Some((other, other_stat))) = (one, other) else {
        // A file was replaced by another one meanwhile.
        return Ok(What {
            content: true,
            ..What::default()
        });
    };
    Ok(What {
        content: stat.st_size != other_stat.st_size || bytes_differ(&one, &other, stat.st_size)?,
        attributes: attributes(&one)? != attributes(&other)?,
        ..What::default()
    })
}

/// Returns true if the first `size` bytes of two files differ. Skips holes that both files have.
fn bytes_differ(one: &OwnedFd, other: &OwnedFd, size: i64) -> Result<bool, Errno> {
    let size = u64::try_from(size).unwrap_or(0);
    let mut pieces = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let mut at = 0;
    while at < size {
        at = data(one, at)?.min(data(other, at)?);
        let left = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX);
        let most = left.min(PIECE_BYTES);
        let lengths = (
            fill(one, &mut pieces.0[..most], at)?,
            fill(other, &mut pieces.1[..most], at)?,
        );
        if pieces.0[..lengths.0] != pieces.1[..lengths.1] {
            return Ok(true);
        }
        // Both files shrank.
        if lengths.0 == 0 {
            break;
        }
        at += lengths.0 as u64;
    }
    Ok(false)
}

/// Returns the position of the first byte from `at` on that is not in a hole.
fn data(file: &OwnedFd, at: u64) -> Result<u64, Errno> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(found) => Ok(found),
        // Nothing but a hole is left.
        Err(Errno::NXIO) => Ok(u64::MAX),
        // The file system knows of no holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(at),
        Err(errno) => Err(errno),
    }
}

/// Fills a buffer from a position of a file. Returns the number of bytes, which is less than its
/// size only at the end of the file.
fn fill(file: &OwnedFd, buffer: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        let read = rustix::io::retry_on_intr(|| {
            rustix::io::pread(file, &mut buffer[filled..], at + filled as u64)
        })?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    Ok(filled)
}

/// Returns the attributes of an open file or folder, without those of the kernel's overlay.
pub(crate) fn attributes(file: impl AsFd) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Errno> {
    let mut all = BTreeMap::new();
    let names = match read(|buffer| rustix::fs::flistxattr(&file, buffer)) {
        Err(Errno::OPNOTSUPP) => return Ok(all),
        other => other?,
    };
    for name in names.split(|&byte| byte == 0) {
        if name.is_empty() || name.starts_with(OVERLAY) {
            continue;
        }
        match read(|buffer| rustix::fs::fgetxattr(&file, name, buffer)) {
            Ok(value) => {
                all.insert(name.to_vec(), value);
            }
            // The attribute was removed after it was listed.
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(all)
}

/// Reads an attribute or a list, most of which are small.
fn read(mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut small = [0; SMALL_XATTR_BYTES];
    match call(&mut small) {
        Err(Errno::RANGE) => {}
        other => return other.map(|length| small[..length].to_vec()),
    }
    let mut large = vec![0; XATTR_BYTES];
    let length = call(&mut large)?;
    large.truncate(length);
    Ok(large)
}
