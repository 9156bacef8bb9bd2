//! The resources of zonestat(8), and figures of them.

use std::ops::{Index, IndexMut};

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A resource that zones use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// CPUs, in millionths of a CPU.
    Cpu,
    /// Bytes of memory as the kernel charges it: with the cached pages of files. A page that
    /// several zones use is charged to the zone that used it first.
    Physical,
    /// The sum of memory and swap space, in bytes.
    Virtual,
    /// Bytes of memory that cannot be swapped out.
    Locked,
    /// Processes.
    Processes,
    /// Threads.
    Lwps,
    /// Loop devices.
    Lofi,
    /// Bytes of System V shared memory.
    ShmMemory,
    /// System V shared memory segments.
    ShmIds,
    /// System V semaphore sets.
    SemIds,
    /// System V message queues.
    MsgIds,
}

impl Resource {
    /// The number of resources.
    pub const COUNT: usize = Self::ALL.len();

    /// All resources, in the order of reports.
    pub const ALL: [Self; 11] = [
        Self::Cpu,
        Self::Physical,
        Self::Virtual,
        Self::Locked,
        Self::Processes,
        Self::Lwps,
        Self::Lofi,
        Self::ShmMemory,
        Self::ShmIds,
        Self::SemIds,
        Self::MsgIds,
    ];

    /// Returns the name of the resource in zonestat(8).
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cpu => "processor-set",
            Self::Physical => "physical-memory",
            Self::Virtual => "virtual-memory",
            Self::Locked => "locked-memory",
            Self::Processes => "processes",
            Self::Lwps => "lwps",
            Self::Lofi => "lofi",
            Self::ShmMemory => "shm-memory",
            Self::ShmIds => "shm-ids",
            Self::SemIds => "sem-ids",
            Self::MsgIds => "msg-ids",
        }
    }

    /// Returns the key in JSON, with its unit.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Cpu => "cpu_millionths",
            Self::Physical => "physical_bytes",
            Self::Virtual => "virtual_bytes",
            Self::Locked => "locked_bytes",
            Self::Processes => "processes",
            Self::Lwps => "lwps",
            Self::Lofi => "lofi",
            Self::ShmMemory => "shm_bytes",
            Self::ShmIds => "shm_ids",
            Self::SemIds => "sem_ids",
            Self::MsgIds => "msg_ids",
        }
    }
}

/// A figure for each resource; `None` if this host does not count the resource, or if it has no
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures([Option<u64>; Resource::COUNT]);

impl Figures {
    /// Returns every resource with its figure.
    pub fn iter(&self) -> impl Iterator<Item = (Resource, Option<u64>)> + '_ {
        Resource::ALL.into_iter().zip(self.0)
    }

    /// Combines two sets of figures: a figure that both sets have is combined, and a figure that
    /// only one set has stays unchanged.
    #[must_use]
    pub fn merge(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut merged = *self;
        for resource in Resource::ALL {
            merged[resource] = match (self[resource], other[resource]) {
                (Some(one), Some(two)) => Some(with(one, two)),
                (one, two) => one.or(two),
            };
        }
        merged
    }

    /// Returns the sum of two sets of figures.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.merge(other, u64::saturating_add)
    }
}

impl Index<Resource> for Figures {
    type Output = Option<u64>;

    fn index(&self, resource: Resource) -> &Option<u64> {
        &self.0[resource as usize]
    }
}

impl IndexMut<Resource> for Figures {
    fn index_mut(&mut self, resource: Resource) -> &mut Option<u64> {
        &mut self.0[resource as usize]
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (resource, figure) in self.iter() {
            if let Some(figure) = figure {
                map.serialize_entry(resource.key(), &figure)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_has_a_place_of_its_own() {
        let mut figures = Figures::default();
        for (number, resource) in (0..).zip(Resource::ALL) {
            figures[resource] = Some(number);
        }
        for (number, (_, figure)) in (0..).zip(figures.iter()) {
            assert_eq!(figure, Some(number));
        }
        let sum = figures.plus(&figures);
        assert_eq!(sum[Resource::MsgIds], Some(20));
    }

    #[test]
    fn sums_keep_figures_of_either_side() {
        let (mut one, mut two) = (Figures::default(), Figures::default());
        one[Resource::Lwps] = Some(1);
        two[Resource::Cpu] = Some(2);
        let both = one.plus(&two);
        assert_eq!(
            (both[Resource::Lwps], both[Resource::Cpu]),
            (Some(1), Some(2))
        );
        assert_eq!(both[Resource::Physical], None);
    }
}
