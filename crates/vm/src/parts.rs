//! Changes the parts of a machine while its guest runs.

use std::time::Duration;

use serde_json::json;

use crate::Error;
use crate::machine;
use crate::qmp::Monitor;

/// Timeout for the growth of a disk: a file system may write out much data first.
const GROW_TIMEOUT: Duration = Duration::from_secs(60);

/// Grows a disk to a size in bytes. QEMU makes the file longer and tells the guest the new size. If
/// the disk is a block device that the host has grown, QEMU reads the size of the device again.
///
/// # Errors
/// Fails with [`Error::Refused`] and the error of QEMU: the file system is full, or another
/// operation uses the disk.
pub fn grow_disk(monitor: &mut Monitor, id: u32, size: u64) -> Result<(), Error> {
    let what = json!({ "node-name": machine::node(id, 0), "size": size });
    monitor
        .execute("block_resize", Some(what), GROW_TIMEOUT)
        .map(drop)
}
