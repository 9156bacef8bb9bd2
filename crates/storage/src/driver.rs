//! The operations of every kind of storage for a zone.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::path::Path;

use crate::collect::{Collected, Lost};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::name::Name;
use crate::snapshot::{Snapshot, SnapshotUsage, TopCopy};
use crate::stack::Stack;
use crate::usage::Usage;

/// A kind of storage. Datasets are named by the zonepath they are at.
pub trait Driver: Debug + Send + Sync {
    /// The name in messages.
    fn name(&self) -> &'static str;

    /// Returns a description of the storage for people: `layered on ext4`. `layered on ext4`.
    fn kind(&self, zonepath: &Path) -> Result<String>;

    /// Makes an empty dataset, and the zonepath unless it is there.
    fn create(&self, zonepath: &Path) -> Result<()>;

    /// Makes a dataset at `target` that starts as an equal of the halted one at
    /// `origin`, or of a snapshot of it.
    fn clone(&self, origin: &Path, snapshot: Option<&Name>, target: &Path) -> Result<()>;

    /// Removes a dataset with its snapshots, whatever state it is in; none is no error.
    fn destroy(&self, zonepath: &Path) -> Result<()>;

    /// Returns the stack to mount as the zone's root.
    fn stack(&self, zonepath: &Path) -> Result<Stack>;

    /// Makes the files of a halted zone's root its own, where they are stored under the
    /// host's numbers of its ids, the first of which is `first_id`; returns how many
    /// were not. Elsewhere they are stored under the zone's own numbers.
    fn give_to(&self, _zonepath: &Path, _first_id: u32) -> Result<u64> {
        Ok(0)
    }

    /// Makes sure that the dataset is on disk before a later write to `index`.
    fn settle(&self, zonepath: &Path, index: &Path) -> Result<()>;

    /// The space a dataset takes.
    fn usage(&self, zonepath: &Path) -> Result<Usage>;

    /// Keeps the root of a halted zone under a name.
    fn snapshot(&self, zonepath: &Path, name: &Name) -> Result<()>;

    /// Returns whether a root is a top on layers, see [`Dataset`].
    fn has_layers(&self) -> bool {
        true
    }

    /// Returns whether a running zone has to stand still for a snapshot, see [`Driver::copy_top`].
    /// Otherwise it is made as of a halted one.
    fn stops_for_snapshots(&self) -> bool {
        true
    }

    /// Copies the top of a zone that is running and stands still.
    fn copy_top(&self, zonepath: &Path) -> Result<TopCopy>;

    /// Makes a snapshot of that copy; the zone may run again.
    fn snapshot_of_copy(&self, zonepath: &Path, name: &Name, copy: TopCopy) -> Result<()>;

    /// The snapshots, the oldest first.
    fn snapshots(&self, zonepath: &Path) -> Result<Vec<Snapshot>>;

    /// The space a snapshot takes.
    fn snapshot_usage(&self, zonepath: &Path, name: &Name) -> Result<SnapshotUsage>;

    /// Removes a snapshot.
    fn destroy_snapshot(&self, zonepath: &Path, name: &Name) -> Result<()>;

    /// Takes a halted zone back to a snapshot.
    fn rollback(&self, zonepath: &Path, name: &Name) -> Result<()>;

    /// Limits the space of the files that the zone writes, in bytes, or lifts the limit.
    fn set_quota(&self, zonepath: &Path, bytes: Option<u64>) -> Result<()>;

    /// The limit, in bytes.
    fn quota(&self, zonepath: &Path) -> Result<Option<u64>>;

    /// Writes a snapshot as a stream: all of it, or its changes since another one. The stream
    /// contains the zone's secrets.
    fn send(
        &self,
        zonepath: &Path,
        _name: &Name,
        _since: Option<&Name>,
        _to: BorrowedFd<'_>,
    ) -> Result<()> {
        Err(Error::NoStream(zonepath.to_owned()))
    }

    /// Makes a dataset of a stream, with the snapshot that it holds; or takes the dataset
    /// that is there, whose zone is halted, on to the next snapshot. The stream must be
    /// one whose sender is trusted with the zone.
    fn receive(&self, zonepath: &Path, _from: BorrowedFd<'_>) -> Result<()> {
        Err(Error::NoStream(zonepath.to_owned()))
    }

    /// Removes the leftovers of crashes from the shared folder of datasets like the one at
    /// `zonepath`.
    fn collect(&self, zonepath: &Path, lost: Lost) -> Result<Collected>;
}

/// Tops on shared layers: as plain folders on any file system that overlay can write
/// to, as subvolumes on btrfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layered(pub(crate) Form);

/// The folder at a path, or the next one above that is there.
pub(crate) fn nearest(path: &Path) -> Result<Folder> {
    let mut at = path;
    loop {
        match (Folder::open(at), at.parent()) {
            (Err(e), Some(parent)) if e.is_missing() => at = parent,
            (opened, _) => return opened,
        }
    }
}

impl Driver for Layered {
    fn name(&self) -> &'static str {
        match self.0 {
            Form::Folder => "layered",
            Form::Volume => "btrfs",
        }
    }

    fn kind(&self, zonepath: &Path) -> Result<String> {
        Dataset::open(zonepath)?.kind()
    }

    fn create(&self, zonepath: &Path) -> Result<()> {
        Dataset::create(zonepath).map(drop)
    }

    fn clone(&self, origin: &Path, snapshot: Option<&Name>, target: &Path) -> Result<()> {
        let origin = Dataset::open(origin)?;
        match snapshot {
            None => origin.clone_to(target),
            Some(name) => origin.clone_snapshot_to(name, target),
        }
        .map(drop)
    }

    fn destroy(&self, zonepath: &Path) -> Result<()> {
        Dataset::destroy(zonepath)
    }

    fn stack(&self, zonepath: &Path) -> Result<Stack> {
        Dataset::open(zonepath)?.stack()
    }

    fn settle(&self, zonepath: &Path, index: &Path) -> Result<()> {
        Dataset::open(zonepath)?.settle(index)
    }

    fn usage(&self, zonepath: &Path) -> Result<Usage> {
        Dataset::open(zonepath)?.usage()
    }

    fn snapshot(&self, zonepath: &Path, name: &Name) -> Result<()> {
        Dataset::open(zonepath)?.snapshot(name)
    }

    fn copy_top(&self, zonepath: &Path) -> Result<TopCopy> {
        Dataset::open(zonepath)?.copy_top()
    }

    fn snapshot_of_copy(&self, zonepath: &Path, name: &Name, copy: TopCopy) -> Result<()> {
        Dataset::open(zonepath)?.snapshot_of_copy(name, copy)
    }

    fn snapshots(&self, zonepath: &Path) -> Result<Vec<Snapshot>> {
        Dataset::open(zonepath)?.snapshots()
    }

    fn snapshot_usage(&self, zonepath: &Path, name: &Name) -> Result<SnapshotUsage> {
        Dataset::open(zonepath)?.snapshot_usage(name)
    }

    fn destroy_snapshot(&self, zonepath: &Path, name: &Name) -> Result<()> {
        Dataset::open(zonepath)?.destroy_snapshot(name)
    }

    fn rollback(&self, zonepath: &Path, name: &Name) -> Result<()> {
        Dataset::open(zonepath)?.rollback(name)
    }

    fn set_quota(&self, zonepath: &Path, bytes: Option<u64>) -> Result<()> {
        Dataset::open(zonepath)?.set_quota(bytes)
    }

    fn quota(&self, zonepath: &Path) -> Result<Option<u64>> {
        Dataset::open(zonepath)?.quota()
    }

    fn collect(&self, zonepath: &Path, lost: Lost) -> Result<Collected> {
        Dataset::collect(zonepath, lost)
    }
}
