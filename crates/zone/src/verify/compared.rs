//! Compares folders of the host by name, by inode, and by their place in the file system.

use std::collections::HashMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sys::mountinfo::{self, Mount};

use super::sources::Looked;

/// The facts by which folders are compared.
pub(super) struct Compared {
    looked: Looked,
    /// The visible mount at each mount point.
    mounts: HashMap<PathBuf, Mount>,
    /// The paths that were looked up, without symbolic links. Most of a thousand zonepaths have the
    /// same parent.
    real: HashMap<PathBuf, Option<PathBuf>>,
}

/// The number of a file system, and a path in it.
type Place = (String, PathBuf);

impl Compared {
    /// Reads the mounts of this process.
    ///
    /// # Errors
    /// Fails with a message if the mounts cannot be read.
    pub(super) fn new() -> Result<Self, String> {
        let mounts = mountinfo::own()
            .map_err(|error| format!("the list of mounts cannot be read: {error}"))?;
        Ok(Self::of(mounts))
    }

    fn of(mounts: Vec<Mount>) -> Self {
        Self {
            looked: Looked::default(),
            // Of the mounts at one point, the last one is visible.
            mounts: mounts
                .into_iter()
                .map(|mount| (mount.point.clone(), mount))
                .collect(),
            real: HashMap::new(),
        }
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

    /// Returns the place of a folder; `None` if it does not exist.
    fn place(&mut self, path: &Path) -> Option<Place> {
        let path = self.real(path)?;
        let mount = path.ancestors().find_map(|above| self.mounts.get(above))?;
        let rest = path.strip_prefix(&mount.point).ok()?;
        let inside = match rest.as_os_str().as_bytes() {
            [] => mount.root.clone(),
            _ => mount.root.join(rest),
        };
        Some((mount.device.clone(), inside))
    }

    fn real(&mut self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.real.get(path) {
            return known.clone();
        }
        let is_link = fs::symlink_metadata(path).ok()?.is_symlink();
        let found = match (path.parent(), path.file_name()) {
            (Some(above), Some(name)) if !is_link => self.real(above).map(|above| above.join(name)),
            // The path is a link, the root, or ends with `..`.
            _ => path.canonicalize().ok(),
        };
        self.real.insert(path.to_owned(), found.clone());
        found
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the facts of a host on which the folder `of` is mounted at `at`, too.
    pub(in super::super) fn with_alias(of: &Path, at: &Path) -> Compared {
        let (of, at) = (of.canonicalize().unwrap(), at.canonicalize().unwrap());
        let text = format!(
            "20 1 8:1 / / rw - ext4 /dev/a rw\n21 20 8:1 {} {} rw - ext4 /dev/a rw\n",
            of.display(),
            at.display()
        );
        Compared::of(mountinfo::parse(text.as_bytes()))
    }

    #[test]
    fn a_folder_is_found_at_its_other_mount_point() {
        let dir = tempfile::tempdir().unwrap();
        let (zone, alias) = (dir.path().join("zones/high"), dir.path().join("alias"));
        let link = dir.path().join("link");
        for folder in [zone.join("root/inner"), alias.join("inner")] {
            fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(&alias, &link).unwrap();
        let mut compared = with_alias(&zone.join("root"), &alias);
        for (path, other, relation) in [
            (alias.clone(), zone.clone(), Some("lies in")),
            (alias.join("inner"), zone.clone(), Some("lies in")),
            (link.join("inner"), zone.join("root"), Some("lies in")),
            (alias.clone(), zone.join("root/inner"), Some("contains")),
            (alias.join("inner/.."), zone.clone(), Some("lies in")),
            (alias.join("none"), zone.clone(), None),
            (alias.join("inner"), dir.path().join("none"), None),
        ] {
            assert_eq!(
                compared.relation(&path, &other),
                relation,
                "{path:?} {other:?}"
            );
        }
        // The alias covers a folder of the parent, so the names of the parent do not count there.
        let mut compared = with_alias(&zone, &zone.join("root"));
        let (inner, alias) = (zone.join("root/inner"), dir.path().join("alias"));
        assert_eq!(compared.relation(&inner, &alias), None);
    }
}
