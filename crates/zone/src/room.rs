//! Room on the disks that a boot writes to, looked for before anything is ended or made.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

use host::error::is_full;
use host::{Error, Host};
use subject::Subject;

/// Bytes that must fit into each place: the folders and files that a boot makes are smaller.
const NEEDED: usize = 64 << 10;

/// Free bytes with which a place is not looked at more closely. Several hundred boots at the same
/// time find room there.
const PLENTY: u64 = 64 << 20;

/// Free files with which a place is not looked at more closely.
const MANY_FILES: u64 = 10_000;

/// Fails with [`Error::Refused`] where a boot of the zone would find its disk, or a quota, full:
/// the zonepath, or the folder of the host for running zones.
pub(crate) fn check(host: &Host, subject: &Subject) -> Result<(), Error> {
    for place in [&subject.zonepath, &host.root.run()] {
        match probe(place) {
            // Another failure is for the boot itself to explain.
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

/// Fails with the error of a full disk or quota where [`NEEDED`] bytes do not fit.
fn probe(folder: &Path) -> io::Result<()> {
    if plenty(folder) {
        return Ok(());
    }
    // A file that has no name, and ends with this call.
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut file = File::from(openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(&[1; NEEDED])
}

/// Returns whether the file system says that it has much more room than is needed, and can be
/// believed: a file that is made to find out costs more than all other questions of a boot.
fn plenty(folder: &Path) -> bool {
    /// Magic number of btrfs, whose answer leaves out the limits of its quota groups.
    const BTRFS: i64 = 0x9123_683e;
    let Ok(said) = rustix::fs::statfs(folder) else {
        return false;
    };
    let bytes = said.f_bavail.saturating_mul(said.f_bsize.unsigned_abs());
    // Zero files in all: the file system has no limit of files.
    let files = said.f_files == 0 || said.f_ffree >= MANY_FILES;
    said.f_type != BTRFS && bytes >= PLENTY && files
}
