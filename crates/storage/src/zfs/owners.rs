//! Stores files under the host's numbers of a zone's ids, for OpenZFS without id-mapped mounts.
//!
//! Before OpenZFS 2.2, a zone sees the owners of files as they are stored. Therefore, before a
//! boot, every id in the zone's root becomes `first + id % 65536`. This changes plain ids that the
//! host wrote and the ids of the zone from which this zone was cloned; the zone's own ids stay. The
//! result does not depend on the former owners, so an interrupted walk is simply repeated. A walk
//! that changes no file costs one stat for each file. On 2.2 and newer, the same walk with a
//! `first` of 0 restores the plain ids once.
//!
//! | of a file | becomes |
//! |---|---|
//! | owner, group | as above |
//! | entries of access control lists | the same |
//! | capabilities | those of the root of a zone whose ids begin with `first` |
//! | set-id bits | stay: chown takes them away, and capabilities, so both are noted in an attribute before, and given back after |
//!
//! The link `owners` exists in the zonepath while the walk changes files. After a crash, the next
//! walk then checks the attributes of every file for notes of the interrupted walk. The owner of
//! the root folder changes last.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, XattrFlags};
use rustix::io::Errno;

use crate::attributes::{Xattrs, xattrs};
use crate::error::{Error, Result};
use crate::folder::Folder;

/// The link in a zonepath that marks an unfinished walk.
pub(super) const WALKING: &str = "owners";

/// Number of ids of a zone. The zone's first id is a multiple of this number.
const IDS_PER_ZONE: u32 = 65_536;

/// Maximum depth of folders. The path to each folder is walked from the root.
const MAX_FOLDER_DEPTH: usize = 2048;

/// The attribute that stores what chown removes from a file: the mode, and the capabilities if the
/// file has any.
const NOTE: &str = "trusted.zones.chown";
const CAPABILITY: &str = "security.capability";
const LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// The set-id bits of a mode.
const SET_ID: u32 = 0o6000;

/// Returns true if files in a root may be stored under the ids of a zone instead of plain ids.
pub(super) fn are_shifted(zonepath: &Folder, root: &Folder) -> Result<bool> {
    Ok(owner(root)? >= IDS_PER_ZONE || zonepath.read_link(WALKING)?.is_some())
}

/// Returns true if the files of a root have the host ids of the zone whose ids begin with `first`.
pub(super) fn are_of(root: &Folder, first: u32) -> Result<bool> {
    let owner = owner(root)?;
    Ok(owner - owner % IDS_PER_ZONE == first)
}

fn owner(root: &Folder) -> Result<u32> {
    let stat = rustix::fs::fstat(root).map_err(|e| root.fail("fstat", "", e))?;
    Ok(stat.st_uid)
}

/// Changes the owners of all files in a root to the ids of the zone whose ids begin with `first`.
/// Returns the number of files with a wrong owner. This is for halted zones.
pub(super) fn give(zonepath: &Folder, root: &Folder, first: u32) -> Result<u64> {
    let stat = rustix::fs::fstat(root).map_err(|e| root.fail("fstat", "", e))?;
    let marked = zonepath.read_link(WALKING)?.is_some();
    let mut walk = Walk {
        zonepath,
        device: stat.st_dev,
        first,
        marked,
        // For a return to ids of the host, each file is checked, because the former ids are
        // unknown.
        thorough: marked || first == 0,
        given: 0,
    };
    walk.tree(root)?;
    walk.give_open(root, "".as_ref(), root.as_fd(), &stat)?;
    if walk.marked {
        zonepath.unlink(WALKING)?;
    }
    Ok(walk.given)
}

struct Walk<'a> {
    zonepath: &'a Folder,
    device: u64,
    first: u32,
    /// True if the link `owners` exists.
    marked: bool,
    /// True if files with correct owners may still have notes.
    thorough: bool,
    given: u64,
}

impl Walk<'_> {
    /// Visits all entries in a root, except the root folder itself and file systems that are
    /// mounted in the root.
    fn tree(&mut self, root: &Folder) -> Result<()> {
        let mut pending: Vec<Vec<OsString>> = vec![Vec::new()];
        while let Some(names) = pending.pop() {
            let Some(folder) = open(root, &names)? else {
                continue;
            };
            for (name, _) in folder.entries()? {
                // The folder `.zfs` shows snapshots and contains no file of the zone.
                if names.is_empty() && name == ".zfs" {
                    continue;
                }
                let stat = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|e| folder.fail("stat", &name, e))?;
                if stat.st_dev != self.device {
                    continue;
                }
                if self.thorough || self.wants(&stat) {
                    self.one(&folder, &name, &stat)?;
                }
                if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                    if names.len() >= MAX_FOLDER_DEPTH {
                        return Err(Error::TooDeep(root.path().to_owned()));
                    }
                    let mut names = names.clone();
                    names.push(name);
                    pending.push(names);
                }
            }
        }
        Ok(())
    }

    fn own(&self, id: u32) -> u32 {
        self.first + id % IDS_PER_ZONE
    }

    fn wants(&self, stat: &Stat) -> bool {
        self.own(stat.st_uid) != stat.st_uid || self.own(stat.st_gid) != stat.st_gid
    }

    fn one(&mut self, at: &Folder, name: &OsStr, stat: &Stat) -> Result<()> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let flags = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => flags | OFlags::NONBLOCK,
            FileType::Directory => flags | OFlags::DIRECTORY,
            // These files have no set-id bits with an effect, and no attributes.
            _ if self.wants(stat) => {
                self.begin()?;
                let (user, group) = self.owners(stat);
                rustix::fs::chownat(at, name, user, group, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|e| at.fail("chown", name, e))?;
                self.given += 1;
                return Ok(());
            }
            _ => return Ok(()),
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        let file = match rustix::fs::openat2(at, name, flags, Mode::empty(), resolve) {
            Ok(file) => file,
            // A folder of the same file system is mounted over this entry.
            Err(Errno::XDEV) => return Ok(()),
            Err(e) => return Err(at.fail("openat2", name, e)),
        };
        let stat = rustix::fs::fstat(&file).map_err(|e| at.fail("fstat", name, e))?;
        self.give_open(at, name, file.as_fd(), &stat)
    }

    fn give_open(
        &mut self,
        at: &Folder,
        name: &OsStr,
        file: BorrowedFd<'_>,
        stat: &Stat,
    ) -> Result<()> {
        let all = xattrs(file).map_err(|e| at.fail("getxattr", name, e))?;
        let set = |attribute: &str, value: &[u8]| {
            rustix::fs::fsetxattr(file, attribute, value, XattrFlags::empty())
                .map_err(|e| at.fail("setxattr", name, e))
        };
        let mut note = all.get(NOTE.as_bytes()).cloned();
        if self.wants(stat) {
            self.begin()?;
            for list in LISTS {
                if let Some(value) = all.get(list.as_bytes()) {
                    set(list, &self.list(value))?;
                }
            }
            if note.is_none() {
                note = self.note(stat, &all);
                if let Some(value) = &note {
                    set(NOTE, value)?;
                }
            }
            let (user, group) = self.owners(stat);
            rustix::fs::fchown(file, user, group).map_err(|e| at.fail("chown", name, e))?;
            self.given += 1;
        }
        let Some((mode, capability)) = note.as_deref().and_then(<[u8]>::split_first_chunk) else {
            return Ok(());
        };
        let mode = Mode::from_raw_mode(u32::from_le_bytes(*mode) & 0o7777);
        rustix::fs::fchmod(file, mode).map_err(|e| at.fail("chmod", name, e))?;
        if !capability.is_empty() {
            // The capability gets the zone's first id at this time, even if the note was made for
            // another zone.
            set(CAPABILITY, &capability_of(capability, self.first))?;
        }
        rustix::fs::fremovexattr(file, NOTE).map_err(|e| at.fail("removexattr", name, e))
    }

    /// Creates the link that marks an unfinished walk.
    fn begin(&mut self) -> Result<()> {
        if !self.marked {
            self.zonepath.relink(WALKING, self.first.to_string())?;
            self.marked = true;
        }
        Ok(())
    }

    fn owners(&self, stat: &Stat) -> (Option<Uid>, Option<Gid>) {
        (
            Some(Uid::from_raw(self.own(stat.st_uid))),
            Some(Gid::from_raw(self.own(stat.st_gid))),
        )
    }

    /// Returns the properties to restore after chown, if any.
    fn note(&self, stat: &Stat, all: &Xattrs) -> Option<Vec<u8>> {
        let capability = all.get(CAPABILITY.as_bytes());
        if stat.st_mode & SET_ID == 0 && capability.is_none() {
            return None;
        }
        let mut note = (stat.st_mode & 0o7777).to_le_bytes().to_vec();
        note.extend(capability.into_iter().flatten());
        Some(note)
    }

    /// Converts an access control list to the zone's ids. After four bytes, the list has entries of
    /// eight bytes: a tag, the permissions and the id. A list in any other form stays unchanged.
    fn list(&self, value: &[u8]) -> Vec<u8> {
        const USER: u16 = 0x02;
        const GROUP: u16 = 0x08;
        let mut value = value.to_vec();
        for entry in value.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
            let tag = u16::from_le_bytes([entry[0], entry[1]]);
            if tag == USER || tag == GROUP {
                let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
                entry[4..].copy_from_slice(&self.own(id).to_le_bytes());
            }
        }
        value
    }
}

/// Opens the folder to which `names` lead from a root. Opens the names one by one, so one
/// descriptor is enough for any depth. Returns `None` if another file system is mounted on the
/// folder.
fn open(root: &Folder, names: &[OsString]) -> Result<Option<Folder>> {
    let mut folder = root.open_child(".")?;
    for name in names {
        folder = match folder.open_child(name) {
            Err(e) if e.is_other_mount() => return Ok(None),
            other => other?,
        };
    }
    Ok(Some(folder))
}

/// Converts a file's capabilities so that they are valid for the root of a zone. A capability has
/// one word with version and flags, then two pairs of words and, in version 3, the id of that root.
fn capability_of(value: &[u8], first: u32) -> Vec<u8> {
    const VERSION: u32 = 0xff00_0000;
    const PLAIN: usize = 20;
    let Some((magic, rest)) = value.split_first_chunk::<4>() else {
        return value.to_vec();
    };
    let magic = u32::from_le_bytes(*magic);
    let (version, pairs) = (magic & VERSION, rest.get(..PLAIN - 4));
    let Some(pairs) = pairs.filter(|_| matches!(version, 0x0200_0000 | 0x0300_0000)) else {
        return value.to_vec();
    };
    let version = if first == 0 { 0x0200_0000 } else { 0x0300_0000 };
    let mut own = (magic & !VERSION | version).to_le_bytes().to_vec();
    own.extend(pairs);
    if first != 0 {
        own.extend(first.to_le_bytes());
    }
    own
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
    use std::path::Path;

    use super::*;
    use crate::layout::ROOT;

    const A: u32 = 0x2000_0000;
    const B: u32 = 0x2001_0000;

    fn give(zonepath: &Folder, first: u32) -> Result<u64> {
        super::give(zonepath, &zonepath.open_child(ROOT)?, first)
    }

    fn are_shifted(zonepath: &Folder) -> bool {
        super::are_shifted(zonepath, &zonepath.open_child(ROOT).unwrap()).unwrap()
    }

    /// Returns the owner, group and mode of a file.
    fn look(path: &Path) -> (u32, u32, u32) {
        let stat = std::fs::symlink_metadata(path).unwrap();
        (stat.uid(), stat.gid(), stat.mode() & 0o7777)
    }

    fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
        xattrs(std::fs::File::open(path).unwrap())
            .unwrap()
            .get(name.as_bytes())
            .cloned()
    }

    fn set(path: &Path, name: &str, value: &[u8]) {
        rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
    }

    /// Creates a zonepath whose root has one file of each kind. Returns `None` without root
    /// privileges.
    fn zonepath() -> Option<(tempfile::TempDir, Folder)> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give files to others");
            return None;
        }
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join(ROOT);
        std::fs::create_dir_all(root.join("etc/deep")).unwrap();
        for (name, id, mode) in [("su", 0, 0o4755), ("ping", 0, 0o755), ("mine", 1000, 0o640)] {
            let path = root.join("etc").join(name);
            std::fs::write(&path, name).unwrap();
            chown(&path, Some(id), Some(id + 1)).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::hard_link(root.join("etc/mine"), root.join("etc/also")).unwrap();
        symlink("/etc/shadow", root.join("etc/link")).unwrap();
        lchown(root.join("etc/link"), Some(7), Some(7)).unwrap();
        set(&root.join("etc/ping"), CAPABILITY, &CAN_PING);
        let folder = Folder::open(place.path()).unwrap();
        Some((place, folder))
    }

    /// The capability cap_net_raw=ep.
    const CAN_PING: [u8; 20] = [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    fn is_of(root: &Path, first: u32) {
        assert_eq!(look(root).0, first);
        assert_eq!(look(&root.join("etc/deep")).0, first);
        assert_eq!(look(&root.join("etc/su")), (first, first + 1, 0o4755));
        assert_eq!(look(&root.join("etc/ping")), (first, first + 1, 0o755));
        assert_eq!(
            look(&root.join("etc/mine")),
            (first + 1000, first + 1001, 0o640)
        );
        assert_eq!(look(&root.join("etc/link")).0, first + 7);
        let can = attribute(&root.join("etc/ping"), CAPABILITY).unwrap();
        assert_eq!(can, capability_of(&CAN_PING, first));
        for name in ["su", "ping", "mine"] {
            assert_eq!(attribute(&root.join("etc").join(name), NOTE), None);
        }
    }

    #[test]
    fn files_follow_their_zone_and_come_back() {
        let Some((place, zonepath)) = zonepath() else {
            return;
        };
        let root = place.path().join(ROOT);
        // The seven files are root, etc, deep, su, ping, mine (by one of its names) and link.
        assert_eq!(give(&zonepath, A).unwrap(), 7);
        is_of(&root, A);
        assert!(are_shifted(&zonepath));
        assert_eq!(give(&zonepath, A).unwrap(), 0);
        // The root is now that of a clone, with one file that the host created.
        std::fs::write(root.join("etc/new"), "").unwrap();
        chown(root.join("etc/new"), Some(33), Some(0)).unwrap();
        assert_eq!(give(&zonepath, B).unwrap(), 8);
        is_of(&root, B);
        assert_eq!(look(&root.join("etc/new")), (B + 33, B, 0o644));
        assert_eq!(give(&zonepath, 0).unwrap(), 8);
        is_of(&root, 0);
        assert_eq!(
            attribute(&root.join("etc/ping"), CAPABILITY).unwrap(),
            CAN_PING
        );
        assert!(!are_shifted(&zonepath));
    }

    #[test]
    fn owners_are_restored_after_a_crash() {
        let Some((place, zonepath)) = zonepath() else {
            return;
        };
        let root = place.path().join(ROOT);
        give(&zonepath, A).unwrap();
        // This is the state after a walk to A that was interrupted between chown and chmod.
        let (su, ping) = (root.join("etc/su"), root.join("etc/ping"));
        set(&su, NOTE, &0o4755_u32.to_le_bytes());
        std::fs::set_permissions(&su, std::fs::Permissions::from_mode(0o755)).unwrap();
        set(
            &ping,
            NOTE,
            &[&0o755_u32.to_le_bytes()[..], &CAN_PING].concat(),
        );
        rustix::fs::removexattr(&ping, CAPABILITY).unwrap();
        zonepath.link(WALKING, A.to_string()).unwrap();
        assert_eq!(give(&zonepath, A).unwrap(), 0);
        is_of(&root, A);
        assert_eq!(zonepath.read_link(WALKING).unwrap(), None);
        // A clone of the interrupted root has no link `owners`, and needs none.
        set(&su, NOTE, &0o4755_u32.to_le_bytes());
        std::fs::set_permissions(&su, std::fs::Permissions::from_mode(0o755)).unwrap();
        give(&zonepath, B).unwrap();
        is_of(&root, B);
    }

    #[test]
    fn a_list_has_the_ids_of_its_zone() {
        let Some((_place, zonepath)) = zonepath() else {
            return;
        };
        let walk = Walk {
            zonepath: &zonepath,
            device: 0,
            first: A,
            marked: false,
            thorough: false,
            given: 0,
        };
        let entry = |tag: u16, id: u32| {
            let permissions = 5_u16.to_le_bytes();
            [&tag.to_le_bytes()[..], &permissions, &id.to_le_bytes()].concat()
        };
        let list = |ids: [u32; 3]| {
            let [user, group, other] = ids;
            let entries = [entry(0x02, user), entry(0x08, group), entry(0x20, other)];
            [2_u32.to_le_bytes().to_vec(), entries.concat()].concat()
        };
        assert_eq!(
            walk.list(&list([1000, B + 5, u32::MAX])),
            list([A + 1000, A + 5, u32::MAX])
        );
        assert_eq!(walk.list(b"\x02"), b"\x02");
    }

    #[test]
    fn capabilities_count_for_one_root() {
        let own = capability_of(&CAN_PING, A);
        assert_eq!((own[3], &own[20..]), (3, &A.to_le_bytes()[..]));
        assert_eq!(capability_of(&own, 0), CAN_PING);
        assert_eq!(capability_of(&own, B)[20..], B.to_le_bytes());
        assert_eq!(capability_of(b"short", A), b"short");
    }
}
