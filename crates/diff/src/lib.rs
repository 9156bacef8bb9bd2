//! Compares two stacks of layers, each of which is the root of a zone at one moment.
//!
//! Two moments of a zone usually share most of their layers. A path that no other layer has is the
//! same in both moments, so only the layers that differ are read:
//!
//! ```text
//!   before: [ copy of the top ]  [ layer 2 ]  [ layer 1 ]
//!   after:  [ top             ]  [ layer 2 ]  [ layer 1 ]
//!             own layers           shared layers: read only at the names that own layers have
//! ```
//!
//! A folder of a moment has a part in each of several layers. Whiteouts, opaque folders and
//! redirects decide which parts belong together; [`view`] follows the rules of the kernel's overlay
//! (ovl_lookup). For each folder it also finds the path under which the shared layers continue the
//! folder. If this path is the same in both moments, the shared parts are the same, and only names in
//! own parts can differ. Otherwise all names of the folder are compared. If a folder with the same
//! path in the shared layers has another place in each moment, it was renamed.
//!
//! The layers may be written by hostile processes, and the top of a running zone changes during the
//! comparison:
//!
//! | danger | rule |
//! |---|---|
//! | a folder has millions of names | names are read in sorted pieces of bounded size |
//! | a folder gets new names without end | the number of names that are compared is bounded by the number at the begin |
//! | folders are thousands deep | the walk does not recurse; descriptors are bounded; deeper ones than [`MAX_DEPTH`] are reported |
//! | a file, folder or link gets replaced | no link is followed; what was opened is compared with what was listed |
//! | a name is that of a FIFO or device | it is never opened |
//! | a layer is removed | [`Error::Removed`], at the end |
//!
//! Times are not compared: a file with the same content and another time is unchanged.
//!
//! | file | holds |
//! |---|---|
//! | `change` | the output |
//! | `layer` | one layer: its entries and marks; the redirect of hostile origin |
//! | `moment` | the input, the counts, the errors |
//! | `disk` | layers in folders |
//! | `content` | the comparison of two files |
//! | `names` | the names of folders, sorted, in pieces |
//! | `view` | several layers as one tree |
//! | `moves` | renamed folders |
//! | `walk` | the comparison of two trees |

mod change;
mod content;
mod disk;
mod layer;
mod moment;
mod moves;
mod names;
mod view;
mod walk;

use std::ops::ControlFlow;

pub use change::{Action, Change, Event, Kind, What};
pub use disk::names;
pub use layer::{Mark, redirect};
pub use moment::{Done, Error, MAX_DEPTH, Moment, Proof};

/// Compares two moments. Passes each change to `tell`, a folder before its content, and the names
/// of a folder in the order of their bytes. Memory is bounded, whatever the layers contain.
///
/// # Errors
/// Fails with [`Error`] if a layer is missing. A file that cannot be compared is an
/// [`Event::Problem`], and no error.
pub fn compare(
    before: &Moment,
    after: &Moment,
    proof: Proof,
    tell: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Result<Done, Error> {
    let (disk, sides) = disk::Disk::open([before, after], proof)?;
    let done = walk::walk(&disk, &sides, tell);
    match done.ended {
        true => Ok(done),
        false => disk.still_complete().map(|()| done),
    }
}

#[cfg(test)]
mod tests;
