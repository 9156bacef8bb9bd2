//! Sends and receives snapshots as streams, for another pool or host.
//!
//! A stream is the output of `zfs send` without properties, so that it sets no mount point, quota
//! or share. A stream with properties was not made by these programs, and is refused before
//! anything is mounted. Files keep the owners under which they are stored. If these owners are not
//! plain ids, [`Driver::give_to`](crate::Driver::give_to) corrects them before a boot.
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | receive | link, make `<zone>` | nothing that counts; receiving goes on with it |
//! | | **receive `root`** with its snapshot | - |
//! | receive more | **receive the next snapshot** | - |

use std::os::fd::BorrowedFd;
use std::path::Path;

use super::command::{FileSystem, zfs, zfs_reads, zfs_writes};
use super::{Part, Place, clones};
use crate::error::{Error, Result};
use crate::name::Name;

pub(super) fn send(
    zonepath: &Path,
    name: &Name,
    since: Option<&Name>,
    to: BorrowedFd<'_>,
) -> Result<()> {
    let (place, _, lock) = Place::open(zonepath)?;
    let last = place.shot(name)?.full();
    let first = since.map(|name| place.shot(name)).transpose()?;
    // The lock is released, because the transfer may take long, and ZFS itself keeps the snapshots
    // until the end of the transfer.
    drop(lock);
    let first = first.map(|shot| shot.full());
    let mut words = vec!["send", "-c"];
    if let Some(first) = &first {
        words.extend(["-i", first.as_str()]);
    }
    words.push(&last);
    zfs_writes(&words, to)
}

pub(super) fn receive(zonepath: &Path, from: BorrowedFd<'_>) -> Result<()> {
    match Place::open(zonepath) {
        Ok((place, parts, _lock)) => more(&place, &parts, from),
        Err(Error::NoDataset(_)) => {
            let (place, lock) = Place::make(zonepath)?;
            let made = first(&place, from);
            drop(lock);
            if made.is_err() {
                // An error is ignored, because the first error is the one to report. The removal of
                // the zone removes the rest.
                let _ = clones::destroy(zonepath);
            }
            made
        }
        Err(e) => Err(e),
    }
}

/// Receives a whole root.
fn first(place: &Place, from: BorrowedFd<'_>) -> Result<()> {
    let root = place.root()?;
    let options = place.options();
    let mut words = vec!["receive", "-u", "-o", "canmount=on"];
    for option in &options {
        words.extend(["-o", option.as_str()]);
    }
    words.push(root.as_str());
    zfs_reads(&words, from)?;
    refuse_properties(place, &place.base)
}

/// Fails if a received stream set properties, because a property may have any effect.
pub(super) fn refuse_properties(place: &Place, of: &FileSystem) -> Result<()> {
    let brought = "get -H -r -t filesystem,volume -s received -o name,property all";
    let mut words: Vec<_> = brought.split(' ').collect();
    words.push(of.as_str());
    match zfs(&words)?.lines().next() {
        None => Ok(()),
        Some(line) => Err(place.fail(format!(
            "the stream brings properties of its own ({}): send it without -p and -R",
            line.replace('\t', " ")
        ))),
    }
}

/// Receives the changes since the youngest local snapshot. Local changes after this snapshot are
/// lost.
fn more(place: &Place, parts: &[Part], from: BorrowedFd<'_>) -> Result<()> {
    let root = place.root()?;
    // Without a local snapshot, a stream of a whole root would replace this root.
    if place.shots()?.iter().all(|shot| shot.of != root) {
        return Err(Error::Exists(place.path().to_owned()));
    }
    place.hide(parts)?;
    zfs_reads(&["receive", "-u", "-F", root.as_str()], from)
}
