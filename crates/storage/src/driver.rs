//! The operations that every kind of storage offers for a zone.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::path::Path;

use crate::collect::{Collected, Lost};
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::form::Form;
use crate::fullness::{self, Fullness};
use crate::name::Name;
use crate::snapshot::{Snapshot, SnapshotUsage};
use crate::stack::Stack;
use crate::usage::Usage;

/// A kind of storage. The parameter `zonepath` names a dataset by the zonepath that holds it.
pub trait Driver: Debug + Send + Sync {
    /// Returns the name of the driver for messages.
    fn name(&self) -> &'static str;

    /// Returns a description of the storage for people, such as `layered on ext4`.
    fn kind(&self, zonepath: &Path) -> Result<String>;

    /// Creates an empty dataset, and the zonepath if it does not exist.
    fn create(&self, zonepath: &Path) -> Result<()>;

    /// Creates a dataset at `target` with the same content as the dataset of the halted zone at
    /// `origin`, or as a snapshot of that dataset.
    fn clone(&self, origin: &Path, snapshot: Option<&Name>, target: &Path) -> Result<()>;

    /// Removes a dataset with its snapshots, in whatever state the dataset is. A missing dataset is
    /// no error.
    fn destroy(&self, zonepath: &Path) -> Result<()>;

    /// Returns the stack (top and layers) to mount as the zone's root.
    fn stack(&self, zonepath: &Path) -> Result<Stack>;

    /// Changes the owners of all files in a halted zone's root to the host ids of this zone, if the
    /// storage keeps owners as host ids. `first_id` is the first host id of the zone. Returns the
    /// number of files whose owner was wrong. Other storage keeps the zone's own ids and returns 0.
    fn give_to(&self, _zonepath: &Path, _first_id: u32) -> Result<u64> {
        Ok(0)
    }

    /// Makes sure that the dataset is on disk before a later write to `index`.
    fn settle(&self, zonepath: &Path, index: &Path) -> Result<()>;

    /// Returns the space that a dataset uses.
    fn usage(&self, zonepath: &Path) -> Result<Usage>;

    /// Returns the use of the disk that holds a dataset.
    fn fullness(&self, zonepath: &Path) -> Result<Fullness> {
        fullness::of_file_system(zonepath)
    }

    /// Keeps the current root of a halted zone as a snapshot with the name `name`.
    fn snapshot(&self, zonepath: &Path, name: &Name) -> Result<()>;

    /// Returns true if a root consists of a top on layers, see [`Dataset`].
    fn has_layers(&self) -> bool {
        true
    }

    /// Returns true if a running zone must be paused for a snapshot, see [`Dataset::copy_top`]. If
    /// false, the snapshot of a running zone is made like that of a halted zone.
    fn stops_for_snapshots(&self) -> bool {
        true
    }

    /// Returns a snapshot whose content is that of the zone's root, or `None` if the root may have
    /// changed, see [`Dataset::unchanged_since`]. The zone may run.
    fn unchanged_since(&self, zonepath: &Path) -> Result<Option<Name>>;

    /// Returns an estimate of the bytes that a snapshot of the running zone would copy, see
    /// [`Dataset::bytes_to_copy`].
    fn bytes_to_copy(&self, _zonepath: &Path) -> Result<u64> {
        Ok(0)
    }

    /// Returns the snapshots of a dataset, the oldest first.
    fn snapshots(&self, zonepath: &Path) -> Result<Vec<Snapshot>>;

    /// Returns the layers of a snapshot as a stack for reading, with the topmost layer in the position
    /// of the top.
    fn snapshot_stack(&self, zonepath: &Path, name: &Name) -> Result<Stack>;

    /// Returns the space that a snapshot uses.
    fn snapshot_usage(&self, zonepath: &Path, name: &Name) -> Result<SnapshotUsage>;

    /// Returns the snapshots of a dataset with the space that each uses, the oldest first.
    fn snapshot_usages(&self, zonepath: &Path) -> Result<Vec<(Snapshot, SnapshotUsage)>>;

    /// Returns the bytes that the removal of several snapshots frees, see [`Dataset::bytes_together`].
    fn bytes_together(&self, zonepath: &Path, names: &BTreeSet<Name>) -> Result<u64>;

    /// Removes a snapshot.
    fn destroy_snapshot(&self, zonepath: &Path, name: &Name) -> Result<()>;

    /// Returns the root of a halted zone to the state of a snapshot.
    fn rollback(&self, zonepath: &Path, name: &Name) -> Result<()>;

    /// Limits the space, in bytes, of the files that the zone writes. `None` removes the limit.
    fn set_quota(&self, zonepath: &Path, bytes: Option<u64>) -> Result<()>;

    /// Returns true if [`Driver::set_quota`] would change each file of the root, so that the zone
    /// must be halted.
    fn needs_halt_for_quota(&self, _zonepath: &Path) -> Result<bool> {
        Ok(false)
    }

    /// Returns the reason why the zone's space cannot be limited, with the remedy. Returns `None` if
    /// [`Driver::set_quota`] finds out.
    fn why_no_quota(&self, _zonepath: &Path) -> Result<Option<String>> {
        Ok(None)
    }

    /// Returns the limit of the zone's space in bytes, or `None` without a limit.
    fn quota(&self, zonepath: &Path) -> Result<Option<u64>>;

    /// Writes a snapshot as a stream: the whole snapshot, or its changes since another snapshot.
    /// The stream contains the zone's secrets.
    fn send(
        &self,
        zonepath: &Path,
        _name: &Name,
        _since: Option<&Name>,
        _to: BorrowedFd<'_>,
    ) -> Result<()> {
        Err(Error::NoStream(zonepath.to_owned()))
    }

    /// Creates a dataset with the snapshot from a stream. If the dataset exists already, and its
    /// zone is halted, applies the stream as the next snapshot of that dataset. The sender of the
    /// stream must be trusted with the zone.
    fn receive(&self, zonepath: &Path, _from: BorrowedFd<'_>) -> Result<()> {
        Err(Error::NoStream(zonepath.to_owned()))
    }

    /// Removes the files that crashes left in the folder that datasets like the one at `zonepath`
    /// share.
    fn collect(&self, zonepath: &Path, lost: Lost) -> Result<Collected>;
}

/// Storage with a top on shared layers: plain folders on any file system that overlay can write to,
/// or subvolumes on btrfs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layered(pub(crate) Form);

/// Opens the folder at a path, or its nearest parent folder that exists.
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

    fn bytes_to_copy(&self, zonepath: &Path) -> Result<u64> {
        Dataset::open(zonepath)?.bytes_to_copy()
    }

    fn unchanged_since(&self, zonepath: &Path) -> Result<Option<Name>> {
        Dataset::open(zonepath)?.unchanged_since()
    }

    fn snapshots(&self, zonepath: &Path) -> Result<Vec<Snapshot>> {
        Dataset::open(zonepath)?.snapshots()
    }

    fn snapshot_stack(&self, zonepath: &Path, name: &Name) -> Result<Stack> {
        Dataset::open(zonepath)?.snapshot_stack(name)
    }

    fn snapshot_usage(&self, zonepath: &Path, name: &Name) -> Result<SnapshotUsage> {
        Dataset::open(zonepath)?.snapshot_usage(name)
    }

    fn snapshot_usages(&self, zonepath: &Path) -> Result<Vec<(Snapshot, SnapshotUsage)>> {
        Dataset::open(zonepath)?.snapshot_usages()
    }

    fn bytes_together(&self, zonepath: &Path, names: &BTreeSet<Name>) -> Result<u64> {
        Dataset::open(zonepath)?.bytes_together(names)
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

    fn needs_halt_for_quota(&self, zonepath: &Path) -> Result<bool> {
        Dataset::open(zonepath)?.needs_halt_for_quota()
    }

    fn why_no_quota(&self, zonepath: &Path) -> Result<Option<String>> {
        match self.0 {
            Form::Folder => Ok(crate::project::why_not(&nearest(zonepath)?)),
            Form::Volume => Ok(None),
        }
    }

    fn quota(&self, zonepath: &Path) -> Result<Option<u64>> {
        Dataset::open(zonepath)?.quota()
    }

    fn collect(&self, zonepath: &Path, lost: Lost) -> Result<Collected> {
        Dataset::collect(zonepath, lost)
    }
}
