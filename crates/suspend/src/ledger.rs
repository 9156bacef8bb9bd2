//! Records in a file which chunks a pager has loaded, so that another pager can continue after the
//! first one ended.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use sys::mapping::Table;

/// The stage of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No pager has started to load the chunk.
    Missing = 0,
    /// A pager loads the chunk. No page of the chunk is visible to the guest yet.
    Taken = 1,
    /// The whole chunk is in memory. The guest may see some of its pages, and may have changed
    /// them.
    Placed = 2,
    /// All pages of the chunk are visible to the guest.
    Done = 3,
}

/// The stages of all chunks of a stream.
#[derive(Debug)]
pub struct Ledger {
    table: Table,
    chunks: u64,
}

impl Ledger {
    /// Opens a ledger in a file. An empty file is extended to the necessary length.
    ///
    /// Continues the ledger that another pager left. A chunk in stage `Taken` becomes missing
    /// again: none of its pages was visible, so a pager can load the chunk once more. A chunk in
    /// stage `Placed` must never be loaded again, because the guest may have changed its pages.
    ///
    /// # Errors
    /// Fails if the file cannot be mapped, or has the length of another number of chunks.
    pub fn new(file: impl AsFd, chunks: u64) -> io::Result<Self> {
        // The ledger has one byte more than chunks. The last byte is the mark that `enough` sets.
        let length = chunks.saturating_add(1);
        let found = rustix::fs::fstat(&file)?.st_size;
        if found == 0 {
            rustix::fs::ftruncate(&file, length)?;
        } else if u64::try_from(found) != Ok(length) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let bytes = usize::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
        let ledger = Self {
            table: Table::new(file.as_fd(), bytes)?,
            chunks,
        };
        ledger.forget_taken();
        Ok(ledger)
    }

    /// Marks taken chunks as missing again, after all users of the ledger have ended.
    pub fn forget_taken(&self) {
        for chunk in 0..self.chunks {
            if self.stage(chunk) == Stage::Taken {
                self.set(chunk, Stage::Missing);
            }
        }
    }

    /// Returns a new ledger in memory, which ends with this process.
    ///
    /// # Errors
    /// Fails like [`Ledger::new`].
    pub fn in_memory(chunks: u64) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("ledger", rustix::fs::MemfdFlags::CLOEXEC)?;
        Self::new(file, chunks)
    }

    /// Tells the threads of [`load_ahead`](crate::load_ahead) to start no more chunks. These
    /// threads still finish the chunks that they load at the moment.
    pub fn enough(&self) {
        if let Some(byte) = self.last() {
            byte.store(1, SeqCst);
        }
    }

    /// Returns true if a pager loads a chunk at the moment.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let taken = Stage::Taken as u8;
        let mut bytes = (0..self.chunks).filter_map(|chunk| self.byte(chunk));
        bytes.any(|byte| byte.load(SeqCst) == taken)
    }

    /// Takes a missing chunk for loading ahead, unless [`enough`](Self::enough) was called.
    pub(crate) fn take_ahead(&self, chunk: u64) -> Option<bool> {
        let enough = || self.last().is_none_or(|byte| byte.load(SeqCst) != 0);
        if enough() {
            return None;
        }
        let taken = self.take(chunk);
        // If `enough` was called in the meantime, its caller may already have looked for busy
        // chunks, so this thread must give the chunk back.
        if taken && enough() {
            self.set(chunk, Stage::Missing);
            return None;
        }
        Some(taken)
    }

    fn last(&self) -> Option<&AtomicU8> {
        self.table.get(usize::try_from(self.chunks).ok()?)
    }

    fn byte(&self, chunk: u64) -> Option<&AtomicU8> {
        let place = usize::try_from(chunk).ok()?;
        (chunk < self.chunks).then(|| self.table.get(place))?
    }

    /// Returns the number of chunks.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        self.chunks
    }

    pub(crate) fn stage(&self, chunk: u64) -> Stage {
        match self.byte(chunk).map_or(0, |byte| byte.load(Acquire)) {
            0 => Stage::Missing,
            1 => Stage::Taken,
            2 => Stage::Placed,
            _ => Stage::Done,
        }
    }

    pub(crate) fn set(&self, chunk: u64, stage: Stage) {
        if let Some(byte) = self.byte(chunk) {
            byte.store(stage as u8, Release);
        }
    }

    /// Takes a missing chunk. Returns false if the chunk is not missing.
    pub(crate) fn take(&self, chunk: u64) -> bool {
        let (missing, taken) = (Stage::Missing as u8, Stage::Taken as u8);
        self.byte(chunk).is_some_and(|byte| {
            byte.compare_exchange(missing, taken, SeqCst, Acquire)
                .is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_pager_continues_from_the_ledger_of_the_first() {
        let file = rustix::fs::memfd_create("ledger", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let ledger = Ledger::new(&file, 5).unwrap();
        assert!(ledger.take(0) && !ledger.take(0) && ledger.take(1) && ledger.take(2));
        ledger.set(1, Stage::Placed);
        ledger.set(2, Stage::Done);
        drop(ledger);
        let again = Ledger::new(&file, 5).unwrap();
        let stages: Vec<Stage> = (0..5).map(|chunk| again.stage(chunk)).collect();
        assert_eq!(
            stages,
            [
                Stage::Missing,
                Stage::Placed,
                Stage::Done,
                Stage::Missing,
                Stage::Missing
            ]
        );
        assert!(!again.take(5));
        assert!(!again.is_busy());
        assert_eq!(again.take_ahead(3), Some(true));
        assert_eq!(again.take_ahead(3), Some(false));
        assert!(again.is_busy());
        again.enough();
        assert_eq!(again.take_ahead(4), None);
        again.forget_taken();
        assert_eq!(again.stage(3), Stage::Missing);
        assert!(Ledger::new(&file, 6).is_err());
        assert_eq!(Ledger::in_memory(0).unwrap().chunks(), 0);
    }
}
