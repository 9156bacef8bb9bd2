//! Plans the changes of a running kernel zone's disks.

use super::{AT_BOOT, Act, Compared, Making, Places, compare, shown};
use crate::config::Resource;

/// The property of a disk that changes while the zone runs.
const SIZE: &str = "size";

/// The reason why a disk cannot be removed while the zone runs.
const STAYS: &str = "this disk stays until the machine ends";

/// The reason why a disk cannot be added while the zone runs.
const NO_PORT: &str = "the machine has no free port";

impl Making<'_> {
    /// Plans the growth, the removal and the addition of disks. A removed disk makes its place free
    /// for an added one; `free` is the number of free places. The other differences of disks need a
    /// reboot.
    pub(super) fn disks(&mut self, places: &Places, free: &mut usize) {
        let (removed, others): (Vec<_>, Vec<_>) = compare(self.running, self.wanted, "device")
            .into_iter()
            .partition(|one| one.new.is_none());
        for one in removed {
            let id = one.old.as_ref().and_then(number);
            let id = id.filter(|id| places.removable.contains(id));
            *free += usize::from(id.is_some());
            self.change_disk(one, id.map(Act::RemoveDisk).ok_or(STAYS));
        }
        for one in others {
            let act = match (&one.old, &one.new) {
                (None, Some(new)) => {
                    let id = number(new).filter(|_| *free > 0);
                    *free -= usize::from(id.is_some());
                    id.map(Act::AddDisk).ok_or(NO_PORT)
                }
                (Some(old), Some(new)) if differ_in_size_alone(old, new) => Ok(grown(new)),
                _ => Err(AT_BOOT),
            };
            self.change_disk(one, act);
        }
    }

    /// Records a difference of a disk, and plans the act that changes the disk. `Err` is the reason
    /// why the difference needs a reboot.
    fn change_disk(&mut self, mut one: Compared, act: Result<Act, &'static str>) {
        let act = match act {
            Ok(act) => act,
            Err(why) => return self.plan.at_boot.push((one.difference, why)),
        };
        if let Some(old) = &one.old {
            self.now.remove(old);
        }
        if let Some(new) = &one.new {
            // The wanted configuration has this resource, so this configuration accepts it too.
            let _ = self.now.add_stored(new.clone());
            if let Some(property) = new.spec().property(SIZE).filter(|_| new.is_set(SIZE)) {
                let size = shown(property, new.get(SIZE));
                one.difference.subject.push_str(&format!(" {SIZE}={size}"));
            }
        }
        self.plan.now.push(one.difference);
        self.step(act);
    }
}

/// Returns the number of a disk.
fn number(disk: &Resource) -> Option<u32> {
    disk.get("id").parse().ok()
}

/// Returns the act for a disk with another size than before. Without a configured size, the disk
/// keeps the size that it has.
fn grown(new: &Resource) -> Act {
    match (number(new), new.get(SIZE).parse()) {
        (Some(id), Ok(size)) => Act::GrowDisk { id, size },
        _ => Act::Remember,
    }
}

/// Returns true if two resources are the same disk with different sizes.
fn differ_in_size_alone(old: &Resource, new: &Resource) -> bool {
    let mut properties = old.spec().properties.iter();
    properties.all(|one| one.name == SIZE || old.get(one.name) == new.get(one.name))
}
