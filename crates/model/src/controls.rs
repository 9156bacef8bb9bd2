//! The resource controls of one zone, as numbers.
//!
//! The controls have the names of the Solaris resource controls. The effect of each resource
//! control on Linux:
//!
//! | control | unit | Linux |
//! |---|---|---|
//! | `zone.cpu-cap` | hundredths of a CPU | cpu.max; v1 cpu.cfs_quota_us |
//! | `zone.cpu-shares` | shares; a zone without has 1 | cpu.weight; v1 cpu.shares |
//! | `dedicated-cpu`, `pool` | CPUs | cpuset.cpus |
//! | `zone.max-physical-memory` | bytes | memory.max; v1 memory.limit_in_bytes |
//! | `zone.max-swap` | bytes of memory and swap together | memory.swap.max holds the difference; v1 memory.memsw |
//! | `zone.max-locked-memory` | bytes | RLIMIT_MEMLOCK, for each process |
//! | `zone.max-lwps` | threads | pids.max |
//! | `zone.max-processes` | processes | pids.max, which counts threads |
//! | `zone.max-shm-memory`, `-shm-ids`, `-msg-ids`, `-sem-ids` | bytes, numbers | kernel.shmall and others of the zone's IPC namespace |
//! | `zone.zfs-io-priority` | priority; a zone without has 1 | io.weight; v1 blkio.bfq.weight |

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Config;
use crate::brands::Family;
use crate::table::exact_size;

/// A resource control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the table above tells what each is")]
pub enum Control {
    CpuCap,
    CpuShares,
    DedicatedCpu,
    Pool,
    MaxPhysicalMemory,
    MaxSwap,
    MaxLockedMemory,
    MaxLwps,
    MaxProcesses,
    MaxShmMemory,
    MaxShmIds,
    MaxMsgIds,
    MaxSemIds,
    IoPriority,
}

impl Control {
    /// All resource controls.
    pub const ALL: [Self; 14] = [
        Self::CpuCap,
        Self::CpuShares,
        Self::DedicatedCpu,
        Self::Pool,
        Self::MaxPhysicalMemory,
        Self::MaxSwap,
        Self::MaxLockedMemory,
        Self::MaxLwps,
        Self::MaxProcesses,
        Self::MaxShmMemory,
        Self::MaxShmIds,
        Self::MaxMsgIds,
        Self::MaxSemIds,
        Self::IoPriority,
    ];

    /// Returns the name of the control. `dedicated-cpu` and `pool` are not resource controls of
    /// Solaris.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CpuCap => "zone.cpu-cap",
            Self::CpuShares => "zone.cpu-shares",
            Self::DedicatedCpu => "dedicated-cpu",
            Self::Pool => "pool",
            Self::MaxPhysicalMemory => "zone.max-physical-memory",
            Self::MaxSwap => "zone.max-swap",
            Self::MaxLockedMemory => "zone.max-locked-memory",
            Self::MaxLwps => "zone.max-lwps",
            Self::MaxProcesses => "zone.max-processes",
            Self::MaxShmMemory => "zone.max-shm-memory",
            Self::MaxShmIds => "zone.max-shm-ids",
            Self::MaxMsgIds => "zone.max-msg-ids",
            Self::MaxSemIds => "zone.max-sem-ids",
            Self::IoPriority => "zone.zfs-io-priority",
        }
    }

    /// Returns true if the value of the control is a number of bytes.
    #[must_use]
    pub const fn is_size(self) -> bool {
        matches!(
            self,
            Self::MaxPhysicalMemory | Self::MaxSwap | Self::MaxLockedMemory | Self::MaxShmMemory
        )
    }

    /// Returns a value of the control as text. If the value is a size, the text has a suffix.
    #[must_use]
    pub fn show(self, value: u64) -> String {
        if self.is_size() {
            exact_size(value)
        } else {
            value.to_string()
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// CPUs that only one zone may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dedicated {
    /// Any CPUs, with a minimum and a maximum number. If fewer CPUs than the minimum are free, the
    /// zone does not boot.
    Count(u32, u32),
    /// A list of CPUs by their numbers: `0-2,5`.
    Cpus(String),
    /// The CPUs of the listed cores.
    Cores(String),
    /// The CPUs of the listed sockets.
    Sockets(String),
}

impl fmt::Display for Dedicated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(least, most) if least == most => write!(f, "{least}"),
            Self::Count(least, most) => write!(f, "{least}-{most}"),
            Self::Cpus(list) => write!(f, "cpus[{list}]"),
            Self::Cores(list) => write!(f, "cores[{list}]"),
            Self::Sockets(list) => write!(f, "sockets[{list}]"),
        }
    }
}

/// A named set of CPUs that some zones share. Zones outside the pool do not use the CPUs of the
/// pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// The name of the pool, as the property `pool` has it.
    pub name: String,
    /// The CPUs of the pool; `None` if the host does not know the pool.
    pub wanted: Option<Dedicated>,
    /// The importance of the pool when the host has too few CPUs: the higher number wins, and the
    /// default is 1.
    pub importance: Option<u32>,
}

/// Limits on System V shared memory, message queues and semaphores. The limits are settings of the
/// zone's IPC namespace, and the zone cannot change them. POSIX shared memory is in /dev/shm and
/// counts as memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IpcLimits {
    /// Maximum bytes of shared memory, both of one segment and of all segments together.
    pub shm_memory: Option<u64>,
    /// Maximum number of shared memory segments.
    pub shm_ids: Option<u64>,
    /// Maximum number of message queues.
    pub msg_ids: Option<u64>,
    /// Maximum number of semaphore sets.
    pub sem_ids: Option<u64>,
}

/// The resource controls of one zone. A control with the value `None` is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Controls {
    /// Maximum CPU time in hundredths of a CPU: 150 is one and a half CPUs.
    pub cpu_cap: Option<u64>,
    /// Share of the CPUs when CPUs are short, relative to the shares of other zones.
    pub cpu_shares: Option<u64>,
    /// The CPUs that only this zone may use.
    pub dedicated_cpu: Option<Dedicated>,
    /// The importance of the zone when the host has too few CPUs: the higher number wins, and the
    /// default is 1.
    pub importance: Option<u32>,
    /// The CPUs that the zones of one pool share.
    pub pool: Option<Pool>,
    /// Maximum bytes of memory, including the cached pages of files.
    pub physical: Option<u64>,
    /// Maximum bytes of memory and swap space together, as on Solaris.
    pub swap: Option<u64>,
    /// Maximum bytes of locked memory of each process.
    pub locked: Option<u64>,
    /// Maximum number of threads of all processes.
    pub max_lwps: Option<u64>,
    /// Maximum number of processes.
    pub max_processes: Option<u64>,
    /// Priority of the zone's disk access when the disk is busy, relative to other zones.
    pub io_priority: Option<u64>,
    /// The limits on System V IPC.
    pub ipc: IpcLimits,
}

impl Controls {
    /// Returns the controls that a configuration sets. For a kernel zone, the control of physical
    /// memory is the memory of the guest and of QEMU. A pool in these controls has only its name,
    /// because only the host knows the CPUs of the pool.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let limit = |control: Control| config.rctl_limit(control.as_str());
        let physical = config.capped_memory_physical();
        let lowest = [physical, limit(Control::MaxPhysicalMemory)];
        Self {
            cpu_cap: limit(Control::CpuCap),
            cpu_shares: limit(Control::CpuShares),
            dedicated_cpu: config.dedicated_cpu().and_then(|one| {
                let list = |list: &[String]| Some(list.join(",")).filter(|list| !list.is_empty());
                None.or(list(&one.cpus).map(Dedicated::Cpus))
                    .or(list(&one.cores).map(Dedicated::Cores))
                    .or(list(&one.sockets).map(Dedicated::Sockets))
                    .or(one.ncpus.map(|(least, most)| Dedicated::Count(least, most)))
            }),
            importance: config.dedicated_cpu().and_then(|one| one.importance),
            pool: (!config.pool().is_empty()).then(|| Pool {
                name: config.pool().to_owned(),
                ..Pool::default()
            }),
            physical: match config.family() {
                // The memory of the guest is memory of QEMU, and QEMU itself needs some more.
                Family::Kz => Some(config.machine_memory() + config.machine_overhead()),
                _ => lowest.into_iter().flatten().min(),
            },
            swap: limit(Control::MaxSwap),
            locked: limit(Control::MaxLockedMemory),
            max_lwps: limit(Control::MaxLwps),
            max_processes: limit(Control::MaxProcesses),
            io_priority: limit(Control::IoPriority),
            ipc: IpcLimits {
                shm_memory: limit(Control::MaxShmMemory),
                shm_ids: limit(Control::MaxShmIds),
                msg_ids: limit(Control::MaxMsgIds),
                sem_ids: limit(Control::MaxSemIds),
            },
        }
    }

    /// Returns the value of a control. The value of a range of CPUs is the upper end of the range.
    /// The value of a list of CPUs or of a pool is 0, because only the host knows the number of
    /// CPUs.
    #[must_use]
    pub fn get(&self, control: Control) -> Option<u64> {
        match control {
            Control::CpuCap => self.cpu_cap,
            Control::CpuShares => self.cpu_shares,
            Control::DedicatedCpu => self.dedicated_cpu.as_ref().map(|cpus| match cpus {
                Dedicated::Count(_, most) => u64::from(*most),
                _ => 0,
            }),
            Control::Pool => self.pool.as_ref().map(|_| 0),
            Control::MaxPhysicalMemory => self.physical,
            Control::MaxSwap => self.swap,
            Control::MaxLockedMemory => self.locked,
            Control::MaxLwps => self.max_lwps,
            Control::MaxProcesses => self.max_processes,
            Control::MaxShmMemory => self.ipc.shm_memory,
            Control::MaxShmIds => self.ipc.shm_ids,
            Control::MaxMsgIds => self.ipc.msg_ids,
            Control::MaxSemIds => self.ipc.sem_ids,
            Control::IoPriority => self.io_priority,
        }
    }

    /// Returns the controls that are set, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Control, u64)> + '_ {
        Control::ALL
            .into_iter()
            .filter_map(|control| Some((control, self.get(control)?)))
    }

    /// Splits the controls into those that control groups enforce and those that processes have
    /// (locked memory and IPC).
    #[must_use]
    pub fn split(&self) -> (Self, Self) {
        let processes = Self {
            locked: self.locked,
            ipc: self.ipc,
            ..Self::default()
        };
        let groups = Self {
            locked: None,
            ipc: IpcLimits::default(),
            ..self.clone()
        };
        (groups, processes)
    }

    /// Returns true if no control is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl fmt::Display for Controls {
    /// Writes the controls in the order of [`Control::ALL`]: `zone.cpu-cap=25 zone.max-swap=64M`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (control, value)) in self.iter().enumerate() {
            let blank = if number == 0 { "" } else { " " };
            match (control, &self.dedicated_cpu, &self.pool) {
                (Control::DedicatedCpu, Some(cpus), _) => write!(f, "{blank}{control}={cpus}")?,
                (Control::Pool, _, Some(pool)) => write!(f, "{blank}{control}={}", pool.name)?,
                _ => write!(f, "{blank}{control}={}", control.show(value))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_is_set() {
        let mut controls = Controls::default();
        assert!(controls.is_empty());
        assert_eq!(controls.to_string(), "");
        controls.max_lwps = Some(100);
        controls.swap = Some(64 << 20);
        controls.cpu_cap = Some(25);
        controls.dedicated_cpu = Some(Dedicated::Count(1, 2));
        assert_eq!(
            controls.to_string(),
            "zone.cpu-cap=25 dedicated-cpu=1-2 zone.max-swap=64M zone.max-lwps=100"
        );
        let pool = Controls {
            pool: Some(Pool {
                name: "batch".to_owned(),
                ..Pool::default()
            }),
            ..Controls::default()
        };
        assert!(!pool.is_empty());
        assert_eq!(pool.to_string(), "pool=batch");
    }

    #[test]
    fn each_control_has_its_own_number() {
        let controls = Controls {
            cpu_cap: Some(1),
            cpu_shares: Some(2),
            dedicated_cpu: Some(Dedicated::Count(1, 3)),
            importance: None,
            pool: None,
            physical: Some(4),
            swap: Some(5),
            locked: Some(6),
            max_lwps: Some(7),
            max_processes: Some(8),
            ipc: IpcLimits {
                shm_memory: Some(9),
                shm_ids: Some(10),
                msg_ids: Some(11),
                sem_ids: Some(12),
            },
            io_priority: Some(13),
        };
        let (groups, processes) = controls.split();
        assert_eq!(groups.iter().count() + processes.iter().count(), 13);
        assert_eq!(processes.iter().count(), 5);
        let numbers: Vec<u64> = controls.iter().map(|(_, value)| value).collect();
        assert_eq!(numbers, (1..=13).collect::<Vec<u64>>());
    }
}
