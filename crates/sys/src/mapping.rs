//! Maps files in memory that other processes also map: the memory of a guest.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU8;

/// MADV_POPULATE_WRITE: allocates pages, and fails if there are none.
const POPULATE_WRITE: libc::c_int = 23;

/// A shared mapping of a file, for reading and writing.
///
/// This type never returns a reference to the memory, because other processes may write there at
/// any time. If a process shortens the file, processes that touch the removed part are killed: map
/// only files that no other program shortens.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping belongs to the whole process, and no thread gets a reference to its memory: the
// methods copy bytes.
unsafe impl Send for Mapping {}
// SAFETY: no reference to the memory exists. If several threads write to the same bytes at the same
// time, the result is undefined content, exactly as with several processes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `length` bytes of the file.
    ///
    /// # Errors
    /// Fails with the error of mmap(2), and if the length is 0.
    pub fn new(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses an unused address for the new mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    /// Returns the address of the mapping in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Returns the length of the mapping in bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Returns the address of a range, if the range is inside the mapping.
    fn place(&self, offset: usize, length: usize) -> io::Result<*mut u8> {
        match offset.checked_add(length) {
            // SAFETY: the start and the end of the range lie in the mapping.
            Some(end) if end <= self.length => Ok(unsafe { self.start.as_ptr().add(offset) }),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Allocates memory for a range of whole pages, so that a write there cannot fail. Without
    /// this, a write on a full file system kills the process.
    ///
    /// # Errors
    /// Fails if there is no memory or no space, or if the kernel is older than 5.14.
    pub fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let place = self.place(range.start, range.len())?;
        loop {
            // SAFETY: the range lies in the mapping, and the call does not change pages that
            // already exist.
            let done = unsafe { libc::madvise(place.cast(), range.len(), POPULATE_WRITE) };
            if done == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN) => {}
                // A write would cause SIGBUS, because the file system of the file is full.
                Some(libc::EFAULT) => return Err(io::Error::from_raw_os_error(libc::ENOSPC)),
                _ => return Err(error),
            }
        }
    }

    /// Copies bytes to the mapping.
    ///
    /// # Errors
    /// Fails if the range is not inside the mapping.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let place = self.place(offset, bytes.len())?;
        // SAFETY: the range lies in the mapping. No reference into a mapping exists, so `bytes`
        // does not overlap the range.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        Ok(())
    }

    /// Copies bytes from the mapping.
    ///
    /// # Errors
    /// Fails if the range is not inside the mapping.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> io::Result<()> {
        let place = self.place(offset, bytes.len())?;
        // SAFETY: the range lies in the mapping. No reference into a mapping exists, so `bytes`
        // does not overlap the range.
        unsafe { std::ptr::copy_nonoverlapping(place, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping with this length, and no reference points into the
        // mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

/// A table of bytes in a file. Several processes change single bytes of it.
#[derive(Debug)]
pub struct Table(Mapping);

impl Table {
    /// Maps the first `length` bytes of the file as a table.
    ///
    /// # Errors
    /// Fails like [`Mapping::new`].
    pub fn new(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        Mapping::new(file, length).map(Self)
    }

    /// Returns an element; `None` for an index behind the end.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&AtomicU8> {
        let place = self.0.place(index, 1).ok()?;
        // SAFETY: the byte lies in the mapping, which exists as long as the reference, and a table
        // accesses its bytes only as atomics.
        Some(unsafe { AtomicU8::from_ptr(place) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    fn file(length: u64) -> std::os::fd::OwnedFd {
        let file = rustix::fs::memfd_create("map", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, length).unwrap();
        file
    }

    #[test]
    fn two_mappings_see_the_same() {
        let file = file(8192);
        let (one, two) = (
            Mapping::new(file.as_fd(), 8192).unwrap(),
            Mapping::new(file.as_fd(), 8192).unwrap(),
        );
        one.populate(0..8192).unwrap();
        one.write(4090, b"guest memory").unwrap();
        let mut bytes = [0; 12];
        two.read(4090, &mut bytes).unwrap();
        assert_eq!(&bytes, b"guest memory");
        assert_ne!(one.address(), two.address());
        assert!(one.write(8190, b"abc").is_err());
        assert!(one.read(usize::MAX, &mut bytes).is_err());
        assert!(one.populate(4096..12288).is_err());
        assert!(Mapping::new(file.as_fd(), 0).is_err());
    }

    #[test]
    fn a_full_disk_is_an_error_and_not_a_signal() {
        // Behind the end of the file no page can be allocated, as on a full disk.
        let mapping = Mapping::new(file(4096).as_fd(), 8192).unwrap();
        mapping.populate(0..4096).unwrap();
        let error = mapping.populate(4096..8192).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }

    #[test]
    fn a_table_is_shared() {
        let file = file(100);
        let (one, two) = (
            Table::new(file.as_fd(), 100).unwrap(),
            Table::new(file.as_fd(), 100).unwrap(),
        );
        one.get(99).unwrap().store(7, Ordering::Release);
        assert_eq!(two.get(99).unwrap().load(Ordering::Acquire), 7);
        assert!(one.get(100).is_none());
    }
}
