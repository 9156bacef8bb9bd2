//! Going back to a snapshot without losing younger ones.
//!
//! `zfs rollback` destroys the snapshots that are younger, and refuses when clones came
//! from them. So a clone of the snapshot becomes the root, and takes over the older
//! snapshots; the former root stays as long as a younger snapshot of it exists.

use super::command::{FileSystem, zfs};
use super::{Part, Place, Shot, owners, unmapped};
use crate::error::Result;
use crate::id::Id;

/// The root to be.
const NEW: &str = "new";
/// The prefix of the names of former roots.
const OLD: &str = "old-";

impl Place {
    pub(super) fn roll_back(&self, shot: &Shot, parts: &[Part]) -> Result<()> {
        self.hide(parts)?;
        if unmapped().is_some() {
            // The snapshot may be of a root whose files a crash left half given.
            self.zonepath.relink(owners::WALKING, "?")?;
        }
        let new = self.part(NEW)?;
        self.make_root(&["clone", &shot.full()], "canmount=noauto", &new)?;
        zfs(&["promote", new.as_str()])?;
        self.take_new(true)?;
        self.drop_old_roots()?;
        self.zonepath.make(crate::layout::ROOT)?;
        zfs(&["mount", self.root()?.as_str()]).map(drop)
    }

    /// Goes on with, or takes back, a rollback that was cut off; tells whether one was.
    pub(super) fn mend(&self, parts: &[Part]) -> Result<bool> {
        let (new, root) = (self.part(NEW)?, self.root()?);
        if parts.iter().all(|part| part.name != new) {
            return Ok(false);
        }
        let has_root = parts.iter().any(|part| part.name == root);
        // Promoting gave it the snapshot that it came from, whichever root had that.
        let promoted = !has_root || self.shots()?.iter().any(|shot| shot.of == new);
        if promoted {
            self.hide(parts)?;
            self.take_new(has_root)?;
        } else {
            zfs(&["destroy", new.as_str()])?;
        }
        Ok(true)
    }

    /// Makes the promoted clone the root; of a former one, if there is still one.
    fn take_new(&self, has_root: bool) -> Result<()> {
        let (new, root) = (self.part(NEW)?, self.root()?);
        if has_root {
            let old = self.part(&format!("{OLD}{}", Id::random()?))?;
            // Else both would be mounted at one place when the pool is imported.
            zfs(&["set", "canmount=noauto", root.as_str()])?;
            zfs(&["rename", root.as_str(), old.as_str()])?;
        }
        zfs(&["rename", new.as_str(), root.as_str()])?;
        zfs(&["set", "canmount=on", root.as_str()]).map(drop)
    }

    /// Removes former roots that no snapshot needs, and the files of the others that no
    /// snapshot holds.
    pub(super) fn drop_old_roots(&self) -> Result<()> {
        let prefix = format!("{}/{OLD}", self.base);
        let is_old = |part: &FileSystem| part.as_str().starts_with(&prefix);
        // One may be the clone of another: again, until nothing changes.
        loop {
            let parts = self.parts()?.unwrap_or_default().into_iter();
            let old: Vec<_> = parts.map(|part| part.name).filter(is_old).collect();
            if old.is_empty() {
                return Ok(());
            }
            let shots = self.shots()?;
            let mut removed = false;
            for part in &old {
                match shots.iter().rev().find(|shot| shot.of == *part) {
                    Some(last) => zfs(&["rollback", &last.full()])?,
                    None => {
                        removed = true;
                        zfs(&["destroy", part.as_str()])?
                    }
                };
            }
            if !removed {
                return Ok(());
            }
        }
    }
}
