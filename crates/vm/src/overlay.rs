//! Makes an empty qcow2 file with another disk as its base, which clones a disk at once.
//!
//! The overlay does not contain the name of its base file. QEMU's command line names the base, see
//! [`crate::machine`]. An empty overlay is only a few clusters of 64 KiB long.

use crate::Error;
use crate::image::MAX_DISK_BYTES;

/// Binary logarithm of the cluster size: 64 KiB, as in QEMU's own images.
const CLUSTER_BITS: u32 = 16;
const CLUSTER: u64 = 1 << CLUSTER_BITS;

/// Number of disk bytes that one cluster of the second-level table describes.
const PER_ENTRY: u64 = CLUSTER / 8 * CLUSTER;

/// Returns the content of an empty overlay over a disk of this size in bytes.
///
/// # Errors
/// Fails if no disk can have this size.
pub fn empty(size: u64) -> Result<Vec<u8>, Error> {
    let mut file = header(size)?;
    let entries = size.div_ceil(PER_ENTRY);
    let table = (entries * 8).div_ceil(CLUSTER);
    let clusters = 3 + table;
    let bytes = usize::try_from(clusters * CLUSTER).map_err(|_| too_large(size))?;
    file.resize(bytes, 0);
    let mut put = |at: u64, what: &[u8]| {
        // `at` is always inside the file, because the file was made long enough just before.
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(place) = file.get_mut(at..at.saturating_add(what.len())) {
            place.copy_from_slice(what);
        }
    };
    // The table of reference counts has one entry, for one block. This block counts every cluster
    // of the file once.
    put(CLUSTER, &(2 * CLUSTER).to_be_bytes());
    for number in 0..clusters {
        put(2 * CLUSTER + number * 2, &1u16.to_be_bytes());
    }
    Ok(file)
}

/// Returns the header of the overlay without its tables.
pub(crate) fn header(size: u64) -> Result<Vec<u8>, Error> {
    if size == 0 || size > MAX_DISK_BYTES || size % 512 != 0 {
        return Err(too_large(size));
    }
    let entries = u32::try_from(size.div_ceil(PER_ENTRY)).map_err(|_| too_large(size))?;
    let mut header = Vec::with_capacity(112);
    header.extend(b"QFI\xfb");
    header.extend(3u32.to_be_bytes());
    // The overlay names no backing file.
    header.extend(0u64.to_be_bytes());
    header.extend(0u32.to_be_bytes());
    header.extend(CLUSTER_BITS.to_be_bytes());
    header.extend(size.to_be_bytes());
    // The overlay is not encrypted.
    header.extend(0u32.to_be_bytes());
    header.extend(entries.to_be_bytes());
    header.extend((3 * CLUSTER).to_be_bytes());
    // The table of reference counts has one cluster.
    header.extend(CLUSTER.to_be_bytes());
    header.extend(1u32.to_be_bytes());
    // The overlay has no snapshots.
    header.extend(0u32.to_be_bytes());
    header.extend(0u64.to_be_bytes());
    // The overlay has no incompatible, compatible or autoclear features.
    header.extend([0; 24]);
    // Each reference count has 16 bits (2 to the power of 4).
    header.extend(4u32.to_be_bytes());
    header.extend(104u32.to_be_bytes());
    // The overlay has no header extensions.
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

    /// If QEMU's own tool is installed, it must accept the overlay.
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
