//! The suspend engine: saves streams of bytes, such as the memory of a paused guest, to one file,
//! and restores them, on all processors. The engine has no code that is specific to zones or QEMU.
//!
//! ```text
//!  Source (memory, device state)                       Target (a mapping of the memory)
//!     │ chunks of 256 KiB                                  ▲
//!     ▼                                                    │
//!  zero pages out ─► pack (raw, lz4, zstd) ─► seal ─► image ─► open ─► unpack
//! ```
//!
//! - [`save()`] writes an image under a temporary name, syncs the file and renames it. The final
//!   name always leads to a whole image, or to no image. `docs/suspend-format.md` describes the
//!   content of an image.
//! - [`Image::open`] trusts no unchecked byte: the header, the index and the trailer are
//!   authenticated before any other part is read, and each chunk is authenticated when it is read.
//! - [`restore()`] restores all memory before the guest runs. [`Pager`] restores the memory while
//!   the guest runs.
//! - [`Image::consume`] must be called after the image is opened and before the guest runs: a
//!   resumed guest changes its disks, and must never be resumed from the same image again.

pub mod codec;
mod error;
mod feed;
pub mod format;
mod identity;
mod image;
pub mod index;
mod io;
mod key;
mod keyfile;
mod ledger;
mod outcome;
mod pager;
mod part;
mod restore;
mod save;
mod sink;
mod source;
mod target;
mod turn;
mod zero;

pub use error::{Damage, Error};
pub use identity::{Difference, differences};
pub use image::Image;
pub use io::Io;
pub use key::{Cipher, Key, KeyError, cipher};
pub use keyfile::KeyFileError;
pub use ledger::Ledger;
pub use outcome::{Restored, Saved};
pub use pager::{MAX_HOT_CHUNKS, Paged, Pager, Region};
pub use part::Older;
pub use restore::{Loading, load_ahead, restore, verify};
pub use save::{Choice, Durability, Options, Request, Space, Stream, remove_remains, save};
pub use source::Source;
pub use target::Target;
pub use zero::nonzero_pages;

use std::num::NonZero;
use std::ops::ControlFlow;

/// The progress of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of memory that were processed, including pages of zeros.
    pub done: u64,
    /// Bytes of memory to process in total.
    pub total: u64,
    /// Bytes that were written to the image or read from it.
    pub moved: u64,
}

/// The function that receives the progress of an operation. Any thread may call it at any time. If
/// the function returns `Break`, the operation ends with [`Error::Cancelled`].
pub type Watch<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// A [`Watch`] that ignores the progress and never cancels the operation.
///
/// # Errors
/// Never fails.
pub const fn unwatched(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Returns the number of processors that the caller can use. The CPU set and the CPU limit of the
/// caller reduce this number.
#[must_use]
pub fn all_processors() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

// The code converts between lengths in memory and in files without a check.
const _: () = assert!(usize::BITS == 64, "images are for 64-bit hosts");
