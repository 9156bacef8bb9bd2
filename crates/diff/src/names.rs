//! The names of folders, sorted, in pieces of bounded size.
//!
//! The kernel lists names in no order. A piece has the smallest names that follow the last name of
//! the piece before; the folders are read once for each piece. So the size of a folder does not
//! matter for the memory, and a small folder is read once.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use rustix::io::Errno;

use crate::layer::Lister;

/// Memory for the names of all folders on the way from the root, in bytes. A piece takes at most a
/// quarter of the rest.
const NAMES_BYTES: usize = 32 << 20;

/// Minimum size of a piece, in bytes.
const MIN_PIECE_BYTES: usize = 8 << 10;

/// Memory of a name besides its bytes.
const NAME_OVERHEAD_BYTES: usize = 64;

/// Maximum number of names that are listed at once. The kernel may list a folder that gets new names
/// without end.
const MAX_LISTED: u64 = 64_000_000;

/// The memory that pieces use.
#[derive(Debug, Default)]
pub(crate) struct Memory(Cell<usize>);

/// The names of one or several folders.
#[derive(Debug)]
pub(crate) struct Names<F> {
    folders: Vec<F>,
    /// True if only folders are wanted.
    only_folders: bool,
    piece: BTreeSet<Vec<u8>>,
    bytes: usize,
    last: Vec<u8>,
    /// True if no name follows the present piece.
    is_last: bool,
    /// The number of names that may still be returned; `None` before the first piece.
    left: Option<u64>,
}

impl<F: Clone> Names<F> {
    pub(crate) const fn new(folders: Vec<F>, only_folders: bool) -> Self {
        Self {
            folders,
            only_folders,
            piece: BTreeSet::new(),
            bytes: 0,
            last: Vec::new(),
            is_last: false,
            left: None,
        }
    }

    /// Returns the next name. Fails with the first error of a folder, and with
    /// [`Errno::AGAIN`] if the folders have many more names than at the begin.
    pub(crate) fn next<R: Lister<Folder = F>>(
        &mut self,
        reader: &R,
        memory: &Memory,
    ) -> Result<Option<Vec<u8>>, Errno> {
        if self.piece.is_empty() {
            if self.is_last {
                return Ok(None);
            }
            self.fill(reader, memory)?;
        }
        let Some(name) = self.piece.pop_first() else {
            return Ok(None);
        };
        match self.left.as_mut() {
            Some(0) => return Err(Errno::AGAIN),
            Some(left) => *left -= 1,
            None => {}
        }
        if self.piece.is_empty() {
            self.release(memory);
        }
        self.last.clone_from(&name);
        Ok(Some(name))
    }

    /// Gives the memory of the present piece back.
    pub(crate) fn release(&mut self, memory: &Memory) {
        self.piece.clear();
        let bytes = std::mem::take(&mut self.bytes);
        memory.0.set(memory.0.get().saturating_sub(bytes));
    }

    fn fill<R: Lister<Folder = F>>(&mut self, reader: &R, memory: &Memory) -> Result<(), Errno> {
        let most = (NAMES_BYTES.saturating_sub(memory.0.get()) / 4).max(MIN_PIECE_BYTES);
        let (mut piece, mut bytes, mut listed) = (BTreeSet::new(), 0, 0);
        let mut is_last = true;
        for folder in &self.folders {
            let done = reader.names(folder, &mut |name, may_be_folder| {
                listed += 1;
                if listed > MAX_LISTED {
                    return ControlFlow::Break(());
                }
                let is_wanted = may_be_folder || !self.only_folders;
                if !is_wanted || name <= self.last.as_slice() {
                    return ControlFlow::Continue(());
                }
                let is_beyond = |piece: &BTreeSet<Vec<u8>>| {
                    piece.last().is_none_or(|last| name > last.as_slice())
                };
                if !is_last && is_beyond(&piece) {
                    return ControlFlow::Continue(());
                }
                if piece.insert(name.to_vec()) {
                    bytes += name.len() + NAME_OVERHEAD_BYTES;
                }
                while bytes > most && piece.len() > 1 {
                    let dropped = piece.pop_last().map_or(0, |name| name.len());
                    bytes -= dropped + NAME_OVERHEAD_BYTES;
                    is_last = false;
                }
                ControlFlow::Continue(())
            });
            match done {
                // The folder was removed after it was opened, so it has no names.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        if listed > MAX_LISTED {
            return Err(Errno::AGAIN);
        }
        // A folder may grow while it is compared, but not without end.
        self.left.get_or_insert(2 * listed + 1024);
        memory.0.set(memory.0.get() + bytes);
        (self.piece, self.bytes, self.is_last) = (piece, bytes, is_last);
        Ok(())
    }
}
