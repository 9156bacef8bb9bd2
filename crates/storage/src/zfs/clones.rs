//! Makes clones, and removes a dataset that has clones.

use std::path::Path;

use rustix::io::Errno;

use super::command::{FileSystem, zfs};
use super::{Place, Shot, holder, owners};
use crate::error::{Error, Result};
use crate::id::Id;
use crate::layout::{EXPORT, ROOT};
use crate::name::Name;
use crate::remove::remove_tree;
use crate::zfs::property::{LINK, OWNER, RECEIVED, fail, number};

/// Maximum number of promotions of clones during one removal, because other commands may make
/// clones meanwhile.
const MAX_PROMOTIONS: usize = 1000;

pub(super) fn clone(origin: &Path, snapshot: Option<&Name>, target: &Path) -> Result<()> {
    if origin == target {
        return Err(Error::Exists(target.to_owned()));
    }
    let (from, _, origin_lock) = Place::open(origin)?;
    let named = snapshot.map(|name| from.shot(name)).transpose()?;
    // The lock is released while this command waits for another lock. It is not needed, because the
    // snapshot exists.
    drop(origin_lock);
    let at = match target.exists() {
        true => target,
        false => target.parent().unwrap_or(target),
    };
    let pool = holder(at)?;
    if from.base.pool() != pool.pool() {
        return Err(fail(
            target,
            format!(
                "is on the pool {}, and {} on {}: a clone is on the pool of its origin",
                pool.pool(),
                origin.display(),
                from.base.pool()
            ),
        ));
    }
    let (to, _lock) = Place::make(target)?;
    match named {
        Some(shot) => to.make_root(&["clone", &shot.full()], "canmount=on", &to.root()?),
        None => {
            let shot = format!("{}@_{}", from.root()?, Id::random()?);
            zfs(&["snapshot", &shot])?;
            let made = to.make_root(&["clone", &shot], "canmount=on", &to.root()?);
            // The snapshot is removed at once if no clone of it was made, and otherwise together
            // with the clone.
            zfs(&["destroy", "-d", &shot])?;
            made
        }
    }
}

/// Removes a snapshot. A snapshot with clones is hidden, and is removed together with its last
/// clone.
pub(super) fn drop_shot(shot: &Shot) -> Result<()> {
    if shot.clones.is_empty() {
        return zfs(&["destroy", &shot.full()]).map(drop);
    }
    let hidden = hide_shot(shot)?;
    zfs(&["destroy", "-d", &hidden]).map(drop)
}

/// Renames a snapshot to a name that no other dataset uses.
fn hide_shot(shot: &Shot) -> Result<String> {
    let hidden = format!("{}@_{}", shot.of, Id::random()?);
    zfs(&["rename", &shot.full(), &hidden])?;
    Ok(hidden)
}

pub(super) fn destroy(zonepath: &Path) -> Result<()> {
    let Some(place) = Place::find(zonepath)? else {
        return Ok(());
    };
    let lock = place.lock()?;
    if let Some(parts) = place.parts()? {
        // Unmounting the root comes first, because it fails while the root is in use, before any
        // change.
        place.hide(&parts)?;
        place.destroy_datasets()?;
    }
    for folder in [RECEIVED, ROOT] {
        match place.zonepath.rmdir(folder) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(place.zonepath.fail("rmdir", folder, e)),
        }
    }
    remove_tree(&zonepath.join(EXPORT))?;
    place.zonepath.unlink(owners::WALKING)?;
    place.zonepath.unlink(LINK)?;
    drop(lock);
    Ok(())
}

impl Place {
    /// Removes the file system of the zone and all below it.
    fn destroy_datasets(&self) -> Result<()> {
        for _ in 0..MAX_PROMOTIONS {
            self.leave_to_clones()?;
            match zfs(&["destroy", "-r", self.base.as_str()]) {
                // Meanwhile another zone's removal may have left snapshots with clones to this zone.
                Err(_) if self.has_clones_elsewhere()? => {}
                other => return other.map(drop),
            }
        }
        Err(self.fail("is cloned all the time"))
    }

    fn has_clones_elsewhere(&self) -> Result<bool> {
        let shots = self.shots()?;
        let mut clones = shots.iter().flat_map(|shot| &shot.clones);
        Ok(clones.any(|clone| !clone.is_in(&self.base)))
    }

    /// Gives all snapshots that clones of other zones need to one of these clones.
    fn leave_to_clones(&self) -> Result<()> {
        for _ in 0..MAX_PROMOTIONS {
            let shots = self.shots()?;
            let elsewhere = |shot: &Shot| {
                let mut clones = shot.clones.iter();
                clones.find(|clone| !clone.is_in(&self.base)).cloned()
            };
            let Some((last, heir)) = shots
                .iter()
                .rev()
                .find_map(|shot| Some((shot, elsewhere(shot)?)))
            else {
                return Ok(());
            };
            // The promotion also moves the older snapshots, so they get names that the promoted
            // dataset cannot contain.
            for shot in shots.iter().filter(|shot| shot.of == last.of) {
                if shot.named().is_some() && shot.txg <= last.txg {
                    drop_shot(shot)?;
                }
            }
            // The clone may have been removed since.
            if let Err(error) = promote(&heir) {
                if self.shots()?.iter().any(|shot| shot.clones.contains(&heir)) {
                    return Err(error);
                }
            }
        }
        Err(self.fail("is cloned all the time"))
    }
}

/// Promotes a clone. The formerly shared blocks then belong to the clone, and its quota is raised,
/// so that the free space under the quota does not change.
fn promote(heir: &FileSystem) -> Result<()> {
    let Some((base, quota)) = limit_of(heir)? else {
        return zfs(&["promote", heir.as_str()]).map(drop);
    };
    let before = number(&base, "used")?;
    zfs(&["set", "quota=none", base.as_str()])?;
    let promoted = zfs(&["promote", heir.as_str()]);
    let more = number(&base, "used")?.saturating_sub(before);
    let quota = format!("quota={}", quota.saturating_add(more));
    zfs(&["set", &quota, base.as_str()])?;
    promoted.map(drop)
}

/// Returns the zone's file system and quota for a root. A clone that was made by hand belongs to no
/// zone.
fn limit_of(heir: &FileSystem) -> Result<Option<(FileSystem, u64)>> {
    let base = heir
        .as_str()
        .rsplit_once('/')
        .and_then(|(base, _)| FileSystem::parse(base));
    let Some(base) = base else {
        return Ok(None);
    };
    let own = [
        "get",
        "-H",
        "-s",
        "local",
        "-o",
        "value",
        OWNER,
        base.as_str(),
    ];
    if zfs(&own)?.trim().is_empty() {
        return Ok(None);
    }
    let quota = number(&base, "quota")?;
    Ok((quota > 0).then_some((base, quota)))
}
