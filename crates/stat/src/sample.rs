//! The counters of the kernel at one moment.

use std::sync::Arc;
use std::time::Duration;

use model::controls::Controls;
use serde::Serialize;

/// The counters of the host and its zones at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The time of the sample since the host booted.
    pub at: Duration,
    /// The time of the sample in seconds since 1970.
    pub unix: u64,
    /// The counters of the whole host.
    pub host: HostSample,
    /// CPU time of all zones together, with those that have ended; `None` if the host has no
    /// control group for zones.
    pub zones_cpu: Option<Counter>,
    /// CPU shares of the global zone, if they are set.
    pub global_shares: Option<u64>,
    /// The active zones.
    pub zones: Vec<ZoneSample>,
    /// The last counters of the zones that have ended since the previous sample.
    pub ended: Vec<ZoneSample>,
    /// True if the sample was taken inside its only zone, which must not see the rest of the host.
    pub is_inside: bool,
}

/// CPU time in microseconds, and the time of its reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The time of the reading since the host booted.
    pub at: Duration,
    /// CPU time in microseconds.
    pub usec: u64,
}

/// The counters of the whole host. Memory is in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// The number of CPUs of the host.
    pub cpus: u64,
    /// The number of CPUs that are online.
    pub online: u64,
    /// Busy time of all CPUs in microseconds, with interrupts.
    pub busy_usec: u64,
    /// CPU time of interrupts in microseconds, which belong to no zone.
    pub interrupt_usec: u64,
    /// Total memory.
    pub memory: u64,
    /// Unused memory.
    pub free: u64,
    /// Memory of processes and cached files, which the kernel can charge to zones.
    pub chargeable: u64,
    /// Total swap space.
    pub swap: u64,
    /// Unused swap space.
    pub swap_free: u64,
    /// Locked memory.
    pub locked: Option<u64>,
    /// The number of processes.
    pub processes: Option<u64>,
    /// The number of threads.
    pub lwps: Option<u64>,
    /// Loop devices in use.
    pub lofi: Option<u64>,
    /// System V IPC objects of the host itself.
    pub ipc: Option<Ipc>,
    /// The maximum number of processes of the kernel.
    pub max_processes: Option<u64>,
    /// The maximum number of threads.
    pub max_lwps: Option<u64>,
    /// The limits on System V IPC objects of the host itself.
    pub max_ipc: Option<Ipc>,
    /// The time for which threads of the host waited for resources.
    pub pressure: Option<Pressure>,
    /// Bytes through the links of the host except loopback.
    pub network: Option<Traffic>,
}

/// The counters of a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneSample {
    /// The name of the zone.
    pub name: Arc<str>,
    /// The numeric id of the zone, which is different at each boot.
    pub id: u32,
    /// The boot time of the zone, since the host booted.
    pub booted: Duration,
    /// The time at which the CPU time was read, since the host booted.
    pub at: Duration,
    /// CPU time since the zone's boot in microseconds, with that of ended processes.
    pub cpu_usec: u64,
    /// Bytes of memory, with the cached pages of files.
    pub memory: Option<u64>,
    /// Bytes of swap space.
    pub swap: Option<u64>,
    /// Bytes of memory that cannot be swapped out.
    pub locked: Option<u64>,
    /// The number of processes.
    pub processes: Option<u64>,
    /// The number of threads.
    pub lwps: Option<u64>,
    /// System V IPC objects.
    pub ipc: Option<Ipc>,
    /// The time for which threads of the zone waited for resources.
    pub pressure: Option<Pressure>,
    /// Bytes that the zone read from disks and wrote to disks since its boot.
    pub disk: Option<Traffic>,
    /// Bytes that the zone received and sent since its boot.
    pub network: Option<Traffic>,
    /// Bytes through each link of the zone.
    pub links: Arc<[LinkTraffic]>,
    /// The number of times that the zone reached its limits since its boot.
    pub hits: Option<Hits>,
    /// The settings of the zone.
    pub setting: Arc<Setting>,
}

/// The settings of a zone. Settings seldom change, so samples share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The effective limits of the zone.
    pub controls: Controls,
    /// The CPUs on which the zone runs.
    pub pset: Pset,
    /// True for a kernel zone: memory and CPU time are those of its guest.
    pub kernel: bool,
    /// The sensitivity label of the zone as text; [`store::labels::UNREADABLE`] if it could
    /// not be read, `None` for a zone without a label and inside a zone.
    pub label: Option<String>,
}

/// The CPUs on which a zone runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pset {
    /// The CPUs that the zone shares with the global zone.
    #[default]
    Default,
    /// The CPUs of a pool with a name.
    Pool {
        /// The name of the pool.
        name: String,
        /// The number of CPUs.
        cpus: u64,
    },
    /// CPUs that only this zone uses.
    Dedicated {
        /// The name of the zone.
        zone: String,
        /// The number of CPUs.
        cpus: u64,
        /// The minimum number of CPUs that the zone requested.
        least: u64,
        /// The maximum number of CPUs that the zone requested.
        most: u64,
    },
}

/// System V IPC objects in use, or the limits on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ipc {
    /// Bytes of shared memory.
    pub shm_memory: u64,
    /// The number of shared memory segments.
    pub shm_ids: u64,
    /// The number of semaphore sets.
    pub sem_ids: u64,
    /// The number of message queues.
    pub msg_ids: u64,
}

/// The time for which threads waited for resources, in microseconds (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pressure {
    /// The time of waiting for a CPU.
    pub cpu: Stall,
    /// The time of waiting for memory.
    pub memory: Stall,
    /// The time of waiting for disks.
    pub io: Stall,
}

/// The time in microseconds for which some or all threads waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// The time for which at least one thread waited.
    pub some_usec: u64,
    /// The time for which all threads waited.
    pub full_usec: u64,
}

/// Bytes in two directions: received and sent, or read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Bytes that were received or read.
    pub bytes_in: u64,
    /// Bytes that were sent or written.
    pub bytes_out: u64,
}

/// The traffic of one link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkTraffic {
    /// The name of the link in the zone, without control characters. The zone chose this name.
    pub name: String,
    /// Bytes that were received and sent.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// The number of times that a zone reached its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hits {
    /// Number of processes that the kernel killed because memory was short.
    pub oom_kills: u64,
    /// Number of times that memory was at its limit and pages had to be reclaimed.
    pub memory_full: u64,
    /// Number of threads that the limit on threads refused.
    pub lwps_refused: u64,
}
