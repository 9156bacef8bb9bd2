//! Finds the file systems of a zone, and their ZFS properties.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use rustix::fs::FlockOperation;

use super::command::{FileSystem, table, zfs};
use crate::dataset::check_path;
use crate::error::{Error, Result};
use crate::folder::{Folder, Lock};
use crate::id::Id;
use crate::layout::ROOT;
use crate::name::Name;
use crate::zfs::property::{LINK, OWNER, fail, is_missing, is_on, property};

/// The ZFS file systems of a zone.
pub(super) struct Place {
    pub(super) zonepath: Folder,
    pub(super) base: FileSystem,
}

/// A root of a zone: its current root, a former root or its next root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: FileSystem,
    /// The snapshot from which this root was cloned, or `-`.
    pub(super) origin: String,
    pub(super) mounted: bool,
    /// True if the import of the pool mounts this root.
    pub(super) mounts: bool,
}

/// A snapshot of ZFS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shot {
    /// The file system of the snapshot.
    pub(super) of: FileSystem,
    /// The part of the snapshot's name after the `@`.
    pub(super) name: String,
    /// The transaction group in which the snapshot was made, which orders snapshots by age.
    pub(super) txg: u64,
    /// The creation time of the snapshot, in seconds since 1970.
    pub(super) created: u64,
    pub(super) used: u64,
    pub(super) referenced: u64,
    pub(super) clones: Vec<FileSystem>,
}

impl Shot {
    pub(super) fn full(&self) -> String {
        format!("{}@{}", self.of, self.name)
    }

    /// Returns the name of the snapshot, or `None` for a snapshot that exists only as the origin of
    /// a clone.
    pub(super) fn named(&self) -> Option<Name> {
        self.name.parse().ok()
    }
}

impl Place {
    /// Returns the dataset that the link in a zonepath names, or `None` without a link.
    pub(super) fn find(zonepath: &Path) -> Result<Option<Self>> {
        check_path(zonepath)?;
        let folder = match Folder::open(zonepath) {
            Err(e) if e.is_missing() => return Ok(None),
            other => other?,
        };
        folder.must_be_known()?;
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

    /// Opens a dataset, and continues a rollback that a crash interrupted.
    pub(super) fn open(zonepath: &Path) -> Result<(Self, Vec<Part>, Lock)> {
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

    pub(super) fn lock(&self) -> Result<Lock> {
        self.zonepath.lock(FlockOperation::LockExclusive)
    }

    pub(super) fn path(&self) -> &Path {
        self.zonepath.path()
    }

    pub(super) fn fail(&self, why: impl Into<String>) -> Error {
        fail(self.path(), why)
    }

    /// Returns the name of a file system inside the zone's file system.
    pub(super) fn part(&self, name: &str) -> Result<FileSystem> {
        self.base
            .child(name)
            .ok_or_else(|| self.fail(format!("{}/{name}: the name is too long", self.base)))
    }

    pub(super) fn root(&self) -> Result<FileSystem> {
        self.part(ROOT)
    }

    /// Returns the parts of the dataset, or `None` if the file system does not exist. Fails for a
    /// file system that was not made for this zonepath.
    pub(super) fn parts(&self) -> Result<Option<Vec<Part>>> {
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

    /// Returns all snapshots, the oldest first.
    pub(super) fn shots(&self) -> Result<Vec<Shot>> {
        let columns = "name,createtxg,creation,used,referenced,clones";
        let words = ["list", "-H", "-p", "-r", "-t", "snapshot", "-o", columns];
        let text = zfs(&[&words[..], &[self.base.as_str()]].concat())?;
        let mut all: Vec<Shot> = table(&text).filter_map(|row| parse_shot(&row)).collect();
        all.sort_by_key(|shot| shot.txg);
        Ok(all)
    }

    /// Returns the snapshots that have valid names, the oldest first. `zfs snapshot -r` makes
    /// snapshots with the same name of all parts; then only the snapshot of the root counts.
    pub(super) fn named_shots(&self) -> Result<Vec<Shot>> {
        let root = self.root()?;
        let mut all = self.shots()?;
        all.retain(|shot| shot.of != self.base && shot.named().is_some());
        all.sort_by_key(|shot| shot.of != root);
        let mut known = BTreeSet::new();
        all.retain(|shot| known.insert(shot.name.clone()));
        all.sort_by_key(|shot| shot.txg);
        Ok(all)
    }

    /// Returns the snapshot with this name.
    pub(super) fn shot(&self, name: &Name) -> Result<Shot> {
        let mut all = self.named_shots()?.into_iter();
        all.find(|shot| shot.name == name.as_str())
            .ok_or_else(|| Error::NoSnapshot {
                name: name.to_string(),
            })
    }

    /// Mounts the root at its folder in the zonepath.
    pub(super) fn show(&self, parts: &[Part]) -> Result<()> {
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

    /// Unmounts the root. Fails while a process uses the root.
    pub(super) fn hide(&self, parts: &[Part]) -> Result<()> {
        for part in parts.iter().filter(|part| part.mounted) {
            zfs(&["unmount", part.name.as_str()])?;
        }
        Ok(())
    }

    /// Returns the ZFS options of a root.
    pub(super) fn options(&self) -> [String; 5] {
        let at = self.path().join(ROOT);
        [
            format!("mountpoint={}", at.display()),
            "devices=off".to_owned(),
            "exec=on".to_owned(),
            "acltype=posix".to_owned(),
            "xattr=sa".to_owned(),
        ]
    }

    /// Creates the file system that contains the parts, and the link to this file system.
    pub(super) fn make(zonepath: &Path) -> Result<(Self, Lock)> {
        check_path(zonepath)?;
        let (folder, _) = Folder::open_or_make(zonepath)?;
        let lock = folder.lock(FlockOperation::LockExclusive)?;
        if let Some(place) = Self::find(zonepath)? {
            // The link is that of a command that was killed before it made a root, or that of an
            // existing dataset.
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
    pub(super) fn make_root(
        &self,
        command: &[&str],
        canmount: &str,
        name: &FileSystem,
    ) -> Result<()> {
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

/// Returns the ZFS file system that contains a folder.
pub(super) fn holder(of: &Path) -> Result<FileSystem> {
    if !is_on(&Folder::open(of)?)? {
        return Err(fail(of, "is not on ZFS"));
    }
    let text = zfs(&["list", "-H", "-o", "name", &of.to_string_lossy()])?;
    FileSystem::parse(text.trim_end())
        .ok_or_else(|| fail(of, format!("no zone can be below {:?}", text.trim_end())))
}

/// Chooses the name of the file system for a new zone: the name of the zonepath, if no file system
/// has this name.
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
