//! The suspend engine: the memory of something stopped, saved to one file and brought
//! back, on all processors. It knows nothing of zones, guests or who runs them.
//!
//! ```text
//!  Source (memory, device state)                       Target (a mapping of the memory)
//!     │ chunks of 256 KiB                                  ▲
//!     ▼                                                    │
//!  zero pages out ─► pack (raw, lz4, zstd) ─► seal ─► image ─► open ─► unpack
//! ```
//!
//! - [`save()`] writes an image aside, syncs it and gives it its name: under that name
//!   there is a whole image or none. `docs/suspend-format.md` describes its content.
//! - [`Image::open`] takes nothing on trust: the header, the index and the end are
//!   authenticated before anything else is read, and each chunk when it is.
//! - [`restore()`] brings everything back before the guest runs, [`Pager`] while it runs.
//! - [`Image::consume`] comes in between: a resumed machine changes its disks, and must
//!   never be resumed from the same image again.

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
    /// Bytes of memory that were dealt with, pages of zeros among them.
    pub done: u64,
    /// Of so many.
    pub total: u64,
    /// Bytes that were written to the image or read from it.
    pub moved: u64,
}

/// Called now and then, by any thread; `Break` ends the operation with
/// [`Error::Cancelled`].
pub type Watch<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// A [`Watch`] that only looks on.
///
/// # Errors
/// None: it never breaks off.
pub const fn unwatched(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// As many threads as there are processors for the caller: its CPU set and its CPU shares
/// bound them.
#[must_use]
pub fn all_processors() -> NonZero<usize> {
    std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

// Lengths in memory and in files are converted freely.
const _: () = assert!(usize::BITS == 64, "images are for 64-bit hosts");
