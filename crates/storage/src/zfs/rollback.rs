//! Going back to a snapshot without losing younger ones.
//!
//! `zfs rollback` destroys the snapshots that are younger, and refuses when clones
//! came from them. So a clone of the snapshot becomes the root, and takes over what
//! is older; the former root stays as long as a younger snapshot of it does.

use super::command::{FileSystem, zfs};
use super::{Place, Shot, property};
use crate::error::Result;
use crate::id::Id;

/// The root to be.
const NEW: &str = "new";
/// What the names of former roots begin with.
const OLD: &str = "old-";

impl Place {
    pub(super) fn roll_back(&self, shot: &Shot) -> Result<()> {
        self.hide()?;
        let new = self.part(NEW)?;
        self.make_root(&["clone", &shot.full()], "canmount=noauto", &new)?;
        zfs(&["promote", new.as_str()])?;
        self.take_new()?;
        self.drop_old_roots()?;
        self.show()
    }

    /// Goes on with, or takes back, a rollback that was cut off.
    pub(super) fn mend(&self) -> Result<()> {
        let parts = self.parts()?;
        let (new, root) = (self.part(NEW)?, self.root()?);
        if !parts.contains(&new) {
            return Ok(());
        }
        let promoted = match parts.contains(&root) {
            false => true,
            true => property(&root, "origin")?
                .is_some_and(|origin| origin.starts_with(&format!("{new}@"))),
        };
        if !promoted {
            return zfs(&["destroy", new.as_str()]).map(drop);
        }
        self.hide()?;
        self.take_new()
    }

    /// Makes the promoted clone the root.
    fn take_new(&self) -> Result<()> {
        let (new, root) = (self.part(NEW)?, self.root()?);
        if property(&root, "name")?.is_some() {
            let old = self.part(&format!("{OLD}{}", Id::random()?))?;
            // Else both would be mounted at one place when the pool is imported.
            zfs(&["set", "canmount=noauto", root.as_str()])?;
            zfs(&["rename", root.as_str(), old.as_str()])?;
        }
        zfs(&["rename", new.as_str(), root.as_str()])?;
        zfs(&["set", "canmount=on", root.as_str()]).map(drop)
    }

    /// Removes former roots that no snapshot needs, and of the others what no
    /// snapshot holds.
    pub(super) fn drop_old_roots(&self) -> Result<()> {
        let prefix = format!("{}/{OLD}", self.base);
        let is_old = |part: &FileSystem| part.as_str().starts_with(&prefix);
        // One may be the clone of another: again, until nothing changes.
        loop {
            let shots = self.shots()?;
            let old: Vec<_> = self.parts()?.into_iter().filter(is_old).collect();
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
