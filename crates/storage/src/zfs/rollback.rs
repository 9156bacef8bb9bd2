//! Rolls a zone back to a snapshot without the loss of younger snapshots.
//!
//! `zfs rollback` destroys younger snapshots, and fails if they have clones. Therefore a clone of
//! the snapshot becomes the root and takes over the older snapshots. The former root stays while a
//! younger snapshot of that root exists.

use super::command::{FileSystem, zfs};
use super::{Part, Place, Shot, owners, unmapped};
use crate::error::Result;
use crate::id::Id;

/// The name of the file system that becomes the root.
const NEW: &str = "new";
/// The prefix of the names of former roots.
const OLD: &str = "old-";

impl Place {
    pub(super) fn roll_back(&self, shot: &Shot, parts: &[Part]) -> Result<()> {
        self.hide(parts)?;
        if unmapped().is_some() {
            // A crash may have interrupted a change of owners, and the snapshot may have been made
            // of a root with such files.
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

    /// Continues or undoes a rollback that was interrupted. Returns true if a rollback was
    /// interrupted.
    pub(super) fn mend(&self, parts: &[Part]) -> Result<bool> {
        let (new, root) = (self.part(NEW)?, self.root()?);
        if parts.iter().all(|part| part.name != new) {
            return Ok(false);
        }
        let has_root = parts.iter().any(|part| part.name == root);
        // A promotion moves to the clone the snapshot from which it was cloned, whichever root had
        // this snapshot.
        let promoted = !has_root || self.shots()?.iter().any(|shot| shot.of == new);
        if promoted {
            self.hide(parts)?;
            self.take_new(has_root)?;
        } else {
            zfs(&["destroy", new.as_str()])?;
        }
        Ok(true)
    }

    /// Makes the promoted clone the root. A root that still exists becomes a former root.
    fn take_new(&self, has_root: bool) -> Result<()> {
        let (new, root) = (self.part(NEW)?, self.root()?);
        if has_root {
            let old = self.part(&format!("{OLD}{}", Id::random()?))?;
            // Otherwise the import of the pool would mount both roots at the same folder.
            zfs(&["set", "canmount=noauto", root.as_str()])?;
            zfs(&["rename", root.as_str(), old.as_str()])?;
        }
        zfs(&["rename", new.as_str(), root.as_str()])?;
        zfs(&["set", "canmount=on", root.as_str()]).map(drop)
    }

    /// Removes the former roots that no snapshot needs. In each other former root, removes the
    /// files that no snapshot contains.
    pub(super) fn drop_old_roots(&self) -> Result<()> {
        let prefix = format!("{}/{OLD}", self.base);
        let is_old = |part: &FileSystem| part.as_str().starts_with(&prefix);
        // A former root may be a clone of another former root, so the loop repeats until nothing
        // changes.
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
