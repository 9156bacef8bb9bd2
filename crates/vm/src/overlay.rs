//! An empty qcow2 that stands on another disk: a clone of it in no time.
//!
//! The name of the file below is not written into the overlay; it is on the command line, see
//! [`crate::machine`]. The file is four clusters long, whatever the size of the disk.

use crate::Error;
use crate::image::MAX_DISK_BYTES;

/// 64 KiB, as QEMU's own images have it.
const CLUSTER_BITS: u32 = 16;
const CLUSTER: u64 = 1 << CLUSTER_BITS;

/// Number of bytes that a cluster of the second table leads to.
const PER_ENTRY: u64 = CLUSTER / 8 * CLUSTER;

/// The whole file of an empty overlay over a disk of this size.
///
/// # Errors
/// For a size that no disk has.
pub fn empty(size: u64) -> Result<Vec<u8>, Error> {
    let mut file = header(size)?;
    let entries = size.div_ceil(PER_ENTRY);
    let table = (entries * 8).div_ceil(CLUSTER);
    let clusters = 3 + table;
    let bytes = usize::try_from(clusters * CLUSTER).map_err(|_| too_large(size))?;
    file.resize(bytes, 0);
    let mut put = |at: u64, what: &[u8]| {
        // Within the file, which has just been made long enough.
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(place) = file.get_mut(at..at.saturating_add(what.len())) {
            place.copy_from_slice(what);
        }
    };
    // The table of reference counts leads to its one block, which counts every cluster
    // of this file once.
    put(CLUSTER, &(2 * CLUSTER).to_be_bytes());
    for number in 0..clusters {
        put(2 * CLUSTER + number * 2, &1u16.to_be_bytes());
    }
    Ok(file)
}

/// The header alone.
pub(crate) fn header(size: u64) -> Result<Vec<u8>, Error> {
    if size == 0 || size > MAX_DISK_BYTES || size % 512 != 0 {
        return Err(too_large(size));
    }
    let entries = u32::try_from(size.div_ceil(PER_ENTRY)).map_err(|_| too_large(size))?;
    let mut header = Vec::with_capacity(112);
    header.extend(b"QFI\xfb");
    header.extend(3u32.to_be_bytes());
    // Backing file: none.
    header.extend(0u64.to_be_bytes());
    header.extend(0u32.to_be_bytes());
    header.extend(CLUSTER_BITS.to_be_bytes());
    header.extend(size.to_be_bytes());
    // Not encrypted.
    header.extend(0u32.to_be_bytes());
    header.extend(entries.to_be_bytes());
    header.extend((3 * CLUSTER).to_be_bytes());
    // One cluster of reference counts.
    header.extend(CLUSTER.to_be_bytes());
    header.extend(1u32.to_be_bytes());
    // No snapshots.
    header.extend(0u32.to_be_bytes());
    header.extend(0u64.to_be_bytes());
    // No features: incompatible, compatible, autoclear.
    header.extend([0; 24]);
    // Reference counts of 16 bits.
    header.extend(4u32.to_be_bytes());
    header.extend(104u32.to_be_bytes());
    // No extensions.
    header.extend([0; 8]);
    Ok(header)
}

fn too_large(size: u64) -> Error {
    Error::Image(format!("no disk has {size} bytes"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::machine::Format;

    #[test]
    fn our_own_check_takes_it() {
        for size in [512, 1 << 20, 16 << 30, 1 << 40, MAX_DISK_BYTES] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&empty(size).unwrap()).unwrap();
            let image = crate::image::inspect(&file, "x").unwrap();
            assert_eq!((image.format, image.size), (Format::Qcow2, size));
        }
        assert!(empty(0).is_err());
        assert!(empty(513).is_err());
        assert!(empty(MAX_DISK_BYTES + 512).is_err());
    }

    #[test]
    fn small_disks_have_small_overlays() {
        assert_eq!(empty(16 << 30).unwrap().len(), 4 << 16);
    }

    /// Checks that QEMU's own tool accepts the overlay, where it is installed.
    #[test]
    fn qemus_own_check_takes_it() {
        let Ok(tool) = std::process::Command::new("qemu-img")
            .arg("--version")
            .output()
        else {
            println!("skipped: qemus_own_check_takes_it: qemu-img is not installed");
            return;
        };
        assert!(tool.status.success());
        let dir = tempfile::tempdir().unwrap();
        for size in [512u64, 16 << 30, 1 << 40] {
            let path = dir.path().join("x.qcow2");
            std::fs::write(&path, empty(size).unwrap()).unwrap();
            let check = std::process::Command::new("qemu-img")
                .args(["check", "-f", "qcow2"])
                .arg(&path)
                .output()
                .unwrap();
            assert!(check.status.success(), "{size}: {check:?}");
        }
    }
}
