//! Reads files that are mostly holes, such as the disks of kernel zones: finds the data that is not
//! zeros, and computes a digest of this data that does not depend on the position of the holes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use crate::Digest;

/// Size of a block in bytes. A block begins at a multiple of this size.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Number of bytes that are read at once.
const READ_BYTES: usize = 16 * BLOCK_BYTES;

/// A digest that is being computed.
#[derive(Clone, Debug)]
pub struct Sum(Sha256);

impl Sum {
    /// Begins the digest of a file with this size.
    #[must_use]
    pub fn new(size: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"zones-blocks 1\n");
        hash.update(size.to_be_bytes());
        Self(hash)
    }

    /// Adds the next block that is not all zeros, at the offset `at`.
    pub fn add(&mut self, at: u64, block: &[u8]) {
        self.0.update(at.to_be_bytes());
        self.0.update(block);
    }

    /// Returns the complete digest.
    #[must_use]
    pub fn end(self) -> Digest {
        Digest::from_hash(self.0.finalize().into())
    }
}

/// Returns the digest of a block.
#[must_use]
pub fn sum(block: &[u8]) -> [u8; 32] {
    Sha256::digest(block).into()
}

/// Calls `each` for each block of a file that is not all zeros, in their order.
///
/// # Errors
/// Fails with the error of a read, or with an error of `each`.
pub fn blocks(
    file: &File,
    size: u64,
    each: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut piece = vec![0; READ_BYTES];
    let mut at = 0;
    while at < size {
        match seek(file, SeekFrom::Data(at)) {
            Ok(data) => at = data - data % BLOCK_BYTES as u64,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => break,
            // Not every file system supports the search for holes. Without this support, the file
            // is read as data.
            Err(_) => {}
        }
        if at >= size {
            break;
        }
        let wanted = usize::try_from(size - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        file.read_exact_at(&mut piece[..wanted], at)?;
        for block in piece[..wanted].chunks(BLOCK_BYTES) {
            if block.iter().any(|&byte| byte != 0) {
                each(at, block)?;
            }
            at += block.len() as u64;
        }
    }
    Ok(())
}

impl Digest {
    /// Returns the digest of a file's size and of its blocks that are not all zeros, see
    /// [`blocks`].
    ///
    /// # Errors
    /// Fails with the error of a read.
    pub fn of_blocks(file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        let mut sum = Sum::new(size);
        blocks(file, size, &mut |at, block| {
            sum.add(at, block);
            Ok(())
        })?;
        Ok(sum.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(parts: &[(u64, &[u8])], size: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        for (at, bytes) in parts {
            file.write_all_at(bytes, *at).unwrap();
        }
        file.set_len(size).unwrap();
        file
    }

    #[test]
    fn holes_and_zeros_are_the_same() {
        let far = 5 * BLOCK_BYTES as u64;
        let holes = file(&[(far + 7, b"x"), (9 << 20, b"end")], (9 << 20) + 3);
        let zeros = file(
            &[(0, &vec![0; 3 << 20]), (far + 7, b"x"), (9 << 20, b"end")],
            (9 << 20) + 3,
        );
        let digest = |file: &File| Digest::of_blocks(file).unwrap();
        assert_eq!(digest(&holes), digest(&zeros));
        let mut found = Vec::new();
        blocks(&holes, (9 << 20) + 3, &mut |at, block| {
            found.push((at, block.len()));
            Ok(())
        })
        .unwrap();
        assert_eq!(found, [(far, BLOCK_BYTES), (9 << 20, 3)]);
    }

    #[test]
    fn place_size_and_content_count() {
        let one = |at, byte: &[u8], size| Digest::of_blocks(&file(&[(at, byte)], size)).unwrap();
        let first = one(0, b"x", 1 << 20);
        assert_ne!(first, one(BLOCK_BYTES as u64, b"x", 1 << 20));
        assert_ne!(first, one(0, b"y", 1 << 20));
        assert_ne!(first, one(0, b"x", 2 << 20));
        assert_eq!(Digest::of_blocks(&file(&[], 0)).unwrap(), Sum::new(0).end());
    }
}
