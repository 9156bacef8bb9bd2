//! File systems that a zone administers itself.

use std::path::Path;

use super::command::{FileSystem, version, zfs};
use super::{OLDEST, property};
use crate::error::{Error, Result};

/// The device by which zfs(8) talks to the kernel.
pub const DEVICE: &str = "/dev/zfs";

/// Why a dataset cannot be delegated on this host; nothing when it can.
#[must_use]
pub fn why_not_delegated(dataset: &str) -> Option<String> {
    match version() {
        None => return Some("ZFS is not loaded on this host".to_owned()),
        Some(found) if found < OLDEST => {
            return Some(format!(
                "OpenZFS {}.{} knows no user namespaces; it takes {}.{} or newer",
                found.0, found.1, OLDEST.0, OLDEST.1
            ));
        }
        Some(_) => {}
    }
    match find(dataset).and_then(|name| property(&name, "type")) {
        Ok(Some(_)) => None,
        Ok(None) => Some("there is no such dataset".to_owned()),
        Err(e) => Some(e.to_string()),
    }
}

/// Lets the root of a user namespace, a file such as `/proc/1/ns/user`, administer a
/// dataset and all below it. The host mounts none of them any more, also when the zone
/// has halted, until `zfs set zoned=off`: what is in them is the zone's.
pub fn delegate(dataset: &str, namespace: &Path) -> Result<()> {
    let name = find(dataset)?;
    if property(&name, "zoned")?.as_deref() != Some("on") {
        zfs(&["set", "zoned=on", name.as_str()])?;
    }
    zfs(&[
        "zone".as_ref(),
        namespace.as_os_str(),
        name.as_str().as_ref(),
    ])
    .map(drop)
}

/// Takes a dataset back from a user namespace.
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
