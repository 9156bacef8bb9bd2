//! The sources of memory to save.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Memory to save. The memory should not change while it is saved. If the memory changes all the
/// same, the image is still valid, but its chunks have the content of different moments.
pub trait Source: Sync {
    /// Returns the size of the memory in bytes.
    fn size(&self) -> u64;

    /// Fills `bytes` with the data at `offset`.
    ///
    /// # Errors
    /// Fails if the memory cannot be read.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Returns the first offset, from `offset` on, at which the memory may have content other than
    /// zeros; `None` if the rest is zeros.
    ///
    /// # Errors
    /// Fails if the source cannot determine the offset.
    fn data_from(&self, offset: u64) -> io::Result<Option<u64>> {
        Ok(Some(offset))
    }

    /// Returns the maximum number of bytes that may be other than zeros.
    ///
    /// # Errors
    /// Fails if the source cannot determine the number.
    fn stored(&self) -> io::Result<u64> {
        Ok(self.size())
    }
}

impl Source for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = start
            .checked_add(bytes.len())
            .and_then(|end| self.get(start..end));
        bytes.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A file of fixed length. The file is read and never mapped: holes stay holes, and the truncation
/// of the file is an error instead of a SIGBUS.
impl Source for File {
    fn size(&self) -> u64 {
        self.metadata().map_or(0, |file| file.len())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, offset)
    }

    fn data_from(&self, offset: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(self, SeekFrom::Data(offset)) {
            Ok(data) => Ok(Some(data)),
            Err(Errno::NXIO) => Ok(None),
            // Some file systems cannot find holes.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(Some(offset)),
            Err(error) => Err(error.into()),
        }
    }

    fn stored(&self) -> io::Result<u64> {
        let file = self.metadata()?;
        // The unit of `blocks` is 512 bytes on every file system. The allocated blocks may be
        // larger than the length of the file.
        Ok(file.len().min(file.blocks().saturating_mul(512)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_of_a_file_are_known() {
        let file = rustix::fs::memfd_create("ram", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(file);
        file.set_len(16 << 20).unwrap();
        assert_eq!(file.data_from(0).unwrap(), None);
        file.write_all_at(b"x", 7_000_000).unwrap();
        let data = file.data_from(0).unwrap().unwrap();
        assert!((1..=7_000_000).contains(&data));
        assert_eq!(file.data_from(7_000_000).unwrap(), Some(7_000_000));
        // The file has one allocated page, small or huge. Its length is much larger.
        let stored = file.stored().unwrap();
        assert!((4096..=2 << 20).contains(&stored), "{stored}");
        let mut byte = [0];
        file.read(7_000_000, &mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert!(file.read(16 << 20, &mut byte).is_err());
        let bytes: &[u8] = b"abc";
        assert!(bytes.read(2, &mut [0; 2]).is_err());
    }
}
