//! Compares folders of the host by name, by inode, and by their place in the file system.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sys::mountinfo::{self, Mount};

use super::sources::Looked;

/// The facts by which folders are compared.
pub(super) struct Compared {
    looked: Looked,
    /// The visible mount at each mount point.
    mounts: HashMap<PathBuf, Mount>,
    /// The places of the folders that were looked up.
    places: HashMap<PathBuf, Option<Place>>,
}

/// The number of a file system, and a path in it.
type Place = (u64, PathBuf);

impl Compared {
    /// Reads the mounts of this process.
    ///
    /// # Errors
    /// Fails with a message if the mounts cannot be read.
    pub(super) fn new() -> Result<Self, String> {
        let mounts = mountinfo::own()
            .map_err(|error| format!("the list of mounts cannot be read: {error}"))?;
        Ok(Self {
            looked: Looked::default(),
            // Of the mounts at one point, the last one is visible.
            mounts: mounts
                .into_iter()
                .map(|mount| (mount.point.clone(), mount))
                .collect(),
            places: HashMap::new(),
        })
    }

    /// Returns the relation between two paths as a verb; `None` if they do not overlap. A bind mount
    /// gives a folder another path and other parents, so the paths in the file system are compared
    /// in addition to names and inodes.
    pub(super) fn relation(&mut self, path: &Path, other: &Path) -> Option<&'static str> {
        if let Some(found) = self.looked.relation(path, other) {
            return Some(found);
        }
        let (path, other) = (self.place(path)?, self.place(other)?);
        match path.0 == other.0 {
            true if path.1.starts_with(&other.1) => Some("lies in"),
            true if other.1.starts_with(&path.1) => Some("contains"),
            _ => None,
        }
    }

    fn place(&mut self, path: &Path) -> Option<Place> {
        if let Some(place) = self.places.get(path) {
            return place.clone();
        }
        let place = self.find_place(path);
        self.places.insert(path.to_owned(), place.clone());
        place
    }

    fn find_place(&self, path: &Path) -> Option<Place> {
        let path = path.canonicalize().ok()?;
        let mount = path.ancestors().find_map(|above| self.mounts.get(above))?;
        let rest = path.strip_prefix(&mount.point).ok()?;
        let inside = match rest.as_os_str().as_bytes() {
            [] => mount.root.clone(),
            _ => mount.root.join(rest),
        };
        let device = rustix::fs::stat(&mount.point).ok()?.st_dev;
        Some((device, inside))
    }
}
