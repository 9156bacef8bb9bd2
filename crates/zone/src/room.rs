//! Checks the free space on the disks that a boot writes to, before the boot ends a process or
//! makes a file.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

use host::error::is_full;
use host::{Error, Host};
use subject::Subject;

/// Number of bytes that must fit into each folder. The files and folders that a boot makes are
/// smaller.
const NEEDED: usize = 64 << 10;

/// Number of free bytes above which a file system is not tested with a file. Several hundred
/// simultaneous boots find enough space in it.
const PLENTY: u64 = 64 << 20;

/// Number of free files above which a file system is not tested with a file.
const MANY_FILES: u64 = 10_000;

/// Fails with [`Error::Refused`] if a boot of the zone would find a disk or quota full. Checks the
/// zonepath, the zone's root, which may have a limit of its own, and the host's folder of running
/// zones.
pub(crate) fn check(host: &Host, subject: &Subject) -> Result<(), Error> {
    let root = subject.zonepath.join(storage::ROOT);
    for place in [&subject.zonepath, &root, &host.root.run()] {
        match probe(place) {
            // Other errors are ignored here, because the boot itself reports them.
            Err(error) if is_full(&error) => {
                let limit = match error.kind() {
                    ErrorKind::QuotaExceeded => "the quota is used up",
                    _ => "the disk is full",
                };
                return Err(Error::Refused(format!(
                    "{limit}: {} has no room for {} KiB more: remove files or snapshots there, or make it larger.",
                    place.display(),
                    NEEDED >> 10
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Fails with the error of a full disk or quota if [`NEEDED`] bytes do not fit into a folder.
fn probe(folder: &Path) -> io::Result<()> {
    if plenty(folder) {
        return Ok(());
    }
    // This file has no name and is removed at the end of this call.
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut file = File::from(openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(&[1; NEEDED])
}

/// Returns true if the file system reports much more free space than a boot needs, and the report
/// is reliable. The test with a file is avoided then, because it takes longer than all other checks
/// of a boot.
fn plenty(folder: &Path) -> bool {
    /// Magic number of btrfs. The free space that btrfs reports does not include the limits of its
    /// quota groups.
    const BTRFS: i64 = 0x9123_683e;
    let Ok(said) = rustix::fs::statfs(folder) else {
        return false;
    };
    let bytes = said.f_bavail.saturating_mul(said.f_bsize.unsigned_abs());
    // If the total number of files is zero, the file system does not limit the number of files.
    let files = said.f_files == 0 || said.f_ffree >= MANY_FILES;
    said.f_type != BTRFS && bytes >= PLENTY && files
}
