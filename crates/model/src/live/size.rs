//! Plans the change of a running kernel zone's processors and memory.

use super::{AT_BOOT, Act, Making, Places, compare};
use crate::Config;
use crate::config::Resource;
use crate::table::PropertySpec;

/// The type of resource that sets the processors of a guest.
pub(super) const PROCESSORS: &str = "virtual-cpu";

/// The property that sets the memory of a guest.
const PHYSICAL: &str = "physical";

/// The size in bytes of which added memory is a multiple: guests add memory in such blocks.
pub const MEMORY_STEP: u64 = 128 << 20;

const MORE_CPUS: &str =
    "the machine was started with room for fewer processors; it takes effect when the zone boots";
const FEWER_CPUS: &str =
    "a running machine keeps its processors; it takes effect when the zone boots";
const MORE_MEMORY: &str =
    "the machine was started with room for less memory; it takes effect when the zone boots";
const LESS_MEMORY: &str = "a running machine keeps its memory; it takes effect when the zone boots";
const STEP: &str =
    "the memory of a running machine grows in steps of 128M; it takes effect when the zone boots";

impl Making<'_> {
    /// Plans the processors of the guest.
    pub(super) fn processors(&mut self, places: &Places) {
        for one in compare(self.running, self.wanted, PROCESSORS) {
            let number = self.wanted.machine_cpus();
            let why = match places.most_cpus {
                0 => Some(AT_BOOT),
                most if number > most => Some(MORE_CPUS),
                _ if number < self.running.machine_cpus() => Some(FEWER_CPUS),
                _ => None,
            };
            if let Some(why) = why {
                self.plan.at_boot.push((one.difference, why));
                continue;
            }
            take_over(&mut self.now, one.old.as_ref(), one.new.as_ref());
            self.plan.now.push(one.difference);
            self.step(Act::Processors(number));
        }
    }

    /// Plans the growth of the guest's memory.
    pub(super) fn memory(&mut self) {
        if let Some((old, new)) = self.memory.take() {
            take_over(&mut self.now, old.as_ref(), new.as_ref());
            self.step(Act::Memory(self.now.machine_memory()));
        }
    }

    /// Returns the reason why the changed properties of the guest's memory need a reboot; `None` if
    /// the memory grows while the guest runs.
    pub(super) fn why_memory_waits(
        &self,
        changed: &[&PropertySpec],
        places: &Places,
    ) -> Option<&'static str> {
        let (now, wanted) = (self.running.machine_memory(), self.wanted.machine_memory());
        if places.most_memory == 0 || changed.iter().any(|one| one.name != PHYSICAL) {
            return Some(AT_BOOT);
        }
        match wanted {
            _ if wanted < now => Some(LESS_MEMORY),
            _ if wanted > places.most_memory => Some(MORE_MEMORY),
            _ if (wanted - now) % MEMORY_STEP != 0 => Some(STEP),
            _ => None,
        }
    }
}

/// Returns a configuration with the memory of the guest of another configuration: of a guest that
/// kept the memory which it should have given back.
#[must_use]
pub fn with_memory_of(config: &Config, other: &Config) -> Config {
    let memory = |config: &Config| config.resources_of(super::MEMORY).next().cloned();
    let (old, new) = (memory(config), memory(other));
    let mut config = config.clone();
    take_over(&mut config, old.as_ref(), new.as_ref());
    config
}

/// Replaces a resource by another one.
pub(super) fn take_over(config: &mut Config, old: Option<&Resource>, new: Option<&Resource>) {
    if let Some(old) = old {
        config.remove(old);
    }
    if let Some(new) = new {
        // The wanted configuration has this resource, so this configuration accepts it too.
        let _ = config.add_stored(new.clone());
    }
}
