//! Storage of zone roots as ZFS file systems.
//!
//! ```text
//! <zonepath>/
//!   zfs                 link whose text is the name of the zone's file system
//!   root/               where the zone's root is mounted
//!   received/           where a stream is mounted while a root is copied from it
//!   owners              link, while files in it change owners; see `owners.rs`
//! <holder>/<zone>       the zone's file system, never mounted: quota, space;
//!                       <holder> is the file system that the zonepath is on
//!   root                its root
//!   root@<name>         a named snapshot
//!   root@_<id>          what a clone came from; marked to go with its last clone
//!   received            a stream that a root is being copied from; see `beside.rs`
//!   old-<id>            a root that was rolled back, kept for younger snapshots of it
//!   new                 a root that is being rolled back to
//! ```
//!
//! This driver has no layers, because `zfs clone` shares the blocks. Each step is one command of
//! ZFS, which is atomic and is on disk when the command returns:
//!
//! | operation | steps, in order | a crash after the step leaves |
//! |---|---|---|
//! | create | link `zfs`, make `<zone>` | nothing that counts; creating goes on with it |
//! | | **make `root`**, by its options mounted | - |
//! | clone | take `root@_<id>` | a snapshot that nobody sees, removed with the origin |
//! | | link, make `<zone>`, **clone it to `root`** | - |
//! | | mark the snapshot to go with its last clone | as above |
//! | rollback | clone the snapshot to `new` | removed when opened |
//! | | **promote `new`** | opening goes on with the rest |
//! | | rename `root` to `old-<id>`, `new` to `root` | the same |
//! | | remove each `old-<id>` that no snapshot needs | removed when opened to be written |
//! | destroy | unmount `root`, remove snapshots without clones | a zone without them |
//! | | promote a clone of the youngest of the others, until there is none | the same |
//! | | **destroy `<zone>`** and all in it | the link, removed by destroying again |
//!
//! A clone is promoted before its origin is removed, and then holds the blocks that both shared.
//! These blocks count against the clone's quota, so the quota is raised by their size.
//!
//! An id-mapped mount shows the files of the root with the zone's ids, as on any file system.
//! OpenZFS supports such mounts since 2.2. With an older release, files are stored under the host
//! ids of their zone, and the files of a clone get new owners before its first boot: see
//! `owners.rs`.

mod beside;
mod clones;
mod command;
mod delegate;
mod owners;
mod place;
pub(crate) mod property;
mod rollback;
mod stream;

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::FlockOperation;

use crate::collect::{Collected, Lost};
use crate::driver::{Driver, nearest};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::fullness::Fullness;
use crate::layout::{ROOT, WORK};
use crate::name::Name;
use crate::snapshot::{Snapshot, SnapshotUsage};
use crate::stack::Stack;
use crate::usage::Usage;
use crate::zfs::property::{LINK, fail, is_on, number};
use command::{FileSystem, version, zfs};
use place::{Part, Place, Shot, holder};

pub use beside::{Received, receive_beside};
pub use delegate::{delegate, set_apart, take_back, why_not_delegated};

/// The first release of OpenZFS with id-mapped mounts and user namespaces.
const MAPPED: (u32, u32) = (2, 2);

/// The driver that stores the root of a zone as a ZFS file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zfs;

/// Returns true if a zonepath contains, or contained, a dataset of this driver.
pub(crate) fn is_at(zonepath: &Folder) -> Result<bool> {
    Ok(zonepath.read_link(LINK)?.is_some())
}

/// Returns the version of OpenZFS if that version has no id-mapped mounts.
fn unmapped() -> Option<(u32, u32)> {
    version().filter(|found| *found < MAPPED)
}

/// Fails if the zonepath is on a ZFS release on which layers cannot be mounted.
pub(crate) fn refuse_layers(zonepath: &Path) -> Result<()> {
    match unmapped() {
        Some((major, minor)) if is_on(&nearest(zonepath)?)? => Err(fail(
            zonepath,
            format!(
                "on OpenZFS {major}.{minor}, which an overlay cannot be on: install the zone from \
                 the archive or directory itself, or put the zonepath on ext4, xfs or btrfs"
            ),
        )),
        _ => Ok(()),
    }
}

/// Returns true if a root must be mounted without an id map: the ZFS release has no id-mapped
/// mounts, and the files already have the host ids of the zone, which begin with `first`.
pub(crate) fn is_given(root: &Path, first: u32) -> Result<bool> {
    let root = Folder::open(root)?;
    Ok(is_on(&root)? && unmapped().is_some() && owners::are_of(&root, first)?)
}

impl Driver for Zfs {
    fn name(&self) -> &'static str {
        "zfs"
    }

    fn kind(&self, zonepath: &Path) -> Result<String> {
        let (place, ..) = Place::open(zonepath)?;
        let root = place.root()?;
        Ok(match unmapped() {
            None => format!("ZFS file system {root}"),
            Some((major, minor)) => format!(
                "ZFS file system {root}; on OpenZFS {major}.{minor}, without id-mapped mounts, \
                 files are stored under the host's numbers of the zone's ids, and a clone's \
                 rewritten at its first boot"
            ),
        })
    }

    fn create(&self, zonepath: &Path) -> Result<()> {
        let (place, _lock) = Place::make(zonepath)?;
        place.make_root(&["create"], "canmount=on", &place.root()?)
    }

    fn clone(&self, origin: &Path, snapshot: Option<&Name>, target: &Path) -> Result<()> {
        clones::clone(origin, snapshot, target)
    }

    fn destroy(&self, zonepath: &Path) -> Result<()> {
        clones::destroy(zonepath)
    }

    fn stack(&self, zonepath: &Path) -> Result<Stack> {
        let (place, parts, _lock) = Place::open(zonepath)?;
        place.show(&parts)?;
        Ok(Stack {
            volatile: false,
            zonepath: zonepath.to_owned(),
            top: zonepath.join(ROOT),
            work: zonepath.join(WORK),
            lowers: Vec::new(),
        })
    }

    fn give_to(&self, zonepath: &Path, first_id: u32) -> Result<u64> {
        let folder = Folder::open(zonepath)?;
        let root = Folder::open(&zonepath.join(ROOT))?;
        let first = match unmapped() {
            Some(_) => first_id,
            // The files were stored on an older release of OpenZFS, or received from such a host.
            None if owners::are_shifted(&folder, &root)? => 0,
            None => return Ok(0),
        };
        let _lock = folder.lock(FlockOperation::LockExclusive)?;
        owners::give(&folder, &root, first)
    }

    fn settle(&self, _zonepath: &Path, _index: &Path) -> Result<()> {
        // Nothing remains to be done, because a command of ZFS returns only when its changes are on
        // disk.
        Ok(())
    }

    fn usage(&self, zonepath: &Path) -> Result<Usage> {
        let stack = self.stack(zonepath)?;
        let (place, ..) = Place::open(zonepath)?;
        Ok(Usage {
            own_bytes: number(&place.base, "used")?,
            ..crate::usage::of(&stack)?
        })
    }

    fn snapshot(&self, zonepath: &Path, name: &Name) -> Result<()> {
        let (place, _, _lock) = Place::open(zonepath)?;
        // The snapshots of former roots count, too.
        match place.shot(name) {
            Err(Error::NoSnapshot { .. }) => {}
            Err(e) => return Err(e),
            Ok(_) => {
                return Err(Error::SnapshotExists {
                    name: name.to_string(),
                });
            }
        }
        zfs(&["snapshot", &format!("{}@{name}", place.root()?)]).map(drop)
    }

    fn has_layers(&self) -> bool {
        false
    }

    fn stops_for_snapshots(&self) -> bool {
        false
    }

    // A snapshot on ZFS costs nothing, so it is made in any case.
    fn unchanged_since(&self, _zonepath: &Path) -> Result<Option<Name>> {
        Ok(None)
    }

    fn snapshots(&self, zonepath: &Path) -> Result<Vec<Snapshot>> {
        let all = self.snapshot_usages(zonepath)?.into_iter();
        Ok(all.map(|(snapshot, _)| snapshot).collect())
    }

    fn snapshot_usages(&self, zonepath: &Path) -> Result<Vec<(Snapshot, SnapshotUsage)>> {
        let (place, _, _lock) = Place::open(zonepath)?;
        let known = |shot: Shot| {
            let since = Duration::from_secs(shot.created);
            let snapshot = Snapshot {
                name: shot.named()?,
                created: SystemTime::UNIX_EPOCH.checked_add(since)?,
                depth: 0,
            };
            let usage = SnapshotUsage {
                own_bytes: shot.used,
                all_bytes: shot.referenced,
            };
            Some((snapshot, usage))
        };
        Ok(place.named_shots()?.into_iter().filter_map(known).collect())
    }

    /// The tree is the folder in which ZFS shows the snapshot. The kernel mounts it when the folder
    /// is opened, in the mount namespace of the host.
    fn snapshot_stack(&self, zonepath: &Path, name: &Name) -> Result<Stack> {
        let (place, parts, _lock) = Place::open(zonepath)?;
        place.show(&parts)?;
        let shot = place.shot(name)?;
        if shot.of != place.root()? {
            return Err(place.fail(format!(
                "snapshot {name} is one of a root before a rollback, which is not mounted: clone -s \
                 {name} makes a zone of it"
            )));
        }
        let root = zonepath.join(ROOT);
        let top = root.join(".zfs/snapshot").join(name.as_str());
        Folder::open(&top)?.is_empty()?;
        Ok(Stack {
            volatile: false,
            zonepath: zonepath.to_owned(),
            top,
            work: zonepath.join(WORK),
            lowers: Vec::new(),
        })
    }

    fn snapshot_usage(&self, zonepath: &Path, name: &Name) -> Result<SnapshotUsage> {
        let (place, _, _lock) = Place::open(zonepath)?;
        let shot = place.shot(name)?;
        Ok(SnapshotUsage {
            own_bytes: shot.used,
            all_bytes: shot.referenced,
        })
    }

    /// Adds up what each snapshot frees alone. Blocks that several of them share are not counted.
    fn bytes_together(&self, zonepath: &Path, names: &BTreeSet<Name>) -> Result<u64> {
        let all = self.snapshot_usages(zonepath)?;
        let wanted = all.iter().filter(|(one, _)| names.contains(&one.name));
        Ok(wanted.map(|(_, usage)| usage.own_bytes).sum())
    }

    /// Returns the use of the pool: statvfs of a file system of ZFS does not count the others.
    fn fullness(&self, zonepath: &Path) -> Result<Fullness> {
        let (place, _, _lock) = Place::open(zonepath)?;
        let pool = FileSystem::parse(place.base.pool());
        let pool = pool.ok_or_else(|| place.fail("its pool has no name"))?;
        Ok(Fullness {
            used: number(&pool, "used")?,
            free: number(&pool, "available")?,
            disk: format!("pool {}", pool.as_str()),
        })
    }

    fn destroy_snapshot(&self, zonepath: &Path, name: &Name) -> Result<()> {
        let (place, _, _lock) = Place::open(zonepath)?;
        let shot = place.shot(name)?;
        clones::drop_shot(&shot)?;
        place.drop_old_roots()
    }

    fn rollback(&self, zonepath: &Path, name: &Name) -> Result<()> {
        let (place, parts, _lock) = Place::open(zonepath)?;
        let shot = place.shot(name)?;
        place.roll_back(&shot, &parts)
    }

    fn set_quota(&self, zonepath: &Path, bytes: Option<u64>) -> Result<()> {
        let (place, _, _lock) = Place::open(zonepath)?;
        let limit = bytes.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string());
        zfs(&["set", &format!("quota={limit}"), place.base.as_str()]).map(drop)
    }

    fn quota(&self, zonepath: &Path) -> Result<Option<u64>> {
        let (place, _, _lock) = Place::open(zonepath)?;
        Ok(Some(number(&place.base, "quota")?).filter(|&bytes| bytes > 0))
    }

    fn send(
        &self,
        zonepath: &Path,
        name: &Name,
        since: Option<&Name>,
        to: BorrowedFd<'_>,
    ) -> Result<()> {
        stream::send(zonepath, name, since, to)
    }

    fn receive(&self, zonepath: &Path, from: BorrowedFd<'_>) -> Result<()> {
        stream::receive(zonepath, from)
    }

    fn collect(&self, _zonepath: &Path, _lost: Lost) -> Result<Collected> {
        Ok(Collected::default())
    }
}
