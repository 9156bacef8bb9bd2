//! ZFS file systems that a zone administers itself.

use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};

use super::MAPPED;
use super::command::{FileSystem, table, version, zfs};
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::zfs::property::{OWNER, is_missing, is_on, property};

/// Returns the reason why a dataset cannot be delegated on this host, or `None` if it can be
/// delegated.
#[must_use]
pub fn why_not_delegated(dataset: &str) -> Option<String> {
    match version() {
        None => return Some("ZFS is not loaded on this host".to_owned()),
        Some(found) if found < MAPPED => {
            return Some(format!(
                "OpenZFS {}.{} knows no user namespaces; it takes {}.{} or newer",
                found.0, found.1, MAPPED.0, MAPPED.1
            ));
        }
        Some(_) => {}
    }
    match find(dataset).and_then(|name| zone_in(&name)) {
        Ok(None) => None,
        Ok(Some(zonepath)) => Some(format!(
            "it holds the root of a zone, or is part of one: {}",
            zonepath.display()
        )),
        Err(e) if is_missing(&e) => Some("there is no such dataset".to_owned()),
        Err(e) => Some(e.to_string()),
    }
}

/// Returns the zonepath of a zone whose root is in this file system, or that contains this file
/// system.
fn zone_in(name: &FileSystem) -> Result<Option<PathBuf>> {
    let words = ["get", "-H", "-r", "-t", "filesystem,volume", "-o", "value"];
    let text = zfs(&[&words[..], &[OWNER, name.as_str()]].concat())?;
    let mut owners = text.lines().filter(|owner| *owner != "-");
    Ok(owners.next().map(PathBuf::from))
}

/// Takes a dataset, and all datasets below, from the host. Until `zfs set zoned=off`, the host
/// mounts none of these datasets, even after the zone has halted. Their content belongs to the
/// zone. The caller must be in the mount namespace in which they are mounted.
///
/// ZFS stores the host's numbers of ids, even for files that a zone writes. If root owns the
/// topmost folder of a dataset, the folder gets the owner `owner`, the zone's root. The content of
/// the folder keeps its owners.
pub fn set_apart(dataset: &str, owner: u32) -> Result<()> {
    let name = find(dataset)?;
    if property(&name, "zoned")?.as_deref() == Some("on") {
        return Ok(());
    }
    let words = [
        "list",
        "-H",
        "-r",
        "-t",
        "filesystem",
        "-o",
        "mounted,mountpoint",
    ];
    let text = zfs(&[&words[..], &[name.as_str()]].concat())?;
    for row in table(&text) {
        if let ["yes", at] = row[..] {
            give_folder(Path::new(at), owner)?;
        }
    }
    zfs(&["set", "zoned=on", name.as_str()]).map(drop)
}

fn give_folder(at: &Path, owner: u32) -> Result<()> {
    let folder = Folder::open(at)?;
    let stat = rustix::fs::fstat(&folder).map_err(|e| folder.fail("fstat", "", e))?;
    if stat.st_uid != 0 || !is_on(&folder)? {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(owner), Gid::from_raw(owner));
    rustix::fs::fchown(&folder, Some(user), Some(group)).map_err(|e| folder.fail("chown", "", e))
}

/// Permits the root of a user namespace to administer a dataset that was set apart, and all
/// datasets below. `namespace` is a file such as `/proc/1/ns/user`.
pub fn delegate(dataset: &str, namespace: &Path) -> Result<()> {
    let name = find(dataset)?;
    zfs(&[
        "zone".as_ref(),
        namespace.as_os_str(),
        name.as_str().as_ref(),
    ])
    .map(drop)
}

/// Withdraws this permission of a user namespace for a dataset.
pub fn take_back(dataset: &str, namespace: &Path) -> Result<()> {
    let name = find(dataset)?;
    zfs(&[
        "unzone".as_ref(),
        namespace.as_os_str(),
        name.as_str().as_ref(),
    ])
    .map(drop)
}

fn find(dataset: &str) -> Result<FileSystem> {
    FileSystem::parse(dataset).ok_or_else(|| Error::Zfs {
        command: format!("zfs zone {dataset:?}"),
        why: "not the name of a dataset that a zone can have".to_owned(),
    })
}
