//! Records which chunks a pager has brought in: in a file, so that another pager can continue where
//! one ended.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use sys::mapping::Table;

/// The stage of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No pager has begun with it.
    Missing = 0,
    /// A pager works on it. Nothing of it can be seen yet.
    Taken = 1,
    /// All of it is in memory; it may be visible in part, and changed where it is.
    Placed = 2,
    /// All of it is visible.
    Done = 3,
}

/// The stages of all chunks of a stream.
#[derive(Debug)]
pub struct Ledger {
    table: Table,
    chunks: u64,
}

impl Ledger {
    /// A ledger in a file, which is made as long as it must be: a new one, in memory.
    ///
    /// Continues the ledger that another pager has left. A chunk that was taken is missing again:
    /// nothing of it was visible, so it can be brought in once more. A chunk that was placed must
    /// never be, for it may have been changed since.
    ///
    /// # Errors
    /// When the file cannot be mapped, or is one for another number of chunks.
    pub fn new(file: impl AsFd, chunks: u64) -> io::Result<Self> {
        // One more than chunks: whether there is enough.
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

    /// A ledger that ends with this process.
    ///
    /// # Errors
    /// As [`Ledger::new`].
    pub fn in_memory(chunks: u64) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("ledger", rustix::fs::MemfdFlags::CLOEXEC)?;
        Self::new(file, chunks)
    }

    /// Tells those who [load ahead](crate::load_ahead) that it is enough: they take no more chunks.
    /// They finish the chunk that they work on.
    pub fn enough(&self) {
        if let Some(byte) = self.last() {
            byte.store(1, SeqCst);
        }
    }

    /// Returns whether a pager works on some chunk.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let taken = Stage::Taken as u8;
        let mut bytes = (0..self.chunks).filter_map(|chunk| self.byte(chunk));
        bytes.any(|byte| byte.load(SeqCst) == taken)
    }

    /// Takes a chunk that is missing, unless there is [`enough`](Self::enough).
    pub(crate) fn take_ahead(&self, chunk: u64) -> Option<bool> {
        let enough = || self.last().is_none_or(|byte| byte.load(SeqCst) != 0);
        if enough() {
            return None;
        }
        let taken = self.take(chunk);
        // A thread that said so meanwhile may already have looked which are busy.
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

    /// Takes a chunk that is missing; `false` when it is not.
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
