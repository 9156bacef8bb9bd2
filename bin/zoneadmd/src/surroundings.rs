//! Resets the attributes that a process inherits besides its environment: a zone must not depend on
//! the user and the shell that ran `zoneadm boot`.

use rustix::fs::Mode;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, setrlimit};

/// Open files, as on a freshly started system: the soft limit is the traditional
/// one, programs that need more raise it themselves.
const FILES: Limit = (Some(1024), Some(524_288));

/// Bytes of stack, as the kernel gives them to the first process of a system.
const STACK: Limit = (Some(8 << 20), None);

/// Bytes of locked memory, as the kernel gives them from Linux 5.16 on.
const LOCKED: Limit = (Some(8 << 20), Some(8 << 20));

/// Bytes in POSIX message queues, as the kernel gives them.
const QUEUES: Limit = (Some(819_200), Some(819_200));

/// A soft and a hard limit; `None` means unlimited.
type Limit = (Option<u64>, Option<u64>);

/// Sets umask, priority, limits and all other inherited settings to the values of the first process
/// of a system. Each is tried; a host that forbids one leaves it as it is. exec resets the signals.
/// Returns the limits that are lower than they should be: without CAP_SYS_RESOURCE none can be
/// higher than that of the user who typed the command.
pub fn make_ordinary() -> Vec<String> {
    rustix::process::umask(Mode::from_raw_mode(0o022));
    sys::surroundings::forget_caller();
    let _ = rustix::process::setpriority_process(None, 0);
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    // The user who logged in on the host is no user of the zone, so the login uid is cleared.
    let _ = std::fs::write("/proc/self/loginuid", u32::MAX.to_string());
    // The zone gets the CPUs of the host's process 1: those that the host leaves to programs.
    if let Ok(processors) = rustix::thread::sched_getaffinity(Some(Pid::INIT)) {
        let _ = rustix::thread::sched_setaffinity(None, &processors);
    }
    let pending = pending_signals();
    let wanted = [
        ("address space", Resource::As, (None, None)),
        ("CPU time", Resource::Cpu, (None, None)),
        ("data", Resource::Data, (None, None)),
        ("file size", Resource::Fsize, (None, None)),
        ("processes", Resource::Nproc, (None, None)),
        ("resident memory", Resource::Rss, (None, None)),
        ("file locks", Resource::Locks, (None, None)),
        ("real-time CPU time", Resource::Rttime, (None, None)),
        ("core", Resource::Core, (Some(0), None)),
        ("stack", Resource::Stack, STACK),
        ("locked memory", Resource::Memlock, LOCKED),
        ("message queues", Resource::Msgqueue, QUEUES),
        ("nice", Resource::Nice, (Some(0), Some(0))),
        ("real-time priority", Resource::Rtprio, (Some(0), Some(0))),
        ("pending signals", Resource::Sigpending, (pending, pending)),
        ("open files", Resource::Nofile, FILES),
    ];
    let lower = wanted.into_iter().filter_map(|(name, resource, limit)| {
        let most = put(resource, limit)?;
        Some(format!("{name} {most}"))
    });
    lower.collect()
}

/// Returns how many signals may wait, as the kernel gives them to the first process.
fn pending_signals() -> Option<u64> {
    let threads = std::fs::read_to_string("/proc/sys/kernel/threads-max").ok()?;
    Some(threads.trim().parse::<u64>().ok()? / 2)
}

/// Sets a limit; where the hard limit may not rise, the limit is at most the hard limit. Returns
/// the hard limit when that is lower than it should be.
fn put(resource: Resource, (current, maximum): Limit) -> Option<u64> {
    if setrlimit(resource, Rlimit { current, maximum }).is_ok() {
        return None;
    }
    let highest = getrlimit(resource).maximum;
    let lowest = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    };
    let maximum = lowest(maximum, highest);
    let current = lowest(current, maximum);
    let _ = setrlimit(resource, Rlimit { current, maximum });
    maximum
}
