//! The kernel's counters at one moment.

use std::sync::Arc;
use std::time::Duration;

use model::controls::Controls;
use serde::Serialize;

/// A look at the host and its zones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Since the host booted.
    pub at: Duration,
    /// Seconds since 1970.
    pub unix: u64,
    /// The host as a whole.
    pub host: HostSample,
    /// CPU time of all zones together, those that have ended included; none when the
    /// host has no group for zones.
    pub zones_cpu: Option<Counter>,
    /// CPU shares of the global zone, if it was given some.
    pub global_shares: Option<u64>,
    /// The active zones.
    pub zones: Vec<ZoneSample>,
    /// The last that was seen of zones that have ended since the sample before.
    pub ended: Vec<ZoneSample>,
    /// The sample was taken inside the only zone in it, which must not see the rest of
    /// the host.
    pub is_inside: bool,
}

/// CPU time in microseconds and when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Since the host booted.
    pub at: Duration,
    /// Microseconds.
    pub usec: u64,
}

/// The host as a whole. Memory in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// CPUs that there are.
    pub cpus: u64,
    /// Of them, those that run programs.
    pub online: u64,
    /// Busy time of all CPUs in microseconds, interrupts included.
    pub busy_usec: u64,
    /// The part of interrupts, which belong to no zone.
    pub interrupt_usec: u64,
    /// Memory.
    pub memory: u64,
    /// Memory that holds nothing.
    pub free: u64,
    /// Memory of processes and cached files, which zones can be charged for.
    pub chargeable: u64,
    /// Swap space.
    pub swap: u64,
    /// Swap space that holds nothing.
    pub swap_free: u64,
    /// Memory that is locked.
    pub locked: Option<u64>,
    /// Processes, threads.
    pub processes: Option<u64>,
    /// Threads.
    pub lwps: Option<u64>,
    /// Loop devices in use.
    pub lofi: Option<u64>,
    /// System V IPC of the host itself.
    pub ipc: Option<Ipc>,
    /// The most processes that the kernel can have.
    pub max_processes: Option<u64>,
    /// The most threads.
    pub max_lwps: Option<u64>,
    /// The most System V objects of the host itself.
    pub max_ipc: Option<Ipc>,
    /// Time in which work waited.
    pub pressure: Option<Pressure>,
    /// Bytes through the links of the host that are no loopback.
    pub network: Option<Traffic>,
}

/// A zone.
#[derive(Clone, Debug, PartialEq)]
pub struct ZoneSample {
    /// Its name.
    pub name: Arc<str>,
    /// Its numeric id, which no other boot has.
    pub id: u32,
    /// When it was booted, since the host booted.
    pub booted: Duration,
    /// When its CPU time was read, since the host booted.
    pub at: Duration,
    /// CPU time since its boot in microseconds, that of ended processes included.
    pub cpu_usec: u64,
    /// Bytes of memory, with the cached pages of files.
    pub memory: Option<u64>,
    /// Bytes of swap space.
    pub swap: Option<u64>,
    /// Bytes of memory that cannot be swapped out.
    pub locked: Option<u64>,
    /// Processes.
    pub processes: Option<u64>,
    /// Threads.
    pub lwps: Option<u64>,
    /// System V IPC.
    pub ipc: Option<Ipc>,
    /// Time in which its work waited.
    pub pressure: Option<Pressure>,
    /// Bytes from and to disks since its boot.
    pub disk: Option<Traffic>,
    /// Bytes received and sent since its boot.
    pub network: Option<Traffic>,
    /// Of them, through each link.
    pub links: Arc<[LinkTraffic]>,
    /// The number of times that it reached its limits since its boot.
    pub hits: Option<Hits>,
    /// The settings of the zone.
    pub setting: Arc<Setting>,
}

/// The settings of a zone. It seldom changes, so samples share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The limits in force.
    pub controls: Controls,
    /// The CPUs it runs on.
    pub pset: Pset,
    /// The brand is one of kernel zones: memory and CPU are those of its machine.
    pub kernel: bool,
}

/// The CPUs that a zone runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pset {
    /// Those that it shares with the global zone.
    #[default]
    Default,
    /// Those of a pool, under its name.
    Pool {
        /// The name of the pool.
        name: String,
        /// The number of CPUs.
        cpus: u64,
    },
    /// Its own alone.
    Dedicated {
        /// The zone.
        zone: String,
        /// The number of CPUs.
        cpus: u64,
        /// The fewest it asked for.
        least: u64,
        /// The most.
        most: u64,
    },
}

/// System V IPC in use, or the most of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ipc {
    /// Bytes of shared memory.
    pub shm_memory: u64,
    /// Segments.
    pub shm_ids: u64,
    /// Sets of semaphores.
    pub sem_ids: u64,
    /// Message queues.
    pub msg_ids: u64,
}

/// The time for which work waited for resources, in microseconds (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pressure {
    /// For a CPU.
    pub cpu: Stall,
    /// For memory.
    pub memory: Stall,
    /// For disks.
    pub io: Stall,
}

/// Microseconds in which some or all work waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// At least one thread waited.
    pub some_usec: u64,
    /// All of them did.
    pub full_usec: u64,
}

/// Bytes in and out: received and sent, or read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Received, or read.
    pub bytes_in: u64,
    /// Sent, or written.
    pub bytes_out: u64,
}

/// Bytes through one link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkTraffic {
    /// Its name in the zone, which the zone has chosen: without control characters.
    pub name: String,
    /// Received and sent.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// The number of times that a zone reached its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hits {
    /// Processes killed for want of memory.
    pub oom_kills: u64,
    /// Memory was at its limit, and pages had to be given back first.
    pub memory_full: u64,
    /// Threads refused.
    pub lwps_refused: u64,
}
