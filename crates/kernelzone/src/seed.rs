//! The disk on which cloud-init in a guest finds its seed (data source NoCloud).
//!
//! The disk is a file in the zonepath with the label `cidata`. It is attached at each boot, as the
//! last disk and read-only, because cloud-init looks for its seed at each boot. If an administrator
//! removes the file, the next boot attaches no such disk.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use brand::first_boot::seed::Seed;

use crate::disks::{Files, read_only};
use crate::new_file::write_new;
use host::Error;

/// The name of the disk's file in the zonepath.
pub const FILE: &str = "cidata.img";

/// The label by which cloud-init recognises the disk.
const LABEL: &str = "cidata";

/// Makes the disk in the zonepath. Replaces the disk of an earlier install that was killed.
///
/// # Errors
/// Fails if the seed does not fit on the disk, or if the file cannot be written.
pub fn make(zonepath: &Path, seed: &Seed) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let files: Vec<(&str, &[u8])> = seed
        .files
        .iter()
        .map(|(name, content)| (*name, &content[..]))
        .collect();
    let disk = vm::fat::disk(LABEL, &files)?;
    let path = zonepath.join(FILE);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    write_new(&path, &disk)
}

/// Adds the disk behind the other disks, if the zone has it.
///
/// # Errors
/// Fails with [`Error::Verify`] if the file is no regular file.
pub(crate) fn add(disks: &mut Vec<Files>, zonepath: &Path) -> Result<(), Error> {
    let path = zonepath.join(FILE);
    match fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_file() => {
            disks.push(read_only(disks, &path)?);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(Error::Verify(vec![format!(
            "could not verify {}: expected the disk for cloud-init; remove it",
            path.display()
        )])),
    }
}
