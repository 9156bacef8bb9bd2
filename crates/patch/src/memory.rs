//! Decides which copies of zones are patched in memory.
//!
//! A package manager creates and removes many more files than it leaves. In memory these writes are
//! cheap, and only the final files are written to disk, once. A copy is made on disk if memory is
//! short, because files in memory count against the memory limit of a zone.

use std::sync::atomic::{AtomicU64, Ordering};

use model::Config;
use storage::Dataset;

use crate::order::Order;

/// Maximum size of a copy in memory, in bytes. A larger patch is done on disk.
const MAX_COPY_BYTES: u64 = 1 << 30;

/// Memory in bytes that must stay available for other programs.
const RESERVED_BYTES: u64 = 1 << 30;

/// Memory that is reserved for all copies so far, in bytes.
static GRANTED: AtomicU64 = AtomicU64::new(0);

/// A reservation of memory for one copy. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Grant(());

impl Grant {
    /// Returns the number of reserved bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        let Self(()) = self;
        MAX_COPY_BYTES
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        GRANTED.fetch_sub(MAX_COPY_BYTES, Ordering::Relaxed);
    }
}

/// Reserves memory for a copy. Returns `None` if the copy must be made on disk.
pub(crate) fn grant(config: &Config, copy: &Dataset, order: &Order) -> Option<Grant> {
    // This order changes most files of the system.
    let is_large = *order == Order::DistUpgrade;
    let is_limited = config.resources_of("capped-memory").next().is_some();
    // On file systems other than ext, a copied file shares its blocks with the original on the
    // disk. In memory it could not.
    let copies = copy.fstype().starts_with("ext");
    if is_large || is_limited || !copies {
        return None;
    }
    take(available()?)
}

/// Reserves a part of the available memory that is not reserved for other copies.
fn take(available: u64) -> Option<Grant> {
    let fits = |granted: u64| {
        (granted + MAX_COPY_BYTES + RESERVED_BYTES <= available).then_some(granted + MAX_COPY_BYTES)
    };
    let taken = GRANTED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
    taken.ok().map(|_| Grant(()))
}

/// Returns the memory that is available without taking memory from other programs, in bytes.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_memory_is_left() {
        assert!(available().is_some());
        assert!(take(MAX_COPY_BYTES + RESERVED_BYTES - 1).is_none());
        let one = take(2 * MAX_COPY_BYTES + RESERVED_BYTES).unwrap();
        let two = take(2 * MAX_COPY_BYTES + RESERVED_BYTES).unwrap();
        assert!(take(2 * MAX_COPY_BYTES + RESERVED_BYTES).is_none());
        drop(one);
        let three = take(2 * MAX_COPY_BYTES + RESERVED_BYTES).unwrap();
        drop((two, three));
        assert_eq!(GRANTED.load(Ordering::Relaxed), 0);
    }
}
