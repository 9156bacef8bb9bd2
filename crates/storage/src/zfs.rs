//! Roots of zones as ZFS file systems.
//!
//! ```text
//! <zonepath>/
//!   zfs                 link whose text is the name of the zone's file system
//!   root/               where the zone's root is mounted
//! <holder>/<zone>       the zone's file system, never mounted: quota, space;
//!                       <holder> is the file system that the zonepath is on
//!   root                its root; what is in it has plain owners
//!   root@<name>         a named snapshot
//!   root@_<id>          what a clone came from; marked to go with its last clone
//!   old-<id>            a root that was rolled back, kept for younger snapshots of it
//!   new                 a root that is being rolled back to
//! ```
//!
//! No layers: `zfs clone` shares the blocks. Each step is a command of ZFS, done or
//! not done, and on disk when it returns:
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
//! A clone is promoted before its origin goes: it then holds the blocks that both
//! share. They count against its quota, so that is raised by as much.
//!
//! What the zone sees is `root` by an id-mapped mount, as of any file system. OpenZFS
//! has them since 2.2. With an older one files would have to be stored under shifted
//! owners, and each clone, whose ids are others, be rewritten: it is refused.

mod clones;
mod command;
mod delegate;
mod rollback;

use std::collections::BTreeSet;
use std::path::{Component, Path};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, FsWord};

use crate::collect::{Collected, Lost};
use crate::dataset::{ROOT, WORK, check_path};
use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::folder::{Folder, Lock};
use crate::id::Id;
use crate::name::Name;
use crate::snapshot::{Snapshot, SnapshotUsage, TopCopy};
use crate::stack::Stack;
use crate::usage::Usage;
pub use delegate::{delegate, set_apart, take_back, why_not_delegated};

use command::{FileSystem, table, version, zfs};

/// `f_type` of ZFS.
const ZFS: FsWord = 0x2fc1_2fc1;

/// The link that names the zone's file system.
const LINK: &str = "zfs";

/// A user property that says whose the file system is: of no other may anything be
/// destroyed, whatever the link says.
const OWNER: &str = "zones:zonepath";

/// The first release with id-mapped mounts.
const OLDEST: (u32, u32) = (2, 2);

/// The root of a zone as a ZFS file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zfs;

/// Whether a zonepath holds, or held, a dataset of this driver.
pub(crate) fn is_at(zonepath: &Folder) -> Result<bool> {
    Ok(zonepath.read_link(LINK)?.is_some())
}

/// Whether something is on ZFS.
pub(crate) fn is_on(folder: &Folder) -> Result<bool> {
    let vfs = rustix::fs::fstatfs(folder).map_err(|e| folder.fail("fstatfs", "", e))?;
    Ok(vfs.f_type == ZFS)
}

/// Where the dataset of a zone is.
struct Place {
    zonepath: Folder,
    base: FileSystem,
}

/// A root of a zone: that it has, had or gets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: FileSystem,
    /// The snapshot it was cloned from, or `-`.
    origin: String,
    mounted: bool,
    /// Whether it is mounted when its pool is imported.
    mounts: bool,
}

/// A snapshot as ZFS knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shot {
    /// Whose it is.
    of: FileSystem,
    /// What follows the `@`.
    name: String,
    /// Orders snapshots by age.
    txg: u64,
    /// Seconds since 1970.
    created: u64,
    used: u64,
    referenced: u64,
    clones: Vec<FileSystem>,
}

impl Shot {
    fn full(&self) -> String {
        format!("{}@{}", self.of, self.name)
    }

    /// Nothing for what a clone came from.
    fn named(&self) -> Option<Name> {
        self.name.parse().ok()
    }
}

impl Place {
    /// The dataset that a zonepath's link names; nothing without link.
    fn find(zonepath: &Path) -> Result<Option<Self>> {
        check_path(zonepath)?;
        let folder = match Folder::open(zonepath) {
            Err(e) if e.is_missing() => return Ok(None),
            other => other?,
        };
        let Some(text) = folder.read_link(LINK)? else {
            return Ok(None);
        };
        let base = text.to_str().and_then(FileSystem::parse);
        let base = base.ok_or_else(|| Error::BadLink {
            path: zonepath.join(LINK),
            text: text.to_string_lossy().into_owned(),
        })?;
        Ok(Some(Self {
            zonepath: folder,
            base,
        }))
    }

    /// Opens a dataset, going on with a rollback that a crash cut off.
    fn open(zonepath: &Path) -> Result<(Self, Vec<Part>, Lock)> {
        let none = || Error::NoDataset(zonepath.to_owned());
        let place = Self::find(zonepath)?.ok_or_else(none)?;
        let lock = place.lock()?;
        let mut parts = place.parts()?.ok_or_else(none)?;
        if place.mend(&parts)? {
            parts = place.parts()?.ok_or_else(none)?;
        }
        let root = place.root()?;
        match parts.iter().any(|part| part.name == root) {
            true => Ok((place, parts, lock)),
            false => Err(none()),
        }
    }

    fn lock(&self) -> Result<Lock> {
        self.zonepath.lock(FlockOperation::LockExclusive)
    }

    fn path(&self) -> &Path {
        self.zonepath.path()
    }

    fn fail(&self, why: impl Into<String>) -> Error {
        fail(self.path(), why)
    }

    /// A file system of the zone.
    fn part(&self, name: &str) -> Result<FileSystem> {
        self.base
            .child(name)
            .ok_or_else(|| self.fail(format!("{}/{name}: the name is too long", self.base)))
    }

    fn root(&self) -> Result<FileSystem> {
        self.part(ROOT)
    }

    /// The parts of the dataset; nothing when there is no such file system. Refuses one
    /// that was not made for this zonepath.
    fn parts(&self) -> Result<Option<Vec<Part>>> {
        let columns = format!("name,origin,mounted,canmount,{OWNER}");
        let words = [
            "list",
            "-H",
            "-p",
            "-r",
            "-d",
            "1",
            "-t",
            "filesystem",
            "-o",
        ];
        let text = match zfs(&[&words[..], &[&columns, self.base.as_str()]].concat()) {
            Err(e) if is_missing(&e) => return Ok(None),
            other => other?,
        };
        let mut parts = Vec::new();
        for row in table(&text) {
            let [name, origin, mounted, canmount, owner] = row[..] else {
                continue;
            };
            let Some(name) = FileSystem::parse(name) else {
                continue;
            };
            if name != self.base {
                parts.push(Part {
                    name,
                    origin: origin.to_owned(),
                    mounted: mounted == "yes",
                    mounts: canmount == "on",
                });
            } else if Path::new(owner) != self.path() {
                return Err(self.fail(format!(
                    "{} belongs to {owner}; if the zonepath was moved: zfs set {OWNER}={} {}",
                    self.base,
                    self.path().display(),
                    self.base
                )));
            }
        }
        Ok(Some(parts))
    }

    /// All snapshots, the oldest first.
    fn shots(&self) -> Result<Vec<Shot>> {
        let columns = "name,createtxg,creation,used,referenced,clones";
        let words = ["list", "-H", "-p", "-r", "-t", "snapshot", "-o", columns];
        let text = zfs(&[&words[..], &[self.base.as_str()]].concat())?;
        let mut all: Vec<Shot> = table(&text).filter_map(|row| parse_shot(&row)).collect();
        all.sort_by_key(|shot| shot.txg);
        Ok(all)
    }

    /// The snapshots with names, the oldest first. `zfs snapshot -r` gives one name to
    /// those of all parts: then the root's counts.
    fn named_shots(&self) -> Result<Vec<Shot>> {
        let root = self.root()?;
        let mut all = self.shots()?;
        all.retain(|shot| shot.of != self.base && shot.named().is_some());
        all.sort_by_key(|shot| shot.of != root);
        let mut known = BTreeSet::new();
        all.retain(|shot| known.insert(shot.name.clone()));
        all.sort_by_key(|shot| shot.txg);
        Ok(all)
    }

    /// The named snapshot.
    fn shot(&self, name: &Name) -> Result<Shot> {
        let mut all = self.named_shots()?.into_iter();
        all.find(|shot| shot.name == name.as_str())
            .ok_or_else(|| Error::NoSnapshot {
                name: name.to_string(),
            })
    }

    /// Mounts the root where it is to be.
    fn show(&self, parts: &[Part]) -> Result<()> {
        let root = self.root()?;
        for part in parts.iter().filter(|part| part.name == root) {
            if !part.mounts {
                zfs(&["set", "canmount=on", root.as_str()])?;
            }
            if !part.mounted {
                self.zonepath.make(ROOT)?;
                zfs(&["mount", root.as_str()])?;
            }
        }
        Ok(())
    }

    /// Unmounts the root; fails while it is used.
    fn hide(&self, parts: &[Part]) -> Result<()> {
        for part in parts.iter().filter(|part| part.mounted) {
            zfs(&["unmount", part.name.as_str()])?;
        }
        Ok(())
    }

    /// The options of a root.
    fn options(&self) -> [String; 5] {
        let at = self.path().join(ROOT);
        [
            format!("mountpoint={}", at.display()),
            "devices=off".to_owned(),
            "exec=on".to_owned(),
            "acltype=posix".to_owned(),
            "xattr=sa".to_owned(),
        ]
    }

    /// Makes the file system that the parts are in, with the link to it.
    fn make(zonepath: &Path) -> Result<(Self, Lock)> {
        check_path(zonepath)?;
        refuse_old(zonepath)?;
        let (folder, _) = Folder::open_or_make(zonepath)?;
        let lock = folder.lock(FlockOperation::LockExclusive)?;
        if let Some(place) = Self::find(zonepath)? {
            // Of a command that died before there was a root; or that counts.
            match place.parts()? {
                None => folder.unlink(LINK)?,
                Some(parts) if parts.is_empty() => return Ok((place, lock)),
                Some(_) => return Err(Error::Exists(zonepath.to_owned())),
            };
        }
        if folder.kind(ROOT)?.is_some() && !folder.open_child(ROOT)?.is_empty()? {
            return Err(Error::Exists(zonepath.to_owned()));
        }
        let base = choose(zonepath)?;
        folder.link(LINK, base.as_str())?;
        let owner = format!("{OWNER}={}", zonepath.display());
        let options = [
            "create",
            "-o",
            "canmount=off",
            "-o",
            "mountpoint=none",
            "-o",
        ];
        zfs(&[&options[..], &[&owner, base.as_str()]].concat())?;
        let place = Self {
            zonepath: folder,
            base,
        };
        Ok((place, lock))
    }

    /// Runs `zfs create` or `zfs clone` for a root.
    fn make_root(&self, command: &[&str], canmount: &str, name: &FileSystem) -> Result<()> {
        let options = self.options();
        let mut words = vec![command[0], "-o", canmount];
        for option in &options {
            words.extend(["-o", option.as_str()]);
        }
        words.extend(&command[1..]);
        words.push(name.as_str());
        zfs(&words).map(drop)
    }
}

fn fail(path: &Path, why: impl Into<String>) -> Error {
    Error::ZfsRoot {
        zonepath: path.to_owned(),
        why: why.into(),
    }
}

/// A property; nothing when there is no such file system.
fn property(of: &FileSystem, name: &str) -> Result<Option<String>> {
    match zfs(&["get", "-H", "-p", "-o", "value", name, of.as_str()]) {
        Ok(text) => Ok(Some(text.trim_end_matches('\n').to_owned())),
        Err(e) if is_missing(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Zfs { why, .. } if why.contains("does not exist"))
}

fn number(of: &FileSystem, name: &str) -> Result<u64> {
    let text = property(of, name)?.unwrap_or_default();
    text.parse().map_err(|_| Error::Zfs {
        command: format!("zfs get {name} {of}"),
        why: format!("not a number: {text:?}"),
    })
}

fn parse_shot(row: &[&str]) -> Option<Shot> {
    let [name, txg, created, used, referenced, clones] = row else {
        return None;
    };
    let (of, name) = name.split_once('@')?;
    Some(Shot {
        of: FileSystem::parse(of)?,
        name: name.to_owned(),
        txg: txg.parse().ok()?,
        created: created.parse().ok()?,
        used: used.parse().ok()?,
        referenced: referenced.parse().ok()?,
        clones: clones.split(',').filter_map(FileSystem::parse).collect(),
    })
}

fn refuse_old(zonepath: &Path) -> Result<()> {
    match version() {
        Some(found) if found < OLDEST => Err(fail(
            zonepath,
            format!(
                "on OpenZFS {}.{}, which has no id-mapped mounts: it takes {}.{} or newer, or a \
                 zonepath on ext4, xfs or btrfs",
                found.0, found.1, OLDEST.0, OLDEST.1
            ),
        )),
        _ => Ok(()),
    }
}

/// The file system that a folder is on.
fn holder(of: &Path) -> Result<FileSystem> {
    if !is_on(&Folder::open(of)?)? {
        return Err(fail(of, "is not on ZFS"));
    }
    let text = zfs(&["list", "-H", "-o", "name", &of.to_string_lossy()])?;
    FileSystem::parse(text.trim_end())
        .ok_or_else(|| fail(of, format!("no zone can be below {:?}", text.trim_end())))
}

/// A name for the file system of a new zone: like the zonepath, where that is free.
fn choose(zonepath: &Path) -> Result<FileSystem> {
    let holder = holder(zonepath)?;
    let last = match zonepath.components().next_back() {
        Some(Component::Normal(last)) => last.to_string_lossy().into_owned(),
        _ => String::new(),
    };
    if let Some(name) = holder.child(&last) {
        if property(&name, "name")?.is_none() && name.child(&format!("old-{:016}", 0)).is_some() {
            return Ok(name);
        }
    }
    let name = holder.child(&format!("zone-{}", Id::random()?));
    name.ok_or_else(|| fail(zonepath, format!("the name {holder} is too long")))
}

impl Driver for Zfs {
    fn name(&self) -> &'static str {
        "zfs"
    }

    fn kind(&self, zonepath: &Path) -> Result<String> {
        let (place, ..) = Place::open(zonepath)?;
        Ok(format!("ZFS file system {}", place.root()?))
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
            zonepath: zonepath.to_owned(),
            top: zonepath.join(ROOT),
            work: zonepath.join(WORK),
            lowers: Vec::new(),
        })
    }

    fn settle(&self, _zonepath: &Path, _index: &Path) -> Result<()> {
        // A command of ZFS returns when what it did is on disk.
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
        // Those of former roots count, too.
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

    fn copy_top(&self, zonepath: &Path) -> Result<TopCopy> {
        Err(fail(zonepath, "a snapshot on ZFS copies nothing"))
    }

    fn snapshot_of_copy(&self, zonepath: &Path, _name: &Name, copy: TopCopy) -> Result<()> {
        copy.discard();
        Err(fail(zonepath, "a snapshot on ZFS is not made of copies"))
    }

    fn snapshots(&self, zonepath: &Path) -> Result<Vec<Snapshot>> {
        let (place, _, _lock) = Place::open(zonepath)?;
        let known = |shot: Shot| {
            let since = Duration::from_secs(shot.created);
            Some(Snapshot {
                name: shot.named()?,
                created: SystemTime::UNIX_EPOCH.checked_add(since)?,
                depth: 0,
            })
        };
        Ok(place.named_shots()?.into_iter().filter_map(known).collect())
    }

    fn snapshot_usage(&self, zonepath: &Path, name: &Name) -> Result<SnapshotUsage> {
        let (place, _, _lock) = Place::open(zonepath)?;
        let shot = place.shot(name)?;
        Ok(SnapshotUsage {
            own_bytes: shot.used,
            all_bytes: shot.referenced,
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

    fn collect(&self, _zonepath: &Path, _lost: Lost) -> Result<Collected> {
        Ok(Collected::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_snapshot_as_zfs_lists_it() {
        let row = [
            "tank/web/root@gold",
            "17",
            "1700000000",
            "8192",
            "4096",
            "tank/a/root,tank/b/root",
        ];
        let shot = parse_shot(&row).unwrap();
        assert_eq!(shot.full(), "tank/web/root@gold");
        assert_eq!(shot.named(), Some("gold".parse().unwrap()));
        assert_eq!(shot.txg, 17);
        let clones: Vec<_> = shot.clones.iter().map(FileSystem::as_str).collect();
        assert_eq!(clones, ["tank/a/root", "tank/b/root"]);

        let inner = ["tank/web/root@_00ff", "1", "2", "3", "4", "-"];
        let shot = parse_shot(&inner).unwrap();
        assert_eq!(shot.named(), None);
        assert!(shot.clones.is_empty());
        assert_eq!(
            parse_shot(&["tank/web/root", "1", "2", "3", "4", "-"]),
            None
        );
    }

    #[test]
    fn a_zonepath_without_link_has_no_dataset() {
        let dir = std::env::temp_dir().join(format!("zones-zfs-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert!(Place::find(&dir).unwrap().is_none());
        assert!(Place::find(&dir.join("nowhere")).unwrap().is_none());
        std::os::unix::fs::symlink("-r/x", dir.join(LINK)).unwrap();
        assert!(matches!(Place::find(&dir), Err(Error::BadLink { .. })));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
