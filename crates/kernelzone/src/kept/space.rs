//! The space of snapshots: a file of a disk may be linked to several snapshots, to the zonepath and to
//! clones, and it occupies its space until the last of these links is gone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use storage::Name;

use super::{about, folder};
use host::Error;

/// The bytes of a snapshot on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Bytes that the removal of the snapshot frees.
    pub own: u64,
    /// Bytes in all its files.
    pub all: u64,
}

/// Returns the bytes of a snapshot.
///
/// # Errors
/// Fails with [`Error::Io`].
pub fn usage(zonepath: &Path, name: &Name) -> Result<Use, Error> {
    let mut found = Use::default();
    each_file(zonepath, name, |file, meta| {
        let bytes = meta.blocks() * 512;
        found.all += bytes;
        // A base file has another name in the zonepath, or in another zone.
        if meta.nlink() == 1 {
            found.own += sys::extents::exclusive_bytes(file).unwrap_or(bytes);
        }
    })?;
    Ok(found)
}

/// Returns the bytes that the removal of all these snapshots together frees. A file that several of
/// them have counts once. A file that the disks of the zone, another snapshot or a clone have too
/// does not count.
///
/// # Errors
/// Fails with [`Error::Io`].
pub fn bytes_together<'a>(
    zonepath: &Path,
    names: impl Iterator<Item = &'a Name>,
) -> Result<u64, Error> {
    let mut links: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    let mut bytes = 0_u64;
    for name in names {
        each_file(zonepath, name, |file, meta| {
            let seen = links.entry((meta.dev(), meta.ino())).or_default();
            *seen += 1;
            if *seen == meta.nlink() {
                let all = meta.blocks() * 512;
                let freed = sys::extents::exclusive_bytes(file).unwrap_or(all);
                bytes = bytes.saturating_add(freed);
            }
        })?;
    }
    Ok(bytes)
}

/// A file of a disk in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The device and the number of the file.
    pub file: (u64, u64),
    /// The number of names that the file has: in snapshots, in the zonepath, in clones.
    pub links: u64,
}

/// Returns the files of the disks in a snapshot. A file that is missing is left out.
///
/// # Errors
/// Fails if the snapshot cannot be read.
pub fn parts(zonepath: &Path, name: &Name) -> Result<Vec<Part>, Error> {
    let folder = folder(zonepath).join(name.as_str());
    let record = about(zonepath, name)?.record;
    let files = record.disks.iter().flat_map(|disk| {
        let bases = disk.bases.iter().map(|base| base.name.as_str());
        disk.file.as_deref().into_iter().chain(bases)
    });
    let look = |file: &str| match fs::metadata(folder.join(file)) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        other => Some(other.map(|meta| Part {
            file: (meta.dev(), meta.ino()),
            links: meta.nlink(),
        })),
    };
    let parts: std::io::Result<Vec<Part>> = files.filter_map(look).collect();
    parts.map_err(Error::io(format!("read the snapshot {name}")))
}

fn each_file(
    zonepath: &Path,
    name: &Name,
    mut act: impl FnMut(&File, &fs::Metadata),
) -> Result<(), Error> {
    let mut look = || -> std::io::Result<()> {
        for entry in fs::read_dir(folder(zonepath).join(name.as_str()))? {
            let file = File::open(entry?.path())?;
            act(&file, &file.metadata()?);
        }
        Ok(())
    };
    look().map_err(Error::io(format!("read the snapshot {name}")))
}
