//! Which chunks a pager has brought in: in a file, so that another pager can go on where
//! one ended.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use sys::mapping::Table;

/// What became of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nobody has begun.
    Missing = 0,
    /// Somebody is at it. Nothing of it can be seen yet.
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
    /// One that a pager has left is gone on with. A chunk that was taken is missing again:
    /// nothing of it was visible, so it can be brought in once more. A chunk that was
    /// placed must never be, for it may have been changed since.
    ///
    /// # Errors
    /// When the file cannot be mapped, or is one for another number of chunks.
    pub fn new(file: impl AsFd, chunks: u64) -> io::Result<Self> {
        let length = chunks.max(1);
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
        for chunk in 0..chunks {
            if ledger.stage(chunk) == Stage::Taken {
                ledger.set(chunk, Stage::Missing);
            }
        }
        Ok(ledger)
    }

    /// A ledger that ends with this process.
    ///
    /// # Errors
    /// As [`Ledger::new`].
    pub fn in_memory(chunks: u64) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("ledger", rustix::fs::MemfdFlags::CLOEXEC)?;
        Self::new(file, chunks)
    }

    /// How many chunks it is for.
    #[must_use]
    pub const fn chunks(&self) -> u64 {
        self.chunks
    }

    pub(crate) fn stage(&self, chunk: u64) -> Stage {
        let place = usize::try_from(chunk).ok();
        let byte = place.and_then(|place| self.table.get(place));
        match byte.map_or(0, |byte| byte.load(Acquire)) {
            0 => Stage::Missing,
            1 => Stage::Taken,
            2 => Stage::Placed,
            _ => Stage::Done,
        }
    }

    pub(crate) fn set(&self, chunk: u64, stage: Stage) {
        let place = usize::try_from(chunk).ok();
        if let Some(byte) = place.and_then(|place| self.table.get(place)) {
            byte.store(stage as u8, Release);
        }
    }

    /// Takes a chunk that is missing; `false` when it is not.
    pub(crate) fn take(&self, chunk: u64) -> bool {
        let place = usize::try_from(chunk).ok();
        let byte = place.and_then(|place| self.table.get(place));
        let (missing, taken) = (Stage::Missing as u8, Stage::Taken as u8);
        byte.is_some_and(|byte| {
            byte.compare_exchange(missing, taken, AcqRel, Acquire)
                .is_ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_goes_on_where_one_ended() {
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
        assert!(Ledger::new(&file, 6).is_err());
        assert_eq!(Ledger::in_memory(0).unwrap().chunks(), 0);
    }
}
