//! The use of the disk that holds a dataset.

use std::path::Path;

use rustix::fs::{fstat, fstatvfs};

use crate::driver::nearest;
use crate::error::Result;

/// The use of a disk: a file system, or a pool of ZFS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fullness {
    /// A text that is the same for all datasets on the disk while the disk is mounted.
    pub disk: String,
    /// Number of used bytes.
    pub used: u64,
    /// Number of bytes that can be written.
    pub free: u64,
}

impl Fullness {
    /// Returns the use in percent, rounded up as df(1) rounds it.
    #[must_use]
    pub fn percent(&self) -> u64 {
        self.percent_with(0)
    }

    /// Returns the use in percent after `more` bytes are written. It may be more than 100.
    #[must_use]
    pub fn percent_with(&self, more: u64) -> u64 {
        let all = u128::from(self.used) + u128::from(self.free);
        let used = u128::from(self.used) + u128::from(more);
        match all {
            0 => 100,
            _ => u64::try_from((used * 100).div_ceil(all)).unwrap_or(u64::MAX),
        }
    }
}

/// Returns the use of the file system that holds a path. Blocks that only root can write count as
/// neither used nor free, as for df(1).
pub(crate) fn of_file_system(path: &Path) -> Result<Fullness> {
    let folder = nearest(path)?;
    let vfs = fstatvfs(&folder).map_err(|e| folder.fail("statvfs", "", e))?;
    let stat = fstat(&folder).map_err(|e| folder.fail("stat", "", e))?;
    Ok(Fullness {
        disk: format!("device {}", stat.st_dev),
        used: vfs.f_blocks.saturating_sub(vfs.f_bfree) * vfs.f_frsize,
        free: vfs.f_bavail * vfs.f_frsize,
    })
}

/// Writes the file system of a path to disk, so that it counts removed files as free.
pub fn settle_removals(path: &Path) -> Result<()> {
    let folder = nearest(path)?;
    rustix::fs::syncfs(&folder).map_err(|e| folder.fail("syncfs", "", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_is_rounded_up() {
        let disk = |used, free| Fullness {
            disk: String::new(),
            used,
            free,
        };
        assert_eq!(disk(0, 100).percent(), 0);
        assert_eq!(disk(1, 999).percent(), 1);
        assert_eq!(disk(800, 200).percent(), 80);
        assert_eq!(disk(801, 199).percent(), 81);
        assert_eq!(disk(0, 0).percent(), 100);
        assert_eq!(disk(900, 100).percent_with(200), 110);
        assert_eq!(disk(u64::MAX, u64::MAX).percent(), 50);
    }

    #[test]
    fn a_file_system_has_a_use() {
        let here = of_file_system(&std::env::temp_dir().join("no/such/folder")).unwrap();
        assert!(here.used + here.free > 0);
        assert_eq!(
            here.disk,
            of_file_system(&std::env::temp_dir()).unwrap().disk
        );
    }
}
