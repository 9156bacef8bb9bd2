//! The choice of counters that a sample reads.

/// The counters to read in addition to CPU time, memory and swap space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Wants {
    /// True to read locked memory.
    pub locked: bool,
    /// True to read the numbers of processes, threads and loop devices.
    pub counts: bool,
    /// True to read the numbers of System V IPC objects. Only root can read those of zones.
    pub ipc: bool,
    /// True to read the time for which threads waited for resources.
    pub pressure: bool,
    /// True to read the bytes from and to disks.
    pub disk: bool,
    /// True to read the bytes that zones received and sent.
    pub network: bool,
    /// True to read the number of times that zones reached their limits.
    pub hits: bool,
}

impl Wants {
    /// All counters.
    pub const ALL: Self = Self {
        locked: true,
        counts: true,
        ipc: true,
        pressure: true,
        disk: true,
        network: true,
        hits: true,
    };
}
