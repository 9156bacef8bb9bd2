//! Plans the changes of a running kernel zone's disks.

use super::{AT_BOOT, Act, Making, compare, shown};
use crate::config::Resource;

/// The property of a disk that changes while the zone runs.
const SIZE: &str = "size";

impl Making<'_> {
    /// Plans the growth of disks. The other differences of disks need a reboot.
    pub(super) fn disks(&mut self) {
        for mut one in compare(self.running, self.wanted, "device") {
            let (Some(old), Some(new)) = (&one.old, &one.new) else {
                self.plan.at_boot.push((one.difference, AT_BOOT));
                continue;
            };
            if !differ_in_size_alone(old, new) {
                self.plan.at_boot.push((one.difference, AT_BOOT));
                continue;
            }
            self.now.remove(old);
            // The wanted configuration has this resource, so this configuration accepts it too.
            let _ = self.now.add_stored(new.clone());
            // Without a configured size, the disk keeps the size that it has.
            let act = match (new.get("id").parse(), new.get(SIZE).parse()) {
                (Ok(id), Ok(size)) => Act::GrowDisk { id, size },
                _ => Act::Remember,
            };
            if let Some(property) = new.spec().property(SIZE).filter(|_| new.is_set(SIZE)) {
                let size = shown(property, new.get(SIZE));
                one.difference.subject.push_str(&format!(" {SIZE}={size}"));
            }
            self.plan.now.push(one.difference);
            self.step(act);
        }
    }
}

/// Returns true if two resources are the same disk with different sizes.
fn differ_in_size_alone(old: &Resource, new: &Resource) -> bool {
    let mut properties = old.spec().properties.iter();
    properties.all(|one| one.name == SIZE || old.get(one.name) == new.get(one.name))
}
