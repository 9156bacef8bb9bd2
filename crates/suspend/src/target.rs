//! The targets of a restore.

use std::io;
use std::sync::{Mutex, PoisonError};

use sys::mapping::Mapping;

use crate::format::PAGE;

/// Memory to restore, which must be all zeros before. Several threads write to the memory at the
/// same time, each byte at most once.
pub trait Target: Sync {
    /// Returns the size of the memory in bytes.
    fn size(&self) -> u64;

    /// Writes bytes at `offset`.
    ///
    /// # Errors
    /// Fails if there is no space for the bytes.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// The memory of a guest: a mapped file in memory. New pages are allocated explicitly before a
/// write, so that a full file system causes an error instead of a SIGBUS.
impl Target for Mapping {
    fn size(&self) -> u64 {
        self.length() as u64
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let end = start
            .checked_add(bytes.len())
            .map(|end| end.next_multiple_of(PAGE));
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        // The last page of the mapping may be shorter than a page.
        self.populate(start - start % PAGE..end.min(self.length()))?;
        Self::write(self, start, bytes)
    }
}

/// Memory of this process, for small streams.
impl Target for Mutex<Vec<u8>> {
    fn size(&self) -> u64 {
        self.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.lock().unwrap_or_else(PoisonError::into_inner);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.checked_add(bytes.len());
        let part = end.and_then(|end| all.get_mut(start..end));
        part.ok_or(io::ErrorKind::InvalidInput)?
            .copy_from_slice(bytes);
        Ok(())
    }
}

/// A target that discards all data, for [`verify`](crate::verify).
pub(crate) struct Nowhere(pub(crate) u64);

impl Target for Nowhere {
    fn size(&self) -> u64 {
        self.0
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}
