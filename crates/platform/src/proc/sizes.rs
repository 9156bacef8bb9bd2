//! The sizes of a zone's file systems in memory.

use model::controls::Controls;

/// The mount point of the file system for files that must not outlive a boot.
pub(crate) const RUN: &str = "/run";

/// The mount point of the file system for memory that programs share by name.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// The mount points of the file systems in memory that every zone has.
pub(crate) const ALL: [&str; 2] = [RUN, SHARED_MEMORY];

/// Divisor of the zone's memory: /run gets one fifth. If /run and /dev/shm are full, the zone still
/// has memory for its programs.
const PARTS_PER_RUN: u64 = 5;

/// Divisor of the zone's memory: /dev/shm gets one half, as on a computer with as much memory.
const PARTS_PER_SHARED: u64 = 2;

/// Minimum size of the file system, in bytes.
const MIN_FILE_SYSTEM_BYTES: u64 = 1 << 20;

/// Size of a page in bytes. The kernel rounds sizes to whole pages.
const PAGE: u64 = 4096;

/// Bytes of the file system's size for each file that it may have. An empty file takes about a
/// quarter of this number in kernel memory, which the size limit of a tmpfs does not count.
const BYTES_PER_FILE: u64 = 4096;

/// The maximum content of a file system in memory, in bytes and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    bytes: u64,
    files: u64,
}

impl Size {
    /// Returns the size of a file system of a zone with limits; `None` if the kernel decides the
    /// size.
    pub(crate) fn of(target: &str, controls: &Controls) -> Option<Self> {
        let parts = match target {
            RUN => PARTS_PER_RUN,
            SHARED_MEMORY => PARTS_PER_SHARED,
            // Immutable zones have these folders in memory.
            "/tmp" | "/var/tmp" => PARTS_PER_RUN,
            _ => return None,
        };
        let memory = [controls.physical, controls.swap];
        let memory = memory.into_iter().flatten().min()?;
        Some(Self::with(memory / parts))
    }

    /// Returns the size that the kernel gives to a file system of a zone without limits: half of the
    /// memory of the host.
    pub(crate) fn unlimited(host: u64) -> Self {
        Self::with(host / 2)
    }

    fn with(bytes: u64) -> Self {
        let bytes = bytes.max(MIN_FILE_SYSTEM_BYTES) / PAGE * PAGE;
        Self {
            bytes,
            files: bytes / BYTES_PER_FILE,
        }
    }

    /// Returns the mount options that give a file system this size.
    pub(crate) fn options(&self) -> [String; 2] {
        let Self { bytes, files } = self;
        [format!("size={bytes}"), format!("nr_inodes={files}")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_memory_and_never_nothing() {
        let with = |physical, swap| Controls {
            physical,
            swap,
            ..Controls::default()
        };
        let size = |controls: &Controls| Size::of(RUN, controls).map(|one| one.options().join(","));
        let capped = with(Some(500 << 20), None);
        let expected = "size=104857600,nr_inodes=25600";
        assert_eq!(size(&capped).as_deref(), Some(expected));
        assert_eq!(size(&with(Some(500 << 20), Some(600 << 20))), size(&capped));
        assert_eq!(size(&with(None, Some(500 << 20))), size(&capped));
        let tiny = size(&with(Some(4096), None));
        assert_eq!(tiny.as_deref(), Some("size=1048576,nr_inodes=256"));
        assert_eq!(size(&Controls::default()), None);
        assert_eq!(Size::of("/srv", &capped), None);
        let full: u64 = ALL
            .iter()
            .filter_map(|at| Size::of(at, &capped))
            .map(|size| size.bytes)
            .sum();
        assert!(full < 400 << 20, "{full}");
    }
}
