//! The targets of a restore.

use std::io;
use std::sync::{Mutex, PoisonError};

use sys::mapping::Mapping;

use crate::format::PAGE;

/// Memory that is all zeros before it is restored. Threads write to it at the same time,
/// each byte at most once.
pub trait Target: Sync {
    /// Bytes.
    fn size(&self) -> u64;

    /// Puts bytes at `offset`.
    ///
    /// # Errors
    /// When there is no room for them.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// The memory of a guest: a file in memory that is mapped here. New pages are asked for,
/// not just touched: a full file system is then an error.
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
        // The last page of the mapping may be a short one.
        self.populate(start - start % PAGE..end.min(self.length()))?;
        Self::write(self, start, bytes)
    }
}

/// Memory of this process, for small parts.
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

/// Nothing is kept: for [`verify`](crate::verify).
pub(crate) struct Nowhere(pub(crate) u64);

impl Target for Nowhere {
    fn size(&self) -> u64 {
        self.0
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}
