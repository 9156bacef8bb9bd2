//! The number of files below the disks of a running zone that has a schedule of snapshots.
//!
//! Where the file system cannot share blocks, each snapshot of a running zone puts one more file on
//! each disk. Before a snapshot of a schedule would make a disk too deep, the files are merged.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use host::Error;
use model::Config;

use crate::clone::MAX_BASES;
use crate::live_snapshot::{LEAST_MERGED, why_full};
use crate::record::{Disk, Record};

/// Maximum number of files below a disk after a snapshot of a schedule. QEMU searches the files one
/// after the other for each first read, and keeps tables of each in the host's memory; so the number
/// is far below [`MAX_BASES`], and snapshots of the administrator have room above it. A merge copies
/// the data of all files between, so the number is not smaller.
pub const SCHEDULED_FILES: usize = 8;

const _: () = assert!(LEAST_MERGED <= SCHEDULED_FILES && SCHEDULED_FILES < MAX_BASES);

/// Returns the maximum number of bytes that a merge copies, if the files below the disks are to be
/// merged before the next snapshot of a schedule; `None` if the disks have few files.
///
/// # Errors
/// Fails if the record or a file cannot be read.
pub fn bytes_to_merge(zonepath: &Path, config: &Config) -> Result<Option<u64>, Error> {
    let record = Record::load(zonepath)?;
    if !is_deep(&record, config) {
        return Ok(None);
    }
    let mut bytes = 0_u64;
    for file in record.disks.iter().flat_map(between) {
        let meta = fs::metadata(zonepath.join(file)).map_err(Error::io(format!("read {file}")))?;
        bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
    }
    Ok(Some(bytes))
}

/// Returns true if one more file would make a disk too deep, and a merge can help.
fn is_deep(record: &Record, config: &Config) -> bool {
    let most = record.disks.iter().map(|disk| disk.bases.len()).max();
    let most = most.unwrap_or(0);
    most >= LEAST_MERGED && (most >= SCHEDULED_FILES || why_full(record, config).is_some())
}

/// Returns the files of a disk whose data a merge copies: those between the top and the lowest file.
fn between(disk: &Disk) -> impl Iterator<Item = &str> {
    let count = match disk.bases.len() {
        many if many >= LEAST_MERGED => many - 1,
        _ => 0,
    };
    disk.bases.iter().take(count).map(|base| base.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::tests::{BASE, zone};
    use crate::record::Base;
    use vm::Format;

    /// Makes a disk with this number of files below the top: of 64 KiB each, and the base file.
    fn deepen(zonepath: &Path, below: usize) -> Record {
        let mut record = Record::load(zonepath).unwrap();
        let bases = &mut record.disks[0].bases;
        bases.drain(..bases.len() - 1);
        for number in 1..below {
            let name = format!("top-{number}");
            fs::write(zonepath.join(&name), vec![1; 64 << 10]).unwrap();
            let base = Base {
                name,
                format: Format::Qcow2,
                digest: None,
            };
            record.disks[0].bases.insert(0, base);
        }
        record.save(zonepath).unwrap();
        record
    }

    #[test]
    fn the_files_between_are_merged_before_a_disk_is_too_deep() {
        let (_dir, _host, config, zonepath) = zone();
        for below in [1, LEAST_MERGED, SCHEDULED_FILES - 1] {
            deepen(&zonepath, below);
            assert_eq!(bytes_to_merge(&zonepath, &config).unwrap(), None, "{below}");
        }
        let record = deepen(&zonepath, SCHEDULED_FILES);
        let disk = &record.disks[0];
        assert!(!between(disk).any(|file| file == BASE || Some(file) == disk.file.as_deref()));
        assert_eq!(between(disk).count(), SCHEDULED_FILES - 1);
        let bytes = bytes_to_merge(&zonepath, &config).unwrap().unwrap();
        let least = (SCHEDULED_FILES as u64 - 1) * (64 << 10);
        assert!((least..least * 2).contains(&bytes), "{bytes}");
    }

    #[test]
    fn many_disks_are_merged_sooner_if_qemu_cannot_be_given_their_files() {
        let (_dir, _host, config, zonepath) = zone();
        let mut record = deepen(&zonepath, LEAST_MERGED);
        let disk = record.disks[0].clone();
        let disks = |count: u32| (0..count).map(|id| Disk { id, ..disk.clone() }).collect();
        record.disks = disks(10);
        assert!(!is_deep(&record, &config));
        record.disks = disks(60);
        assert!(is_deep(&record, &config));
        // A merge of disks with few files does not help.
        record
            .disks
            .iter_mut()
            .for_each(|disk| disk.bases.truncate(LEAST_MERGED - 1));
        assert!(!is_deep(&record, &config));
    }
}
