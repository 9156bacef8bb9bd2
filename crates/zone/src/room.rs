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

/// Writes to a file in the folder that has no name and ends with this call.
fn probe(folder: &Path) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut file = File::from(openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(&[1; NEEDED])
}
