//! Reads and writes files in the background, while the program continues: io_uring(7).
//!
//! During an operation, its [`Buffer`] belongs to the kernel: the buffer moves into the [`Ring`],
//! and is returned with the result. So no code can use or free the buffer in the meantime.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use io_uring::{IoUring, opcode, squeue, types};

/// Alignment in bytes of addresses, offsets and lengths that satisfies O_DIRECT on every disk.
pub const ALIGNMENT: usize = 4096;

/// From this size on, in bytes, a buffer is in huge pages if the kernel has free ones.
const HUGE: usize = 2 << 20;

/// Memory that is suitable for O_DIRECT: aligned, and with a length of whole blocks.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a buffer owns its memory, which has no tie to the thread that made it.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer can only be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Returns zeroed memory of this number of bytes, rounded up to whole blocks; at least one
    /// block.
    ///
    /// # Panics
    /// Fails if there is not enough memory, or if the number is above the address range.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let align = if length >= HUGE { HUGE } else { ALIGNMENT };
        let layout = length
            .max(1)
            .checked_next_multiple_of(ALIGNMENT)
            .and_then(|size| Layout::from_size_align(size, align).ok());
        let Some(layout) = layout else {
            panic!("a buffer of {length} bytes");
        };
        // SAFETY: the layout has at least one block.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout);
        };
        if align == HUGE {
            // SAFETY: the range belongs to this buffer and is aligned to pages. The advice does not
            // change the content, and its failure has no effect.
            unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        Self { start, layout }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `alloc_zeroed` allocated the memory with this layout, and only this line frees
        // it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the memory belongs to this buffer, is initialised, and is as long as the layout
        // says.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory belongs to this buffer, is initialised, and is as long as the layout
        // says. While the buffer is mutably borrowed, no other code can access it.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

/// The result of a read or a write.
#[derive(Debug)]
pub struct Landed {
    /// The buffer of the operation.
    pub buffer: Buffer,
    /// The caller's number for the operation.
    pub tag: u64,
    /// The number of bytes that were read or written. Fewer bytes than requested are not an error.
    pub result: io::Result<usize>,
}

/// A queue of reads and writes.
pub struct Ring {
    ring: IoUring,
    flying: Vec<Option<(Buffer, u64)>>,
    /// True if the kernel refused the queue itself. The operations in the queue are then lost.
    broken: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("in_flight", &self.in_flight())
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}

/// The buffer of an operation that could not start, and the reason.
pub type Refused = (Buffer, io::Error);

impl Ring {
    /// Returns a queue for up to `depth` operations at a time.
    ///
    /// # Errors
    /// Fails with the error of io_uring_setup(2): EPERM if the host forbids io_uring, ENOSYS in old
    /// kernels and in sandboxes.
    pub fn new(depth: usize) -> io::Result<Self> {
        let entries = u32::try_from(depth).map_err(|_| io::ErrorKind::InvalidInput)?;
        let flying = (0..depth).map(|_| None).collect();
        Ok(Self {
            ring: IoUring::new(entries)?,
            flying,
            broken: false,
        })
    }

    /// Returns the number of operations that are in progress, or that have ended and were not
    /// fetched.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flying.iter().flatten().count()
    }

    /// Starts to write the first `length` bytes of the buffer at `offset`.
    ///
    /// # Errors
    /// Fails and returns the buffer if the queue is full or broken.
    pub fn write(
        &mut self,
        file: BorrowedFd<'_>,
        buffer: Buffer,
        length: usize,
        offset: u64,
        tag: u64,
    ) -> Result<(), Refused> {
        let (start, length) = (buffer.start.as_ptr(), clipped(&buffer, length));
        let entry = opcode::Write::new(types::Fd(file.as_raw_fd()), start, length)
            .offset(offset)
            .build();
        self.begin(entry, buffer, tag)
    }

    /// Starts to read `length` bytes at `offset` into the buffer.
    ///
    /// # Errors
    /// Fails like [`Ring::write`].
    pub fn read(
        &mut self,
        file: BorrowedFd<'_>,
        buffer: Buffer,
        length: usize,
        offset: u64,
        tag: u64,
    ) -> Result<(), Refused> {
        let (start, length) = (buffer.start.as_ptr(), clipped(&buffer, length));
        let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), start, length)
            .offset(offset)
            .build();
        self.begin(entry, buffer, tag)
    }

    fn begin(&mut self, entry: squeue::Entry, buffer: Buffer, tag: u64) -> Result<(), Refused> {
        let free = self.flying.iter().position(Option::is_none);
        let (Some(slot), false) = (free, self.broken) else {
            return Err((buffer, io::ErrorKind::WouldBlock.into()));
        };
        let entry = entry.user_data(slot as u64);
        // SAFETY: the entry points into `buffer` and does not exceed its length. The buffer stays
        // in `flying` until the operation has completed, or forever (see `Drop`). The descriptor is
        // open now, and the kernel holds the file from the submission below on.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            return Err((buffer, io::ErrorKind::WouldBlock.into()));
        }
        self.flying[slot] = Some((buffer, tag));
        while let Err(error) = self.ring.submit() {
            if !is_passing(&error) {
                // The kernel may already have the entry, so its buffer must stay, too.
                self.broken = true;
                return Err((Buffer::new(0), error));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Returns the result of an operation that has ended, if there is one.
    pub fn landed(&mut self) -> Option<Landed> {
        let done = self.ring.completion().next()?;
        let slot = usize::try_from(done.user_data()).ok()?;
        let (buffer, tag) = self.flying.get_mut(slot)?.take()?;
        let result = usize::try_from(done.result())
            .map_err(|_| io::Error::from_raw_os_error(-done.result()));
        Some(Landed {
            buffer,
            tag,
            result,
        })
    }

    /// Waits for the next operation that ends. Returns `None` if no operation is in progress.
    ///
    /// # Errors
    /// Fails if the kernel refuses the queue.
    pub fn wait(&mut self) -> io::Result<Option<Landed>> {
        loop {
            if let Some(landed) = self.landed() {
                return Ok(Some(landed));
            }
            if self.in_flight() == 0 {
                return Ok(None);
            }
            if self.broken {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if let Err(error) = self.ring.submit_and_wait(1) {
                if !is_passing(&error) {
                    self.broken = true;
                    return Err(error);
                }
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while matches!(self.wait(), Ok(Some(_))) {}
        for left in self.flying.drain(..).flatten() {
            // The kernel may still use this memory, so it is never freed.
            std::mem::forget(left);
        }
    }
}

/// The length is limited by the buffer and by the maximum of one operation.
fn clipped(buffer: &Buffer, length: usize) -> u32 {
    u32::try_from(length.min(buffer.len())).unwrap_or(1 << 30)
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn buffers_are_aligned_and_zero() {
        for length in [0, 1, 4096, 5000, 3 << 20] {
            let buffer = Buffer::new(length);
            assert!(buffer.len() >= length.max(1) && buffer.len() % ALIGNMENT == 0);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn written_blocks_read_back_and_a_full_queue_is_an_error() {
        let mut ring = match Ring::new(2) {
            Ok(ring) => ring,
            Err(error) => {
                println!("skipped: no io_uring here: {error}");
                return;
            }
        };
        assert!(ring.wait().unwrap().is_none());
        let file = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        for part in 0..2u8 {
            let mut buffer = Buffer::new(8192);
            buffer.fill(part + 1);
            let offset = u64::from(part) * 8192;
            ring.write(file.as_fd(), buffer, 8192, offset, u64::from(part))
                .unwrap();
        }
        let mut seen = Vec::new();
        while let Some(landed) = ring.wait().unwrap() {
            assert_eq!(landed.result.unwrap(), 8192);
            seen.push(landed.tag);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
        ring.read(file.as_fd(), Buffer::new(4096), 4096, 8192 - 2048, 7)
            .unwrap();
        ring.read(file.as_fd(), Buffer::new(4096), 4096, 16384, 8)
            .unwrap();
        assert_eq!(ring.in_flight(), 2);
        let (_, full) = ring
            .read(file.as_fd(), Buffer::new(4096), 4096, 0, 9)
            .unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        while let Some(landed) = ring.wait().unwrap() {
            match landed.tag {
                7 => {
                    assert!(landed.buffer[..2048].iter().all(|byte| *byte == 1));
                    assert!(landed.buffer[2048..].iter().all(|byte| *byte == 2));
                }
                // This offset is behind the end of the file.
                _ => assert_eq!(landed.result.unwrap(), 0),
            }
        }
    }

    #[test]
    fn an_error_comes_with_its_buffer_and_a_ring_waits_when_it_goes() {
        let Ok(mut ring) = Ring::new(4) else {
            println!("skipped: no io_uring here");
            return;
        };
        let folder = std::fs::File::open("/").unwrap();
        ring.write(folder.as_fd(), Buffer::new(1), 1, 0, 0).unwrap();
        let landed = ring.wait().unwrap().unwrap();
        assert_eq!(landed.result.unwrap_err().raw_os_error(), Some(libc::EBADF));
        let file = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        ring.write(file.as_fd(), landed.buffer, 4096, 0, 0).unwrap();
        drop(ring);
        assert_eq!(rustix::fs::fstat(&file).unwrap().st_size, 4096);
    }
}
