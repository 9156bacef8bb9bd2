//! A buffer between a reader and a writer of different speed.

use rustix::io::{Errno, Result};

/// Capacity of the buffer, and maximum number of bytes that are moved at a time: the size of a
/// pipe.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes that have been read and not yet been written.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// The offset of the unwritten bytes.
    begin: usize,
    end: usize,
}

impl Buffer {
    pub const fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Reads at most `limit` bytes into the empty buffer; returns how many.
    pub fn fill(
        &mut self,
        limit: u64,
        read: impl FnOnce(&mut [u8]) -> Result<usize>,
    ) -> Result<usize> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; BUFFER_BYTES];
        }
        let limit = usize::try_from(limit)
            .unwrap_or(BUFFER_BYTES)
            .min(BUFFER_BYTES);
        (self.begin, self.end) = (0, 0);
        self.end = read(&mut self.bytes[..limit])?;
        Ok(self.end)
    }

    /// Writes until the buffer is empty, or until the next write would block, which is no error.
    pub fn drain(&mut self, mut write: impl FnMut(&[u8]) -> Result<usize>) -> Result<()> {
        while !self.is_empty() {
            match write(&self.bytes[self.begin..self.end]) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(written) => self.begin += written,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_out_in_order_whoever_is_slow() {
        let mut buffer = Buffer::default();
        let source: Vec<u8> = (0..=255u8).cycle().take(1000).collect();
        let read = |space: &mut [u8]| {
            space[..1000].copy_from_slice(&source);
            Ok(1000)
        };
        assert_eq!(buffer.fill(u64::MAX, read), Ok(1000));
        let mut seen = Vec::new();
        let mut calls = 0;
        while !buffer.is_empty() {
            let write = |bytes: &[u8]| {
                calls += 1;
                if calls % 3 == 0 {
                    return Err(Errno::AGAIN);
                }
                let length = bytes.len().min(7);
                seen.extend_from_slice(&bytes[..length]);
                Ok(length)
            };
            buffer.drain(write).unwrap();
        }
        assert_eq!(seen, source);
    }

    #[test]
    fn a_buffer_reads_at_most_the_limit() {
        let mut buffer = Buffer::default();
        let read = |space: &mut [u8]| Ok(space.len());
        assert_eq!(buffer.fill(5, read), Ok(5));
        assert_eq!(buffer.fill(u64::MAX, read), Ok(BUFFER_BYTES));
        assert_eq!(buffer.drain(|_| Err(Errno::PIPE)), Err(Errno::PIPE));
    }
}
